//! Recorded messages of Handle.Net 9.3.1: they decode as the recorder noted, and encode to the same bytes.

use std::fmt::Write as _;

use tendot_proto::message::{ChallengeResponse, DigestAlgorithm, SessionKeyMaterial};
use tendot_proto::record::HandleValue;
use tendot_proto::wire::WireList;
use tendot_proto::{
    Credential, CredentialSection, Envelope, EnvelopeFlags, Message, MessageBody, MessageHeader,
    MessageParts, OpFlags, Request, RequestDigest, Response, ResponseCode, ResponseData, Ttl,
};
use tendot_testing::hex::encode as hex;
use tendot_testing::recordings::{Recording, encodings, recordings};

#[test]
fn messages_match_notes_and_round_trip() {
    let mut seen = 0;
    for recording in recordings() {
        seen += 1;
        if let Some(output) = format_recording(&recording) {
            let noted = recording.decoded_note();
            assert_eq!(output, noted, "{}", recording.name);
        }
    }
    assert_eq!(seen, 256);
}

/// Recordings that are malformed on purpose, with the expected errors; all others must decode.
const MALFORMED: &[(&str, &str)] = &[
    ("raw_short_message#1", "header at byte 20: needs 24 bytes, only 10 left"),
    ("raw_truncated_body#1", "message at byte 20: needs 51 bytes, only 41 left"),
    ("raw_bad_handle_length#1", "handle at byte 44: length 2147483647 exceeds the limit of 1048576 bytes"),
    ("raw_udp_garbage#1", "envelope at byte 0: needs 20 bytes, only 3 left"),
];

/// Message in the format of the notes, after a check that it encodes to the same bytes; none for malformed ones, whose errors
/// are checked.
fn format_recording(recording: &Recording) -> Option<String> {
    let bytes = &recording.bytes;
    if let Some((_, error)) = MALFORMED.iter().find(|(name, _)| *name == recording.name) {
        assert_eq!(Message::from_bytes(bytes).unwrap_err().to_string(), *error, "{}", recording.name);
        return None;
    }
    let envelope = Envelope::from_bytes(bytes).unwrap();
    assert_eq!(envelope.to_bytes()[..], bytes[..20], "{}", recording.name);
    let mut output = format_envelope(&envelope);
    let payload = &bytes[20..];
    if envelope.flags.contains(EnvelopeFlags::ENCRYPTED) {
        let start: String = hex(&payload[..24]);
        write!(output, " | message is ENCRYPTED with the session key ({} bytes): {start}...", payload.len())
            .unwrap();
        return Some(output);
    }
    let all_bytes = match recording.reassembled() {
        None if envelope.flags.contains(EnvelopeFlags::TRUNCATED) => {
            write!(output, " | fragment: {} data bytes", payload.len()).unwrap();
            return Some(output);
        }
        None => payload.to_vec(),
        Some((fragments, reassembled)) => {
            write!(
                output,
                " | fragment: {} data bytes | last of {fragments} fragments; reassembled: ",
                payload.len()
            )
            .unwrap();
            reassembled
        }
    };
    let complete = &all_bytes[..envelope.length as usize];
    let parts = MessageParts::split_payload(envelope, complete).unwrap();
    let message = Message::from_parts(&parts).unwrap_or_else(|error| panic!("{}: {error}", recording.name));
    assert_eq!(message.to_bytes().unwrap()[20..], complete[..], "{}", recording.name);
    if !output.ends_with("reassembled: ") {
        output.push_str(" | ");
    }
    output += &format_header(&message.header, parts.body.len());
    output += &format_body(&message);
    output += &format_credential_section(&message.credential_section);
    if let Some(extra) = payload.get(envelope.length as usize..).filter(|extra| !extra.is_empty()) {
        // The note shows the first 40 bytes.
        write!(output, " EXTRA={}", hex(&extra[..extra.len().min(40)])).unwrap();
        let next = Message::from_bytes(extra).unwrap();
        assert_eq!(next.to_bytes().unwrap(), extra);
    }
    Some(output)
}

fn format_envelope(envelope: &Envelope) -> String {
    let mut flags = Vec::new();
    for (flag, name) in [
        (EnvelopeFlags::COMPRESSED, "COMPRESSED"),
        (EnvelopeFlags::ENCRYPTED, "ENCRYPTED"),
        (EnvelopeFlags::TRUNCATED, "TRUNCATED"),
    ] {
        if envelope.flags.contains(flag) {
            flags.push(name);
        }
    }
    format!(
        "envelope{{ver={} flags=[{}] suggest={} sessionId={} requestId=0x{:08x} seq={} messageLength={}}}",
        envelope.version,
        flags.join(","),
        envelope.newest_version(),
        envelope.session_id,
        envelope.request_id,
        envelope.sequence,
        envelope.length
    )
}

