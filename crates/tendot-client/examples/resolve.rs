//! Resolves handles and DOIs over the native protocol, starting at the Global Handle Registry.
//!
//! ```console
//! $ cargo run -p tendot-client --example resolve -- 10.1000/182
//! 10.1000/182, from 38.100.138.153:2641 over UDP
//!   https://www.doi.org/the-identifier/resources/handbook/
//! ```

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;

use tendot_client::LookupOutcome;
use tendot_client::native::{NativeClient, ResolveError, ResolveOptions, RootSites};

fn main() -> Result<(), Box<dyn Error>> {
    // A private root: `RootSites::from_bytes(&std::fs::read("siteinfo.json")?)?`
    let client = NativeClient::new(RootSites::global_registry().into_config());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for name in std::env::args().skip(1) {
        print!("{}", runtime.block_on(resolve(&client, &name))?);
    }
    Ok(())
}

/// The name, the server that responded, and the URLs of the record.
pub(crate) async fn resolve(client: &NativeClient, name: &str) -> Result<String, ResolveError> {
    let options = ResolveOptions { types: vec!["URL".into()], ..ResolveOptions::default() };
    let reply = client.resolve(name, &options).await?;
    let mut text = match reply.server {
        Some(server) => format!("{name}, from {server}\n"),
        None => format!("{name}: unknown prefix\n"),
    };
    match reply.outcome {
        LookupOutcome::Values(values) => {
            for value in values {
                text += &format!("  {}\n", String::from_utf8_lossy(&value.data));
            }
        }
        LookupOutcome::NoValues => text += "  no URL\n",
        LookupOutcome::NotFound => text += "  not found\n",
        LookupOutcome::NotResponsible => text += "  the server is not responsible\n",
    }
    Ok(text)
}
