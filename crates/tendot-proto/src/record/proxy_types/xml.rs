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

/// Parses untrusted XML with at most `depth` nested elements. Document types, and so custom entities, are rejected;
/// constructs that take the parser more than linear time are limited before it starts.
pub(super) fn parse_bounded<'a>(
    bytes: &'a [u8],
    field: &'static str,
    depth: usize,
) -> Result<XmlTree<'a>, DecodeError> {
    let error = |at, kind| DecodeError::new(field, at, kind);
    if bytes.len() > MAX_XML_BYTES {
        return Err(error(0, DecodeErrorKind::TooLong { announced: bytes.len(), limit: MAX_XML_BYTES }));
    }
    let source = decode_text(bytes, field)?;
    check_xml_limits(source, depth)
        .map_err(|(at, announced, limit)| error(at, DecodeErrorKind::OverLimit { announced, limit }))?;
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(source, options).map_err(|wrong| {
        if matches!(wrong, roxmltree::Error::NodesLimitReached) {
            let limit = MAX_NODES as usize;
            return error(0, DecodeErrorKind::OverLimit { announced: limit + 1, limit });
        }
        let place = wrong.pos();
        let lines = source.split_inclusive('\n').take(place.row.saturating_sub(1) as usize);
        let line: usize = lines.map(str::len).sum();
        let characters = source.get(line..).unwrap_or_default().char_indices();
        let within = characters.map(|(at, _)| at).nth(place.col.saturating_sub(1) as usize);
        error(within.map_or(source.len(), |at| line + at), DecodeErrorKind::NotUnderstood)
    })?;
    let root = document.root_element();
    let children = root.children().filter(Node::is_element).map(XmlElement::new).collect();
    Ok(XmlTree { source, root: XmlElement::new(root), children })
}

/// Checks that untrusted XML parses in linear time. The error is offset, count and limit.
///
/// Examines only nesting, number of attributes and possible namespace declarations. Malformed XML passes; the parser
/// rejects it at the same position.
pub fn check_xml_limits(source: &str, deepest: usize) -> Result<(), (usize, usize, usize)> {
    let namespaces = source.matches("xmlns").count();
    if namespaces > MAX_NAMESPACES {
        return Err((0, namespaces, MAX_NAMESPACES));
    }
    let (mut depth, mut sections) = (0_usize, 0);
    let mut rest = source;
    while let Some((_, from)) = rest.split_once('<') {
        let at = source.len() - from.len() - 1;
        let end_of = |end: &str| from.split_once(end).map_or("", |(_, after)| after);
        rest = if from.starts_with("!--") {
            end_of("-->")
        } else if from.starts_with("![CDATA[") {
            sections += 1;
            if sections > MAX_CDATA_SECTIONS {
                return Err((at, sections, MAX_CDATA_SECTIONS));
            }
            end_of("]]>")
        } else if from.starts_with('?') {
            end_of("?>")
        } else if from.starts_with('/') {
            depth = depth.saturating_sub(1);
            end_of(">")
        } else {
            let (attributes, empty, after) = scan_tag(from);
            if attributes > MAX_ATTRIBUTES {
                return Err((at, attributes, MAX_ATTRIBUTES));
            }
            depth += usize::from(!empty);
            if depth > deepest {
                return Err((at, depth, deepest));
            }
            after
        };
    }
    Ok(())
}

/// Number of attributes of a tag, whether it is self-closing, and the text after it.
fn scan_tag(from: &str) -> (usize, bool, &str) {
    let (mut quote, mut last, mut attributes) = (None, 0, 0);
    for (at, byte) in from.bytes().enumerate() {
        match quote {
            Some(open) if byte == open => quote = None,
            Some(_) => {}
            None if byte == b'>' => {
                return (attributes, last == b'/', from.get(at + 1..).unwrap_or_default());
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
    fn bounds() {
        check(
            "<a b='>' c=\"'/>'\"><!-- it's <a><a><a><a> --><![CDATA[<a><a><a><a>]]><?p <a><a><a><a>?></a>",
            Ok(()),
        );
        check("<a><b><c><d><e/></d></c></b></a>", Ok(()));
        check(
            "<a><b><c><d><e></e></d></c></b></a>",
            Err("XML at byte 12: 5 items announced, at most 4 allowed"),
        );
        check("<!DOCTYPE a><a/>", Err("XML at byte 0: has no meaning here"));
        check("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", Err("XML at byte 0: has no meaning here"));
        check("<a>&b;</a>", Err("XML at byte 3: has no meaning here"));
        check("<a>\n<é></a>", Err("XML at byte 8: has no meaning here"));
        check("", Err("XML at byte 0: has no meaning here"));
        let many = |count: usize| (0..count).map(|number| format!(" a{number}=''")).collect::<String>();
        check(&format!("<a{}/>", many(32)), Ok(()));
        check(
            &format!("<a{}/>", many(6_000)),
            Err("XML at byte 0: 6000 items announced, at most 32 allowed"),
        );
        let long = "x".repeat(MAX_XML_BYTES);
        check(&long, Err("XML at byte 0: has no meaning here"));
        check(&(long + "x"), Err("XML at byte 0: 65537 bytes announced, at most 65536 allowed"));
        check(&"<a>".repeat(10_000), Err("XML at byte 12: 5 items announced, at most 4 allowed"));
        check(&format!("<a>{}</a>", "<b/>".repeat(4_094)), Ok(()));
        let too_many = format!("<a>{}</a>", "<b/>".repeat(4_095));
        check(&too_many, Err("XML at byte 0: 4097 items announced, at most 4096 allowed"));
        let sections = format!("<a>{}</a>", "<![CDATA[b]]>".repeat(65));
        check(&sections, Err("XML at byte 835: 65 items announced, at most 64 allowed"));
        let declared = format!("<a>{}</a>", "<b xmlns:c='d'/>".repeat(65));
        check(&declared, Err("XML at byte 0: 65 items announced, at most 64 allowed"));
    }

    #[track_caller]
    fn check(source: &str, outcome: Result<(), &str>) {
        let parsed = parse_bounded(source.as_bytes(), "XML", 4).map(drop).map_err(|error| error.to_string());
        assert_eq!(parsed, outcome.map_err(String::from), "{}", source.get(..80).unwrap_or(source));
    }
}
