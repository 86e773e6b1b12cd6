//! Bounded parsing of untrusted XML.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use roxmltree::{Document, Node, ParsingOptions, StringStorage};

use crate::error::{DecodeError, DecodeErrorKind};
use crate::record::types::decode_text;

/// Maximum length of XML in a value, in bytes.
pub(super) const MAX_XML_BYTES: usize = 65_536;
/// Maximum attributes of an element: the parser compares each with all others.
const MAX_ATTRIBUTES: usize = 32;
/// Maximum namespace declarations: each element with one gets a list of all that apply.
const MAX_NAMESPACES: usize = 64;
/// Maximum CDATA sections: each is joined with the text before it.
const MAX_CDATA_SECTIONS: usize = 64;
/// Maximum elements, texts and comments.
const MAX_NODES: u32 = 4_096;

/// XML element: tag, attributes and leading text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct XmlElement<'a> {
    /// Local name, without namespace.
    pub tag: &'a str,
    /// Names and values.
    pub attributes: Vec<(&'a str, Cow<'a, str>)>,
    /// Text without surrounding white space; may be empty.
    pub text: Cow<'a, str>,
}

impl<'a> XmlElement<'a> {
    fn new(node: Node<'_, 'a>) -> Self {
        let attributes = node.attributes().map(|found| (found.name(), to_cow(found.value_storage())));
        let text = match node.text_storage().map(to_cow) {
            Some(Cow::Borrowed(text)) => Cow::Borrowed(text.trim()),
            Some(Cow::Owned(text)) => Cow::Owned(text.trim().into()),
            None => Cow::default(),
        };
        Self { tag: node.tag_name().name(), attributes: attributes.collect(), text }
    }

    /// Value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(found, _)| *found == name).map(|(_, value)| &**value)
    }
}

fn to_cow<'a>(storage: &StringStorage<'a>) -> Cow<'a, str> {
    match storage {
        StringStorage::Borrowed(text) => Cow::Borrowed(text),
        StringStorage::Owned(text) => Cow::Owned((**text).into()),
    }
}

/// Source, root element and its child elements.
pub(super) struct XmlTree<'a> {
    pub(super) source: &'a str,
    pub(super) root: XmlElement<'a>,
    pub(super) children: Vec<XmlElement<'a>>,
}

/// Parses untrusted XML with at most `max_depth` nested elements. Document types, and so custom entities, are rejected;
/// constructs that take the parser more than linear time are limited before it starts.
pub(super) fn parse_bounded<'a>(
    bytes: &'a [u8],
    field: &'static str,
    max_depth: usize,
) -> Result<XmlTree<'a>, DecodeError> {
    let error = |offset, kind| DecodeError::new(field, offset, kind);
    if bytes.len() > MAX_XML_BYTES {
        return Err(error(0, DecodeErrorKind::TooLong { len: bytes.len(), max: MAX_XML_BYTES }));
    }
    let source = decode_text(bytes, field)?;
    check_xml_limits(source, max_depth).map_err(|XmlLimitExceeded { offset, count, max }| {
        error(offset, DecodeErrorKind::TooManyItems { count, max })
    })?;
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(source, options).map_err(|parse_error| {
        if matches!(parse_error, roxmltree::Error::NodesLimitReached) {
            let max = MAX_NODES as usize;
            return error(0, DecodeErrorKind::TooManyItems { count: max + 1, max });
        }
        let position = parse_error.pos();
        let lines = source.split_inclusive('\n').take(position.row.saturating_sub(1) as usize);
        let line_offset: usize = lines.map(str::len).sum();
        let characters = source.get(line_offset..).unwrap_or_default().char_indices();
        let column_offset = characters.map(|(offset, _)| offset).nth(position.col.saturating_sub(1) as usize);
        error(column_offset.map_or(source.len(), |offset| line_offset + offset), DecodeErrorKind::Invalid)
    })?;
    let root = document.root_element();
    let children = root.children().filter(Node::is_element).map(XmlElement::new).collect();
    Ok(XmlTree { source, root: XmlElement::new(root), children })
}

