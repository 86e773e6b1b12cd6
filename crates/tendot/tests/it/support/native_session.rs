use serde_json::{Value as Json, json};
use tendot_client::native::{AdminClient, AdminError, AdminIdentity, AdminServer, RootSites};
use tendot_proto::HandleValue;
use tendot_proto::record::Site;
use tendot_testing::block_on;

use super::{TestDir, TestServer};

/// Identity of a [`NativeSession`], and its record, which it administers.
pub(crate) const SESSION_HOLDER: &str = "10.5555/HOLDER";
const KEY_INDEX: u32 = 301;
const SECRET: &[u8] = b"opensesame";

/// Authenticated session of the native protocol.
pub(crate) struct NativeSession {
    admin: AdminClient,
}

impl NativeSession {
    /// Creates the record of the holder at a server with the demo records, and authenticates a session by one write.
    #[track_caller]
    pub(crate) fn open(dir: &TestDir, server: &TestServer) -> Self {
        let values = json!([
            {"index": KEY_INDEX, "type": "HS_SECKEY", "data": String::from_utf8_lossy(SECRET)},
            {"index": 100, "type": "HS_ADMIN", "data": {"format": "admin", "value":
                {"handle": SESSION_HOLDER, "index": KEY_INDEX, "permissions": "111111111111"}}},
            {"index": 1, "type": "URL", "data": "https://example.org/"},
        ]);
        let put = server.request("PUT", &format!("/api/handles/{SESSION_HOLDER}")).json(&values);
        let response = put.send(server.address());
        assert_eq!(response.status, 201, "{}", response.text());
        let site = Site::from_json(dir.read("tendot-data/siteinfo.json").as_bytes()).unwrap();
        let peer = AdminServer::for_handle(&RootSites::from_site(site), SESSION_HOLDER).unwrap();
        let identity = AdminIdentity::with_secret_key(KEY_INDEX, SESSION_HOLDER, SECRET);
        let mut session = Self { admin: AdminClient::new(peer, identity) };
        block_on(session.admin.open_session(false)).unwrap();
        session.write().unwrap();
        session
    }

    /// Writes a value in the session.
    pub(crate) fn write(&mut self) -> Result<(), AdminError> {
        let value = HandleValue::new(1, "URL", "https://example.org/");
        block_on(self.admin.modify_values(SESSION_HOLDER, &[value]))
    }
}

/// The authenticated sessions of a server, for the operator.
#[track_caller]
pub(crate) fn sessions(server: &TestServer) -> Vec<Json> {
    let response = server.request("GET", "/api/v1/sessions").send(server.address());
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()["items"].as_array().unwrap().clone()
}
