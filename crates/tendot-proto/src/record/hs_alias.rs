use crate::handle::Handle;

/// Data of an `HS_ALIAS` value: target handle. Only HTTP proxies follow aliases; they must detect loops.
///
/// Neither servers nor the native protocol follow it; redirecting front ends do, and must look out for circles.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Alias<'a>(pub Handle<'a>);
