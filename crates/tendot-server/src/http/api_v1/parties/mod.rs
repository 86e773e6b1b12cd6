//! Agencies, registrants, prefixes, tokens and transfers.
//!
//! In reading order:
//!
//! - `agencies.rs`: create, list, update and close agencies
//! - `registrants.rs`: registrants of an agency
//! - `prefixes.rs`: prefixes of a registrant, with policy and quota
//! - `tokens.rs`: API tokens of a party
//! - `transfers.rs`: proposals and decisions

pub(crate) mod agencies;
pub(crate) mod prefixes;
pub(crate) mod registrants;
pub(crate) mod tokens;
pub(crate) mod transfers;
