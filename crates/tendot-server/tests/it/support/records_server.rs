//! HTTP server with given records, and optionally the site of the recorded Handle.Net server.

use std::collections::BTreeSet;
use std::sync::Arc;

use tendot_proto::record::HandleRecord;
use tendot_proto::{Handle, ValueReference};
use tendot_registry::{Registry, RegistrySettings};
use tendot_server::http::{HttpLimits, HttpServer};
use tendot_server::native::NativeServer;
use tendot_store::AnyStore;
use tendot_testing::http::{HttpRequest, HttpResponse};

use super::edits::{home_edit, put_edit};
use super::http_server::{TestServer, bind, start_http, trust_loopback};
use super::native_server::recorded_site;
use super::stores::StoreKind;

/// A running server, which ends when it is dropped.
pub(crate) struct RecordsServer {
    server: TestServer,
}

impl RecordsServer {
    /// A server with records as JSON, one a line, whose prefixes are homed.
    pub(crate) fn start<'r>(
        store: StoreKind,
        records: impl IntoIterator<Item = &'r str>,
        is_loopback_trusted: bool,
    ) -> Self {
        let store = Arc::new(store.open());
        let registry = Arc::new(Registry::with_shared_store(Arc::clone(&store), RegistrySettings::default()));
        Self::serve(store, records, trust_loopback(HttpServer::new(registry), is_loopback_trusted))
    }

    /// A server that is the site of the recorded Handle.Net server, whose administrator was `300:0.NA/10.5555`.
    pub(crate) fn start_handle_net<'r>(
        store: StoreKind,
        records: impl IntoIterator<Item = &'r str>,
        configure: impl FnOnce(HttpServer) -> HttpServer,
    ) -> Self {
        Self::serve_handle_net(Arc::new(store.open()), records, configure)
    }

    /// Another server of [`RecordsServer::start_handle_net`] over the same store.
    pub(crate) fn start_another(&self, configure: impl FnOnce(HttpServer) -> HttpServer) -> Self {
        Self::serve_handle_net(Arc::clone(&self.server.store), [], configure)
    }

    fn serve_handle_net<'r>(
        store: Arc<AnyStore>,
        records: impl IntoIterator<Item = &'r str>,
        configure: impl FnOnce(HttpServer) -> HttpServer,
    ) -> Self {
        let settings = RegistrySettings {
            server_admins: vec![ValueReference::parse("300:0.NA/10.5555")],
            server_admins_full_access: true,
            ..RegistrySettings::default()
        };
        let registry = Arc::new(Registry::with_shared_store(Arc::clone(&store), settings));
        let native = Arc::new(NativeServer::new(Arc::clone(&registry), recorded_site()));
        Self::serve(store, records, configure(HttpServer::new(registry).native_server(native)))
    }

    fn serve<'r>(store: Arc<AnyStore>, records: impl IntoIterator<Item = &'r str>, http: HttpServer) -> Self {
        let mut prefixes = BTreeSet::new();
        let mut edits = Vec::new();
        for line in records {
            let record =
                HandleRecord::from_json(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}"));
            let handle = Handle::new(&record.handle);
            prefixes.insert(String::from_utf8(handle.prefix().to_vec()).unwrap());
            edits.push(put_edit(&handle.to_string(), record.values));
        }
        edits.extend(prefixes.iter().map(|prefix| home_edit(prefix)));
        Self { server: start_http(http, store, bind(), edits, HttpLimits::default(), None) }
    }

    /// The response to a GET request with these header lines.
    pub(crate) fn get(&self, target: &str, headers: &[&str]) -> HttpResponse {
        self.request("GET", target, headers, "")
    }

    /// The response to a request with these header lines.
    pub(crate) fn request(&self, method: &str, target: &str, headers: &[&str], body: &str) -> HttpResponse {
        HttpRequest::new(method, target).headers(headers.iter().copied()).body(body).send(self.server.address)
    }
}
