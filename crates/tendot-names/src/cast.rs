//! The one place with `unsafe`: a `&str` that has been checked becomes a `&Name`.

use crate::Doi;

/// Looks at `text` as a name. The caller has checked it.
#[allow(unsafe_code, reason = "a reference to an unsized newtype can't be made without it")]
pub(crate) const fn name(text: &str) -> &Doi {
    // SAFETY: `Name` is `repr(transparent)` over `str`, so both references have the same layout, the same
    // lifetime is kept, and no invariant of `Name` is relied on for memory safety.
    unsafe { &*(core::ptr::from_ref::<str>(text) as *const Doi) }
}