fn format_header(header: &MessageHeader, body_length: usize) -> String {
    let flags = [
        (OpFlags::AUTHORITATIVE, "AUTH"),
        (OpFlags::CERTIFY, "CERT"),
        (OpFlags::ENCRYPT, "ENCR"),
        (OpFlags::RECURSIVE, "RECU"),
        (OpFlags::CACHE_CERTIFY, "CACR"),
        (OpFlags::CONTINUOUS, "CONT"),
        (OpFlags::KEEP_CONNECTION, "KEEP"),
        (OpFlags::PUBLIC_ONLY, "PUBL"),
        (OpFlags::REQUEST_DIGEST, "RRDG"),
        (OpFlags::OVERWRITE, "OVRW"),
        (OpFlags::MINT_NEW_SUFFIX, "MINT"),
        (OpFlags::DO_NOT_REFER, "DNRF"),
    ];
    let flags: Vec<&str> =
        flags.iter().filter(|(flag, _)| header.flags.contains(*flag)).map(|(_, name)| *name).collect();
    let code = match header.response_code {
        ResponseCode::REQUEST => "RC_RESERVED(request)".into(),
        code => code.to_string(),
    };
    format!(
        "header{{opCode={}({}) responseCode={}({code}) opFlags=0x{:08x}({}) siteInfoSerial={} recursionCount={} \
         reserved={} expiration={}={} bodyLength={body_length}}} ",
        header.opcode.0,
        header.opcode.name().unwrap_or("?"),
        header.response_code.0,
        header.flags.0,
        flags.join("|"),
        header.site_serial,
        header.recursion_count,
        header.reserved,
        header.expiration,
        date(header.expiration),
    )
}

fn format_body(message: &Message<'_>) -> String {
    let rest = message.trailing_body;
    let output = match &message.body {
        MessageBody::Request(request) => format_request(request, rest),
        MessageBody::Response(Response { digest, data }) => {
            let digest = digest.map(|digest| format_digest(&digest) + "; ").unwrap_or_default();
            digest + &format_data(data, rest)
        }
    };
    format!("body{{{output}}} ")
}

fn format_request(request: &Request<'_>, rest: &[u8]) -> String {
    match request {
        Request::Resolve { handle, indexes, types } => {
            let indexes: Vec<String> = indexes.iter().map(|index| index.to_string()).collect();
            let types = match format_strings(types) {
                output if output.len() <= 3 => output.join(","),
                output => format!("{},...({})", output[..3].join(","), output.len()),
            };
            format!("handle='{handle}'; indexes=[{}]; types=[{types}]", indexes.join(", "))
        }
        Request::NoOperand { handle } => format!("handle='{}'", handle.unwrap()),
        Request::HandleOnly { handle } => format!("handle='{handle}'"),
        Request::WriteValues { handle, values } => {
            format!("handle='{handle}'; values=[{}]", format_values(values))
        }
        Request::RemoveValues { handle, indexes } => {
            let indexes: Vec<String> = indexes.iter().map(|index| index.to_string()).collect();
            format!("handle='{handle}'; indexes=[{}]", indexes.join(", "))
        }
        Request::ChallengeResponse(ChallengeResponse { auth_type, key_handle, key_index, proof }) => {
            let answer = match proof {
                [0x22, mac @ ..] if *auth_type == b"HS_SECKEY" => format!("PBKDF2-HMAC-SHA1 {}", hex(mac)),
                [0, 0, 0, 7, name @ ..] => {
                    let (name, signature) = name.split_at(7);
                    format!("hashAlg='{}' signature={} bytes", text(name), signature.len() - 4)
                }
                other => panic!("{other:?}"),
            };
            format!("authType='{}' userId='{key_handle}':{key_index}; answer{{{answer}}}", text(auth_type))
        }
        Request::VerifyChallenge { key_handle, key_index, nonce, digest, response } => {
            assert_eq!(digest.algorithm, DigestAlgorithm::Untagged);
            format!(
                "handle='{key_handle}' index={key_index} nonce={}; rest={:08x}{}{:08x}{}",
                hex(nonce),
                digest.bytes.len(),
                hex(digest.bytes),
                response.len(),
                hex(response)
            )
        }
        Request::SessionSetup(setup) => {
            let mut after = Vec::new();
            if let SessionKeyMaterial::PublicKey(key) = setup.key {
                after.extend((key.len() as u32).to_be_bytes());
                after.extend(key);
            }
            after.extend(rest);
            format!(
                "keyExchangeMode={} timeout={} identity='{}':{}; rest({} bytes)={}",
                setup.mode.0,
                setup.timeout,
                setup.identity_handle,
                setup.identity_index,
                after.len(),
                hex(&after[..after.len().min(40)])
            )
        }
        Request::Unknown(body) => format!("body={}", hex(body)),
        other => panic!("not in the recordings: {other:?}"),
    }
}

