//! Allocation test: an upstream resolver adds no allocations to the resolution of a local name. A separate test program, because
//! it replaces the global allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use tendot_client::{CacheSettings, HttpUpstream};
use tendot_proto::HandleValue;
use tendot_registry::{Registry, RegistrySettings};
use tendot_server::http::{HttpServer, TraceOutcome, UpstreamClient};
use tendot_store::{AnyStore, ChangeSet, Edit, MemoryStore, Precondition, Store as _};

struct CountingAllocator;

thread_local! {
    static COUNT: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

#[allow(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]
// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| {
            let (number, bytes) = count.get();
            count.set((number + 1, bytes + layout.size()));
        });
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

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

/// Number and bytes of the allocations of one trace; a first trace does all one-time initialization.
fn allocation_cost(server: &HttpServer) -> (usize, usize) {
    let trace = || {
        let traced = pollster::block_on(server.trace_text("10.5555/ONE"));
        assert_eq!(traced.outcome(), TraceOutcome::Resolves);
    };
    trace();
    COUNT.with(|count| count.set((0, 0)));
    trace();
    COUNT.with(Cell::get)
}

#[test]
fn upstream_adds_no_allocations() {
    let without_upstream = start_server();
    let upstream = UpstreamClient::Http(Box::new(HttpUpstream::new("http://127.0.0.1:9").unwrap()));
    let with_upstream = start_server().upstream(upstream, CacheSettings::default());
    let expected = allocation_cost(&without_upstream);
    assert!(expected.0 > 0);
    assert_eq!(allocation_cost(&with_upstream), expected);
}
