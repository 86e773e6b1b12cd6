use crate::handle::Handle;

/// The data of `HS_ALIAS`: the name under which the record really is.
///
/// Neither servers nor the native protocol follow it; redirecting front ends do, and must look out for circles.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Alias<'a>(pub Handle<'a>);
