//! Reads a conversation and has it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use tendot_proto::auth::{Credentials, Group, SecretKeyMac};
use tendot_proto::crypto::AwsLc;
use tendot_proto::endpoint::Transport;
use tendot_proto::record::PublicKey;
use tendot_proto::{
    Body, Fragments, Message, Now, OpFlags, Outcome, Permissions, Reassembly, Response, Value, Version,
};

use super::client::{Ask, Client, Manner};
use super::private_key;
use super::server::{Server, folded};

type Outcomes<T> = Result<T, String>;

/// Has a conversation; an error tells the line and what was wrong there.
pub fn run(text: &str) -> Result<(), (usize, String)> {
    let mut talk = Talk {
        server: Server::new(),
        client: Client::new(),
        now: Now { elapsed: Duration::ZERO, unix: 1_800_000_000 },
        transport: Transport::Tcp,
        responses: VecDeque::new(),
        last_sent: Vec::new(),
        last_response: Vec::new(),
    };
    let lines: Vec<(usize, &str)> =
        text.lines().enumerate().map(|(number, line)| (number + 1, line)).collect();
    let mut at = 0;
    while let Some((number, line)) = lines.get(at) {
        at += 1;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let from = at;
        while lines.get(at).is_some_and(|(_, line)| line.starts_with("  ")) {
            at += 1;
        }
        talk.step(line, &lines[from..at]).map_err(|(below, why)| (below.unwrap_or(*number), why))?;
    }
    match talk.responses.is_empty() {
        true => Ok(()),
        false => Err((lines.len(), "the server said more than was expected".into())),
    }
}

struct Talk {
    server: Server,
    client: Client,
    now: Now,
    transport: Transport,
    /// What the server said and nobody has looked at.
    responses: VecDeque<Vec<u8>>,
    last_sent: Vec<u8>,
    last_response: Vec<u8>,
}

type StepError = (Option<usize>, String);

impl Talk {
    fn step(&mut self, line: &str, below: &[(usize, &str)]) -> Result<(), StepError> {
        let here = |why| (None, why);
        match line.split_once(' ').unwrap_or((line, "")) {
            ("record", handle) => {
                let values = values(below).map_err(here)?;
                self.server.records.insert(folded(handle), values);
                Ok(())
            }
            ("allow", weak) => self.allow(weak).map_err(here),
            ("wait", time) => {
                let seconds: u64 = number(time.trim_end_matches(" s")).map_err(here)?;
                self.now.elapsed += Duration::from_secs(seconds);
                self.now.unix += seconds;
                Ok(())
            }
            (">", request) => {
                if !self.responses.is_empty() {
                    return Err(here("the server said more than was expected".into()));
                }
                self.ask(request, below).map_err(here)
            }
            ("<", expected) => self.expect(expected, below),
            _ => Err(here(format!("`{line}` is no step"))),
        }
    }

    fn allow(&mut self, weak: &str) -> Outcomes<()> {
        let secret_keys = &mut self.server.policy.secret_keys;
        match weak {
            "HMAC-SHA1" => *secret_keys = secret_keys.with(SecretKeyMac::HmacSha1),
            "groups of 2048 bits and more" => self.server.policy.group_1024 = false,
            _ => return Err(format!("`{weak}` cannot be allowed")),
        }
        Ok(())
    }

