//! Trust anchors in files.

use std::path::Path;

use tendot_proto::bootstrap::BootstrapHandles;
use tendot_proto::record::{HandleRecord, PublicKey};
use tendot_proto::trust::TrustAnchors;

use super::key_file::{decode_public_key, read_small_file};
use crate::CliError;

/// Reads trust anchors: a public key in any format, which may have issued the certificates in any record; or the HS_PUBKEY
/// values of a record or of Handle.Net's bootstrap_handles as JSON, which may have issued those in their record.
pub(crate) fn read_trust_anchors(file: &Path) -> Result<TrustAnchors, CliError> {
    let path = file.display();
    let bytes = read_small_file(file)?;
    let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let invalid = |error| CliError::new(format!("invalid trust anchor `{path}`: {error}"));
    let anchors = if json.get("handles").is_some() {
        TrustAnchors::new(BootstrapHandles::from_json(&bytes).map_err(invalid)?.root_keys())
    } else if json.get("values").is_some() {
        let record = HandleRecord::from_json(&bytes).map_err(invalid)?;
        let keys = record.values.iter().filter(|value| value.has_type("HS_PUBKEY"));
        let keys = keys.filter_map(|value| PublicKey::from_bytes(&value.data).ok());
        TrustAnchors {
            keys: keys.map(PublicKey::into_owned).collect(),
            handle: Some(record.handle.to_vec().into()),
        }
    } else {
        TrustAnchors { handle: None, keys: vec![decode_public_key(file, &bytes)?] }
    };
    if anchors.keys.is_empty() {
        return Err(CliError::new(format!("no public key (HS_PUBKEY) in `{path}`")));
    }
    Ok(anchors)
}