/// Checks that untrusted XML parses in linear time.
///
/// Examines only nesting, number of attributes and possible namespace declarations. Malformed XML passes; the parser
/// rejects it at the same position.
pub fn check_xml_limits(source: &str, max_depth: usize) -> Result<(), XmlLimitExceeded> {
    let exceeded = |offset, count, max| Err(XmlLimitExceeded { offset, count, max });
    let namespaces = source.matches("xmlns").count();
    if namespaces > MAX_NAMESPACES {
        return exceeded(0, namespaces, MAX_NAMESPACES);
    }
    let (mut depth, mut sections) = (0_usize, 0);
    let mut rest = source;
    while let Some((_, after_bracket)) = rest.split_once('<') {
        let offset = source.len() - after_bracket.len() - 1;
        let skip_past = |end: &str| after_bracket.split_once(end).map_or("", |(_, after)| after);
        rest = if after_bracket.starts_with("!--") {
            skip_past("-->")
        } else if after_bracket.starts_with("![CDATA[") {
            sections += 1;
            if sections > MAX_CDATA_SECTIONS {
                return exceeded(offset, sections, MAX_CDATA_SECTIONS);
            }
            skip_past("]]>")
        } else if after_bracket.starts_with('?') {
            skip_past("?>")
        } else if after_bracket.starts_with('/') {
            depth = depth.saturating_sub(1);
            skip_past(">")
        } else {
            let (attributes, is_self_closing, after) = scan_tag(after_bracket);
            if attributes > MAX_ATTRIBUTES {
                return exceeded(offset, attributes, MAX_ATTRIBUTES);
            }
            depth += usize::from(!is_self_closing);
            if depth > max_depth {
                return exceeded(offset, depth, max_depth);
            }
            after
        };
    }
    Ok(())
}

/// XML exceeds a limit: nesting, attributes, namespace declarations or CDATA sections.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("XML limit exceeded at byte {offset}: {count} (maximum {max})")]
pub struct XmlLimitExceeded {
    /// Offset in bytes.
    pub offset: usize,
    /// Number found.
    pub count: usize,
    /// Maximum number.
    pub max: usize,
}

/// Number of attributes of a tag, whether it is self-closing, and the text after it.
fn scan_tag(tag: &str) -> (usize, bool, &str) {
    let (mut quote, mut last, mut attributes) = (None, 0, 0);
    for (offset, byte) in tag.bytes().enumerate() {
        match quote {
            Some(open) if byte == open => quote = None,
            Some(_) => {}
            None if byte == b'>' => {
                return (attributes, last == b'/', tag.get(offset + 1..).unwrap_or_default());
            }
            None if matches!(byte, b'"' | b'\'') => {
                quote = Some(byte);
                attributes += 1;
            }
            None => {}
        }
        last = byte;
    }
    (attributes, true, "")
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::{String, ToString};

    use super::*;

    #[test]
    fn limits() {
        check(
            "<a b='>' c=\"'/>'\"><!-- it's <a><a><a><a> --><![CDATA[<a><a><a><a>]]><?p <a><a><a><a>?></a>",
            Ok(()),
        );
        check("<a><b><c><d><e/></d></c></b></a>", Ok(()));
        check("<a><b><c><d><e></e></d></c></b></a>", Err("XML at byte 12: 5 items exceed the limit of 4"));
        check("<!DOCTYPE a><a/>", Err("XML at byte 0: invalid value"));
        check("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", Err("XML at byte 0: invalid value"));
        check("<a>&b;</a>", Err("XML at byte 3: invalid value"));
        check("<a>\n<é></a>", Err("XML at byte 8: invalid value"));
        check("", Err("XML at byte 0: invalid value"));
        let many = |count: usize| (0..count).map(|number| format!(" a{number}=''")).collect::<String>();
        check(&format!("<a{}/>", many(32)), Ok(()));
        check(&format!("<a{}/>", many(6_000)), Err("XML at byte 0: 6000 items exceed the limit of 32"));
        let long = "x".repeat(MAX_XML_BYTES);
        check(&long, Err("XML at byte 0: invalid value"));
        check(&(long + "x"), Err("XML at byte 0: length 65537 exceeds the limit of 65536 bytes"));
        check(&"<a>".repeat(10_000), Err("XML at byte 12: 5 items exceed the limit of 4"));
        check(&format!("<a>{}</a>", "<b/>".repeat(4_094)), Ok(()));
        let too_many = format!("<a>{}</a>", "<b/>".repeat(4_095));
        check(&too_many, Err("XML at byte 0: 4097 items exceed the limit of 4096"));
        let sections = format!("<a>{}</a>", "<![CDATA[b]]>".repeat(65));
        check(&sections, Err("XML at byte 835: 65 items exceed the limit of 64"));
        let declared = format!("<a>{}</a>", "<b xmlns:c='d'/>".repeat(65));
        check(&declared, Err("XML at byte 0: 65 items exceed the limit of 64"));
    }

    #[track_caller]
    fn check(source: &str, expected: Result<(), &str>) {
        let parsed = parse_bounded(source.as_bytes(), "XML", 4).map(drop).map_err(|error| error.to_string());
        assert_eq!(parsed, expected.map_err(String::from), "{}", source.get(..80).unwrap_or(source));
    }
}
