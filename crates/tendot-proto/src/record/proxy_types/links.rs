//! `10320/links`: typed links (RFC 8288).

use alloc::vec::Vec;

use super::xml::{self, XmlElement};
use crate::error::{DecodeError, DecodeErrorKind};

/// Data of a `10320/links` value: typed links in XML (RFC 8288).
///
/// ```
/// use tendot_proto::record::Links;
///
/// let links = Links::from_bytes(b"<links><location rel='license' href='https://example.org/l'/><location/></links>")?;
/// let found: Vec<_> = links.iter().map(|link| (link.rel(), link.href())).collect();
/// assert_eq!(found, [("license", Some("https://example.org/l"))]);
/// assert!(Links::from_bytes(b"<links>").is_err());
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Links<'a> {
    source: &'a str,
    elements: Vec<XmlElement<'a>>,
}

impl<'a> Links<'a> {
    /// Maximum depth; the format needs two levels.
    const MAX_XML_DEPTH: usize = 4;

    /// Maximum number of links.
    pub const MAX_LINKS: usize = 256;

    /// Decodes the data of a value.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let tree = xml::parse_bounded(bytes, "10320/links", Self::MAX_XML_DEPTH)?;
        if tree.children.len() > Self::MAX_LINKS {
            let kind = DecodeErrorKind::TooManyItems { count: tree.children.len(), max: Self::MAX_LINKS };
            return Err(DecodeError::new("10320/links", 0, kind));
        }
        Ok(Self { source: tree.source, elements: tree.children })
    }

    /// XML source.
    pub const fn as_str(&self) -> &'a str {
        self.source
    }

    /// Iterates over the links: all elements with a `rel` attribute.
    pub fn iter(&self) -> impl Iterator<Item = Link<'_, 'a>> {
        self.elements.iter().filter_map(Link::from_element)
    }
}

/// Typed link for the HTTP `Link` header (RFC 8288).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Link<'e, 'a> {
    element: &'e XmlElement<'a>,
    rel: &'e str,
}

impl<'e, 'a> Link<'e, 'a> {
    pub(super) fn from_element(element: &'e XmlElement<'a>) -> Option<Self> {
        element.attribute("rel").map(|rel| Self { element, rel })
    }

    /// Link relation type.
    pub const fn rel(self) -> &'e str {
        self.rel
    }

    /// Attribute by name: `anchor-id`, `title`, `hreflang` and others.
    pub fn attribute(self, name: &str) -> Option<&'e str> {
        self.element.attribute(name)
    }

    /// Link target.
    pub fn href(self) -> Option<&'e str> {
        self.attribute("href")
    }

    /// Link context, if it is not the resource itself.
    pub fn anchor(self) -> Option<&'e str> {
        self.attribute("anchor")
    }

    /// [`id`](super::Location::id) of the location that is the link context.
    pub fn anchor_id(self) -> Option<&'e str> {
        self.attribute("anchor-id")
    }

    /// Media type of the target: `media-type` or `target-type`.
    pub fn media_type(self) -> Option<&'e str> {
        self.attribute("media-type").or_else(|| self.attribute("target-type"))
    }
}
