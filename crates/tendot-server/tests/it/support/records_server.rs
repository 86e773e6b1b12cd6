//! HTTP server with given records, and optionally the site of the recorded Handle.Net server.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use tendot_proto::record::{HandleRecord, Site};
use tendot_proto::{Handle, ValueReference};
use tendot_registry::{Registry, RegistrySettings};
use tendot_server::http::{HttpLimits, HttpServer, serve};
use tendot_server::native::{NativeServer, OwnSite};
use tendot_store::{AnyStore, ChangeSet, Edit, Precondition, Store as _};
use tendot_testing::block_on;
use tendot_testing::handle_keys::{handle_net_file, private_key};
use tendot_testing::http::{HttpRequest, HttpResponse};
use tokio::sync::oneshot;

use super::http_server::allow_plain_loopback;
use super::stores::StoreKind;

/// A running server, which ends when it is dropped.
pub(crate) struct RecordsServer {
    address: SocketAddr,
    _shutdown: oneshot::Sender<()>,
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
        Self::serve(&store, records, allow_plain_loopback(HttpServer::new(registry), is_loopback_trusted))
    }

    /// A server that is the site of the recorded Handle.Net server, whose administrator was `300:0.NA/10.5555`.
    pub(crate) fn start_handle_net<'r>(
        store: StoreKind,
        records: impl IntoIterator<Item = &'r str>,
        configure: impl FnOnce(HttpServer) -> HttpServer,
    ) -> Self {
        let settings = RegistrySettings {
            server_admins: vec![ValueReference::parse("300:0.NA/10.5555")],
            server_admins_full_access: true,
            ..RegistrySettings::default()
        };
        let store = Arc::new(store.open());
        let registry = Arc::new(Registry::with_shared_store(Arc::clone(&store), settings));
        let site = Site::from_json(&handle_net_file("siteinfo.json")).unwrap();
        let site = OwnSite::new(site, &private_key("privkey.bin")).unwrap();
        let native = Arc::new(NativeServer::new(Arc::clone(&registry), site));
        Self::serve(&store, records, configure(HttpServer::new(registry).native_server(native)))
    }

    fn serve<'r>(store: &AnyStore, records: impl IntoIterator<Item = &'r str>, http: HttpServer) -> Self {
        let mut prefixes = BTreeSet::new();
        let mut edits = Vec::new();
        for line in records {
            let record =
                HandleRecord::from_json(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}"));
            let handle = Handle::new(&record.handle);
            prefixes.insert(String::from_utf8(handle.prefix().to_vec()).unwrap());
            let name = handle.to_string().into();
            edits.push(Edit::Put { name, values: record.values, precondition: Precondition::Absent });
        }
        edits.extend(prefixes.into_iter().map(|prefix| Edit::Home { prefix: prefix.into() }));
        let (shutdown, is_shut_down) = oneshot::channel::<()>();
        block_on(async {
            store.commit(ChangeSet { author: "test".into(), timestamp_ms: 0, edits }).await.unwrap();
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let end = async { drop(is_shut_down.await) };
            tokio::spawn(serve(listener, Arc::new(http), HttpLimits::default(), end));
            Self { address, _shutdown: shutdown }
        })
    }

    /// The response to a GET request with these header lines.
    pub(crate) fn get(&self, target: &str, headers: &[&str]) -> HttpResponse {
        self.request("GET", target, headers, "")
    }

    /// The response to a request with these header lines.
    pub(crate) fn request(&self, method: &str, target: &str, headers: &[&str], body: &str) -> HttpResponse {
        HttpRequest::new(method, target).headers(headers.iter().copied()).body(body).send(self.address)
    }
}
