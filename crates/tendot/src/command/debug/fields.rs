//! The fields of a message, in the order of the wire.

use jiff::Timestamp;
use serde_json::value::to_raw_value;
use tendot_proto::message::{DigestAlgorithm, Receiver, SessionKeyMaterial, SessionSetup, Since};
use tendot_proto::record::Value;
use tendot_proto::wire::List;
use tendot_proto::{
    Body, Credential, Envelope, EnvelopeFlags, Handle, Header, Message, OpFlags, Outcome, Permissions,
    Request, RequestDigest, Response, CredentialSection, Ttl,
};

use super::description::{Description, Field};
use crate::Failure;

/// Whether a credential is right, or why that cannot be checked.
pub(super) type Validity = Result<bool, String>;

/// Body and credential; `valid` tells whether the credential was checked, and how that ended.
pub(super) fn describe_body(
    message: &Message<'_>,
    valid: Option<&Validity>,
    description: &mut Description,
) -> Result<(), Failure> {
    let mut body = match &message.body {
        Body::Request(request) => describe_request(request)?,
        Body::Response(response) => describe_response(response)?,
    };
    if !message.body_rest.is_empty() {
        body.add_hex("rest", message.body_rest);
    }
    description.add("body", body);
    describe_credential(&message.tail, valid, description);
    Ok(())
}

pub(super) fn describe_envelope(envelope: &Envelope, description: &mut Description) {
    let flags = [
        (EnvelopeFlags::COMPRESSED, "CP"),
        (EnvelopeFlags::ENCRYPTED, "EC"),
        (EnvelopeFlags::TRUNCATED, "TC"),
    ];
    description.add("version", envelope.version.to_string());
    description.add("suggestedVersion", envelope.suggested().to_string());
    let set = flags.iter().filter(|(flag, _)| envelope.flags.has(*flag));
    description.add("envelopeFlags", set.map(|(_, name)| *name).collect::<Field>());
    description.add("sessionId", envelope.session_id);
    description.add("requestId", envelope.request_id);
    description.add("sequence", envelope.sequence);
    description.add("messageLength", envelope.length);
}

pub(super) fn describe_header(
    header: &Header,
    body_length: usize,
    description: &mut Description,
) -> Result<(), Failure> {
    description.add("opCode", header.opcode.0);
    description.add("opCodeName", header.opcode.to_string());
    description.add("responseCode", header.response_code.0);
    if !header.is_request() {
        description.add("responseCodeName", header.response_code.to_string());
    }
    description.add_number_with_text("opFlags", header.flags.0, format!("{:#010x}", header.flags.0))?;
    let set = OpFlags::NAMES.iter().filter(|(flag, _)| header.flags.has(*flag));
    description.add("opFlagNames", set.map(|(_, name)| *name).collect::<Field>());
    description.add("siteInfoSerial", header.site_serial);
    description.add("recursionCount", header.recursion_count);
    let date = format!("{} ({})", header.expiration, dated(header.expiration));
    description.add_number_with_text("expiration", header.expiration, date)?;
    description.add("bodyLength", body_length as u64);
    Ok(())
}

fn describe_request(request: &Request<'_>) -> Result<Description, Failure> {
    let mut body = Description::default();
    match *request {
        Request::Resolve { handle, indexes, types } => {
            add_handle(&mut body, "handle", handle);
            body.add("indexes", indexes.iter().collect::<Field>());
            body.add("types", types.iter().map(text).collect::<Field>());
        }
        Request::Plain { handle: Some(handle) } => add_handle(&mut body, "handle", handle),
        Request::Named { handle } => add_handle(&mut body, "handle", handle),
        Request::Values { handle, values } => {
            add_handle(&mut body, "handle", handle);
            body.add("values", describe_values(&values)?);
        }
        Request::RemoveValues { handle, indexes } => {
            add_handle(&mut body, "handle", handle);
            body.add("indexes", indexes.iter().collect::<Field>());
        }
        Request::ChallengeAnswer { auth_type, key_handle, key_index, answer } => {
            body.add("authType", text(auth_type));
            add_handle(&mut body, "keyHandle", key_handle);
            body.add("keyIndex", key_index);
            body.add_hex("answer", answer);
        }
        Request::VerifyChallenge { key_handle, key_index, nonce, digest, answer } => {
            add_handle(&mut body, "keyHandle", key_handle);
            body.add("keyIndex", key_index);
            body.add_hex("nonce", nonce);
            add_digest(&mut body, &digest);
            body.add_hex("answer", answer);
        }
        Request::SessionSetup(setup) => add_session_setup(&mut body, &setup)?,
        Request::ExchangeKey { key } => body.add_hex("key", key),
        Request::RetrieveTransactions { since, receiver } => {
            match since {
                Since::Transaction { id, queried } => {
                    body.add("lastTransactionId", id);
                    body.add("lastQueryTime", queried);
                }
                Since::States(states) => body.add("states", text(states)),
                Since::Other(kind) => body.add("kind", kind),
            }
            add_receiver(&mut body, receiver);
        }
        Request::Dump { receiver, resume } => {
            add_receiver(&mut body, receiver);
            if let Some(resume) = resume {
                add_handle(&mut body, "resumeAfter", Handle::new(resume.after));
                body.add("resumeKind", resume.kind);
            }
        }
        Request::Unknown(bytes) => body.add_hex("bytes", bytes),
        _ => {}
    }
    Ok(body)
}

