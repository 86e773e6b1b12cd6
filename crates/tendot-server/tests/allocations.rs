//! Allocation test: an upstream resolver adds no allocations to the resolution of a local name. A separate test program, because
//! it replaces the global allocator.

use std::sync::Arc;

use tendot_client::{CacheSettings, HttpUpstream};
use tendot_proto::HandleValue;
use tendot_registry::{Registry, RegistrySettings};
use tendot_server::http::{HttpServer, TraceOutcome, UpstreamClient};
use tendot_store::{AnyStore, ChangeSet, Edit, MemoryStore, Precondition, Store as _};
use tendot_testing::{Allocations, CountingAllocator, count_allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn start_server() -> HttpServer {
    let store = Arc::new(AnyStore::from(MemoryStore::new()));
    let registry = Registry::with_shared_store(Arc::clone(&store), RegistrySettings::default());
    let server = HttpServer::new(Arc::new(registry));
    let values = vec![HandleValue::new(1, "URL", "https://example.org/one")];
    let edits = vec![
        Edit::Put { name: "10.5555/ONE".into(), values, precondition: Precondition::Absent },
        Edit::Home { prefix: "10.5555".into() },
    ];
    pollster::block_on(store.commit(ChangeSet { author: "test".into(), timestamp_ms: 0, edits })).unwrap();
    server
}

/// The allocations of one trace; a first trace does all one-time initialization.
fn allocation_cost(server: &HttpServer) -> Allocations {
    let trace = || {
        let traced = pollster::block_on(server.trace_text("10.5555/ONE"));
        assert_eq!(traced.outcome(), TraceOutcome::Resolves);
    };
    trace();
    count_allocations(trace)
}

#[test]
fn upstream_adds_no_allocations() {
    let without_upstream = start_server();
    let upstream = UpstreamClient::Http(Box::new(HttpUpstream::new("http://127.0.0.1:9").unwrap()));
    let with_upstream = start_server().upstream(upstream, CacheSettings::default());
    let expected = allocation_cost(&without_upstream);
    assert!(expected.count > 0);
    assert_eq!(allocation_cost(&with_upstream), expected);
}
