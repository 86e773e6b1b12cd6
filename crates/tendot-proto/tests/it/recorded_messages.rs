//! Recorded messages of Handle.Net 9.3.1: they decode to what the recorder noted, and encode to the same bytes again.

use std::fmt::Write as _;

use tendot_proto::message::{DigestAlgorithm, SessionKeyMaterial};
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
        if let Some(shown) = show(&recording) {
            let noted = recording.decoded_note();
            assert_eq!(shown, noted, "{}", recording.name);
        }
    }
    assert_eq!(seen, 256);
}

/// Recordings that are malformed on purpose, with the expected errors; all others must decode.
const MALFORMED: &[(&str, &str)] = &[
    ("raw_short_message#1", "header at byte 20: 24 bytes announced, 10 there"),
    ("raw_truncated_body#1", "message at byte 20: 51 bytes announced, 41 there"),
    ("raw_bad_handle_length#1", "handle at byte 44: 2147483647 bytes announced, at most 1048576 allowed"),
    ("raw_udp_garbage#1", "envelope at byte 0: 20 bytes announced, 3 there"),
];

/// The message in the format of the notes, after a check that it encodes to the same bytes; none for malformed ones, whose errors
/// are checked.
fn show(recording: &Recording) -> Option<String> {
    let bytes = &recording.bytes;
    if let Some((_, error)) = MALFORMED.iter().find(|(name, _)| *name == recording.name) {
        assert_eq!(Message::from_bytes(bytes).unwrap_err().to_string(), *error, "{}", recording.name);
        return None;
    }
    let envelope = Envelope::from_bytes(bytes).unwrap();
    assert_eq!(envelope.to_bytes()[..], bytes[..20], "{}", recording.name);
    let mut shown = show_envelope(&envelope);
    let payload = &bytes[20..];
    if envelope.flags.has(EnvelopeFlags::ENCRYPTED) {
        let start: String = hex(&payload[..24]);
        write!(shown, " | message is ENCRYPTED with the session key ({} bytes): {start}...", payload.len())
            .unwrap();
        return Some(shown);
    }
    let whole = match recording.reassembled() {
        None if envelope.flags.has(EnvelopeFlags::TRUNCATED) => {
            write!(shown, " | fragment: {} data bytes", payload.len()).unwrap();
            return Some(shown);
        }
        None => payload.to_vec(),
        Some((fragments, whole)) => {
            write!(
                shown,
                " | fragment: {} data bytes | last of {fragments} fragments; reassembled: ",
                payload.len()
            )
            .unwrap();
            whole
        }
    };
    let whole = &whole[..envelope.length as usize];
    let parts = MessageParts::split_payload(envelope, whole).unwrap();
    let message = Message::from_parts(&parts).unwrap_or_else(|error| panic!("{}: {error}", recording.name));
    assert_eq!(message.to_bytes().unwrap()[20..], whole[..], "{}", recording.name);
    if !shown.ends_with("reassembled: ") {
        shown.push_str(" | ");
    }
    shown += &show_header(&message.header, parts.body.len());
    shown += &show_body(&message);
    shown += &show_tail(&message.tail);
    if let Some(extra) = payload.get(envelope.length as usize..).filter(|extra| !extra.is_empty()) {
        // The note shows the first 40 bytes.
        write!(shown, " EXTRA={}", hex(&extra[..extra.len().min(40)])).unwrap();
        let next = Message::from_bytes(extra).unwrap();
        assert_eq!(next.to_bytes().unwrap(), extra);
    }
    Some(shown)
}

