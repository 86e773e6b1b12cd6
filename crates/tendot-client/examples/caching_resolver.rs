//! Resolves names at another resolver over HTTP, with a cache in front of it.
//!
//! ```console
//! $ cargo run -p tendot-client --example caching_resolver -- https://doi.org 10.1000/182 10.1000/182
//! 10.1000/182: 6 values, Miss, TTL 86400 s
//! 10.1000/182: 6 values, Hit, TTL 86400 s
//! ```

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tendot_client::{CacheSettings, HttpUpstream, LookupOutcome, Resolver, Upstream};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let upstream = HttpUpstream::new(&arguments.next().ok_or("usage: caching_resolver URL NAME…")?)?;
    // Everything that implements `Upstream` can be cached, also `native::NativeClient`.
    let settings = CacheSettings { max_ttl: Duration::from_secs(3_600), ..CacheSettings::default() };
    let resolver = Resolver::new(upstream, settings);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for name in arguments {
        println!("{}", runtime.block_on(resolve(&resolver, &name))?);
    }
    Ok(())
}

/// Outcome of a lookup, whether it was cached, and for how long it may be cached from now on.
pub(crate) async fn resolve<U: Upstream + 'static>(
    resolver: &Resolver<U>,
    name: &str,
) -> Result<String, Arc<U::Error>> {
    let reply = resolver.resolve(name).await?;
    let outcome = match &*reply.outcome {
        LookupOutcome::Values(values) => format!("{} values", values.len()),
        LookupOutcome::NoValues => "no public values".to_owned(),
        LookupOutcome::NotFound => "not found".to_owned(),
        LookupOutcome::NotResponsible => "not responsible".to_owned(),
    };
    let ttl = reply.remaining_ttl.as_secs_f64().ceil();
    Ok(format!("{name}: {outcome}, {:?}, TTL {ttl} s", reply.cache_status))
}
