//! `tendot serve`: starts the HTTP and native servers, waits for a signal, and drains in-flight requests.
//!
//! `listeners.rs` binds the sockets or takes those of `systemd.rs`; `operator_token.rs`, `database_status.rs` and `log.rs`
//! are parts of the running server; `demo.rs` loads demo records.

mod database_status;
mod demo;
mod listeners;
mod log;
mod operator_token;
mod systemd;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use demo::load_demo;
use listeners::{http_listeners, native_sockets};
use log::LogWriter;
use operator_token::read_or_create;
use serde::Serialize;
use systemd::InheritedSockets;
use tendot_registry::{Registry, RegistrySettings};
use tendot_server::ResolutionCounter;
use tendot_server::http::{self, HttpServer, ServerCertificate};
use tendot_server::native::{self, NativeServer, OwnSite, SitePeerClient};
use tendot_store::{AnyStore, EmbeddedStore, MemoryStore};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::cli::ConfigSourceArguments;
use crate::config::{ServerSettings, StoreSetting, load_settings_with};
use crate::site::{PublishedEndpoints, load_combined_site, load_or_create_site};
use crate::store::{open_error, open_postgres};
use crate::terminal::{StdoutWriter, eprint_line};
use crate::{CliError, CommandStatus};

/// Run the server
///
/// Serves redirects at `/NAME`, records as JSON at `/api/handles/NAME`, the registry API at `/api/v1`, pages, and the
/// native protocol. The first start creates the operator token, in `operator.token` in the data directory. SIGTERM drains
/// in-flight requests; SIGHUP reloads the TLS certificate. Settings come from a file, environment variables and flags; see
/// `tendot config show`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot serve --demo
  tendot serve --data /var/lib/tendot --http [::]:8080
  tendot serve --config /etc/tendot.toml --set log.requests=true
  curl -H \"Authorization: Bearer $(cat tendot-data/operator.token)\" -H 'Content-Type: application/json' \\
    -X PUT -d '[{\"index\":1,\"type\":\"URL\",\"data\":\"https://example.org/\"}]' \\
    http://127.0.0.1:8080/api/handles/10.5555/1

Exit codes: 0 success (terminated by a signal), 2 error")]
pub(crate) struct ServeArguments {
    /// Data directory: embedded store, operator token, server key, site record [default: tendot-data]
    #[arg(long, value_name = "DIR", help_heading = "Store")]
    pub(crate) data: Option<String>,

    /// Store: `embedded:DIR`, `postgres://user@host/database` or `memory:` [default: embedded:]
    #[arg(long, value_name = "URL", help_heading = "Store")]
    pub(crate) store: Option<String>,

    /// HTTP address, or `off` [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,

    /// HTTPS address, or `off` [default: off]
    #[arg(long, value_name = "ADDR")]
    pub(crate) https: Option<String>,

    /// Address of the native protocol (TCP and UDP), or `off` [default: 127.0.0.1:2641]
    #[arg(long, value_name = "ADDR")]
    pub(crate) native: Option<String>,

    #[command(flatten)]
    pub(crate) configuration: ConfigSourceArguments,

    /// Load demo records
    #[arg(long)]
    pub(crate) demo: bool,

    /// Print the addresses as JSON when ready
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct ReadyJson<'a> {
    ready: &'a [String],
}

pub(crate) fn run(arguments: &ServeArguments) -> Result<CommandStatus, CliError> {
    let settings = load_settings(arguments)?;
    let log = LogWriter::install(settings.log_format, settings.log_level)?;
    settings.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::io("cannot start the async runtime", &error))?;
    let result = runtime.block_on(async {
        let (store, token) = open_store(&settings).await?;
        serve(arguments, &settings, &log, store, token).await
    });
    log.flush();
    result
}

/// Opens the configured store, and reads or creates the operator token in the data directory.
async fn open_store(settings: &ServerSettings) -> Result<(AnyStore, Option<String>), CliError> {
    let token = |directory: &Path| read_or_create(&directory.join("operator.token")).map(Some);
    match (&settings.store, settings.data_dir()) {
        (StoreSetting::Memory, _) | (_, None) => Ok((MemoryStore::new().into(), None)),
        (StoreSetting::Embedded(_), Some(directory)) => {
            let store = EmbeddedStore::open(&directory).map_err(|error| open_error(&error))?;
            Ok((store.into(), token(&directory)?))
        }
        (StoreSetting::Postgres(address), Some(directory)) => {
            let store = open_postgres(address, &settings.postgres()).await?;
            std::fs::create_dir_all(&directory)
                .map_err(|error| CliError::io(format!("cannot create `{}`", directory.display()), &error))?;
            Ok((store.into(), token(&directory)?))
        }
    }
}

