//! Value types that only HTTP proxies interpret: prefix settings, locations, links, extra headers.

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
