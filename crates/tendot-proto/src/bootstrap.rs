//! Handle.Net root configuration files: `bootstrap_handles`, `root_info`, `resolver_service`.
//!
//! `bootstrap_handles` holds the root records as JSON; `root_info` and `resolver_service`, which are older, the values
//! of one record.

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::error::DecodeError;
use crate::handle::Handle;
use crate::record::{HandleRecord, HandleValue, JsonError, JsonNode, PublicKey, Site, parse_record};
use crate::wire::{ListItem as _, WireList, WireReader, WireWriter};

/// Records of Handle.Net's `bootstrap_handles` file.
///
/// ```
/// use tendot_proto::bootstrap::BootstrapHandles;
///
/// let json = br#"{"lastUpdate":1700000000000,"handles":{"0.NA/0.NA":{"handle":"0.NA/0.NA","values":[
///     {"index":1,"type":"HS_SERV","data":"0.GHR/1"},{"index":2,"type":"HS_SERV","data":"0.GHR/gone"}]},
///     "0.GHR/1":{"handle":"0.GHR/1","values":[]}}}"#;
/// let bootstrap = BootstrapHandles::from_json(json)?;
/// assert_eq!((bootstrap.last_update, bootstrap.records.len()), (1_700_000_000_000, 2));
/// assert_eq!(bootstrap.root_sites().len(), 0);
/// assert!(BootstrapHandles::from_json(b"{}").is_err());
/// # Ok::<(), tendot_proto::record::JsonError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BootstrapHandles {
    /// Unix time of the last update, in milliseconds.
    pub last_update: u64,
    /// Records `0.NA/0.NA`, `0.0/0.0` and the service handles they name.
    pub records: Vec<HandleRecord<'static>>,
}

impl BootstrapHandles {
    /// Parses the file.
    pub fn from_json(json: &[u8]) -> Result<Self, JsonError> {
        let json = serde_json::from_slice(json).map_err(|error| JsonError::from_syntax(&error))?;
        let node = JsonNode::new(&json);
        let handles = node.required("handles")?;
        let last_update = node.get("lastUpdate").map_or(Ok(0), |time| time.integer())?;
        let mut records = Vec::new();
        for name in handles.keys()? {
            records.push(parse_record(&handles.required(name)?)?);
        }
        Ok(Self { last_update, records })
    }

    /// Root sites: those of `0.NA/0.NA` and of the service handles it names, as far as the file has them.
    pub fn root_sites(&self) -> Vec<Site<'_>> {
        let mut sites = Vec::new();
        let mut visited = BTreeSet::new();
        let mut to_visit: Vec<Cow<'_, [u8]>> = alloc::vec![Handle::ROOT.as_bytes().into()];
        while let Some(handle) = to_visit.pop() {
            let handle = Handle::new(&handle).canonical().into_owned();
            if !visited.insert(handle.clone()) {
                continue;
            }
            for value in self.record_values(Handle::new(&handle)) {
                if let Some(site) = Site::from_value(value) {
                    sites.extend(site);
                } else if &*value.value_type == b"HS_SERV" {
                    to_visit.push(Cow::Borrowed(&value.data));
                }
            }
        }
        sites
    }

    /// Public keys of `0.0/0.0`, the trust anchors of signed records.
    pub fn root_keys(&self) -> Vec<PublicKey<'static>> {
        self.record_values(Handle::from("0.0/0.0"))
            .iter()
            .filter(|value| &*value.value_type == b"HS_PUBKEY")
            .filter_map(|value| PublicKey::from_bytes(&value.data).ok())
            .map(PublicKey::into_owned)
            .collect()
    }

    fn record_values(&self, handle: Handle<'_>) -> &[HandleValue<'static>] {
        let record = self.records.iter().find(|record| Handle::new(&record.handle).eq_ignore_case(handle));
        record.map_or(&[], |record| &record.values)
    }
}