fn load_settings(arguments: &ServeArguments) -> Result<ServerSettings, CliError> {
    let flags = [
        ("native.address", "--native", &arguments.native),
        ("data", "--data", &arguments.data),
        ("store", "--store", &arguments.store),
        ("http.address", "--http", &arguments.http),
        ("https.address", "--https", &arguments.https),
    ];
    let given_flags: Vec<_> =
        flags.into_iter().filter_map(|(key, flag, text)| Some((key, flag, text.clone()?))).collect();
    load_settings_with(&arguments.configuration, &given_flags)
}

async fn serve(
    arguments: &ServeArguments,
    settings: &ServerSettings,
    log: &LogWriter,
    store: AnyStore,
    token: Option<String>,
) -> Result<CommandStatus, CliError> {
    if arguments.demo {
        load_demo(&store).await?;
    }
    let tls = match (&settings.certificate, &settings.key) {
        (Some(certificate), Some(key)) => {
            let loaded = ServerCertificate::load(certificate, key);
            let with_client_auth = |tls: ServerCertificate| {
                if settings.client_certificates { tls.request_client_certificates() } else { Ok(tls) }
            };
            Some(Arc::new(
                loaded.and_then(with_client_auth).map_err(|error| CliError::new(error.to_string()))?,
            ))
        }
        _ => None,
    };
    let log_writer = log.clone();
    let InheritedSockets { http: inherited, native_tcp, native_udp } = systemd::inherited_sockets()
        .map_err(|error| CliError::io("cannot use the socket passed by systemd", &error))?;
    let (listeners, mut addresses) = http_listeners(settings, tls.as_ref(), inherited).await?;
    let sockets = native_sockets(settings, native_tcp, native_udp)?;
    let native_address = sockets.as_ref().map(|(address, _)| *address);
    let site = load_site(settings, native_address, &addresses)?;
    let database_hosts = match &store {
        AnyStore::Postgres(store) => Some(store.hosts_handle()),
        _ => None,
    };
    let registry = Arc::new(build_registry(settings, store, site.as_ref()));
    let (counter, maintenance_task) = settings.maintenance();
    let counter = Arc::new(counter);
    let native = sockets.zip(site).map(|((address, sockets), site)| {
        (address, sockets, Arc::new(build_native_server(settings, &registry, &counter, site)))
    });
    let mut http = HttpServer::new(Arc::clone(&registry));
    if let Some(hosts) = database_hosts {
        http = database_status::register_database_status(http, &hosts);
    }
    http = http
        .resolution_counter(Arc::clone(&counter))
        .proxy_trust(settings.proxy_trust())
        .body_timeout(settings.body_timeout)
        .reverse_lookup_timeout(settings.reverse_lookup_timeout)
        .response_cache_size(settings.http_response_cache.bytes(&settings.store))
        .metrics_allow(settings.metrics_allow.clone())
        .log_requests(settings.log_requests)
        .external_counter(
            "tendot_log_dropped",
            "Log lines dropped because the queue was full or stderr failed.",
            move || Some(log_writer.dropped() as f64),
        );
    if let Some(upstream) = settings.upstream.0.clone() {
        http = http.upstream(upstream, settings.cache());
    }
    if let Some(rates) = settings.rate_limits() {
        http = http.rate_limits(rates);
    }
    if let Some(tls) = tls.clone() {
        let name = "tendot_tls_certificate_expiry_timestamp_seconds";
        http = http.external_gauge(name, "Expiry time of the TLS certificate (Unix time).", move || {
            tls.not_after().map(|end| end as f64)
        });
    }
    if let Some(token) = token {
        http = http.operator_token(token);
    }
    if let Some((address, _, native)) = &native {
        http = http.native_server(Arc::clone(native));
        addresses.push(format!("hdl://{address}/"));
    }
    if addresses.is_empty() {
        let hint = "set `--http ADDR`, `--https ADDR` or `--native ADDR`";
        return Err(CliError::new("all listeners are disabled").with_hint(hint));
    }
    let http = Arc::new(http);
    let signal =
        shutdown_signal(tls).map_err(|error| CliError::io("cannot install signal handlers", &error))?;
    http.set_ready(true);
    eprint_line(format_args!("ready: {}", addresses.join(" ")));
    if arguments.json {
        let mut output = StdoutWriter::new();
        output.write_json(&ReadyJson { ready: &addresses })?;
        output.flush()?;
    }
    systemd::notify("READY=1");
    let (shutdown_tx, shutdown_rx) = watch::channel(false);
    let shutdown = || {
        let mut shutdown_rx = shutdown_rx.clone();
        async move { drop(shutdown_rx.wait_for(|is_shutdown| *is_shutdown).await) }
    };
    let (http_shutdown, native_shutdown) = (shutdown(), shutdown());
    let native_server = async {
        let Some((_, sockets, native)) = native else { return Ok(()) };
        let listened = native::serve(sockets, native, settings.native_limits(), native_shutdown).await;
        listened.inspect_err(|error| tracing::error!(%error, "native listener failed"))
    };
    let wait = async {
        signal.await;
        systemd::notify("STOPPING=1");
        tracing::info!("draining in-flight requests");
        let _ = shutdown_tx.send(true);
    };
    let http = http::serve(listeners, http, settings.limits(), http_shutdown);
    let (served_tx, served_rx) = oneshot::channel::<()>();
    let served = async {
        let served = tokio::join!(http, native_server, wait);
        drop(served_tx);
        served
    };
    // Runs until the servers have drained, so that the last requests are counted.
    let maintenance = maintenance_task.run(&registry, &counter, async { drop(served_rx.await) });
    let ((http, native, ()), ()) = tokio::join!(served, maintenance);
    http.and(native).map_err(|error| CliError::io("listener failed", &error))?;
    Ok(CommandStatus::Success)
}

