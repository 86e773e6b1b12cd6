//! Records: values and the types of their data, a file each.
//!
//! A [`HandleValue`] has its data as bytes; each type has a struct that reads them and writes them back as they were.
//! For JSON, [`HandleValue`] and [`HandleRecord`] are written by serde and read by `from_json`.

mod data;
mod desc;
mod email;
mod headers;
mod hs_admin;
mod hs_alias;
mod hs_cert;
mod hs_namespace;
mod hs_primary;
mod hs_pubkey;
mod hs_seckey;
mod hs_serv;
mod hs_signature;
mod hs_site;
mod hs_vlist;
mod json;
mod links;
mod loc;
mod permission;
#[expect(clippy::module_inception, reason = "a file per type, and this one is called so")]
mod record;
mod reference;
mod text;
mod ttl;
mod url;
mod value;
mod xml;

pub use data::ValueData;
pub use desc::DescriptionText;
pub use email::Email;
pub use headers::{ExtraHeader, ExtraHeaders};
pub use hs_admin::{Admin, AdminPermissions};
pub use hs_alias::Alias;
pub use hs_cert::{CertificatePermission, CertificateScope, HandleCertificate};
pub use hs_namespace::Namespace;
pub use hs_primary::PrimarySites;
pub use hs_pubkey::{KeyComponents, PublicKey};
pub use hs_seckey::SecretKey;
pub use hs_serv::ServiceHandle;
pub use hs_signature::{RecordSignature, ValueDigest};
pub use hs_site::{
    HashOption, InterfaceKind, InterfaceProtocol, ServerInterface, Site, SiteAttribute, SiteServer,
};
pub use hs_vlist::ValueList;
pub use json::{JsonError, Jwk, values_from_json};
pub(crate) use json::{JsonNode, read_record};
pub use links::{Link, Links};
pub use loc::{Location, Locations};
pub use permission::ValuePermissions;
pub use record::HandleRecord;
pub use reference::ValueReference;
pub use ttl::Ttl;
pub use url::Url;
pub use value::HandleValue;
pub use xml::{XmlElement, check_xml_limits};
