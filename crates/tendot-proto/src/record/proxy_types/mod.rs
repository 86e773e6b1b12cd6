//! Value types that only HTTP proxies interpret: prefix settings, locations, links, extra headers.
//!
//! In reading order:
//!
//! - `hs_namespace`: `HS_NAMESPACE`, settings of a prefix
//! - `loc`: `10320/loc`, locations and their selection
//! - `links`, `headers`: `10320/links`, `10320/headers`
//! - `xml`: bounded parsing of untrusted XML

mod headers;
mod hs_namespace;
mod links;
mod loc;
mod xml;

pub use headers::{ExtraHeader, ExtraHeaders};
pub use hs_namespace::Namespace;
pub use links::{Link, Links};
pub use loc::{Location, Locations};
pub use xml::{XmlElement, XmlLimitExceeded, check_xml_limits};