fn show_envelope(envelope: &Envelope) -> String {
    let mut flags = Vec::new();
    for (flag, name) in [
        (EnvelopeFlags::COMPRESSED, "COMPRESSED"),
        (EnvelopeFlags::ENCRYPTED, "ENCRYPTED"),
        (EnvelopeFlags::TRUNCATED, "TRUNCATED"),
    ] {
        if envelope.flags.has(flag) {
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

fn show_header(header: &MessageHeader, body_length: usize) -> String {
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
        flags.iter().filter(|(flag, _)| header.flags.has(*flag)).map(|(_, name)| *name).collect();
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

fn show_body(message: &Message<'_>) -> String {
    let rest = message.body_rest;
    let shown = match &message.body {
        MessageBody::Request(request) => show_request(request, rest),
        MessageBody::Response(Response { digest, outcome }) => {
            let digest = digest.map(|digest| show_digest(&digest) + "; ").unwrap_or_default();
            digest + &show_outcome(outcome, rest)
        }
    };
    format!("body{{{shown}}} ")
}

fn show_request(request: &Request<'_>, rest: &[u8]) -> String {
    match request {
        Request::Resolve { handle, indexes, types } => {
            let indexes: Vec<String> = indexes.iter().map(|index| index.to_string()).collect();
            let types = match show_strings(types) {
                shown if shown.len() <= 3 => shown.join(","),
                shown => format!("{},...({})", shown[..3].join(","), shown.len()),
            };
            format!("handle='{handle}'; indexes=[{}]; types=[{types}]", indexes.join(", "))
        }
        Request::Plain { handle } => format!("handle='{}'", handle.unwrap()),
        Request::Named { handle } => format!("handle='{handle}'"),
        Request::Values { handle, values } => format!("handle='{handle}'; values=[{}]", show_values(values)),
        Request::RemoveValues { handle, indexes } => {
            let indexes: Vec<String> = indexes.iter().map(|index| index.to_string()).collect();
            format!("handle='{handle}'; indexes=[{}]", indexes.join(", "))
        }
        Request::ChallengeAnswer { auth_type, key_handle, key_index, answer } => {
            let answer = match answer {
                [0x22, mac @ ..] if auth_type == b"HS_SECKEY" => format!("PBKDF2-HMAC-SHA1 {}", hex(mac)),
                [0, 0, 0, 7, name @ ..] => {
                    let (name, signature) = name.split_at(7);
                    format!("hashAlg='{}' signature={} bytes", text(name), signature.len() - 4)
                }
                other => panic!("{other:?}"),
            };
            format!("authType='{}' userId='{key_handle}':{key_index}; answer{{{answer}}}", text(auth_type))
        }
        Request::VerifyChallenge { key_handle, key_index, nonce, digest, answer } => {
            assert_eq!(digest.algorithm, DigestAlgorithm::Untold);
            format!(
                "handle='{key_handle}' index={key_index} nonce={}; rest={:08x}{}{:08x}{}",
                hex(nonce),
                digest.bytes.len(),
                hex(digest.bytes),
                answer.len(),
                hex(answer)
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

fn show_outcome(outcome: &ResponseData<'_>, rest: &[u8]) -> String {
    match outcome {
        ResponseData::Resolved { handle, values } => {
            format!("handle='{handle}'; nValues={} [{}]", values.len(), show_values(values))
        }
        ResponseData::Referral { handle, values } => {
            let values = values.unwrap();
            format!("handle='{handle}'; nValues={} [{}]", values.len(), show_values(&values))
        }
        ResponseData::SiteInfo(site) => format!("siteInfoRecord={} bytes", site.len()),
        ResponseData::Created { handle } => format!("handle='{}'", handle.unwrap()),
        ResponseData::Handles(handles) => {
            let shown = show_strings(handles);
            format!("nHandles={} [{},...,{}]", shown.len(), shown[..3].join(","), shown[shown.len() - 1])
        }
        ResponseData::Verified(valid) => format!("isValid={valid}"),
        ResponseData::Session { mode, data } => {
            format!("keyExchangeMode={}; exchangeData={} bytes", mode.0, 4 + data.len() + rest.len())
        }
        ResponseData::Done => String::new(),
        ResponseData::Challenge { nonce, old_digest } => match old_digest {
            None => format!("nonce={}", hex(nonce)),
            Some(digest) => format!("nonce={}; oldFormatDigest={}", hex(nonce), hex(digest)),
        },
        ResponseData::Failed { message } => match text(message.unwrap()) {
            quoted if quoted.contains('\'') => format!("message=\"{quoted}\""),
            plain => format!("message='{plain}'"),
        },
        other => panic!("not in the recordings: {other:?}"),
    }
}

fn show_digest(digest: &RequestDigest<'_>) -> String {
    assert_eq!(digest.algorithm, DigestAlgorithm::Sha256);
    format!("requestDigest{{SHA256 {}}}", hex(digest.bytes))
}

fn show_strings(strings: &WireList<'_, &[u8]>) -> Vec<String> {
    strings.iter().map(|one| format!("'{}'", text(one))).collect()
}

fn show_values(values: &WireList<'_, HandleValue<'_>>) -> String {
    let all: Vec<String> = values.iter().map(|value| show_value(&value)).collect();
    all.join(",")
}

fn show_value(value: &HandleValue<'_>) -> String {
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
        show_data(value),
        references.join(", ")
    )
}

fn show_data(value: &HandleValue<'_>) -> String {
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

fn show_tail(tail: &CredentialSection<'_>) -> String {
    match tail {
        CredentialSection::Absent => "no credential field (0 bytes)".into(),
        CredentialSection::Empty => "credentialLength=0".into(),
        CredentialSection::Other(bytes) => panic!("not in the recordings: {bytes:?}"),
        CredentialSection::Credential(Credential {
            options,
            signer,
            counter,
            credential_type,
            algorithm,
            signature,
        }) => {
            let info = 8 + algorithm.len() + signature.len();
            let length = 4 + 4 + signer.len() + 4 + 4 + credential_type.len() + 4 + info;
            let mac = if signature.len() == 32 { format!(" {}", hex(signature)) } else { String::new() };
            assert_eq!(*options, 0);
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
