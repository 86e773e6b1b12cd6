//! `tendot resolve`: looks up one record over HTTP or the native protocol.
//!
//! In reading order:
//!
//! - `handle_input`: handle from a name in any written form
//! - `value_text`: one value as a line of text
//! - `explain`: `tendot explain`

pub(crate) mod explain;
pub(crate) mod handle_input;
pub(crate) mod value_text;

use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use handle_input::parse_handle_input;
use serde::Serialize;
use tendot_client::native::{NativeClient, ResolveError, ResolveOptions, RootSites, TransportAddress};
use tendot_client::{
    HttpUpstream, LookupOutcome, ResolveRequest, SignedRecordError, Upstream as _, verify_signed_record,
};
use tendot_proto::lookup::LookupConfig;
use tendot_proto::record::InterfaceProtocol;
use tendot_proto::trust::ValidSignature;
use tendot_proto::{Handle, HandleError, HandleValue, ResponseCode};
use tendot_registry::MAX_NAME_LEN;
use value_text::{format_timestamp, format_value};

use crate::key::{read_public_key_file, read_small_file, read_trust_anchors};
use crate::registry::server_from_environment;
use crate::terminal::{StdoutWriter, eprint_warning, escape_control, quote_input};
use crate::{CliError, CommandStatus, runtime};

/// Resolve a handle or DOI name and print its values
///
/// Without `--server` and TENDOT_SERVER, resolution starts at the root of the Handle System: it finds the service of the prefix, then
/// queries it for the name, over UDP, then TCP, then HTTP. The published root is built in; `--root` replaces it.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot resolve 10.1000/182
  tendot resolve --server http://127.0.0.1:8080 10.5555/1
  tendot resolve --server hdl://127.0.0.1:2641 --tcp --type URL 10.5555/1
  tendot resolve --json 10.1000/182 | jq -r '.values[].type'
  tendot resolve --require-signed --anchor rootpub.bin 10.5555/1
  tendot resolve --root siteinfo.json 10.5555/1

Exit codes: 0 success, 1 handle or value not found, 2 error, or the record is not trusted")]
pub(crate) struct ResolveArguments {
    /// Handle, or DOI name in any written form
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Query only this server: `http(s)://…` for the JSON API, `hdl://HOST[:PORT]` for the native protocol; `handle-system` begins
    /// at the root [env: TENDOT_SERVER] [default: handle-system]
    #[arg(long, value_name = "URL", help_heading = "Connection")]
    pub(crate) server: Option<String>,

    /// Use the root sites in this Handle.Net file (bootstrap_handles, siteinfo.json or root_info); private addresses are then
    /// allowed
    #[arg(long, value_name = "FILE", conflicts_with = "server", help_heading = "Connection")]
    pub(crate) root: Option<PathBuf>,

    /// Use UDP only; with `--tcp`, UDP and TCP
    #[arg(long, help_heading = "Connection")]
    pub(crate) udp: bool,

    /// Use TCP only
    #[arg(long, help_heading = "Connection")]
    pub(crate) tcp: bool,

    /// Return only values of this type; repeatable
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) types: Vec<String>,

    /// Return the value at this index, in addition to those of `--type`; repeatable
    #[arg(long = "index", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) indexes: Vec<u32>,

    /// Request an authoritative answer: bypass caches and query a primary site
    #[arg(long)]
    pub(crate) auth: bool,

    /// Require a signed record: each value must be covered by a valid HS_SIGNATURE whose signer has certificates (HS_CERT) up to
    /// a trust anchor
    #[arg(long, help_heading = "Trust")]
    pub(crate) require_signed: bool,

    /// Trust anchor for `--require-signed`: a public key, or a record or bootstrap_handles as JSON [default: the root of the
    /// Handle System]
    #[arg(long, value_name = "FILE", requires = "require_signed", help_heading = "Trust")]
    pub(crate) anchor: Option<PathBuf>,

    /// Require certified responses: signed by the server, at every step (native protocol)
    #[arg(long, help_heading = "Connection")]
    pub(crate) require_certified: bool,

    /// Public key of the `hdl://` server (pubkey.bin), for `--require-certified`
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub(crate) server_key: Option<PathBuf>,

    /// Trust the certificates in this PEM file instead of the public CAs (HTTPS)
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub(crate) ca_file: Option<PathBuf>,

    /// Print a JSON object: responseCode, handle, values, from, transport, signatures, duration_ms
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// Value of `--server` for resolution from the root, as of the setting `upstream`.
const HANDLE_SYSTEM: &str = "handle-system";

