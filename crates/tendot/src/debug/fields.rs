//! Fields of a message in wire order (RFC 3652, 2.2 and 3).

use serde_json::value::to_raw_value;
use tendot_proto::message::{
    ChallengeResponse, DigestAlgorithm, HashPartition, ReplicationStart, SessionKeyMaterial, SessionSetup,
};
use tendot_proto::record::HandleValue;
use tendot_proto::wire::WireList;
use tendot_proto::{
    Credential, CredentialSection, Envelope, EnvelopeFlags, Handle, Message, MessageBody, MessageHeader,
    OpFlags, Request, RequestDigest, Response, ResponseData,
};

use super::field_list::{FieldList, FieldValue};
use crate::CliError;
use crate::resolve::value_text::{format_timestamp, format_value};

/// Whether a credential is valid, or why it could not be checked.
pub(super) type CredentialCheck = Result<bool, String>;

/// Adds body and credential; `valid` is the result of checking the credential, if it was checked.
pub(super) fn describe_body(
    message: &Message<'_>,
    valid: Option<&CredentialCheck>,
    description: &mut FieldList,
) -> Result<(), CliError> {
    let mut body = match &message.body {
        MessageBody::Request(request) => describe_request(request)?,
        MessageBody::Response(response) => describe_response(response)?,
    };
    if !message.trailing_body.is_empty() {
        body.add_hex("rest", message.trailing_body);
    }
    description.add("body", body);
    describe_credential(&message.credential_section, valid, description);
    Ok(())
}

pub(super) fn describe_envelope(envelope: &Envelope, description: &mut FieldList) {
    let flags = [
        (EnvelopeFlags::COMPRESSED, "CP"),
        (EnvelopeFlags::ENCRYPTED, "EC"),
        (EnvelopeFlags::TRUNCATED, "TC"),
    ];
    description.add("version", envelope.version.to_string());
    description.add("suggestedVersion", envelope.newest_version().to_string());
    let set = flags.iter().filter(|(flag, _)| envelope.flags.contains(*flag));
    description.add("envelopeFlags", set.map(|(_, name)| *name).collect::<FieldValue>());
    description.add("sessionId", envelope.session_id);
    description.add("requestId", envelope.request_id);
    description.add("sequence", envelope.sequence);
    description.add("messageLength", envelope.length);
}

pub(super) fn describe_header(
    header: &MessageHeader,
    body_length: usize,
    description: &mut FieldList,
) -> Result<(), CliError> {
    description.add("opCode", header.opcode.0);
    description.add("opCodeName", header.opcode.to_string());
    description.add("responseCode", header.response_code.0);
    if !header.is_request() {
        description.add("responseCodeName", header.response_code.to_string());
    }
    description.add_number_with_text("opFlags", header.flags.0, format!("{:#010x}", header.flags.0))?;
    let set = OpFlags::MNEMONICS.iter().filter(|(flag, _)| header.flags.contains(*flag));
    description.add("opFlagNames", set.map(|(_, name)| *name).collect::<FieldValue>());
    description.add("siteInfoSerial", header.site_serial);
    description.add("recursionCount", header.recursion_count);
    let date = format!("{} ({})", header.expiration, format_timestamp(header.expiration));
    description.add_number_with_text("expiration", header.expiration, date)?;
    description.add("bodyLength", body_length as u64);
    Ok(())
}

fn describe_request(request: &Request<'_>) -> Result<FieldList, CliError> {
    let mut body = FieldList::default();
    match *request {
        Request::Resolve { handle, indexes, types } => {
            add_handle(&mut body, "handle", handle);
            body.add("indexes", indexes.iter().collect::<FieldValue>());
            body.add("types", types.iter().map(lossy_text).collect::<FieldValue>());
        }
        Request::NoOperand { handle: Some(handle) } => add_handle(&mut body, "handle", handle),
        Request::HandleOnly { handle } => add_handle(&mut body, "handle", handle),
        Request::WriteValues { handle, values } => {
            add_handle(&mut body, "handle", handle);
            body.add("values", describe_values(&values)?);
        }
        Request::RemoveValues { handle, indexes } => {
            add_handle(&mut body, "handle", handle);
            body.add("indexes", indexes.iter().collect::<FieldValue>());
        }
        Request::ChallengeResponse(ChallengeResponse { auth_type, key_handle, key_index, proof }) => {
            body.add("authType", lossy_text(auth_type));
            add_handle(&mut body, "keyHandle", key_handle);
            body.add("keyIndex", key_index);
            body.add_hex("answer", proof);
        }
        Request::VerifyChallenge { key_handle, key_index, nonce, digest, response } => {
            add_handle(&mut body, "keyHandle", key_handle);
            body.add("keyIndex", key_index);
            body.add_hex("nonce", nonce);
            add_digest(&mut body, &digest);
            body.add_hex("answer", response);
        }
        Request::SessionSetup(setup) => add_session_setup(&mut body, &setup)?,
        Request::ExchangeSessionKey { key } => body.add_hex("key", key),
        Request::RetrieveTransactions { start, receiver } => {
            match start {
                ReplicationStart::AfterTransaction { id, last_query_millis } => {
                    body.add("lastTransactionId", id);
                    body.add("lastQueryTime", last_query_millis);
                }
                ReplicationStart::States(states) => body.add("states", lossy_text(states)),
                ReplicationStart::Unknown(kind) => body.add("kind", kind),
            }
            add_receiver(&mut body, receiver);
        }
        Request::Dump { receiver, cursor } => {
            add_receiver(&mut body, receiver);
            if let Some(cursor) = cursor {
                add_handle(&mut body, "resumeAfter", Handle::new(cursor.after_handle));
                body.add("resumeKind", cursor.section);
            }
        }
        Request::Unknown(bytes) => body.add_hex("bytes", bytes),
        _ => {}
    }
    Ok(body)
}

