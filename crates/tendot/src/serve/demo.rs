//! Demo records of `tendot serve --demo`.

use std::time::SystemTime;

use tendot_proto::record::HandleRecord;
use tendot_proto::{Budget, Handle};
use tendot_registry::{CallContext, Caller, Error, HandleWrite, Registry};

use crate::CliError;
use crate::terminal::eprint_line;

/// Creates the demo records that do not exist yet.
pub(super) async fn load_demo(registry: &Registry) -> Result<(), CliError> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    for line in include_str!("demo.jsonl").lines() {
        let Ok(record) = HandleRecord::from_json(line.as_bytes()) else { continue };
        let name = Handle::new(&record.handle);
        let create = HandleWrite::Create {
            name,
            values: record.values,
            overwrite: false,
            keep_secrets: false,
            uuid_bytes: None,
            force: false,
        };
        for write in [HandleWrite::Home { prefix: Handle::new(name.prefix()) }, create] {
            let mut budget = Budget::PER_REQUEST;
            match registry.write(&write, CallContext::new(&Caller::Operator, now_ms, &mut budget)).await {
                // A record exists, or was deleted, or belongs to another server of the site.
                Ok(_) | Err(Error::AlreadyExists { .. } | Error::NameRetired { .. } | Error::OtherServer) => {
                }
                Err(error) => return Err(CliError::new(format!("cannot create a demo record: {error}"))),
            }
        }
    }
    eprint_line(
        "demo records: try /10.5555/DEMO, /10.5555/DEMO-COPIES?locatt=country:gb and /10.5555/DEMO-ALIAS",
    );
    Ok(())
}
