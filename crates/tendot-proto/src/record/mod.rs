//! Handle records: values and one decoder per value type.
//!
//! A [`HandleValue`] stores its data as bytes. Each value type has a struct that decodes them and encodes them to the
//! same bytes; [`ValueData`] chooses it by type. JSON: serde serializes [`HandleValue`] and [`HandleRecord`],
//! `from_json` parses them.
//!
//! Reading order: `value`, `indexes`, `handle_record`, `reference`, `ttl`, `data`, `types`, `proxy_types`, `json`.

mod data;
mod handle_record;
mod indexes;
mod json;
mod proxy_types;
mod reference;
mod ttl;
mod types;
mod value;

pub use data::ValueData;
pub use handle_record::HandleRecord;
pub use indexes::{IndexError, validate_indexes};
pub use json::{JsonError, Jwk, values_from_json};
pub(crate) use json::{JsonNode, parse_record};
pub use proxy_types::{
    ExtraHeader, ExtraHeaders, Link, Links, Location, Locations, Namespace, XmlElement, XmlLimitExceeded,
    check_xml_limits,
};
pub use reference::ValueReference;
pub use ttl::Ttl;
pub use types::{
    Admin, AdminPermissions, Alias, CertificatePermission, CertificateScope, DescriptionText, Email,
    HandleCertificate, HashOption, InterfaceKind, InterfaceProtocol, KeyComponents, PrimarySites, PublicKey,
    RecordSignature, SecretKey, ServerInterface, ServiceHandle, Site, SiteAttribute, SiteServer, Url,
    ValueDigest, ValueList,
};
pub use value::{HandleValue, ValuePermissions};
