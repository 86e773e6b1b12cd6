//! `tendot explain`: prints the trace of a resolution.

use std::sync::Arc;

use clap::Args;
use tendot_registry::{Registry, RegistrySettings};
use tendot_server::http::{HttpServer, TraceOutcome};
use tendot_store::{AnyStore, PostgresSettings};

use crate::config::ServerSettings;
use crate::store::{CommandStore, StoreArguments, StoreLocation, open_postgres, open_read_only};
use crate::terminal::{StdoutWriter, eprint_line, escape_control};
use crate::{CliError, CommandStatus, runtime};

/// Show step by step how a name resolves from a store
///
/// Prints the trace that a server shows for `?explain`: one line per step, with advice if it failed. The name resolves if the
/// server would redirect it. The store is read only; a server may be running. Prefixes that are not homed in the store are
/// resolved by the setting `upstream`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot explain 10.1000/182
  tendot explain --json https://doi.org/10.1000%2F182
  tendot explain --set upstream=https://doi.org 10.1000/182

Exit codes: 0 the name resolves, 1 it does not resolve, 2 error")]
pub(crate) struct ExplainArguments {
    /// Name in any written form
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) store: StoreArguments,

    /// Print a JSON object: values, locations and all steps
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &ExplainArguments) -> Result<CommandStatus, CliError> {
    let settings = arguments.store.load_settings()?;
    runtime::multi_thread(1)?.block_on(async {
        let store = match CommandStore::from_settings(&settings)?.location {
            StoreLocation::Embedded(directory) => open_read_only(&directory)?.into(),
            StoreLocation::Postgres(address) => {
                let pool = PostgresSettings { migrate_schema: false, ..settings.postgres() };
                open_postgres(&address, &pool).await?.into()
            }
        };
        print_trace(arguments, &settings, store).await
    })
}

async fn print_trace(
    arguments: &ExplainArguments,
    settings: &ServerSettings,
    store: AnyStore,
) -> Result<CommandStatus, CliError> {
    let mut http = HttpServer::new(Arc::new(Registry::new(store, RegistrySettings::default())))
        .trust_anchors(settings.trust_anchors()?)
        .require_signed_upstream(settings.trust_upstream_signed);
    if let Some(upstream) = settings.upstream_client()? {
        http = http.upstream(upstream, settings.cache());
    }
    let trace = http.trace_text(&arguments.name).await;
    let mut output = StdoutWriter::new();
    if arguments.json {
        output.write_json(&trace)?;
    } else {
        for step in trace.steps() {
            let result = if step.ok { "ok" } else { "failed" };
            let advice = step.hint.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default();
            let line = format!("{result:<7} {:<9} {}{advice}", step.step, step.message);
            output.write_line(escape_control(&line))?;
        }
    }
    output.flush()?;
    Ok(match trace.outcome() {
        TraceOutcome::Resolves => CommandStatus::Success,
        TraceOutcome::DoesNotResolve => {
            eprint_line(format_args!("`{}` does not resolve", escape_control(&arguments.name)));
            CommandStatus::Negative
        }
        TraceOutcome::Failed => {
            eprint_line(format_args!(
                "cannot determine whether `{}` resolves",
                escape_control(&arguments.name)
            ));
            CommandStatus::Partial
        }
    })
}
