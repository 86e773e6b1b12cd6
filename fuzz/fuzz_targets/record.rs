//! Records in JSON: no text panics, and what is understood stays the same when it is written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tendot_proto::record::Record;

fuzz_target!(|bytes: &[u8]| {
    match Record::from_json(bytes) {
        Ok(record) => {
            let json = serde_json::to_string(&record).expect("we read it");
            let again = Record::from_json(json.as_bytes()).expect("we wrote it");
            assert_eq!(serde_json::to_string(&again).expect("we read it"), json);
            assert_eq!(again.values, record.values);
        }
        Err(error) => drop(error.to_string()),
    }
});
