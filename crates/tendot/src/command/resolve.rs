//! `tendot resolve`

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use tendot_client::native::{NativeClient, ResolveError, TransportAddress, ResolveOptions, RootSites};
use tendot_client::{LookupOutcome, HttpUpstream, ResolveRequest, Upstream as _};
use tendot_names::Parser;
use tendot_proto::lookup::Config;
use tendot_proto::record::{PublicKey, Transport};
use tendot_proto::{Handle, HandleError, ResponseCode, Value};
use tokio::runtime::Builder;

use super::debug::shown_value;
use crate::args::ResolveArguments;
use crate::failure::{escaped, shown, tell_warning};
use crate::output::Output;
use crate::{Answer, Failure};

/// The port of the Handle System (RFC 3652, 2.1).
const HANDLE_PORT: u16 = 2641;

pub(crate) fn run(arguments: &ResolveArguments) -> Result<Answer, Failure> {
    let name = name_in(&arguments.name);
    // A name without a slash is a prefix.
    if let Err(error) = Handle::from(&*name).check()
        && error != HandleError::NoSlash
    {
        return Err(Failure::new(format!("`{}` is no name: {error}", shown(arguments.name.as_bytes()))));
    }
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("nobody can be asked", &error))?;
    let started = Instant::now();
    let (found, from) = match arguments.server.as_deref() {
        Some(server) if !server.starts_with("hdl://") => {
            runtime.block_on(over_http(server, &name, arguments))?
        }
        server => runtime.block_on(resolve_native(server, &name, arguments))?,
    };
    if found == LookupOutcome::NotKept {
        let from = from.map_or_else(String::new, |source| format!("{} says that ", source.from));
        let why = format!("{from}names like `{}` are not kept there (code 301)", shown(name.as_bytes()));
        return Err(Failure::new(why).hint("without `--server` it is found out who keeps the name"));
    }
    print(arguments, &name, &found, &from, started.elapsed())
}

/// The handle in a written form. What is no DOI name is a handle as it is.
pub(super) fn name_in(text: &str) -> Cow<'_, str> {
    if let Ok(reading) = Parser::lenient().parse(text) {
        return Cow::Owned(reading.into_identifier().as_str().to_owned());
    }
    let forms = ["hdl:", "info:hdl/", "https://hdl.handle.net/", "http://hdl.handle.net/"];
    let text = text.trim();
    let without = |form: &&str| {
        let (start, rest) = text.split_at_checked(form.len())?;
        start.eq_ignore_ascii_case(form).then_some(rest)
    };
    Cow::Borrowed(forms.iter().find_map(without).unwrap_or(text))
}

/// Who answered, and how.
struct Source {
    from: String,
    transport: String,
}

impl From<TransportAddress> for Source {
    fn from(origin: TransportAddress) -> Self {
        let transport = origin.transport.to_string().to_ascii_lowercase();
        Self { from: origin.address.to_string(), transport }
    }
}

async fn over_http(
    server: &str,
    name: &str,
    arguments: &ResolveArguments,
) -> Result<(LookupOutcome, Option<Source>), Failure> {
    if arguments.certified || arguments.udp || arguments.tcp || arguments.server_key.is_some() {
        let why = "`--certified`, `--udp`, `--tcp` and `--server-key` belong to the native protocol";
        return Err(Failure::new(why).hint("a server is asked in it as `--server hdl://HOST:2641`"));
    }
    let upstream = HttpUpstream::new(server).map_err(|error| {
        Failure::new(error.to_string()).hint("such as `http://127.0.0.1:8080` or `hdl://127.0.0.1:2641`")
    })?;
    let question = ResolveRequest { name: name.into(), is_authoritative: arguments.auth, ..ResolveRequest::default() };
    let reply = upstream.reply(&question).await.map_err(|error| Failure::new(error.to_string()))?;
    let transport = if server.starts_with("https") { "https" } else { "http" };
    let source = Source { from: server.to_owned(), transport: transport.to_owned() };
    Ok((selected(reply.found, arguments), Some(source)))
}