fn describe_response(response: &Response<'_>) -> Result<Description, Failure> {
    let mut body = Description::default();
    if let Some(digest) = &response.digest {
        add_digest(&mut body, digest);
    }
    match response.outcome {
        Outcome::Resolved { handle, values } => {
            add_handle(&mut body, "handle", handle);
            body.add("values", describe_values(&values)?);
        }
        Outcome::SiteInfo(site) => body.add("site", super::value::describe("HS_SITE", site)?),
        Outcome::Created { handle: Some(handle) } => add_handle(&mut body, "handle", handle),
        Outcome::Handles(handles) => {
            body.add(
                "handles",
                handles.iter().map(|handle| Handle::new(handle).to_string()).collect::<Field>(),
            );
        }
        Outcome::Verified(valid) => body.add("isValid", valid),
        Outcome::Session { mode, data } => {
            body.add("keyExchangeMode", mode.0);
            body.add_hex("data", data);
        }
        Outcome::NextTransactionId(id) => body.add("nextTransactionId", id),
        Outcome::Transactions { flags } => body.add("flags", flags),
        Outcome::Referral { handle, values } => {
            add_handle(&mut body, "referralHandle", handle);
            if let Some(values) = values {
                body.add("values", describe_values(&values)?);
            }
        }
        Outcome::Challenge { nonce, old_digest } => {
            body.add_hex("nonce", nonce);
            if let Some(digest) = old_digest {
                body.add_hex("requestDigest", digest);
            }
        }
        Outcome::Failed { message: Some(message) } => body.add("message", text(message)),
        Outcome::Unknown(bytes) => body.add_hex("bytes", bytes),
        _ => {}
    }
    Ok(body)
}

fn describe_credential(tail: &CredentialSection<'_>, valid: Option<&Validity>, description: &mut Description) {
    let Credential { options, signer, counter, credential_type, algorithm, signature } = match tail {
        CredentialSection::Absent => return,
        CredentialSection::Empty => return description.add("credential", Field::Nothing),
        CredentialSection::Credential(credential) => credential,
        CredentialSection::Other(bytes) => return description.add_hex("rest", bytes),
    };
    let mut fields = Description::default();
    fields.add("options", *options);
    fields.add("signer", text(signer));
    fields.add("counter", *counter);
    fields.add("type", text(credential_type));
    fields.add("algorithm", text(algorithm));
    fields.add_hex("signature", signature);
    match valid {
        None => {}
        Some(Ok(valid)) => fields.add("valid", *valid),
        Some(Err(why)) => fields.add("unchecked", &**why),
    }
    description.add("credential", fields);
}

fn describe_values(values: &List<'_, Value<'_>>) -> Result<Field, Failure> {
    let describe = |value: Value<'_>| -> Result<Field, Failure> {
        let json = to_raw_value(&value)
            .map_err(|error| Failure::new(format!("a value has no JSON form: {error}")))?;
        Ok(Field::Json { json, shown: shown_value(&value)? })
    };
    values.iter().map(describe).collect::<Result<Vec<_>, _>>().map(Field::List)
}

/// A value in a line: what is not as usual stands behind its data.
pub(crate) fn shown_value(value: &Value<'_>) -> Result<String, Failure> {
    let data = super::value::shown(&value.type_name(), &value.data)?;
    let mut line = format!("{:>5} {} {data}", value.index, value.type_name());
    let mut aside = Vec::new();
    if value.permissions != Permissions::DEFAULT {
        aside.push(format!("permissions {}", value.permissions));
    }
    match value.ttl {
        Ttl::DEFAULT => {}
        Ttl::Relative(seconds) => aside.push(format!("TTL {seconds} s")),
        Ttl::Absolute(date) => aside.push(format!("TTL until {}", dated(date))),
        Ttl::Other { kind, seconds } => aside.push(format!("TTL of kind {kind}: {seconds}")),
    }
    if value.timestamp != 0 {
        aside.push(dated(value.timestamp));
    }
    aside.extend(value.references.iter().map(|reference| format!("see {reference}")));
    if !aside.is_empty() {
        line += &format!("  ({})", aside.join(", "));
    }
    Ok(line)
}

/// A date of the protocol; every number of 32 bits is one.
fn dated(seconds: u32) -> String {
    Timestamp::from_second(seconds.into()).map_or_else(|_| seconds.to_string(), |date| date.to_string())
}

fn add_session_setup(body: &mut Description, setup: &SessionSetup<'_>) -> Result<(), Failure> {
    body.add("keyExchangeMode", setup.mode.0);
    body.add("timeout", setup.timeout);
    add_handle(body, "identityHandle", setup.identity_handle);
    let index = match setup.identity_index {
        SessionSetup::ANONYMOUS => "nobody".into(),
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

fn add_receiver(body: &mut Description, receiver: Receiver) {
    body.add("hashOption", receiver.hash_option.0);
    body.add("servers", receiver.servers);
    body.add("serverIndex", receiver.index);
}

fn add_digest(body: &mut Description, digest: &RequestDigest<'_>) {
    let algorithm = match digest.algorithm {
        DigestAlgorithm::Untold => None,
        DigestAlgorithm::Md5 => Some("MD5"),
        DigestAlgorithm::Sha1 => Some("SHA-1"),
        DigestAlgorithm::Sha256 => Some("SHA-256"),
    };
    if let Some(algorithm) = algorithm {
        body.add("requestDigestAlgorithm", algorithm);
    }
    body.add_hex("requestDigest", digest.bytes);
}

fn add_handle(body: &mut Description, name: &'static str, handle: Handle<'_>) {
    body.add(name, handle.to_string());
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
