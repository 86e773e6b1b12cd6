//! `tendot doctor`

use std::sync::Arc;

use tendot_registry::{Registry, Settings as RegistrySettings};
use tendot_server::http::{Http, Outcome};
use tendot_store::{AnyStore, Embedded, PostgresSettings};

use crate::args::ExplainArguments;
use crate::config::{Configuration, Settings, StoreSetting, wrong};
use crate::failure::{escaped, tell};
use crate::output::Output;
use crate::store::{Place, open_postgres, runtime, unopened};
use crate::{Answer, Failure};

pub(crate) fn run(arguments: &ExplainArguments) -> Result<Answer, Failure> {
    let settings = Configuration::gather(&arguments.configuration, &[]).settings();
    let settings = settings.map_err(|problems| wrong(&problems))?;
    // What the command line says of the store wins over a file of settings.
    let is_said = arguments.store.data.is_some() || arguments.store.store.is_some();
    let place = match (&settings.store, settings.directory()) {
        (StoreSetting::Postgres(address), _) if !is_said => Place::Database(address.clone()),
        (StoreSetting::Embedded(_), Some(directory)) if !is_said => Place::Directory(directory),
        _ => arguments.store.place()?,
    };
    let runtime = runtime()?;
    match place {
        Place::Directory(directory) => {
            let store = Embedded::open_read_only(&directory).map_err(|error| unopened(&error))?;
            runtime.block_on(diagnose(arguments, &settings, store.into()))
        }
        Place::Database(address) => runtime.block_on(async {
            let own = PostgresSettings { migrate: false, ..settings.postgres() };
            let store = open_postgres(&address, &own).await?;
            diagnose(arguments, &settings, store.into()).await
        }),
    }
}

async fn diagnose(
    arguments: &ExplainArguments,
    settings: &Settings,
    store: AnyStore,
) -> Result<Answer, Failure> {
    let mut http = Http::new(Arc::new(Registry::new(store, RegistrySettings::default())));
    if let Some(upstream) = settings.upstream.0.clone() {
        http = http.upstream(upstream, settings.cache());
    }
    let explained = http.diagnose(&arguments.name).await;
    let mut output = Output::new();
    if arguments.json {
        output.json(&explained)?;
    } else {
        for finding in explained.steps() {
            let mark = if finding.ok { "ok" } else { "not ok" };
            let advice = finding.advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default();
            let line = format!("{mark:<7} {:<9} {}{advice}", finding.step, finding.says);
            output.line(escaped(&line))?;
        }
    }
    output.flush()?;
    Ok(match explained.outcome() {
        Outcome::Resolves => Answer::Yes,
        Outcome::DoesNotResolve => {
            tell(format_args!("`{}` does not resolve here", escaped(&arguments.name)));
            Answer::No
        }
        Outcome::Failed => {
            tell("it could not be found out");
            Answer::Incomplete
        }
    })
}
