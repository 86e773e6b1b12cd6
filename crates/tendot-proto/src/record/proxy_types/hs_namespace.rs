//! `HS_NAMESPACE`: settings of a prefix.

use alloc::vec::Vec;

use super::xml::{self, XmlElement};
use crate::error::DecodeError;
use crate::record::HandleValue;

/// Data of an `HS_NAMESPACE` value: per-prefix settings in XML.
///
/// ```
/// use tendot_proto::record::Namespace;
///
/// let namespace = Namespace::from_bytes(
///     b"<namespace><status>inactive</status><locs>10.SERV/CROSSREF</locs><DOI.RA>10.SERV/CROSSREF</DOI.RA></namespace>",
/// )?;
/// assert!(!namespace.is_active());
/// assert_eq!(namespace.locations_handle(), Some("10.SERV/CROSSREF"));
/// assert_eq!(namespace.element_text("DOI.RA"), Some("10.SERV/CROSSREF"));
/// assert_eq!(namespace.contact(), None);
///
/// assert!(Namespace::from_bytes(b"<!DOCTYPE namespace><namespace/>").is_err());
/// # Ok::<(), tendot_proto::DecodeError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Namespace<'a> {
    source: &'a str,
    children: Vec<XmlElement<'a>>,
}

impl<'a> Namespace<'a> {
    /// Maximum depth; templates nest conditions, but never so deep in practice.
    const MAX_XML_DEPTH: usize = 16;

    /// Value with the settings of a prefix among the values of its record: of several public ones, the one with the lowest index,
    /// for every use.
    ///
    /// ```
    /// use tendot_proto::HandleValue;
    /// use tendot_proto::record::Namespace;
    ///
    /// let values = [
    ///     HandleValue::new(30, "HS_NAMESPACE", "<namespace/>"),
    ///     HandleValue::new(1, "EMAIL", "a@example.org"),
    ///     HandleValue::new(20, "HS_NAMESPACE", "<namespace/>"),
    /// ];
    /// assert_eq!(Namespace::find_value(&values).map(|value| value.index), Some(20));
    /// ```
    pub fn find_value<'v, 'd>(values: &'v [HandleValue<'d>]) -> Option<&'v HandleValue<'d>> {
        let namespaces = values.iter().filter(|value| value.is_public() && value.has_type("HS_NAMESPACE"));
        namespaces.min_by_key(|value| value.index)
    }

    /// Decodes the data of a value.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let tree = xml::parse_bounded(bytes, "HS_NAMESPACE", Self::MAX_XML_DEPTH)?;
        Ok(Self { source: tree.source, children: tree.children })
    }

    /// XML source.
    pub const fn as_str(&self) -> &'a str {
        self.source
    }

    /// First element with this name, for example `DOI.RA`.
    pub fn element(&self, tag: &str) -> Option<&XmlElement<'a>> {
        self.children.iter().find(|child| child.tag == tag)
    }

    /// Text of the first element with this name, if it has text.
    pub fn element_text(&self, tag: &str) -> Option<&str> {
        self.element(tag).map(|child| &*child.text).filter(|text| !text.is_empty())
    }

    /// Contact address.
    pub fn contact(&self) -> Option<&str> {
        self.element_text("contact")
    }

    /// Whether handles of the prefix are served: unless the status is `inactive`.
    pub fn is_active(&self) -> bool {
        !self.element_text("status").is_some_and(|status| status.eq_ignore_ascii_case("inactive"))
    }

    /// Message while handles of the prefix are not served.
    pub fn status_message(&self) -> Option<&str> {
        self.element_text("statusmsg")
    }

    /// Handle whose locations all handles of the prefix share.
    pub fn locations_handle(&self) -> Option<&str> {
        self.element_text("locs")
    }

    /// Delimiter between a stored handle and its extension.
    pub fn template_delimiter(&self) -> Option<&str> {
        self.element("template").and_then(|template| template.attribute("delimiter"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements() {
        let xml = "<?xml version='1.0'?>\n<namespace>\n <contact> a@b.c </contact>\n <statusmsg>gone &amp; away</statusmsg>\n\
             <template delimiter='@'><foreach><if value='type' test='equals' expression='URL'>\
             <value data='${data}?${extension}'/></if></foreach></template><status/></namespace>";
        let namespace = Namespace::from_bytes(xml.as_bytes()).unwrap();
        assert_eq!(namespace.contact(), Some("a@b.c"));
        assert_eq!(namespace.status_message(), Some("gone & away"));
        assert_eq!(namespace.template_delimiter(), Some("@"));
        assert_eq!(namespace.locations_handle(), None);
        assert!(namespace.is_active());
        assert_eq!(namespace.as_str(), xml);
    }
}
