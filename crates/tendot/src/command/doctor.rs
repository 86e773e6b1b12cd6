//! `tendot doctor`

use std::sync::Arc;

use tendot_registry::{Registry, RegistrySettings};
use tendot_server::http::{HttpServer, TraceOutcome};
use tendot_store::{AnyStore, EmbeddedStore, PostgresSettings};

use crate::args::ExplainArguments;
use crate::config::{Configuration, ServerSettings, StoreSetting, wrong};
use crate::failure::{eprint_line, escape_control};
use crate::output::StdoutWriter;
use crate::store::{StoreLocation, multi_thread, open_error, open_postgres};
use crate::{CliError, CommandStatus};

pub(crate) fn run(arguments: &ExplainArguments) -> Result<CommandStatus, CliError> {
    let settings = Configuration::gather(&arguments.configuration, &[]).parse();
    let settings = settings.map_err(|problems| wrong(&problems))?;
    // What the command line says of the store wins over a file of settings.
    let is_said = arguments.store.data.is_some() || arguments.store.store.is_some();
    let place = match (&settings.store, settings.data_dir()) {
        (StoreSetting::Postgres(address), _) if !is_said => StoreLocation::Database(address.clone()),
        (StoreSetting::Embedded(_), Some(directory)) if !is_said => StoreLocation::Directory(directory),
        _ => arguments.store.location()?,
    };
    let runtime = multi_thread()?;
    match place {
        StoreLocation::Directory(directory) => {
            let store = EmbeddedStore::open_read_only(&directory).map_err(|error| open_error(&error))?;
            runtime.block_on(diagnose(arguments, &settings, store.into()))
        }
        StoreLocation::Database(address) => runtime.block_on(async {
            let own = PostgresSettings { migrate: false, ..settings.postgres() };
            let store = open_postgres(&address, &own).await?;
            diagnose(arguments, &settings, store.into()).await
        }),
    }
}

async fn diagnose(
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
            let advice = finding.advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default();
            let line = format!("{mark:<7} {:<9} {}{advice}", finding.step, finding.says);
            output.write_line(escape_control(&line))?;
        }
    }
    output.flush()?;
    Ok(match explained.outcome() {
        TraceOutcome::Resolves => CommandStatus::Yes,
        TraceOutcome::DoesNotResolve => {
            eprint_line(format_args!("`{}` does not resolve here", escape_control(&arguments.name)));
            CommandStatus::No
        }
        TraceOutcome::Failed => {
            eprint_line("it could not be found out");
            CommandStatus::Incomplete
        }
    })
}