fn format_data(data: &ResponseData<'_>, rest: &[u8]) -> String {
    match data {
        ResponseData::Resolved { handle, values } => {
            format!("handle='{handle}'; nValues={} [{}]", values.len(), format_values(values))
        }
        ResponseData::Referral { handle, values } => {
            let values = values.unwrap();
            format!("handle='{handle}'; nValues={} [{}]", values.len(), format_values(&values))
        }
        ResponseData::SiteInfo(site) => format!("siteInfoRecord={} bytes", site.len()),
        ResponseData::Created { handle } => format!("handle='{}'", handle.unwrap()),
        ResponseData::Handles(handles) => {
            let output = format_strings(handles);
            format!("nHandles={} [{},...,{}]", output.len(), output[..3].join(","), output[output.len() - 1])
        }
        ResponseData::ChallengeVerified(valid) => format!("isValid={valid}"),
        ResponseData::SessionSetup { mode, data } => {
            format!("keyExchangeMode={}; exchangeData={} bytes", mode.0, 4 + data.len() + rest.len())
        }
        ResponseData::Empty => String::new(),
        ResponseData::Challenge { nonce, legacy_digest } => match legacy_digest {
            None => format!("nonce={}", hex(nonce)),
            Some(digest) => format!("nonce={}; oldFormatDigest={}", hex(nonce), hex(digest)),
        },
        ResponseData::Error { message } => match text(message.unwrap()) {
            quoted if quoted.contains('\'') => format!("message=\"{quoted}\""),
            plain => format!("message='{plain}'"),
        },
        other => panic!("not in the recordings: {other:?}"),
    }
}

fn format_digest(digest: &RequestDigest<'_>) -> String {
    assert_eq!(digest.algorithm, DigestAlgorithm::Sha256);
    format!("requestDigest{{SHA256 {}}}", hex(digest.bytes))
}

fn format_strings(strings: &WireList<'_, &[u8]>) -> Vec<String> {
    strings.iter().map(|string| format!("'{}'", text(string))).collect()
}

fn format_values(values: &WireList<'_, HandleValue<'_>>) -> String {
    let all: Vec<String> = values.iter().map(|value| format_value(&value)).collect();
    all.join(",")
}

fn format_value(value: &HandleValue<'_>) -> String {
    let (kind, ttl) = match value.ttl {
        Ttl::Relative(seconds) => (0, seconds),
        Ttl::Absolute(date) => (1, date),
        other => panic!("{other:?}"),
    };
    let bits = value.permissions.0;
    let letters: String = [(8, 'r'), (4, 'w'), (2, 'r'), (1, 'w')]
        .iter()
        .map(|(bit, letter)| if bits & bit == 0 { '-' } else { *letter })
        .collect();
    let references: Vec<String> = value.references.iter().map(|reference| format!("'{reference}'")).collect();
    format!(
        "{{index={} ts={}={} ttlType={kind} ttl={ttl} perms=0x{bits:x}({letters}) type='{}' data={} refs=[{}]}}",
        value.index,
        value.timestamp,
        date(value.timestamp),
        value.type_name(),
        format_value_data(value),
        references.join(", ")
    )
}

fn format_value_data(value: &HandleValue<'_>) -> String {
    if &*value.value_type == b"HS_ADMIN" {
        let data = &value.data;
        let handle = &data[6..data.len() - 4];
        let index = u32::from_be_bytes(data[data.len() - 4..].try_into().unwrap());
        return format!("admin{{perms=0x{},{index}:{}}}", hex(&data[..2]), text(handle));
    }
    match std::str::from_utf8(&value.data) {
        Ok(text) if text.len() > 120 => format!("'{}'...({} bytes)", &text[..60], text.len()),
        Ok(text) if !text.chars().any(char::is_control) => format!("'{text}'"),
        _ if value.data.len() > 24 => format!("0x{}...({} bytes)", hex(&value.data[..24]), value.data.len()),
        _ => format!("0x{}({} bytes)", hex(&value.data), value.data.len()),
    }
}

fn format_credential_section(section: &CredentialSection<'_>) -> String {
    match section {
        CredentialSection::Absent => "no credential field (0 bytes)".into(),
        CredentialSection::Empty => "credentialLength=0".into(),
        CredentialSection::Malformed(bytes) => panic!("not in the recordings: {bytes:?}"),
        CredentialSection::Present(Credential {
            version_and_options,
            signer,
            counter,
            credential_type,
            algorithm,
            signature,
        }) => {
            let info = 8 + algorithm.len() + signature.len();
            let length = 4 + 4 + signer.len() + 4 + 4 + credential_type.len() + 4 + info;
            let mac = if signature.len() == 32 { format!(" {}", hex(signature)) } else { String::new() };
            assert_eq!(*version_and_options, 0);
            format!(
                "credentialLength={length} credential{{version=0 reserved=0 flags=0x0000 signer='{}':{counter} type={} \
                 sectionLen={info} hashAlg='{}' signedData={} bytes{mac}}}",
                text(signer),
                text(credential_type),
                text(algorithm),
                signature.len()
            )
        }
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn date(seconds: u32) -> String {
    jiff::Timestamp::from_second(i64::from(seconds)).unwrap().to_string()
}

/// The messages of `encodings.txt`.
#[test]
fn encodings_round_trip() {
    let mut seen = 0;
    for (name, bytes) in encodings() {
        if !(name.starts_with("req_") || name.starts_with("resp_") || name == "challenge") {
            continue;
        }
        let message = Message::from_bytes(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(message.to_bytes().unwrap(), bytes, "{name}");
        seen += 1;
    }
    assert_eq!(seen, 24);
}
