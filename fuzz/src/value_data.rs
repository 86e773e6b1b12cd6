//! Value data of every type: no input panics, decoded data encodes to the same bytes, and values round-trip as JSON.
//!
//! The input is the type, a zero byte and the data.

use tendot_proto::HandleValue;
use tendot_proto::record::ValueData;

pub(crate) fn check(bytes: &[u8]) {
    let Some(end) = bytes.iter().position(|byte| *byte == 0) else { return };
    let (Ok(value_type), data) = (core::str::from_utf8(&bytes[..end]), &bytes[end + 1..]) else { return };
    match ValueData::decode(value_type.as_bytes(), data) {
        Ok(decoded) => assert_eq!(&*decoded.encode(), data),
        Err(error) => drop(error.to_string()),
    }
    // Every value has a JSON form that parses to the same value.
    let value = HandleValue::with_data(1, value_type, data);
    let json = serde_json::to_string(&value).expect("every value has a JSON form");
    let parsed = HandleValue::from_json(json.as_bytes()).expect("own output parses");
    assert_eq!(serde_json::to_string(&parsed).expect("every value has a JSON form"), json);
    // The data as an encoded value.
    if let Ok(value) = HandleValue::from_bytes(data) {
        assert_eq!(value.to_bytes(), data);
    }
}
