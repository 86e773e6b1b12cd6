//! `tendot doctor`

use std::sync::Arc;

use tendot_registry::{Registry, Settings};
use tendot_server::http::{Http, Outcome};
use tendot_store::Embedded;
use tokio::runtime::Builder;

use crate::args::DoctorArguments;
use crate::config::{Configuration, wrong};
use crate::failure::{escaped, tell};
use crate::output::Output;
use crate::store::unopened;
use crate::{Answer, Failure};

pub(crate) fn run(arguments: &DoctorArguments) -> Result<Answer, Failure> {
    let settings = Configuration::gather(&arguments.configuration, &[]).settings();
    let settings = settings.map_err(|problems| wrong(&problems))?;
    // What the command line says of the store wins over a file of settings.
    let is_said = arguments.store.data.is_some() || arguments.store.store.is_some();
    let store = match settings.directory().filter(|_| !is_said) {
        Some(directory) => Embedded::open_read_only(&directory).map_err(|error| unopened(&error))?,
        None => arguments.store.open_read_only()?,
    };
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("the store can't be read", &error))?;
    let mut http = Http::new(Arc::new(Registry::new(store, Settings::default())));
    if let Some(upstream) = settings.upstream.0.clone() {
        http = http.upstream(upstream, settings.cache());
    }
    let explained = runtime.block_on(http.diagnose(&arguments.name));
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
