//! Locations of a record, and the choice of one to redirect to.
//!
//! In reading order:
//!
//! - `location_set.rs`: locations of record, includes and prefix
//! - `country.rs`: country of the client
//! - `preferences.rs`: preferences from headers and `locatt`
//! - `selection.rs`: choice of one location (`10320/loc`)
//! - `redirect_target.rs`: URL made safe for `Location`
//! - `link_headers.rs`: `Link` and other headers

pub(crate) mod country;
pub(crate) mod link_headers;
pub(crate) mod location_set;
pub(crate) mod preferences;
pub(crate) mod redirect_target;
pub(crate) mod selection;
