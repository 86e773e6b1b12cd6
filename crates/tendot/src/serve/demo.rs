//! Demo records of `tendot serve --demo`.

use std::time::SystemTime;

use tendot_proto::Handle;
use tendot_proto::record::HandleRecord;
use tendot_store::{AnyStore, ChangeSet, CommitError, Edit, Precondition, Store};

use crate::CliError;
use crate::terminal::eprint_line;

/// Creates the demo records that do not exist yet.
pub(super) async fn load_demo(store: &AnyStore) -> Result<(), CliError> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    for line in include_str!("demo.jsonl").lines() {
        let Ok(mut record) = HandleRecord::from_json(line.as_bytes()) else { continue };
        for value in &mut record.values {
            value.timestamp = u32::try_from(now.as_secs()).unwrap_or(u32::MAX);
        }
        let handle = Handle::new(&record.handle);
        let prefix = String::from_utf8_lossy(handle.prefix()).into();
        let name = handle.to_string().into();
        let edits = vec![
            Edit::Put { name, values: record.values, precondition: Precondition::Absent },
            Edit::Home { prefix },
        ];
        let at = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        match store.commit(ChangeSet { author: "demo".into(), timestamp_ms: at, edits }).await {
            Ok(_) | Err(CommitError::RecordConflict(_)) => {}
            Err(error) => return Err(CliError::new(error.to_string())),
        }
    }
    eprint_line(
        "demo records: try /10.5555/DEMO, /10.5555/DEMO-COPIES?locatt=country:gb and /10.5555/DEMO-ALIAS",
    );
    Ok(())
}