    fn ask(&mut self, request: &str, below: &[(usize, &str)]) -> Outcomes<()> {
        let mut words: VecDeque<&str> = request.split(' ').collect();
        let verb = words.pop_front().unwrap_or_default();
        let mut manner = Manner::default();
        self.transport = Transport::Tcp;
        let ask = match verb {
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
                Ask::Resolve { handle, indexes, types }
            }
            "delete" => Ask::Delete { handle: word(&mut words)?.into() },
            "create" => Ask::Create { handle: word(&mut words)?.into(), values: values(below)? },
            "terminate" => Ask::Terminate,
            "session" => {
                let mut identity = None;
                let mut group = Group::Modp2048;
                while let Some(kind @ ("as" | "group")) = words.front().copied() {
                    words.pop_front();
                    match (kind, word(&mut words)?) {
                        ("as", by) => identity = Some(by.into()),
                        (_, "1024") => group = Group::Modp1024,
                        (_, other) => return Err(format!("no group of {other} bits")),
                    }
                }
                Ask::Session { identity, group }
            }
            "answer" => return self.answer(&mut words),
            "again" => {
                let bytes = self.last_sent.clone();
                return self.send(bytes);
            }
            "bytes" => {
                let hex: String = words.into_iter().collect();
                let pair = |at| u8::from_str_radix(&hex[at..at + 2], 16).map_err(|error| error.to_string());
                let bytes = (0..hex.len()).step_by(2).map(pair).collect::<Outcomes<_>>()?;
                return self.send(bytes);
            }
            _ => return Err(format!("nobody can `{verb}`")),
        };
        while let Some(word_) = words.pop_front() {
            match word_ {
                "over" => self.transport = transport(word(&mut words)?)?,
                "in" if words.pop_front() == Some("session") => manner.in_session = true,
                "encrypted" => manner.encrypted = true,
                "version" => manner.version = Some(version(word(&mut words)?)?),
                flag if flag.starts_with('+') => manner.add = manner.add.with(op_flag(&flag[1..])?),
                flag if flag.starts_with('-') => manner.remove = manner.remove.with(op_flag(&flag[1..])?),
                other => return Err(format!("`{other}` is not understood")),
            }
        }
        let bytes = self.client.ask(&ask, &manner, self.now);
        self.send(bytes)
    }

    /// `answer secret SECRET as IDENTITY` or `answer key FILE as IDENTITY`
    fn answer(&mut self, words: &mut VecDeque<&str>) -> Outcomes<()> {
        let (kind, what) = (word(words)?, word(words)?);
        if word(words)? != "as" {
            return Err("an answer is `as` somebody".into());
        }
        let identity = word(words)?;
        let key;
        let credentials = match kind {
            "secret" => Credentials::SecretKey(what.as_bytes()),
            "key" => {
                key = private_key(what).signing_key(&AwsLc).map_err(|error| error.to_string())?;
                Credentials::PrivateKey(&*key)
            }
            _ => return Err(format!("nobody answers by `{kind}`")),
        };
        let bytes = self.client.answer(&credentials, identity, &self.last_response.clone(), self.now);
        self.send(bytes)
    }

    fn send(&mut self, bytes: Vec<u8>) -> Outcomes<()> {
        let from = SocketAddr::from(([192, 0, 2, 7], 40_000));
        let mut received = Vec::new();
        match self.transport {
            Transport::Udp if Fragments::new(&bytes).is_ok() => {
                // The last first: nothing depends on their order.
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
                let whole = reassembly.insert(self.now, from, datagram).map_err(|error| error.to_string())?;
                self.responses.extend(whole.map(|whole| whole.into_owned()));
            }
        } else {
            self.responses.extend(received);
        }
        self.last_sent = bytes;
        Ok(())
    }

    fn expect(&mut self, expected: &str, below: &[(usize, &str)]) -> Result<(), StepError> {
        let here = |why: String| (None, why);
        if expected == "nothing" {
            return match self.responses.pop_front() {
                None => Ok(()),
                Some(_) => Err(here("the server said something".into())),
            };
        }
        let response = self.responses.pop_front().ok_or_else(|| here("the server said nothing".into()))?;
        let (plain, found) = self.client.take(&response);
        let message = Message::from_bytes(&plain).map_err(|error| here(error.to_string()))?;
        let mut said = vec![message.header.response_code.to_string()];
        said.extend(found.into_iter().map(Into::into));
        let said = said.join(", ");
        if said != expected {
            return Err(here(format!("expected `{expected}`, but got `{said}`")));
        }
        let mut lines = shown(&message).into_iter();
        for (number, line) in below {
            let (line, got) = (line.trim(), lines.next().unwrap_or_else(|| "nothing more".into()));
            if line != got {
                return Err((Some(*number), format!("expected `{line}`, but got `{got}`")));
            }
        }
        if let (false, Some(more)) = (below.is_empty(), lines.next()) {
            return Err(here(format!("`{more}` was not expected")));
        }
        drop(lines);
        self.last_response = plain;
        Ok(())
    }
}

/// What a response says, in the lines of a script.
fn shown(message: &Message<'_>) -> Vec<String> {
    let Body::Response(Response { outcome, .. }) = message.body else { return Vec::new() };
    match outcome {
        Outcome::Resolved { values, .. } => values.iter().map(|value| shown_value(&value)).collect(),
        Outcome::Failed { message: Some(message) } if !message.is_empty() => {
            vec![format!("message {}", String::from_utf8_lossy(message))]
        }
        Outcome::Created { handle: Some(handle) } => vec![format!("handle {handle}")],
        _ => Vec::new(),
    }
}

fn shown_value(value: &Value<'_>) -> String {
    let secret = if value.permissions.is_public() { "" } else { " (not public)" };
    format!("{} {} {}{secret}", value.index, value.type_name(), String::from_utf8_lossy(&value.data))
}

/// `1 URL https://example.org/`, `301 HS_SECKEY secret (not public)`, `300 HS_PUBKEY file admpub.bin`
fn values(lines: &[(usize, &str)]) -> Outcomes<Vec<Value<'static>>> {
    let value = |line: &str| {
        let mut parts = line.trim().splitn(3, ' ');
        let (Some(index), Some(value_type), Some(data)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(format!("`{line}` is no value"));
        };
        let (data, permissions) = match data.strip_suffix(" (not public)") {
            Some(data) => (data, Permissions(0x0c)),
            None => (data, Permissions::DEFAULT),
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
        Ok(Value { permissions, ..Value::with_data(number(index)?, value_type.to_owned(), data) })
    };
    lines.iter().map(|(_, line)| value(line)).collect()
}

fn word<'a>(words: &mut VecDeque<&'a str>) -> Outcomes<&'a str> {
    words.pop_front().ok_or_else(|| "a word is missing".into())
}

fn number<T: std::str::FromStr>(text: &str) -> Outcomes<T> {
    text.trim().parse().map_err(|_| format!("`{text}` is no number"))
}

fn transport(word: &str) -> Outcomes<Transport> {
    match word {
        "udp" => Ok(Transport::Udp),
        "tcp" => Ok(Transport::Tcp),
        "http" => Ok(Transport::Http),
        _ => Err(format!("nothing goes over `{word}`")),
    }
}

fn version(word: &str) -> Outcomes<Version> {
    let (major, minor) = word.split_once('.').ok_or("a version has a dot")?;
    Ok(Version::new(number(major)?, number(minor)?))
}

fn op_flag(name: &str) -> Outcomes<OpFlags> {
    let found = OpFlags::NAMES.iter().find(|(_, of)| *of == name);
    found.map(|(flag, _)| *flag).ok_or_else(|| format!("there is no flag `{name}`"))
}
