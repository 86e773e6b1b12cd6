//! Parser and interpreter of replay scripts.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use tendot_proto::auth::{ClientKey, DhGroup, SecretKeyMac};
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::endpoint::Transport;
use tendot_proto::record::PublicKey;
use tendot_proto::{
    Fragments, HandleValue, Message, MessageBody, Now, OpFlags, ProtocolVersion, Reassembly, Response,
    ResponseData, ValuePermissions,
};
use tendot_testing::handle_keys::private_key;
use tendot_testing::hex;

use super::client::{ReplayClient, ScriptRequest, SendOptions};
use super::server::{ReplayServer, record_key};

type ScriptResult<T> = Result<T, String>;

/// Runs a script; an error has the line and the reason.
pub(super) fn run(text: &str) -> Result<(), (usize, String)> {
    let mut replay = Replay {
        server: ReplayServer::new(),
        client: ReplayClient::new(),
        now: Now { elapsed: Duration::ZERO, unix: 1_800_000_000 },
        transport: Transport::Tcp,
        responses: VecDeque::new(),
        last_sent: Vec::new(),
        last_response: Vec::new(),
    };
    let lines: Vec<(usize, &str)> =
        text.lines().enumerate().map(|(number, line)| (number + 1, line)).collect();
    let mut next = 0;
    while let Some((number, line)) = lines.get(next) {
        next += 1;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let start = next;
        while lines.get(next).is_some_and(|(_, line)| line.starts_with("  ")) {
            next += 1;
        }
        replay.step(line, &lines[start..next]).map_err(|(below, error)| (below.unwrap_or(*number), error))?;
    }
    match replay.responses.is_empty() {
        true => Ok(()),
        false => Err((lines.len(), "unexpected response".into())),
    }
}

/// State of a running script.
struct Replay {
    server: ReplayServer,
    client: ReplayClient,
    now: Now,
    transport: Transport,
    /// Responses that the script has not checked yet.
    responses: VecDeque<Vec<u8>>,
    last_sent: Vec<u8>,
    last_response: Vec<u8>,
}

type StepError = (Option<usize>, String);

impl Replay {
    fn step(&mut self, line: &str, below: &[(usize, &str)]) -> Result<(), StepError> {
        let here = |error| (None, error);
        match line.split_once(' ').unwrap_or((line, "")) {
            ("record", handle) => {
                let values = values(below).map_err(here)?;
                self.server.records.insert(record_key(handle), values);
                Ok(())
            }
            ("allow" | "deny", _) => self.set_policy(line).map_err(here),
            ("wait", time) => {
                let seconds: u64 = number(time.trim_end_matches(" s")).map_err(here)?;
                self.now.elapsed += Duration::from_secs(seconds);
                self.now.unix += seconds;
                Ok(())
            }
            (">", request) => {
                if !self.responses.is_empty() {
                    return Err(here("unexpected response".into()));
                }
                self.request(request, below).map_err(here)
            }
            ("<", expected) => self.expect(expected, below),
            _ => Err(here(format!("unknown step `{line}`"))),
        }
    }

    fn set_policy(&mut self, line: &str) -> ScriptResult<()> {
        let macs = &mut self.server.policy.secret_key_macs;
        match line {
            "allow HMAC-SHA1" => *macs = macs.with(SecretKeyMac::HmacSha1),
            "deny dh-1024" => self.server.policy.allow_dh_1024 = false,
            _ => return Err(format!("unknown policy option `{line}`")),
        }
        Ok(())
    }

