//! Sites at which lookups start, and files to read them from.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tendot_proto::bootstrap::{BootstrapHandles, decode_root_info};
use tendot_proto::lookup::LookupConfig;
use tendot_proto::record::{
    HandleRecord, InterfaceKind, InterfaceProtocol, JsonError, PublicKey, ServerInterface, Site, SiteServer,
};
use tendot_proto::trust::TrustAnchors;
use tendot_proto::{DecodeError, Handle, HandleValue};

/// Sites at which lookups start: the Global Handle Registry, or a private root.
///
/// ```
/// use tendot_client::native::RootSites;
///
/// // The Global Handle Registry, as published.
/// assert_eq!(RootSites::global_registry().sites().len(), 13);
/// // Any server can be a private root.
/// assert_eq!(RootSites::from_addresses(&["127.0.0.1:2641".parse()?], None).sites().len(), 1);
/// assert!(RootSites::from_bytes(b"{}").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RootSites {
    sites: Vec<Arc<Site<'static>>>,
}

/// Error of reading root sites from a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootSitesError {
    /// Neither JSON nor encoded values.
    #[error("neither JSON nor encoded handle values: {0}")]
    Decode(#[from] DecodeError),
    /// Invalid JSON, or of another format.
    #[error("invalid root file: {0}")]
    Json(#[from] JsonError),
    /// No site with a server.
    #[error("no site found")]
    NoSites,
}

impl RootSites {
    /// Global Handle Registry, as published with Handle.Net 9 in July 2019 (`root.json`, format `bootstrap_handles`).
    pub fn global_registry() -> Self {
        // Parsing cannot fail: a unit test parses the same file.
        Self::from_bytes(include_bytes!("../../root.json")).unwrap_or(Self { sites: Vec::new() })
    }

    /// Trust anchors of signed records: the keys of `0.0/0.0`, as published with Handle.Net 9.
    ///
    /// ```
    /// use tendot_client::native::RootSites;
    ///
    /// assert_eq!(RootSites::global_trust_anchors().keys.len(), 1);
    /// ```
    pub fn global_trust_anchors() -> TrustAnchors {
        let bootstrap = BootstrapHandles::from_json(include_bytes!("../../root.json"));
        TrustAnchors::new(bootstrap.map(|bootstrap| bootstrap.root_keys()).unwrap_or_default())
    }

    /// Reads a Handle.Net file (`bootstrap_handles`, `siteinfo.json`, `root_info`) or a record as JSON.
    pub fn from_bytes(file: &[u8]) -> Result<Self, RootSitesError> {
        let sites = if file.trim_ascii_start().starts_with(b"{") {
            let json: Json = serde_json::from_slice(file).unwrap_or_default();
            if json.get("servers").or(json.get("serverList")).is_some() {
                let value = json!({"index": 1, "type": "HS_SITE", "data": {"format": "site", "value": json}});
                decode_sites(&[HandleValue::from_json(value.to_string().as_bytes())?])
            } else if json.get("values").is_some() {
                decode_sites(&HandleRecord::from_json(file)?.values)
            } else {
                let bootstrap = BootstrapHandles::from_json(file)?;
                bootstrap.root_sites().into_iter().map(|site| Arc::new(site.into_owned())).collect()
            }
        } else {
            decode_sites(&decode_root_info(file)?)
        };
        if sites.iter().all(|site: &Arc<Site<'_>>| site.servers.is_empty()) {
            return Err(RootSitesError::NoSites);
        }
        Ok(Self { sites })
    }

    /// One site per address, reachable over UDP and TCP; `key` for certified responses.
    pub fn from_addresses(addresses: &[SocketAddr], key: Option<&PublicKey<'_>>) -> Self {
        let site = |address: &SocketAddr| {
            let port = u32::from(address.port());
            let interface = |protocol| ServerInterface { kind: InterfaceKind::BOTH, protocol, port };
            let server = SiteServer {
                id: 1,
                address: SiteServer::encode_address(address.ip()),
                public_key: key.map(PublicKey::to_bytes).unwrap_or_default().into(),
                interfaces: vec![interface(InterfaceProtocol::UDP), interface(InterfaceProtocol::TCP)],
            };
            Arc::new(Site { flags: Site::FLAG_PRIMARY, servers: vec![server], ..Site::default() })
        };
        Self { sites: addresses.iter().map(site).collect() }
    }

    /// A single site.
    pub fn from_site(site: Site<'static>) -> Self {
        Self { sites: vec![Arc::new(site)] }
    }

    /// The sites.
    pub fn sites(&self) -> &[Arc<Site<'static>>] {
        &self.sites
    }

    /// Lookup settings that start at these sites.
    pub fn into_config(self) -> LookupConfig {
        base_config(self.sites)
    }

    /// Lookup settings that query only these sites for `name` and follow no referral.
    pub fn into_direct_config(self, name: Handle<'_>) -> LookupConfig {
        let mut config = base_config(self.sites.clone());
        let prefix =
            if name.suffix().is_some() { name.prefix().to_ascii_uppercase() } else { b"0.NA".to_vec() };
        config.prefix_overrides.insert(prefix, self.sites);
        config.max_referrals = 0;
        config
    }
}

/// Lookup settings with all transports, also HTTPS.
fn base_config(sites: Vec<Arc<Site<'static>>>) -> LookupConfig {
    let mut config = LookupConfig::new(sites);
    config.transports.push(InterfaceProtocol::HTTPS);
    config
}

/// Sites in values of type `HS_SITE` and `HS_SITE.6`; invalid ones are skipped.
fn decode_sites(values: &[HandleValue<'_>]) -> Vec<Arc<Site<'static>>> {
    let decode = |value| Some(Arc::new(Site::from_value(value)?.ok()?.into_owned()));
    values.iter().filter_map(decode).collect()
}

#[cfg(test)]
mod tests {
    use tendot_proto::bootstrap::encode_root_info;

    use super::*;

    #[test]
    fn global_registry_is_valid() {
        let root = RootSites::global_registry();
        for site in root.sites() {
            let server = &site.servers[0];
            assert!(server.decode_public_key().is_ok(), "{site:?}");
            assert!(server.interfaces.iter().any(|interface| interface.protocol == InterfaceProtocol::UDP));
        }
        let addresses: Vec<_> = root.sites().iter().map(|site| site.servers[0].ip().to_string()).collect();
        assert!(addresses.contains(&"132.151.1.179".to_owned()), "{addresses:?}");
    }

    #[test]
    fn reads_root_files() {
        let site = include_bytes!("../../../../conformance/vectors/handle-net/siteinfo.json");
        let from_site = RootSites::from_bytes(site).unwrap();
        assert_eq!(from_site.sites().len(), 1);
        let value = HandleValue::with_data(1, "HS_SITE", from_site.sites()[0].to_bytes());
        assert_eq!(RootSites::from_bytes(&encode_root_info(&[value])).unwrap(), from_site);
        let record = format!(
            r#"{{"handle":"0.NA/0.NA","values":[{{"index":1,"type":"HS_SITE","data":{{"format":"site","value":{}}}}}]}}"#,
            str::from_utf8(site).unwrap()
        );
        assert_eq!(RootSites::from_bytes(record.as_bytes()).unwrap(), from_site);
    }

    #[test]
    fn rejects_invalid_root_files() {
        check(b"", "neither JSON");
        check(b"invalid", "neither JSON");
        check(b"{}", "invalid root file: ");
        check(b"{", "invalid root file: ");
        check(br#"{"servers":1}"#, "invalid root file: ");
        check(br#"{"handle":"0.NA/0.NA","values":[]}"#, "no site");
        check(&[0, 0, 0, 4, 0, 0, 0, 0], "no site");
        check(&[0xff; 12], "neither JSON");
    }

    #[track_caller]
    fn check(file: &[u8], expected: &str) {
        let error = RootSites::from_bytes(file).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
