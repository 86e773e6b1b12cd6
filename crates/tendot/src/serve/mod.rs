//! `tendot serve`: starts the HTTP and native servers, waits for a signal, and drains in-flight requests.
//!
//! `services.rs` builds and runs the servers; `listeners.rs` binds their sockets or takes those of `systemd.rs`;
//! `operator_token.rs`, `security_txt.rs`, `reload.rs`, `database_status.rs` and `log.rs` are parts of the running server; `demo.rs` loads demo records.

mod database_status;
mod demo;
mod listeners;
mod log;
pub(crate) mod operator_token;
mod reload;
mod security_txt;
mod services;
mod systemd;

use std::io;
use std::path::Path;

use clap::Args;
use demo::load_demo;
use log::LogWriter;
use operator_token::{OPERATOR_TOKEN_FILE, read_or_create};
use reload::Reloader;
use serde::Serialize;
use services::Services;
use tendot_proto::Budget;
use tendot_registry::{CallContext, Caller, Registry};
use tendot_store::{AnyStore, EmbeddedStore, MemoryStore, PostgresSettings};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::ConfigSourceArguments;
use crate::config::{ServerSettings, StoreSetting, load_settings};
use crate::store::{open_error, open_postgres};
use crate::terminal::{eprint_line, print_json};
use crate::{CliError, CommandStatus, runtime};

/// File in the data directory with the highest timeline of the PostgreSQL database that the server has seen.
pub(crate) const TIMELINE_FILE: &str = "postgres.timeline";

/// Run the server
///
/// Serves redirects at `/NAME`, records as JSON at `/api/handles/NAME`, the registry API at `/api/v1`, pages, and the
/// native protocol. The first start creates the operator token, in `operator.token` in the data directory. SIGTERM drains
/// in-flight requests; SIGHUP reloads the TLS certificate, the operator token and `security.txt`. Settings come from a file, environment variables and flags; see
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

impl ServeArguments {
    fn load_settings(&self) -> Result<ServerSettings, CliError> {
        let flags = [
            ("native.address", "--native", &self.native),
            ("data", "--data", &self.data),
            ("store", "--store", &self.store),
            ("http.address", "--http", &self.http),
            ("https.address", "--https", &self.https),
        ];
        let given_flags: Vec<_> =
            flags.into_iter().filter_map(|(key, flag, text)| Some((key, flag, text.clone()?))).collect();
        load_settings(&self.configuration, &given_flags)
    }
}

pub(crate) fn run(arguments: &ServeArguments) -> Result<CommandStatus, CliError> {
    let settings = arguments.load_settings()?;
    let log = LogWriter::install(settings.log_format, settings.log_level)?;
    settings.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let result = runtime::for_server()?.block_on(serve(arguments, &settings, &log));
    log.flush();
    result
}

async fn serve(
    arguments: &ServeArguments,
    settings: &ServerSettings,
    log: &LogWriter,
) -> Result<CommandStatus, CliError> {
    let (store, token) = open_store(settings).await?;
    let services = Services::build(settings, log, store, token).await?;
    refresh_service_handle(services.registry()).await;
    if arguments.demo {
        load_demo(services.registry()).await?;
    }
    let shutdown = shutdown_signal(services.reloader())
        .map_err(|error| CliError::io("cannot install signal handlers", &error))?;
    let addresses = services.announce_ready();
    eprint_line(format_args!("ready: {}", addresses.join(" ")));
    if arguments.json {
        print_json(&ReadyJson { ready: addresses })?;
    }
    systemd::notify("READY=1");
    services.run_until(shutdown).await.map_err(|error| CliError::io("listener failed", &error))?;
    Ok(CommandStatus::Success)
}

/// Opens the configured store, and reads or creates the operator token in the data directory.
async fn open_store(settings: &ServerSettings) -> Result<(AnyStore, Option<String>), CliError> {
    let token = |directory: &Path| read_or_create(&directory.join(OPERATOR_TOKEN_FILE)).map(Some);
    match (&settings.store, settings.data_dir()) {
        (StoreSetting::Memory, _) | (_, None) => Ok((MemoryStore::new().into(), None)),
        (StoreSetting::Embedded(_), Some(directory)) => {
            let mut store = EmbeddedStore::open(&directory).map_err(|error| open_error(&error))?;
            if let Some(interval) = settings.scrub_interval.0 {
                store.start_scrub(interval).map_err(|error| open_error(&error))?;
            }
            Ok((store.into(), token(&directory)?))
        }
        (StoreSetting::Postgres(address), Some(directory)) => {
            std::fs::create_dir_all(&directory)
                .map_err(|error| CliError::io(format!("cannot create `{}`", directory.display()), &error))?;
            let timeline_file = Some(directory.join(TIMELINE_FILE));
            let settings = PostgresSettings { timeline_file, ..settings.postgres() };
            let store = open_postgres(address, &settings).await?;
            Ok((store.into(), token(&directory)?))
        }
    }
}

/// Publishes a changed site in the record of the service handle. A store that takes no writes now does not stop the server.
async fn refresh_service_handle(registry: &Registry) {
    let mut budget = Budget::PER_REQUEST;
    let context = CallContext::new(&Caller::Operator, registry.now_ms(), &mut budget);
    match registry.refresh_service_handle(context).await {
        Ok(true) => tracing::info!("site record updated in the service handle"),
        Ok(false) => {}
        Err(error) => tracing::warn!(%error, "cannot update the site record in the service handle"),
    }
}

/// Completes on SIGTERM or SIGINT. SIGHUP reloads the certificate, the operator token and `security.txt`.
fn shutdown_signal(reloader: Reloader) -> io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = interrupt.recv() => return,
                _ = hangup.recv() => reloader.reload(),
            }
        }
    })
}