    fn request(&mut self, request: &str, below: &[(usize, &str)]) -> ScriptResult<()> {
        let mut words: VecDeque<&str> = request.split(' ').collect();
        let verb = words.pop_front().unwrap_or_default();
        let mut options = SendOptions::default();
        self.transport = Transport::Tcp;
        let request = match verb {
            "resolve" => {
                let handle = word(&mut words)?.into();
                let (mut indexes, mut types) = (Vec::new(), Vec::new());
                while let Some(kind @ ("index" | "type")) = words.front().copied() {
                    words.pop_front();
                    match kind {
                        "index" => indexes.push(number(word(&mut words)?)?),
                        _ => types.push(word(&mut words)?.into()),
                    }
                }
                ScriptRequest::Resolve { handle, indexes, types }
            }
            "delete" => ScriptRequest::Delete { handle: word(&mut words)?.into() },
            "create" => ScriptRequest::Create { handle: word(&mut words)?.into(), values: values(below)? },
            "terminate" => ScriptRequest::Terminate,
            "session" => {
                let mut identity = None;
                let mut group = DhGroup::Modp2048;
                while let Some(kind @ ("as" | "group")) = words.front().copied() {
                    words.pop_front();
                    match (kind, word(&mut words)?) {
                        ("as", name) => identity = Some(name.into()),
                        (_, "1024") => group = DhGroup::Modp1024,
                        (_, other) => return Err(format!("unknown DH group `{other}`")),
                    }
                }
                ScriptRequest::Session { identity, group }
            }
            "respond" => return self.respond_to_challenge(&mut words),
            "resend" => {
                let bytes = self.last_sent.clone();
                return self.send(bytes);
            }
            "bytes" => {
                let digits: String = words.into_iter().collect();
                return self.send(hex::decode(&digits));
            }
            _ => return Err(format!("unknown request `{verb}`")),
        };
        while let Some(option) = words.pop_front() {
            match option {
                "over" => self.transport = transport(word(&mut words)?)?,
                "in" if words.pop_front() == Some("session") => options.is_in_session = true,
                "encrypted" => options.is_encrypted = true,
                "version" => options.version = Some(version(word(&mut words)?)?),
                flag if flag.starts_with('+') => {
                    options.add_flags |= op_flag(&flag[1..])?;
                }
                flag if flag.starts_with('-') => {
                    options.remove_flags |= op_flag(&flag[1..])?;
                }
                other => return Err(format!("unknown option `{other}`")),
            }
        }
        let bytes = self.client.request(&request, &options, self.now);
        self.send(bytes)
    }

    /// `respond secret SECRET as IDENTITY` or `respond key FILE as IDENTITY`
    fn respond_to_challenge(&mut self, words: &mut VecDeque<&str>) -> ScriptResult<()> {
        let (kind, key_name) = (word(words)?, word(words)?);
        if word(words)? != "as" {
            return Err("expected `as IDENTITY`".into());
        }
        let identity = word(words)?;
        let key;
        let client_key = match kind {
            "secret" => ClientKey::SecretKey(key_name.as_bytes()),
            "key" => {
                key = private_key(key_name).signing_key(&AwsLcProvider).map_err(|error| error.to_string())?;
                ClientKey::PrivateKey(&*key)
            }
            _ => return Err(format!("unknown key kind `{kind}`")),
        };
        let bytes =
            self.client.challenge_response(&client_key, identity, &self.last_response.clone(), self.now);
        self.send(bytes)
    }

    fn send(&mut self, bytes: Vec<u8>) -> ScriptResult<()> {
        let from = SocketAddr::from(([192, 0, 2, 7], 40_000));
        let mut received = Vec::new();
        match self.transport {
            Transport::Udp if Fragments::new(&bytes).is_ok() => {
                // In reverse: reassembly must not depend on the order.
                let datagrams: Vec<_> = Fragments::new(&bytes).map_err(|error| error.to_string())?.collect();
                for datagram in datagrams.iter().rev() {
                    received.extend(self.server.receive(datagram, Transport::Udp, from, self.now));
                }
            }
            transport => received = self.server.receive(&bytes, transport, from, self.now),
        }
        if self.transport == Transport::Udp {
            let mut reassembly = Reassembly::new();
            for datagram in received.iter().rev() {
                assert!(datagram.len() <= 512);
                let message =
                    reassembly.insert(self.now, from, datagram).map_err(|error| error.to_string())?;
                self.responses.extend(message.map(|message| message.into_owned()));
            }
        } else {
            self.responses.extend(received);
        }
        self.last_sent = bytes;
        Ok(())
    }