fn describe_response(response: &Response<'_>) -> Result<FieldList, CliError> {
    let mut body = FieldList::default();
    if let Some(digest) = &response.digest {
        add_digest(&mut body, digest);
    }
    match response.data {
        ResponseData::Resolved { handle, values } => {
            add_handle(&mut body, "handle", handle);
            body.add("values", describe_values(&values)?);
        }
        ResponseData::SiteInfo(site) => body.add("site", super::value::describe("HS_SITE", site)?),
        ResponseData::Created { handle: Some(handle) } => add_handle(&mut body, "handle", handle),
        ResponseData::Handles(handles) => {
            body.add(
                "handles",
                handles.iter().map(|handle| Handle::new(handle).to_string()).collect::<FieldValue>(),
            );
        }
        ResponseData::ChallengeVerified(valid) => body.add("isValid", valid),
        ResponseData::SessionSetup { mode, data } => {
            body.add("keyExchangeMode", mode.0);
            body.add_hex("data", data);
        }
        ResponseData::NextTransactionId(id) => body.add("nextTransactionId", id),
        ResponseData::TransactionStream { flags } => body.add("flags", flags),
        ResponseData::Referral { handle, values } => {
            add_handle(&mut body, "referralHandle", handle);
            if let Some(values) = values {
                body.add("values", describe_values(&values)?);
            }
        }
        ResponseData::Challenge { nonce, legacy_digest } => {
            body.add_hex("nonce", nonce);
            if let Some(digest) = legacy_digest {
                body.add_hex("requestDigest", digest);
            }
        }
        ResponseData::Error { message: Some(message) } => body.add("message", lossy_text(message)),
        ResponseData::Unknown(bytes) => body.add_hex("bytes", bytes),
        _ => {}
    }
    Ok(body)
}

fn describe_credential(
    tail: &CredentialSection<'_>,
    valid: Option<&CredentialCheck>,
    description: &mut FieldList,
) {
    let Credential { version_and_options: options, signer, counter, credential_type, algorithm, signature } =
        match tail {
            CredentialSection::Absent => return,
            CredentialSection::Empty => return description.add("credential", FieldValue::Null),
            CredentialSection::Present(credential) => credential,
            CredentialSection::Malformed(bytes) => return description.add_hex("rest", bytes),
        };
    let mut fields = FieldList::default();
    fields.add("options", *options);
    fields.add("signer", lossy_text(signer));
    fields.add("counter", *counter);
    fields.add("type", lossy_text(credential_type));
    fields.add("algorithm", lossy_text(algorithm));
    fields.add_hex("signature", signature);
    match valid {
        None => {}
        Some(Ok(valid)) => fields.add("valid", *valid),
        Some(Err(why)) => fields.add("unchecked", &**why),
    }
    description.add("credential", fields);
}

fn describe_values(values: &WireList<'_, HandleValue<'_>>) -> Result<FieldValue, CliError> {
    let describe = |value: HandleValue<'_>| -> Result<FieldValue, CliError> {
        let json = to_raw_value(&value)
            .map_err(|error| CliError::new(format!("cannot serialize the value as JSON: {error}")))?;
        Ok(FieldValue::Json { json, text: format_value(&value)? })
    };
    values.iter().map(describe).collect::<Result<Vec<_>, _>>().map(FieldValue::List)
}

fn add_session_setup(body: &mut FieldList, setup: &SessionSetup<'_>) -> Result<(), CliError> {
    body.add("keyExchangeMode", setup.mode.0);
    body.add("timeout", setup.timeout);
    add_handle(body, "identityHandle", setup.identity_handle);
    let index = match setup.identity_index {
        SessionSetup::ANONYMOUS_INDEX => "anonymous".into(),
        index => index.to_string(),
    };
    body.add_number_with_text("identityIndex", setup.identity_index, index)?;
    match setup.key {
        SessionKeyMaterial::PublicKey(key) => body.add_hex("publicKey", key),
        SessionKeyMaterial::Reference { handle, index } => {
            add_handle(body, "keyHandle", handle);
            body.add("keyIndex", index);
        }
        SessionKeyMaterial::None => {}
    }
    Ok(())
}

fn add_receiver(body: &mut FieldList, receiver: HashPartition) {
    body.add("hashOption", receiver.hash_option.0);
    body.add("servers", receiver.server_count);
    body.add("serverIndex", receiver.server_index);
}

fn add_digest(body: &mut FieldList, digest: &RequestDigest<'_>) {
    let algorithm = match digest.algorithm {
        DigestAlgorithm::Untagged => None,
        DigestAlgorithm::Md5 => Some("MD5"),
        DigestAlgorithm::Sha1 => Some("SHA-1"),
        DigestAlgorithm::Sha256 => Some("SHA-256"),
    };
    if let Some(algorithm) = algorithm {
        body.add("requestDigestAlgorithm", algorithm);
    }
    body.add_hex("requestDigest", digest.bytes);
}

fn add_handle(body: &mut FieldList, name: &'static str, handle: Handle<'_>) {
    body.add(name, handle.to_string());
}

fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
