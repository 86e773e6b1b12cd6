//! Data of every type: no bytes panic, and what is understood is encoded to the same bytes. The type
//! stands before the first zero.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tendot_proto::Value;
use tendot_proto::record::Data;

fuzz_target!(|bytes: &[u8]| {
    let Some(end) = bytes.iter().position(|byte| *byte == 0) else { return };
    let (Ok(value_type), data) = (core::str::from_utf8(&bytes[..end]), &bytes[end + 1..]) else { return };
    match Data::decode(value_type.as_bytes(), data) {
        Ok(decoded) => assert_eq!(&*decoded.encode(), data),
        Err(error) => drop(error.to_string()),
    }
    // Whatever the data is, the value has a JSON form, and is the same when it is read from it.
    let value = Value::with_data(1, value_type, data);
    let json = serde_json::to_string(&value).expect("every value has one");
    let read = Value::from_json(json.as_bytes()).expect("we wrote it");
    assert_eq!(serde_json::to_string(&read).expect("every value has one"), json);
    // And as bytes of a whole value.
    if let Ok(value) = Value::from_bytes(data) {
        assert_eq!(value.to_bytes(), data);
    }
});