    fn expect(&mut self, expected: &str, below: &[(usize, &str)]) -> Result<(), StepError> {
        let here = |error: String| (None, error);
        if expected == "no-response" {
            return match self.responses.pop_front() {
                None => Ok(()),
                Some(_) => Err(here("unexpected response".into())),
            };
        }
        let response = self.responses.pop_front().ok_or_else(|| here("no response".into()))?;
        let (plain, protection) = self.client.open(&response);
        let message = Message::from_bytes(&plain).map_err(|error| here(error.to_string()))?;
        let mut actual = vec![message.header.response_code.to_string()];
        actual.extend(protection.into_iter().map(Into::into));
        let actual = actual.join(", ");
        if actual != expected {
            return Err(here(format!("expected `{expected}`, but got `{actual}`")));
        }
        let mut lines = response_lines(&message).into_iter();
        for (number, line) in below {
            let (line, actual) = (line.trim(), lines.next().unwrap_or_else(|| "no further line".into()));
            if line != actual {
                return Err((Some(*number), format!("expected `{line}`, but got `{actual}`")));
            }
        }
        if let (false, Some(more)) = (below.is_empty(), lines.next()) {
            return Err(here(format!("unexpected line `{more}`")));
        }
        drop(lines);
        self.last_response = plain;
        Ok(())
    }
}

/// Content of a response as lines of a script.
fn response_lines(message: &Message<'_>) -> Vec<String> {
    let MessageBody::Response(Response { data, .. }) = message.body else { return Vec::new() };
    match data {
        ResponseData::Resolved { values, .. } => values.iter().map(|value| value_line(&value)).collect(),
        ResponseData::Error { message: Some(message) } if !message.is_empty() => {
            vec![format!("message {}", String::from_utf8_lossy(message))]
        }
        ResponseData::Created { handle: Some(handle) } => vec![format!("handle {handle}")],
        _ => Vec::new(),
    }
}

fn value_line(value: &HandleValue<'_>) -> String {
    let suffix = if value.is_public() { "" } else { " (not public)" };
    format!("{} {} {}{suffix}", value.index, value.type_name(), String::from_utf8_lossy(&value.data))
}

/// `1 URL https://example.org/`, `301 HS_SECKEY secret (not public)`, `300 HS_PUBKEY file admpub.bin`
fn values(lines: &[(usize, &str)]) -> ScriptResult<Vec<HandleValue<'static>>> {
    let value = |line: &str| {
        let mut parts = line.trim().splitn(3, ' ');
        let (Some(index), Some(value_type), Some(data)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(format!("invalid value `{line}`"));
        };
        let (data, permissions) = match data.strip_suffix(" (not public)") {
            Some(data) => (data, ValuePermissions(0x0c)),
            None => (data, ValuePermissions::DEFAULT),
        };
        let data = match data.strip_prefix("file ") {
            Some(file) => private_key(&file.replace("pub", "priv"))
                .public_key()
                .map(|key: PublicKey<'_>| key.to_bytes()),
            None => match data.split_once(" times ") {
                Some((count, text)) => Some(text.repeat(number::<usize>(count)?).into_bytes()),
                None => Some(data.into()),
            },
        };
        let data = data.ok_or("no public key")?;
        Ok(HandleValue { permissions, ..HandleValue::with_data(number(index)?, value_type.to_owned(), data) })
    };
    lines.iter().map(|(_, line)| value(line)).collect()
}

fn word<'a>(words: &mut VecDeque<&'a str>) -> ScriptResult<&'a str> {
    words.pop_front().ok_or_else(|| "missing word".into())
}

fn number<T: std::str::FromStr>(text: &str) -> ScriptResult<T> {
    text.trim().parse().map_err(|_| format!("invalid number `{text}`"))
}

fn transport(word: &str) -> ScriptResult<Transport> {
    match word {
        "udp" => Ok(Transport::Udp),
        "tcp" => Ok(Transport::Tcp),
        "http" => Ok(Transport::Http),
        _ => Err(format!("unknown transport `{word}`")),
    }
}

fn version(word: &str) -> ScriptResult<ProtocolVersion> {
    let (major, minor) = word.split_once('.').ok_or("invalid version")?;
    Ok(ProtocolVersion::new(number(major)?, number(minor)?))
}

fn op_flag(name: &str) -> ScriptResult<OpFlags> {
    let found = OpFlags::MNEMONICS.iter().find(|(_, mnemonic)| *mnemonic == name);
    found.map(|(flag, _)| *flag).ok_or_else(|| format!("unknown flag `{name}`"))
}
