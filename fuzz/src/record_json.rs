//! Records in JSON: no input panics, and parsed records round-trip.

use tendot_proto::record::HandleRecord;

pub(crate) fn check(bytes: &[u8]) {
    match HandleRecord::from_json(bytes) {
        Ok(record) => {
            let json = serde_json::to_string(&record).expect("parsed record serializes");
            let reparsed = HandleRecord::from_json(json.as_bytes()).expect("own output parses");
            assert_eq!(serde_json::to_string(&reparsed).expect("parsed record serializes"), json);
            assert_eq!(reparsed.values, record.values);
        }
        Err(error) => drop(error.to_string()),
    }
}
