//! Scope of certificate permissions.

use crate::handle::Handle;
use crate::record::{CertificatePermission, CertificateScope};

impl CertificatePermission {
    /// Whether a key with this permission may sign for a handle.
    pub fn covers(&self, handle: Handle<'_>) -> bool {
        let base = Handle::from(&*self.handle);
        match &self.scope {
            scope if *scope == CertificateScope::EVERYTHING => true,
            scope if *scope == CertificateScope::THIS_HANDLE => {
                handle.eq_ignore_case(base) || is_under(handle, base)
            }
            scope if *scope == CertificateScope::DERIVED_PREFIXES => {
                is_derived(handle, base) || is_derived(Handle::new(&handle.prefix_handle()), base)
            }
            scope if *scope == CertificateScope::HANDLES_UNDER_THIS_PREFIX => is_under(handle, base),
            // An unknown scope permits nothing.
            _ => false,
        }
    }
}

/// Whether `handle` is under the prefix of the prefix handle `base`.
fn is_under(handle: Handle<'_>, base: Handle<'_>) -> bool {
    base.is_prefix_handle() && base.eq_ignore_case(Handle::new(&handle.prefix_handle()))
}

/// Whether `handle` is a prefix handle derived from `base`: `0.NA/10.1` from `0.NA/10`.
fn is_derived(handle: Handle<'_>, base: Handle<'_>) -> bool {
    let (handle, base) = (handle.as_bytes(), base.as_bytes());
    handle.split_at_checked(base.len()).is_some_and(|(start, rest)| {
        !base.is_empty() && start.eq_ignore_ascii_case(base) && rest.first() == Some(&b'.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes() {
        let this = |handle| check(CertificateScope::THIS_HANDLE, "0.NA/10.1", handle);
        assert!(this("0.na/10.1") && this("10.1/x"));
        assert!(!this("10.1.2/x") && !this("0.NA/10.1.2") && !this("10.11/x") && !this("0.NA/10"));
        let derived = |handle| check(CertificateScope::DERIVED_PREFIXES, "0.NA/10.1", handle);
        assert!(derived("0.NA/10.1.2") && derived("10.1.2/x") && derived("0.NA/10.1.2.3"));
        assert!(!derived("0.NA/10.1") && !derived("10.1/x") && !derived("0.NA/10.11") && !derived("10.11/x"));
        let under = |handle| check(CertificateScope::HANDLES_UNDER_THIS_PREFIX, "0.NA/10.1", handle);
        assert!(under("10.1/x"));
        assert!(!under("0.NA/10.1") && !under("10.1.2/x"));
        assert!(check(CertificateScope::THIS_HANDLE, "10.1/x", "10.1/X"));
        assert!(!check(CertificateScope::THIS_HANDLE, "10.1/x", "10.1/x/y"));
        assert!(check(CertificateScope::EVERYTHING, "", "10.1/x"));
        assert!(!check(CertificateScope("whatever".into()), "10.1/x", "10.1/x"));
        assert!(!check(CertificateScope::DERIVED_PREFIXES, "", ".1/x"));
    }

    fn check(scope: CertificateScope, base: &str, handle: &str) -> bool {
        CertificatePermission { handle: base.into(), scope }.covers(Handle::from(handle))
    }
}