/// The values that were asked for, of a whole record.
fn selected(found: LookupOutcome, arguments: &ResolveArguments) -> LookupOutcome {
    let LookupOutcome::Values(mut values) = found else { return found };
    if !arguments.types.is_empty() || !arguments.indexes.is_empty() {
        values.retain(|value| {
            arguments.indexes.contains(&value.index)
                || arguments.types.iter().any(|asked| value.matches_type_filter(asked.as_bytes()))
        });
    }
    if values.is_empty() { LookupOutcome::NoValues } else { LookupOutcome::Values(values) }
}

async fn resolve_native(
    server: Option<&str>,
    name: &str,
    arguments: &ResolveArguments,
) -> Result<(LookupOutcome, Option<Source>), Failure> {
    let native = NativeClient::new(config(server, name, arguments)?);
    let query = ResolveOptions {
        types: arguments.types.clone(),
        indexes: arguments.indexes.clone(),
        is_authoritative: arguments.auth,
    };
    let resolved = native.resolve(name, &query).await;
    if native.is_root_outdated() && arguments.root.is_none() && server.is_none() {
        tell_warning("the root has changed since this program was made; `--root FILE` takes a newer one");
    }
    let resolution = resolved.map_err(|error| unanswered(&error, arguments))?;
    Ok((resolution.found, resolution.from.map(Source::from)))
}

fn config(server: Option<&str>, name: &str, arguments: &ResolveArguments) -> Result<Config, Failure> {
    let mut config = match (server, &arguments.root) {
        (Some(server), _) => {
            let key = arguments.server_key.as_deref().map(public_key).transpose()?;
            if arguments.certified && key.is_none() {
                let why = "`--certified` needs the key of the server, and an address does not tell it";
                return Err(Failure::new(why).hint("`--server-key pubkey.bin`"));
            }
            RootSites::from_addresses(&addresses(server)?, key.as_ref()).into_direct_config(Handle::from(name))
        }
        (None, Some(file)) => {
            let bytes = fs::read(file).map_err(|error| Failure::io(file.display(), &error))?;
            let root = RootSites::from_bytes(&bytes)
                .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
            // Who names a root trusts it.
            Config { private_addresses: true, ..root.into_config() }
        }
        (None, None) => RootSites::global_registry().into_config(),
    };
    config.certify = arguments.certified;
    if arguments.udp || arguments.tcp {
        let allowed = [(arguments.udp, Transport::UDP), (arguments.tcp, Transport::TCP)];
        config.transports = allowed.iter().filter(|(is, _)| *is).map(|(_, transport)| *transport).collect();
    }
    Ok(config)
}

fn public_key(file: &Path) -> Result<PublicKey<'static>, Failure> {
    let bytes = fs::read(file).map_err(|error| Failure::io(file.display(), &error))?;
    let key = PublicKey::from_bytes(&bytes).map(PublicKey::into_owned);
    key.map_err(|error| Failure::new(format!("{} is no public key: {error}", file.display())))
}

/// The addresses behind `hdl://HOST[:HANDLE_PORT]`.
fn addresses(server: &str) -> Result<Vec<SocketAddr>, Failure> {
    let host = server.strip_prefix("hdl://").unwrap_or(server).trim_end_matches('/');
    let has_port = host.rsplit_once(':').is_some_and(|(before, port)| {
        port.parse::<u16>().is_ok() && (!before.contains(':') || before.ends_with(']'))
    });
    let host = if has_port { host.to_owned() } else { format!("{host}:{HANDLE_PORT}") };
    let found = host.to_socket_addrs().map_err(|error| {
        Failure::io(format_args!("`{}` can't be asked", shown(server.as_bytes())), &error)
            .hint("such as `hdl://127.0.0.1:2641` or `hdl://[::1]:2641`")
    })?;
    Ok(found.collect())
}

