//! A service with given records, and a client that sends exactly what it is told.
#![allow(dead_code, reason = "each test uses a part")]

#[path = "../../../tendot-registry/tests/store/mod.rs"]
pub(crate) mod store;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock};

use store::Kept;
use tendot_proto::auth::PrivateKey;
use tendot_proto::crypto::AwsLc;
use tendot_proto::record::{Record, Site};
use tendot_proto::{Handle, Reference, Work};
use tendot_registry::{Registry, Settings};
use tendot_server::http::{Http, Limits, listen};
use tendot_server::native::{Native, OwnSite};
use tendot_store::{Change, Edit, Expect, Store as _};
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().enable_all().build().unwrap());

/// A service that answers as long as the test runs.
#[derive(Clone, Copy)]
pub(crate) struct Service(SocketAddr);

/// An answer.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Found {
    pub(crate) fn header<'f>(&'f self, name: &'f str) -> Option<&'f str> {
        self.headers(name).next()
    }

    pub(crate) fn headers<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f str> {
        self.head.lines().filter_map(move |line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

impl Service {
    /// With records as JSON, a line each; their prefixes are homed.
    pub(crate) fn start<'r>(records: impl IntoIterator<Item = &'r str>, trust_loopback: bool) -> Self {
        let registry = Arc::new(Registry::new(store::new(), Settings::default()));
        Self::serve(records, Http::new(registry).trust_loopback(trust_loopback))
    }

    /// The same as the site of the recorded server, whose administrator was `300:0.NA/10.5555`.
    pub(crate) fn of_handle_net<'r>(
        records: impl IntoIterator<Item = &'r str>,
        with: impl FnOnce(Http<Kept>) -> Http<Kept>,
    ) -> Self {
        let settings = Settings {
            server_admins: vec![Reference::parse("300:0.NA/10.5555")],
            server_admins_full_access: true,
            ..Settings::default()
        };
        let registry = Arc::new(Registry::new(store::new(), settings));
        let file = include_bytes!("../../../../conformance/vectors/handle-net/privkey.bin");
        let key = PrivateKey::from_file(file, None, &AwsLc, &mut { Work::REQUEST }).unwrap();
        let site = include_bytes!("../../../../conformance/vectors/handle-net/siteinfo.json");
        let site = OwnSite::new(Site::from_json(site).unwrap(), &key).unwrap();
        let native = Arc::new(Native::new(Arc::clone(&registry), site));
        Self::serve(records, with(Http::new(registry).native(native)))
    }

    fn serve<'r>(records: impl IntoIterator<Item = &'r str>, http: Http<Kept>) -> Self {
        let mut prefixes = BTreeSet::new();
        let mut edits = Vec::new();
        for line in records {
            let record = Record::from_json(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}"));
            let handle = Handle::new(&record.handle);
            prefixes.insert(String::from_utf8(handle.prefix().to_vec()).unwrap());
            let name = handle.to_string().into();
            edits.push(Edit::Put { name, values: record.values, expect: Expect::Absent });
        }
        edits.extend(prefixes.into_iter().map(|prefix| Edit::Home { prefix: prefix.into() }));
        RUNTIME.block_on(async {
            http.registry().store().commit(Change { by: "test".into(), at: 0, edits }).await.unwrap();
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            RUNTIME.spawn(listen(listener, Arc::new(http), Limits::default(), std::future::pending()));
            Self(address)
        })
    }

    /// Asks for a target, with lines of headers.
    pub(crate) fn get(self, target: &str, headers: &[&str]) -> Found {
        self.ask("GET", target, headers, "")
    }

    pub(crate) fn ask(self, method: &str, target: &str, headers: &[&str], body: &str) -> Found {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        for line in headers {
            head += line;
            head += "\r\n";
        }
        self.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
    }

    /// Sends these bytes, and reads until the service closes.
    pub(crate) fn send(self, bytes: &[u8]) -> Found {
        let mut stream = TcpStream::connect(self.0).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // Who sends rubbish may be cut off in the middle.
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        let status = head.split(' ').nth(1).map_or(0, |status| status.parse().unwrap());
        Found { status, head: head.to_owned(), body: body.to_owned() }
    }
}
