//! Records: values and the types of their data, a file each.
//!
//! A [`Value`] has its data as bytes; each type has a struct that reads them and writes them back as they were.
//! For JSON, [`Value`] and [`Record`] are written by serde and read by `from_json`.

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

pub use data::Data;
pub use desc::Description;
pub use email::Email;
pub use headers::{ExtraHeader, Headers};
pub use hs_admin::{Admin, AdminPermissions};
pub use hs_alias::Alias;
pub use hs_cert::{Certificate, CertificatePermission, CertificateScope};
pub use hs_namespace::Namespace;
pub use hs_primary::Primary;
pub use hs_pubkey::{KeyComponents, PublicKey};
pub use hs_seckey::SecretKey;
pub use hs_serv::Service;
pub use hs_signature::{Signature, ValueDigest};
pub use hs_site::{Attribute, HashOption, Interface, InterfaceKind, Server, Site, Transport};
pub use hs_vlist::ValueList;
pub use json::{JsonError, Jwk, values_from_json};
pub(crate) use json::{Node, read_record};
pub use links::{Link, Links};
pub use loc::{Location, Locations};
pub use permission::Permissions;
pub use record::Record;
pub use reference::Reference;
pub use ttl::Ttl;
pub use url::Url;
pub use value::Value;
pub use xml::{XmlElement, bound_xml};
