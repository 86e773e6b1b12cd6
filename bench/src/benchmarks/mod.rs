//! Benchmarks, one module each; a module has the name of its benchmark on the command line.

mod batches;
mod deposits;
mod find;
mod json;
mod message;
mod metadata;
mod native;
mod postgres_store;
mod read;
mod records;
mod registry;
mod signing;
mod store;
mod suggestions;

use std::error::Error;

/// Runs the benchmark with this name.
pub(crate) fn run(name: &str, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    match name {
        "batches" => batches::run(arguments),
        "deposits" => deposits::run(arguments),
        "find" => find::run(arguments),
        "json" => json::run(),
        "message" => message::run(),
        "metadata" => {
            metadata::run();
            Ok(())
        }
        "native" => native::run(arguments),
        "postgres_store" => postgres_store::run(arguments).map_err(|error| error as Box<dyn Error>),
        "read" => read::run(arguments),
        "records" => records::run(arguments),
        "registry" => registry::run(arguments),
        "signing" => signing::run(arguments),
        "store" => store::run(arguments),
        "suggestions" => suggestions::run(arguments),
        _ => Err(format!("unknown benchmark `{name}`").into()),
    }
}
