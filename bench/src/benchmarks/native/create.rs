//! Creation of records by administrators in sessions.

use std::error::Error;
use std::time::{Duration, Instant};

use tendot_client::native::{AdminClient, AdminIdentity, AdminServer, RootSites};
use tendot_proto::record::{Admin, AdminPermissions};
use tendot_proto::{HandleValue, ValueReference};

use super::{CONCURRENCY, Latencies};

/// Administrator in the recorded test records, and its secret key.
const ADMIN: &str = "10.5555/ADMIN";
const KEY: (u32, &[u8]) = (301, b"opensesame");

pub(crate) fn create(site: &[u8], time: Duration, round: &str) -> Result<Latencies, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let root = RootSites::from_bytes(site)?;
    runtime.block_on(async {
        let mut sessions = Vec::new();
        for _ in 0..CONCURRENCY {
            let peer = AdminServer::for_handle(&root, ADMIN).ok_or("no primary site")?;
            let identity = AdminIdentity::with_secret_key(KEY.0, ADMIN, KEY.1);
            let mut administrator = AdminClient::new(peer, identity);
            administrator.open_session(false).await?;
            sessions.push(administrator);
        }
        let mut measured = Latencies::begin();
        let end = measured.start + time;
        let clients: Vec<_> = sessions
            .into_iter()
            .enumerate()
            .map(|(client, administrator)| {
                tokio::spawn(run_client(administrator, format!("10.5555/bench-{round}-{client}"), end))
            })
            .collect();
        for client in clients {
            measured.times.extend(client.await??);
        }
        Ok(measured)
    })
}

async fn run_client(
    mut administrator: AdminClient,
    name: String,
    end: Instant,
) -> Result<Vec<Duration>, String> {
    let admin = Admin {
        reference: ValueReference::new(KEY.0, ADMIN.as_bytes()),
        permissions: AdminPermissions::ALL,
        legacy_byte_length: false,
    };
    let admin = admin.to_bytes();
    let values =
        [HandleValue::new(1, "URL", "https://example.org/"), HandleValue::with_data(100, "HS_ADMIN", admin)];
    let mut times = Vec::new();
    while Instant::now() < end {
        let start = Instant::now();
        let name = format!("{name}-{}", times.len());
        administrator.create(&name, &values).await.map_err(|error| error.to_string())?;
        times.push(start.elapsed());
    }
    Ok(times)
}