/// Port of the native protocol (RFC 3652, 2.1).
const HANDLE_PORT: u16 = 2641;

pub(crate) fn run(arguments: &ResolveArguments) -> Result<CommandStatus, CliError> {
    let name = parse_handle_input(&arguments.name)?;
    // A name without a slash is a prefix, which can be resolved, too.
    if let Err(error) = Handle::from(&*name).validate_for_create_up_to(MAX_NAME_LEN)
        && error != HandleError::MissingSlash
    {
        return Err(CliError::new(format!(
            "invalid name `{}`: {error}",
            quote_input(arguments.name.as_bytes())
        )));
    }
    let runtime = runtime::current_thread()?;
    let started = Instant::now();
    let server = selected_server(arguments);
    let ResolvedName { outcome, source, signatures } = match server.as_deref() {
        Some(server) if !server.starts_with("hdl://") => {
            runtime.block_on(resolve_http(server, &name, arguments))?
        }
        server => runtime.block_on(resolve_native(server, &name, arguments))?,
    };
    if outcome == LookupOutcome::NotResponsible {
        let server = source.map_or_else(|| "the server".to_owned(), |source| source.from);
        let why =
            format!("{server} is not responsible for `{}` (response code 301)", quote_input(name.as_bytes()));
        return Err(
            CliError::new(why).with_hint("use `--server handle-system` to find the responsible server")
        );
    }
    print_resolution(arguments, &name, &outcome, source.as_ref(), &signatures, started.elapsed())
}

/// Server to query: the flag, else `TENDOT_SERVER`; none to begin at the root.
fn selected_server(arguments: &ResolveArguments) -> Option<String> {
    let server = match (&arguments.server, &arguments.root) {
        (Some(server), _) => Some(server.clone()),
        (None, Some(_)) => None,
        (None, None) => server_from_environment(),
    };
    server.filter(|server| !server.is_empty() && server != HANDLE_SYSTEM)
}

/// Selected values of a record, the server that answered, and the valid signatures if they are required.
struct ResolvedName {
    outcome: LookupOutcome,
    source: Option<ResponseSource>,
    signatures: Vec<ValidSignature>,
}

/// Server and transport that answered.
struct ResponseSource {
    from: String,
    transport: String,
}

impl From<TransportAddress> for ResponseSource {
    fn from(server: TransportAddress) -> Self {
        let transport = server.transport.to_string().to_ascii_lowercase();
        Self { from: server.address.to_string(), transport }
    }
}

async fn resolve_http(
    server: &str,
    name: &str,
    arguments: &ResolveArguments,
) -> Result<ResolvedName, CliError> {
    if arguments.require_certified || arguments.udp || arguments.tcp || arguments.server_key.is_some() {
        let why = "`--require-certified`, `--udp`, `--tcp` and `--server-key` require the native protocol";
        return Err(CliError::new(why).with_hint("use `--server hdl://HOST:2641`"));
    }
    let mut upstream = HttpUpstream::new(server).map_err(|error| {
        CliError::new(error.to_string())
            .with_hint("expected a URL such as `http://127.0.0.1:8080` or `hdl://127.0.0.1:2641`")
    })?;
    if let Some(file) = &arguments.ca_file {
        if server.starts_with("http://") {
            return Err(CliError::new("`--ca-file` requires `--server https://…`"));
        }
        let certificates = read_small_file(file)?;
        upstream = upstream
            .with_ca_certificates(&certificates)
            .map_err(|error| CliError::new(format!("`{}`: {error}", file.display())))?;
    }
    let request =
        ResolveRequest { name: name.into(), is_authoritative: arguments.auth, ..ResolveRequest::default() };
    let reply = upstream.resolve(&request).await.map_err(|error| CliError::new(error.to_string()))?;
    let signatures = verify_signatures(name, &reply.outcome, arguments, |name| {
        let upstream = &upstream;
        async move {
            let request = ResolveRequest { name: name.into(), ..ResolveRequest::default() };
            let reply = upstream.resolve(&request).await.map_err(|error| error.to_string())?;
            Ok(reply.outcome)
        }
    });
    let signatures = signatures.await?;
    let transport = if server.starts_with("https") { "https" } else { "http" };
    let source = ResponseSource { from: server.to_owned(), transport: transport.to_owned() };
    Ok(ResolvedName { outcome: filter_values(reply.outcome, arguments), source: Some(source), signatures })
}

