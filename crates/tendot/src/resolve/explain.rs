//! `tendot doctor`: prints the trace of a resolution.

use std::sync::Arc;

use clap::Args;
use tendot_registry::{Registry, RegistrySettings};
use tendot_server::http::{HttpServer, TraceOutcome};
use tendot_store::{AnyStore, EmbeddedStore, PostgresSettings};

use crate::cli::ConfigSourceArguments;
use crate::config::{Configuration, ServerSettings, StoreSetting, config_error};
use crate::store::{StoreArguments, StoreLocation, open_error, open_postgres};
use crate::terminal::{StdoutWriter, eprint_line, escape_control};
use crate::{CliError, CommandStatus, runtime};

/// Says step by step why a name does or does not resolve here
///
/// NAME is anything that the box of the service's page takes. The store is only read, also while a server writes it. Each
/// line is a step that is ok or not, with what can be done about it; a name resolves when the service would redirect it.
/// Names that are not kept here are asked for as the setting `upstream` says.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot doctor 10.1000/182
  tendot doctor --json https://doi.org/10.1000%2F182
  tendot doctor --set upstream=https://doi.org 10.1000/182

Exit codes: 0 it resolves, 1 it does not, 2 that could not be found out.")]
pub(crate) struct ExplainArguments {
    /// The name, in any written form
    #[arg(value_name = "NAME", allow_hyphen_values = true)]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) store: StoreArguments,

    #[command(flatten)]
    pub(crate) configuration: ConfigSourceArguments,

    /// Print one JSON object: values, places and all steps
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &ExplainArguments) -> Result<CommandStatus, CliError> {
    let settings = Configuration::load(&arguments.configuration, &[]).parse();
    let settings = settings.map_err(|problems| config_error(&problems))?;
    // Store flags override the configuration.
    let has_store_flag = arguments.store.data.is_some() || arguments.store.store.is_some();
    let location = match (&settings.store, settings.data_dir()) {
        (StoreSetting::Postgres(address), _) if !has_store_flag => StoreLocation::Postgres(address.clone()),
        (StoreSetting::Embedded(_), Some(directory)) if !has_store_flag => StoreLocation::Embedded(directory),
        _ => arguments.store.location()?,
    };
    let runtime = runtime::multi_thread(1)?;
    match location {
        StoreLocation::Embedded(directory) => {
            let store = EmbeddedStore::open_read_only(&directory).map_err(|error| open_error(&error))?;
            runtime.block_on(print_trace(arguments, &settings, store.into()))
        }
        StoreLocation::Postgres(address) => runtime.block_on(async {
            let own = PostgresSettings { migrate_schema: false, ..settings.postgres() };
            let store = open_postgres(&address, &own).await?;
            print_trace(arguments, &settings, store.into()).await
        }),
    }
}

async fn print_trace(
    arguments: &ExplainArguments,
    settings: &ServerSettings,
    store: AnyStore,
) -> Result<CommandStatus, CliError> {
    let mut http = HttpServer::new(Arc::new(Registry::new(store, RegistrySettings::default())));
    if let Some(upstream) = settings.upstream.0.clone() {
        http = http.upstream(upstream, settings.cache());
    }
    let explained = http.trace_text(&arguments.name).await;
    let mut output = StdoutWriter::new();
    if arguments.json {
        output.write_json(&explained)?;
    } else {
        for finding in explained.steps() {
            let mark = if finding.ok { "ok" } else { "not ok" };
            let advice = finding.hint.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default();
            let line = format!("{mark:<7} {:<9} {}{advice}", finding.step, finding.message);
            output.write_line(escape_control(&line))?;
        }
    }
    output.flush()?;
    Ok(match explained.outcome() {
        TraceOutcome::Resolves => CommandStatus::Success,
        TraceOutcome::DoesNotResolve => {
            eprint_line(format_args!("`{}` does not resolve here", escape_control(&arguments.name)));
            CommandStatus::Negative
        }
        TraceOutcome::Failed => {
            eprint_line("it could not be found out");
            CommandStatus::Partial
        }
    })
}
