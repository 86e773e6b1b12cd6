//! Value types whose data is a handle: `HS_SERV`, `HS_ALIAS`.

use crate::handle::Handle;

/// Data of an `HS_SERV` or `HS_SERV.PREFIX` value: service handle.
///
/// ```
/// use tendot_proto::{Handle, record::ServiceHandle};
///
/// assert!(ServiceHandle(Handle::from("0.na/0.na")).is_root());
/// assert!(!ServiceHandle(Handle::from("10.5555/SERVICE")).is_root());
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ServiceHandle<'a>(pub Handle<'a>);

impl ServiceHandle<'_> {
    /// Whether it is the root handle: the client then uses its configured root sites.
    pub fn is_root(self) -> bool {
        self.0.eq_ignore_case(Handle::ROOT)
    }
}

/// Data of an `HS_ALIAS` value: target handle. Only HTTP proxies follow aliases; they must detect loops.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Alias<'a>(pub Handle<'a>);