/// Verifies the signatures of a record if they are required; `lookup` resolves the records of certificates.
async fn verify_signatures<F>(
    name: &str,
    outcome: &LookupOutcome,
    arguments: &ResolveArguments,
    lookup: impl Fn(String) -> F + Sync,
) -> Result<Vec<ValidSignature>, CliError>
where
    F: Future<Output = Result<LookupOutcome, String>> + Send,
{
    let LookupOutcome::Values(values) = outcome else { return Ok(Vec::new()) };
    if !arguments.require_signed {
        return Ok(Vec::new());
    }
    let anchors = match &arguments.anchor {
        Some(file) => read_trust_anchors(file)?,
        None => RootSites::global_trust_anchors(),
    };
    let shown = quote_input(name.as_bytes());
    match verify_signed_record(name, values, &anchors, lookup).await {
        Ok(report) => {
            for rejected in &report.rejected {
                eprint_warning(&escape_control(&rejected.to_string()));
            }
            Ok(report.signatures)
        }
        Err(SignedRecordError::Untrusted(report)) => {
            let mut message = format!("the record of `{shown}` is not trusted");
            for fault in report.faults() {
                let _ = write!(message, "\n  {}", escape_control(&fault));
            }
            Err(CliError::new(message))
        }
        Err(error) => {
            let error = escape_control(&error.to_string());
            Err(CliError::new(format!("cannot verify the record of `{shown}`: {error}")))
        }
    }
}

/// Selects the values requested by `--type` and `--index`.
fn filter_values(outcome: LookupOutcome, arguments: &ResolveArguments) -> LookupOutcome {
    let LookupOutcome::Values(mut values) = outcome else { return outcome };
    if !arguments.types.is_empty() || !arguments.indexes.is_empty() {
        values.retain(|value| {
            arguments.indexes.contains(&value.index)
                || arguments.types.iter().any(|value_type| value.matches_type_filter(value_type.as_bytes()))
        });
    }
    if values.is_empty() { LookupOutcome::NoValues } else { LookupOutcome::Values(values) }
}

async fn resolve_native(
    server: Option<&str>,
    name: &str,
    arguments: &ResolveArguments,
) -> Result<ResolvedName, CliError> {
    if arguments.ca_file.is_some() {
        return Err(CliError::new("`--ca-file` requires `--server https://…`"));
    }
    let native = NativeClient::new(lookup_config(server, name, arguments)?);
    let query = ResolveOptions {
        // Signatures cover whole records.
        types: if arguments.require_signed { Vec::new() } else { arguments.types.clone() },
        indexes: if arguments.require_signed { Vec::new() } else { arguments.indexes.clone() },
        is_authoritative: arguments.auth,
    };
    let resolved = native.resolve(name, &query).await;
    if native.is_root_outdated() && arguments.root.is_none() && server.is_none() {
        eprint_warning("the built-in root is outdated; pass a newer one with `--root FILE`");
    }
    let resolution = resolved.map_err(|error| lookup_error(&error, arguments))?;
    let signatures = verify_signatures(name, &resolution.outcome, arguments, |name| async move {
        // A client that queries one server for one prefix needs another configuration for each name.
        let config = lookup_config(server, &name, arguments).map_err(|error| error.message().to_owned())?;
        let reply = NativeClient::new(config).resolve(&name, &ResolveOptions::default()).await;
        reply.map(|reply| reply.outcome).map_err(|error| error.to_string())
    });
    let signatures = signatures.await?;
    let outcome = if arguments.require_signed {
        filter_values(resolution.outcome, arguments)
    } else {
        resolution.outcome
    };
    Ok(ResolvedName { outcome, source: resolution.server.map(ResponseSource::from), signatures })
}