/// Site of this server; without the native protocol only if it is one of several servers of a site.
fn load_site(
    settings: &ServerSettings,
    native: Option<SocketAddr>,
    addresses: &[String],
) -> Result<Option<OwnSite>, CliError> {
    let (directory, site_file) = (settings.data_dir(), settings.site_file.as_deref());
    let Some(native) = native else {
        return directory
            .zip(site_file)
            .map(|(directory, site_file)| load_combined_site(&directory, site_file))
            .transpose();
    };
    let http = addresses.iter().find_map(|address| address.strip_prefix("http://"));
    let endpoints = PublishedEndpoints {
        native,
        public_ip: settings.public_address,
        http: http
            .and_then(|http| http.trim_end_matches('/').parse::<SocketAddr>().ok())
            .map(|http| http.port()),
        description: &settings.description,
    };
    load_or_create_site(directory.as_deref(), &endpoints, site_file).map(Some)
}

/// Registry, with a client for the other servers of the site if there are any.
fn build_registry(settings: &ServerSettings, store: AnyStore, site: Option<&OwnSite>) -> Registry {
    let partition = site.and_then(OwnSite::partition);
    let registry = Registry::new(store, RegistrySettings { partition, ..settings.registry() });
    match site.filter(|_| partition.is_some()) {
        Some(site) => registry.with_site_peers(Arc::new(SitePeerClient::new(site.site().clone()))),
        None => registry,
    }
}

/// Server of the native protocol.
fn build_native_server(
    settings: &ServerSettings,
    registry: &Arc<Registry>,
    counter: &Arc<ResolutionCounter>,
    site: OwnSite,
) -> NativeServer {
    let mut native = NativeServer::new(Arc::clone(registry), site)
        .allow_dh_1024(settings.allow_dh_1024)
        .resolution_counter(Arc::clone(counter))
        .response_cache_size(settings.native_response_cache.bytes(&settings.store))
        .log_requests(settings.log_requests);
    if let Some(rates) = settings.native_rate_limits() {
        native = native.rate_limits(rates);
    }
    native
}

/// Completes on SIGTERM or SIGINT. SIGHUP reloads the certificate.
fn shutdown_signal(tls: Option<Arc<ServerCertificate>>) -> io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = interrupt.recv() => return,
                _ = hangup.recv() => match tls.as_ref().map(|tls| tls.reload()) {
                    Some(Ok(())) => tracing::info!("TLS certificate reloaded"),
                    Some(Err(error)) => tracing::error!(%error, "TLS certificate not reloaded; keeping the current one"),
                    None => {}
                },
            }
        }
    })
}
