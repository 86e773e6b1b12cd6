/// Syntax error in a path or query, with its byte offset.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{why} (byte {at} of the {what})")]
pub(crate) struct RequestSyntaxError {
    pub(super) what: &'static str,
    pub(super) at: usize,
    pub(super) why: &'static str,
}

impl RequestSyntaxError {
    pub(super) const fn new(what: &'static str, at: usize, why: &'static str) -> Self {
        Self { what, at, why }
    }
}