fn lookup_config(
    server: Option<&str>,
    name: &str,
    arguments: &ResolveArguments,
) -> Result<LookupConfig, CliError> {
    let mut config = match (server, &arguments.root) {
        (Some(server), _) => {
            let key = arguments.server_key.as_deref().map(read_public_key_file).transpose()?;
            if arguments.require_certified && key.is_none() {
                let why = "`--require-certified` with `--server` requires the server's public key";
                return Err(CliError::new(why).with_hint("use `--server-key pubkey.bin`"));
            }
            RootSites::from_addresses(&server_addresses(server)?, key.as_ref())
                .into_direct_config(Handle::from(name))
        }
        (None, _) if arguments.server_key.is_some() => {
            return Err(CliError::new("`--server-key` requires `--server hdl://HOST`"));
        }
        (None, Some(file)) => {
            let path = file.display();
            let bytes =
                fs::read(file).map_err(|error| CliError::io(format!("cannot read `{path}`"), &error))?;
            let root = RootSites::from_bytes(&bytes)
                .map_err(|error| CliError::new(format!("invalid root file `{path}`: {error}")))?;
            // A root given on the command line is trusted to refer to private addresses.
            LookupConfig { allow_private_addresses: true, ..root.into_config() }
        }
        (None, None) => RootSites::global_registry().into_config(),
    };
    config.require_signatures = arguments.require_certified;
    if arguments.udp || arguments.tcp {
        let allowed = [(arguments.udp, InterfaceProtocol::UDP), (arguments.tcp, InterfaceProtocol::TCP)];
        config.transports =
            allowed.iter().filter(|(is_allowed, _)| *is_allowed).map(|(_, transport)| *transport).collect();
    }
    Ok(config)
}

/// Socket addresses of `hdl://HOST[:PORT]`.
pub(crate) fn server_addresses(server: &str) -> Result<Vec<SocketAddr>, CliError> {
    let host = server.strip_prefix("hdl://").unwrap_or(server).trim_end_matches('/');
    let has_port = host.rsplit_once(':').is_some_and(|(before, port)| {
        port.parse::<u16>().is_ok() && (!before.contains(':') || before.ends_with(']'))
    });
    let host = if has_port { host.to_owned() } else { format!("{host}:{HANDLE_PORT}") };
    let addresses = host.to_socket_addrs().map_err(|error| {
        CliError::io(format_args!("cannot resolve host `{}`", quote_input(server.as_bytes())), &error)
            .with_hint("expected a URL such as `hdl://127.0.0.1:2641` or `hdl://[::1]:2641`")
    })?;
    Ok(addresses.collect())
}

/// Error message of a failed lookup, with one line per attempt.
fn lookup_error(error: &ResolveError, arguments: &ResolveArguments) -> CliError {
    let name = quote_input(arguments.name.as_bytes());
    let mut message = format!("cannot resolve `{name}`: ");
    match error {
        ResolveError::Lookup(error) => {
            let requested = parse_handle_input(&arguments.name).unwrap_or_default();
            if !Handle::new(&error.handle).eq_ignore_case(Handle::from(&*requested)) {
                let _ = write!(message, "{}: ", quote_input(&error.handle));
            }
            let _ = write!(message, "{}", error.kind);
            for attempt in &error.attempts {
                let _ = write!(message, "\n  {attempt}");
            }
        }
        error => message.push_str(&escape_control(&error.to_string())),
    }
    let failure = CliError::new(message);
    match (error, &arguments.server) {
        (ResolveError::Lookup(_), None) => {
            failure.with_hint("try `--server https://doi.org` (HTTP), or another root with `--root FILE`")
        }
        _ => failure,
    }
}

