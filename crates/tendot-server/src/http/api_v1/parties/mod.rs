//! Agencies, registrants, prefixes, tokens and transfers.

pub(crate) mod agencies;
pub(crate) mod prefixes;
pub(crate) mod registrants;
pub(crate) mod tokens;
pub(crate) mod transfers;
