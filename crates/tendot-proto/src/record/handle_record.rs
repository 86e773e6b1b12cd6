//! Handle records.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::HandleValue;

/// Handle record: a handle and its values.
///
/// JSON: serde serializes the form of Handle.Net's REST API.
///
/// ```
/// use tendot_proto::{HandleValue, record::HandleRecord};
///
/// let record = HandleRecord {
///     handle: b"10.1000/1".into(),
///     values: vec![HandleValue::new(1, "URL", "https://example.org/")],
/// };
/// let json = serde_json::to_string(&record).unwrap();
/// assert_eq!(
///     json,
///     r#"{"handle":"10.1000/1","values":[{"index":1,"type":"URL","data":"#.to_owned()
///         + r#"{"format":"string","value":"https://example.org/"},"ttl":86400}]}"#,
/// );
/// assert_eq!(HandleRecord::from_json(json.as_bytes()), Ok(record));
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HandleRecord<'a> {
    /// Handle of the record.
    pub handle: Cow<'a, [u8]>,
    /// Values of the record.
    pub values: Vec<HandleValue<'a>>,
}

impl HandleRecord<'_> {
    /// Copies all borrowed data.
    pub fn into_owned(self) -> HandleRecord<'static> {
        HandleRecord {
            handle: Cow::Owned(self.handle.into_owned()),
            values: self.values.into_iter().map(HandleValue::into_owned).collect(),
        }
    }
}