/// Serializes the file's JSON.
impl Serialize for BootstrapHandles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// Records serialized as a map by handle.
        struct RecordMap<'b>(&'b [HandleRecord<'static>]);
        impl Serialize for RecordMap<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(Some(self.0.len()))?;
                for record in self.0 {
                    map.serialize_entry(&*alloc::string::String::from_utf8_lossy(&record.handle), record)?;
                }
                map.end()
            }
        }
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("lastUpdate", &self.last_update)?;
        map.serialize_entry("handles", &RecordMap(&self.records))?;
        map.end()
    }
}

/// Decodes `root_info` or `resolver_service`: length and values.
///
/// ```
/// use tendot_proto::HandleValue;
/// use tendot_proto::bootstrap::{decode_root_info, encode_root_info};
///
/// let values = [HandleValue::new(1, "HS_SERV", "0.GHR/1")];
/// let mut file = encode_root_info(&values);
/// assert_eq!(decode_root_info(&file)?, values);
/// file.pop();
/// assert_eq!(decode_root_info(&file).unwrap_err().to_string(), "root_info at byte 0: needs 44 bytes, only 43 left");
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
pub fn decode_root_info(file: &[u8]) -> Result<Vec<HandleValue<'_>>, DecodeError> {
    let mut reader = WireReader::new(file);
    let mut rest = reader.sub("root_info")?;
    reader.expect_end("root_info")?;
    let values: WireList<'_, HandleValue<'_>> = WireList::decode(&mut rest, "values")?;
    rest.expect_end("root_info")?;
    Ok(values.iter().collect())
}

/// Encodes `root_info` or `resolver_service`.
pub fn encode_root_info(values: &[HandleValue<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    WireWriter::new(&mut out).sub(|writer| {
        writer.count(values.len());
        for value in values {
            value.encode(writer);
        }
    });
    out
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;

    fn site(serial: u16) -> Site<'static> {
        Site { serial, ..Site::default() }
    }

    fn record(handle: &str, values: Vec<HandleValue<'static>>) -> HandleRecord<'static> {
        HandleRecord { handle: handle.as_bytes().to_vec().into(), values }
    }

    fn site_value(index: u32, value_type: &'static str, serial: u16) -> HandleValue<'static> {
        HandleValue::with_data(index, value_type, site(serial).to_bytes())
    }

    #[test]
    fn root_sites_and_service_handles() {
        let bootstrap = BootstrapHandles {
            last_update: 5,
            records: vec![
                record(
                    "0.NA/0.NA",
                    vec![
                        site_value(1, "HS_SITE", 1),
                        // Disabled, as in the file that Handle.Net ships.
                        site_value(2, "#HS_SITE", 2),
                        HandleValue::new(3, "HS_SERV", "0.ghr/a"),
                        HandleValue::new(4, "HS_SERV", "0.GHR/B"),
                        HandleValue::new(5, "HS_SERV", "0.GHR/UNKNOWN"),
                    ],
                ),
                record(
                    "0.GHR/A",
                    vec![site_value(1, "HS_SITE.6", 3), HandleValue::new(2, "HS_SERV", "0.GHR/B")],
                ),
                // A service handle that refers back to the root.
                record(
                    "0.GHR/B",
                    vec![site_value(1, "HS_SITE", 4), HandleValue::new(2, "HS_SERV", "0.NA/0.NA")],
                ),
                record("0.GHR/C", vec![site_value(1, "HS_SITE", 5)]),
                record(
                    "0.0/0.0",
                    vec![HandleValue::with_data(
                        1,
                        "HS_PUBKEY",
                        PublicKey::rsa(&[0xc1; 256], &[3]).to_bytes(),
                    )],
                ),
            ],
        };
        let mut serials: Vec<u16> = bootstrap.root_sites().iter().map(|site| site.serial).collect();
        serials.sort_unstable();
        assert_eq!(serials, [1, 3, 4]);
        assert_eq!(bootstrap.root_keys(), [PublicKey::rsa(&[0xc1; 256], &[3])]);
        let json = serde_json::to_string(&bootstrap).unwrap();
        let parsed = BootstrapHandles::from_json(json.as_bytes()).unwrap();
        assert_eq!(parsed.root_sites().len(), 3);
        assert_eq!(parsed.records.len(), 5);
    }
}