/// Why there is no answer, with each attempt on a line of its own.
fn unanswered(error: &ResolveError, arguments: &ResolveArguments) -> Failure {
    let name = shown(arguments.name.as_bytes());
    let mut message = format!("`{name}` could not be resolved: ");
    match error {
        ResolveError::Lookup(error) => {
            if !Handle::new(&error.handle).is_same(Handle::from(&*name_in(&arguments.name))) {
                let _ = write!(message, "{}: ", shown(&error.handle));
            }
            let _ = write!(message, "{}", error.kind);
            for attempt in &error.attempts {
                let _ = write!(message, "\n  {attempt}");
            }
        }
        error => message.push_str(&escaped(&error.to_string())),
    }
    let failure = Failure::new(message);
    match (error, &arguments.server) {
        (ResolveError::Lookup(_), None) => {
            failure.hint("`--server https://doi.org` asks over HTTP, `--root FILE` begins elsewhere")
        }
        _ => failure,
    }
}

#[derive(Serialize)]
struct Described<'a> {
    #[serde(rename = "responseCode")]
    code: u32,
    handle: &'a str,
    values: &'a [Value<'static>],
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'a str>,
    duration_ms: u64,
}

fn print(
    arguments: &ResolveArguments,
    name: &str,
    found: &LookupOutcome,
    source: &Option<Source>,
    took: Duration,
) -> Result<Answer, Failure> {
    let (code, values): (_, &[_]) = match found {
        LookupOutcome::Values(values) => (ResponseCode::SUCCESS, values),
        LookupOutcome::NoValues => (ResponseCode::VALUES_NOT_FOUND, &[]),
        LookupOutcome::Nothing | LookupOutcome::NotKept => (ResponseCode::HANDLE_NOT_FOUND, &[]),
    };
    let mut output = Output::new();
    if arguments.json {
        output.json(&Described {
            code: code.0,
            handle: name,
            values,
            from: source.as_ref().map(|source| &*source.from),
            transport: source.as_ref().map(|source| &*source.transport),
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        })?;
    } else if !values.is_empty() {
        output.line(escaped(name))?;
        if let Some(Source { from, transport }) = source {
            let took = took.as_millis();
            output.line(format_args!(
                "  from {} over {}, {took} ms",
                escaped(from),
                transport.to_ascii_uppercase()
            ))?;
        }
        for value in values {
            output.line(escaped(&shown_value(value)?))?;
        }
    }
    output.flush()?;
    let name = shown(name.as_bytes());
    Ok(match found {
        LookupOutcome::Values(_) => Answer::Yes,
        LookupOutcome::NoValues => {
            Failure::new(format!("the record of `{name}` has no such value for everybody (code 200)")).tell();
            Answer::No
        }
        LookupOutcome::Nothing | LookupOutcome::NotKept => {
            let why = match source {
                Some(_) => format!("no record for `{name}` (handle not found, code 100)"),
                None => format!("no record for `{name}`: nobody keeps names of its prefix (code 100)"),
            };
            let hint = format!("`tendot name '{name}'` shows how the name is read");
            Failure::new(why).hint(hint).tell();
            Answer::No
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let check = |text: &str, name: &str| assert_eq!(name_in(text), name, "{text}");
        check("10.1000/182", "10.1000/182");
        check("https://doi.org/10.1000%2F182", "10.1000/182");
        check("doi:10.1000/ABC", "10.1000/ABC");
        check("hdl:20.500.1/x", "20.500.1/x");
        check("https://hdl.handle.net/20.500.1/x", "20.500.1/x");
        check("0.NA/10.1000", "0.NA/10.1000");
        check("0.NA/0.NA", "0.NA/0.NA");
        check("20.500.1/a%20b", "20.500.1/a%20b");
    }

    #[test]
    fn hosts() {
        let check = |server: &str, expected: &str| {
            assert_eq!(addresses(server).unwrap()[0].to_string(), expected, "{server}");
        };
        check("hdl://127.0.0.1", "127.0.0.1:2641");
        check("hdl://127.0.0.1/", "127.0.0.1:2641");
        check("hdl://127.0.0.1:99", "127.0.0.1:99");
        check("hdl://[::1]:99", "[::1]:99");
        check("hdl://[::1]", "[::1]:2641");
        for wrong in ["hdl://", "hdl://127.0.0.1:99999", "hdl://a b", "hdl://[::1"] {
            assert!(addresses(wrong).is_err(), "{wrong}");
        }
    }
}
