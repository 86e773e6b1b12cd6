//! Value types of the Handle System, one decoder per type.

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
