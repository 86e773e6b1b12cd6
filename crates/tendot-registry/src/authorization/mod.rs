//! Authorization, used by every path.
//!
//! In reading order: `caller` is the authenticated caller, `principal` its role, scopes and prefixes; `requirement` is the
//! requirement of an operation, from `HS_ADMIN` values; `admin_group` finds members of `HS_VLIST` groups; `authorize`
//! decides; `precheck` does so before the authentication response is verified.

mod admin_group;
mod authorize;
mod caller;
mod precheck;
mod principal;
mod requirement;

pub use caller::{Caller, HandleIdentity};
pub(crate) use caller::{Claimant, reference_covers};
pub use precheck::HandleOperation;
pub(crate) use principal::{ActingRole, Principal};
pub(crate) use requirement::{
    AdminSet, Requirement, admins_with, grants_access, has_admin, is_admin_value, is_credential,
};
