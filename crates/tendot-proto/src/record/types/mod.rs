//! Value types of the Handle System, one decoder per type.
//!
//! In reading order:
//!
//! - `text`: `URL`, `EMAIL`, `DESC`
//! - `handle_data`: `HS_SERV`, `HS_ALIAS`
//! - `hs_site`: `HS_SITE`
//! - `hs_admin`, `reference_lists`: `HS_ADMIN`; `HS_VLIST`, `HS_PRIMARY`
//! - `hs_pubkey`, `hs_seckey`: keys
//! - `hs_cert`, `hs_signature`: certificates of keys, signed digests of values

mod handle_data;
mod hs_admin;
mod hs_cert;
mod hs_pubkey;
mod hs_seckey;
mod hs_signature;
mod hs_site;
mod reference_lists;
mod text;

pub use handle_data::{Alias, ServiceHandle};
pub use hs_admin::{Admin, AdminPermissions};
pub use hs_cert::{CertificatePermission, CertificateScope, HandleCertificate};
pub use hs_pubkey::{KeyComponents, PublicKey};
pub use hs_seckey::SecretKey;
pub use hs_signature::{RecordSignature, ValueDigest};
pub use hs_site::{
    HashOption, InterfaceKind, InterfaceProtocol, ServerInterface, Site, SiteAttribute, SiteServer,
};
pub(super) use reference_lists::decode_references;
pub use reference_lists::{PrimarySites, ValueList};
pub use text::{DescriptionText, Email, Url};
pub(super) use text::{decode_text, printable_text};
