//! Records: values and the types of their data, a file each.

mod hs_pubkey;
mod hs_site;
mod permission;
mod reference;
mod ttl;
mod value;

pub use hs_pubkey::{KeyKind, PublicKey};
pub use hs_site::HashOption;
pub use permission::Permissions;
pub use reference::Reference;
pub use ttl::Ttl;
pub use value::Value;