#[derive(Serialize)]
struct ResolutionJson<'a> {
    #[serde(rename = "responseCode")]
    code: u32,
    handle: &'a str,
    values: &'a [HandleValue<'static>],
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    signatures: Vec<SignatureJson>,
    duration_ms: u64,
}

/// Valid signature of the record.
#[derive(Serialize)]
struct SignatureJson {
    index: u32,
    signed_by: String,
    chain: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_until: Option<String>,
}

impl SignatureJson {
    fn new(signature: &ValidSignature) -> Self {
        let mut chain = signature.chain.iter().map(ToString::to_string);
        Self {
            index: signature.index,
            signed_by: chain.next().unwrap_or_default(),
            chain: chain.collect(),
            valid_until: signature.expires_at.map(format_expiry),
        }
    }
}

/// Expiration as RFC 3339.
fn format_expiry(seconds: u64) -> String {
    format_timestamp(u32::try_from(seconds).unwrap_or(u32::MAX))
}

fn print_resolution(
    arguments: &ResolveArguments,
    name: &str,
    outcome: &LookupOutcome,
    source: Option<&ResponseSource>,
    signatures: &[ValidSignature],
    duration: Duration,
) -> Result<CommandStatus, CliError> {
    let (code, values): (_, &[_]) = match outcome {
        LookupOutcome::Values(values) => (ResponseCode::SUCCESS, values),
        LookupOutcome::NoValues => (ResponseCode::VALUES_NOT_FOUND, &[]),
        LookupOutcome::NotFound | LookupOutcome::NotResponsible => (ResponseCode::HANDLE_NOT_FOUND, &[]),
    };
    let mut output = StdoutWriter::new();
    if arguments.json {
        output.write_json(&ResolutionJson {
            code: code.0,
            handle: name,
            values,
            from: source.map(|source| &*source.from),
            transport: source.map(|source| &*source.transport),
            signatures: signatures.iter().map(SignatureJson::new).collect(),
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        })?;
    } else if !values.is_empty() {
        output.write_line(escape_control(name))?;
        if let Some(ResponseSource { from, transport }) = source {
            let milliseconds = duration.as_millis();
            output.write_line(format_args!(
                "  from {} over {}, {milliseconds} ms",
                escape_control(from),
                transport.to_ascii_uppercase()
            ))?;
        }
        for SignatureJson { signed_by, valid_until, .. } in signatures.iter().map(SignatureJson::new) {
            let until = valid_until.map(|date| format!(", valid until {date}")).unwrap_or_default();
            output.write_line(escape_control(&format!("  signed by {signed_by}{until}")))?;
        }
        for value in values {
            output.write_line(escape_control(&format_value(value)?))?;
        }
    }
    output.flush()?;
    let name = quote_input(name.as_bytes());
    Ok(match outcome {
        LookupOutcome::Values(_) => CommandStatus::Success,
        LookupOutcome::NoValues => {
            CliError::new(format!("`{name}` has no matching public value (response code 200)")).print();
            CommandStatus::Negative
        }
        LookupOutcome::NotFound | LookupOutcome::NotResponsible => {
            let why = match source {
                Some(_) => format!("handle not found: `{name}` (response code 100)"),
                None => format!("handle not found: `{name}`: no site for its prefix (response code 100)"),
            };
            let hint = format!("run `tendot name '{name}'` to see how the name is parsed");
            CliError::new(why).with_hint(hint).print();
            CommandStatus::Negative
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_server_addresses() {
        let check = |server: &str, expected: &str| {
            assert_eq!(server_addresses(server).unwrap()[0].to_string(), expected, "{server}");
        };
        check("hdl://127.0.0.1", "127.0.0.1:2641");
        check("hdl://127.0.0.1/", "127.0.0.1:2641");
        check("hdl://127.0.0.1:99", "127.0.0.1:99");
        check("hdl://[::1]:99", "[::1]:99");
        check("hdl://[::1]", "[::1]:2641");
        for wrong in ["hdl://", "hdl://127.0.0.1:99999", "hdl://a b", "hdl://[::1"] {
            assert!(server_addresses(wrong).is_err(), "{wrong}");
        }
    }
}
