//! Extensions: elements of other namespaces, which are stored and returned as they are.
//!
//! In JSON an extension is `{"namespace": …, "name": …, "attributes": {…}, "content": …}`. The content is a text, or an array of
//! texts and nested elements; a nested element without `namespace` is in that of its parent. Names of attributes with a namespace
//! are written `Q{namespace}name`, as in XPath.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::metadata::codec::node::{MetadataNode, NodeMember, XmlPosition};
use crate::metadata::codec::reader::{MetadataElement, MetadataReader, excerpt};
use crate::metadata::codec::xml::KERNEL_NAMESPACE;
use crate::metadata::fault::MetadataFaultCode;
use crate::metadata::model::text::is_xml_char;
use crate::metadata::schema::SchemaSet;

/// Maximum number of extensions of a document.
pub(in crate::metadata) const MAX_EXTENSIONS: usize = 100;
/// Maximum depth of elements in an extension.
const MAX_EXTENSION_DEPTH: usize = 8;
/// Maximum number of elements in one extension.
const MAX_EXTENSION_ELEMENTS: usize = 1_000;
/// Maximum size of all extensions of a document: names, namespaces and texts, in bytes.
const MAX_EXTENSION_BYTES: usize = 1 << 16;
/// Maximum number of namespaces in the extensions of a document; each is declared once in XML.
const MAX_EXTENSION_NAMESPACES: usize = 16;
/// Maximum number of attributes of an element; fewer than XML input may have, because of namespace declarations.
const MAX_EXTENSION_ATTRIBUTES: usize = 24;
/// Maximum length of a namespace, in bytes.
const MAX_NAMESPACE_BYTES: usize = 512;
/// Maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 128;
/// Maximum length of the text in a summary, in characters.
const MAX_SUMMARY_CHARS: usize = 200;

const XMLNS_NAMESPACE: &str = "http://www.w3.org/2000/xmlns/";

/// Refused: a reader of the XML would include other files.
const XINCLUDE_NAMESPACE: &str = "http://www.w3.org/2001/XInclude";

/// Element of another namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::metadata) struct ExtensionElement {
    /// Namespace; `None` if it is that of the parent.
    namespace: Option<Box<str>>,
    name: Box<str>,
    /// Attributes in document order; names with a namespace are `Q{namespace}name`.
    attributes: Vec<(Box<str>, Box<str>)>,
    content: Vec<ExtensionContent>,
}

/// Content of an element.
#[derive(Clone, Debug, Eq, PartialEq)]
enum ExtensionContent {
    Text(Box<str>),
    Element(ExtensionElement),
}

/// Extension in a few words, for pages and listings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExtensionSummary {
    /// Namespace of the element.
    pub namespace: String,
    /// Local name of the element.
    pub name: String,
    /// Beginning of the text in the element, without markup; may be empty.
    pub text: String,
}

impl ExtensionElement {
    pub(in crate::metadata) fn summary(&self) -> ExtensionSummary {
        let mut text = String::new();
        self.collect_text(&mut text);
        let words: Vec<&str> = text.split_whitespace().collect();
        ExtensionSummary {
            namespace: self.namespace.as_deref().unwrap_or_default().into(),
            name: (*self.name).into(),
            text: words.join(" ").chars().take(MAX_SUMMARY_CHARS).collect(),
        }
    }

    fn collect_text(&self, out: &mut String) {
        for content in &self.content {
            // A character has up to four bytes.
            if out.len() > 4 * MAX_SUMMARY_CHARS {
                return;
            }
            match content {
                ExtensionContent::Text(text) => out.extend(text.chars().take(2 * MAX_SUMMARY_CHARS)),
                ExtensionContent::Element(element) => {
                    element.collect_text(out);
                    out.push(' ');
                }
            }
        }
    }

    /// Size of names, namespaces and texts, in bytes.
    fn byte_len(&self) -> usize {
        let attributes = self.attributes.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        let content = self.content.iter().map(|content| match content {
            ExtensionContent::Text(text) => text.len(),
            ExtensionContent::Element(element) => element.byte_len(),
        });
        let namespace = self.namespace.as_deref().map_or(0, str::len);
        namespace + self.name.len() + attributes + content.sum::<usize>()
    }

    fn collect_namespaces<'e>(&'e self, found: &mut BTreeSet<&'e str>) {
        found.extend(self.namespace.as_deref());
        found.extend(self.attributes.iter().filter_map(|(name, _)| Some(split_qualified(name)?.0)));
        for content in &self.content {
            if let ExtensionContent::Element(element) = content {
                element.collect_namespaces(found);
            }
        }
    }
}

/// Reports extensions that exceed the limits of a document.
pub(in crate::metadata) fn check_extensions<'e>(
    extensions: impl Iterator<Item = &'e ExtensionElement>,
    reader: &mut MetadataReader,
) {
    let (mut count, mut bytes, mut namespaces) = (0_usize, 0_usize, BTreeSet::new());
    for extension in extensions {
        count += 1;
        bytes = bytes.saturating_add(extension.byte_len());
        extension.collect_namespaces(&mut namespaces);
    }
    let limits = [
        (count, MAX_EXTENSIONS, "extensions", MetadataFaultCode::TooMany),
        (namespaces.len(), MAX_EXTENSION_NAMESPACES, "namespaces in extensions", MetadataFaultCode::TooMany),
        (bytes, MAX_EXTENSION_BYTES, "bytes of extensions", MetadataFaultCode::TooLong),
    ];
    for (found, limit, what, code) in limits {
        if found > limit {
            let message = format!("{found} {what} (maximum {limit})");
            reader.report_member(EXTENSIONS_MEMBER, XmlPosition::Foreign, code, message);
        }
    }
}

/// Name of the member with the extensions in JSON.
pub(in crate::metadata) const EXTENSIONS_MEMBER: &str = "extensions";

/// Namespace and local name of `Q{namespace}name`.
pub(in crate::metadata) fn split_qualified(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("Q{")?.split_once('}')
}

impl MetadataElement for ExtensionElement {
    fn read(node: MetadataNode<'_>, reader: &mut MetadataReader) -> Option<Self> {
        let read = ExtensionReader { elements: 0 }.read(node, None, 1);
        read.map_err(|(code, message)| reader.report(code, message, &[])).ok()
    }

    fn to_node(&self) -> MetadataNode<'_> {
        let attributes =
            self.attributes.iter().map(|(name, value)| NodeMember::new(name, MetadataNode::text(&**value)));
        let attributes: Vec<_> = attributes.collect();
        let content = match &*self.content {
            [] => None,
            [ExtensionContent::Text(text)] => Some(MetadataNode::text(&**text)),
            content => Some(MetadataNode::Array(
                content
                    .iter()
                    .map(|content| match content {
                        ExtensionContent::Text(text) => MetadataNode::text(&**text),
                        ExtensionContent::Element(element) => element.to_node(),
                    })
                    .collect(),
            )),
        };
        MetadataNode::object([
            ("namespace", self.namespace.as_deref().map(MetadataNode::text)),
            ("name", Some(MetadataNode::text(&*self.name))),
            ("attributes", (!attributes.is_empty()).then_some(MetadataNode::Object(attributes))),
            ("content", content),
        ])
    }

    fn schema(schemas: &mut SchemaSet) -> Value {
        schemas.recursive("ExtensionElement", |element| {
            json!({
                "type": "object",
                "description": "Element of another namespace",
                "properties": {
                    "namespace": {"type": "string", "description": "Namespace; default: that of the parent", "minLength": 1},
                    "name": {"type": "string", "description": "Local name", "minLength": 1},
                    "attributes": {"type": "object", "additionalProperties": {"type": "string"}},
                    "content": {
                        "description": "Text, or texts and elements",
                        "oneOf": [
                            {"type": "string"},
                            {"type": "array", "items": {"oneOf": [{"type": "string"}, element]}},
                        ],
                    },
                },
                "required": ["name"],
                "additionalProperties": false,
            })
        })
    }

    #[cfg(test)]
    fn arbitrary(input: &mut crate::metadata::tests::ArbitraryInput) -> Self {
        arbitrary_element(input, "", 1)
    }
}

/// Fault of an extension: code and message.
type ExtensionFault = (MetadataFaultCode, String);

/// Reads one extension with its nested elements.
struct ExtensionReader {
    /// Number of elements so far.
    elements: usize,
}

impl ExtensionReader {
    /// Reads an element; `parent` is the namespace of the parent, if it has one.
    fn read(
        &mut self,
        node: MetadataNode<'_>,
        parent: Option<&str>,
        depth: usize,
    ) -> Result<ExtensionElement, ExtensionFault> {
        self.elements += 1;
        if depth > MAX_EXTENSION_DEPTH {
            let message = format!("extension nested deeper than {MAX_EXTENSION_DEPTH} elements");
            return Err((MetadataFaultCode::TooMany, message));
        }
        if self.elements > MAX_EXTENSION_ELEMENTS {
            let message = format!("more than {MAX_EXTENSION_ELEMENTS} elements in an extension");
            return Err((MetadataFaultCode::TooMany, message));
        }
        let MetadataNode::Object(members) = node else {
            return Err(wrong_type("an extension", "an object", &node));
        };
        let (mut namespace, mut name, mut attributes, mut content) = (None, None, None, None);
        for NodeMember { name: member, node, .. } in members {
            let slot = match &*member {
                "namespace" => &mut namespace,
                "name" => &mut name,
                "attributes" => &mut attributes,
                "content" => &mut content,
                _ => {
                    let message = format!("unknown member `{}` of an extension", excerpt(&member));
                    return Err((MetadataFaultCode::UnknownElement, message));
                }
            };
            if slot.replace(node).is_some() {
                return Err((
                    MetadataFaultCode::Duplicate,
                    format!("duplicate key `{member}` in an extension"),
                ));
            }
        }
        let missing = |member| (MetadataFaultCode::Missing, format!("missing `{member}` of an extension"));
        let namespace = match namespace {
            Some(node) => Some(read_namespace(node, parent.is_none())?),
            None if parent.is_none() => return Err(missing("namespace")),
            None => None,
        };
        let name = read_name(name.ok_or_else(|| missing("name"))?)?;
        let attributes = attributes.map_or_else(|| Ok(Vec::new()), read_attributes)?;
        let own_namespace = namespace.as_deref().or(parent);
        let content = match content {
            None => Vec::new(),
            Some(MetadataNode::Array(nodes)) => {
                let read = nodes.into_iter().map(|node| match node {
                    MetadataNode::String(text) => read_text(text).map(ExtensionContent::Text),
                    node => self.read(node, own_namespace, depth + 1).map(ExtensionContent::Element),
                });
                normalize_content(read.collect::<Result<_, _>>()?)
            }
            Some(MetadataNode::String(text)) => {
                normalize_content(vec![ExtensionContent::Text(read_text(text)?)])
            }
            Some(node) => return Err(wrong_type("`content`", "a string or an array", &node)),
        };
        // An element in the namespace of its parent has one form.
        let namespace = namespace.filter(|namespace| Some(&**namespace) != parent);
        Ok(ExtensionElement { namespace, name, attributes, content })
    }
}

/// Merges adjacent texts, and removes white space between elements unless there is other text.
fn normalize_content(content: Vec<ExtensionContent>) -> Vec<ExtensionContent> {
    let is_text = |content: &ExtensionContent| matches!(content, ExtensionContent::Text(_));
    let is_blank = |content: &ExtensionContent| matches!(content, ExtensionContent::Text(text) if text.trim().is_empty());
    let is_indented = content.iter().any(|content| !is_text(content))
        && content.iter().filter(|content| is_text(content)).all(is_blank);
    let (mut merged, mut pending) = (Vec::new(), String::new());
    for content in content {
        match content {
            ExtensionContent::Text(_) if is_indented => {}
            ExtensionContent::Text(text) => pending.push_str(&text),
            ExtensionContent::Element(element) => {
                push_text(&mut merged, &mut pending);
                merged.push(ExtensionContent::Element(element));
            }
        }
    }
    push_text(&mut merged, &mut pending);
    merged
}

/// Moves a text to the content, unless it is empty.
fn push_text(content: &mut Vec<ExtensionContent>, text: &mut String) {
    if !text.is_empty() {
        content.push(ExtensionContent::Text(std::mem::take(text).into()));
    }
}

fn wrong_type(what: &str, expected: &str, found: &MetadataNode<'_>) -> ExtensionFault {
    (MetadataFaultCode::WrongType, format!("expected {expected} for {what}, found {}", found.type_name()))
}

fn read_string<'a>(what: &str, node: MetadataNode<'a>) -> Result<Cow<'a, str>, ExtensionFault> {
    match node {
        MetadataNode::String(text) => Ok(text),
        node => Err(wrong_type(what, "a string", &node)),
    }
}

fn read_text(text: Cow<'_, str>) -> Result<Box<str>, ExtensionFault> {
    match text.chars().find(|found| !is_xml_char(*found)) {
        Some(found) => {
            let message = format!("character U+{:04X} is not allowed in XML", u32::from(found));
            Err((MetadataFaultCode::InvalidCharacter, message))
        }
        None => Ok(text.into()),
    }
}

/// Reads a namespace. An extension itself is not in the namespace of the kernel.
fn read_namespace(node: MetadataNode<'_>, is_outermost: bool) -> Result<Box<str>, ExtensionFault> {
    let namespace = read_string("`namespace`", node)?;
    check_namespace(&namespace)?;
    if namespace == XINCLUDE_NAMESPACE {
        return Err((MetadataFaultCode::ValueNotAllowed, "elements of XInclude are not allowed".into()));
    }
    if is_outermost && namespace == KERNEL_NAMESPACE {
        let message = "an extension must be in another namespace than the kernel".to_owned();
        return Err((MetadataFaultCode::ValueNotAllowed, message));
    }
    Ok(namespace.into())
}

fn check_namespace(namespace: &str) -> Result<(), ExtensionFault> {
    let is_allowed = |found: char| is_xml_char(found) && !found.is_whitespace() && !"{}<>\"".contains(found);
    if namespace.is_empty() {
        let message = "elements without a namespace are not allowed in extensions".to_owned();
        return Err((MetadataFaultCode::InvalidUri, message));
    }
    if namespace.len() > MAX_NAMESPACE_BYTES
        || namespace == XMLNS_NAMESPACE
        || !namespace.chars().all(is_allowed)
    {
        return Err((MetadataFaultCode::InvalidUri, format!("invalid namespace `{}`", excerpt(namespace))));
    }
    Ok(())
}

fn read_name(node: MetadataNode<'_>) -> Result<Box<str>, ExtensionFault> {
    let name = read_string("`name`", node)?;
    check_name(&name)?;
    Ok(name.into())
}

fn check_name(name: &str) -> Result<(), ExtensionFault> {
    let mut characters = name.chars();
    let is_valid = characters.next().is_some_and(is_name_start)
        && characters.all(|found| is_name_start(found) || is_further_name_char(found))
        && name.len() <= MAX_NAME_BYTES;
    if is_valid {
        return Ok(());
    }
    Err((MetadataFaultCode::ValueNotAllowed, format!("invalid XML name `{}`", excerpt(name))))
}

/// Names and values of attributes.
type Attributes = Vec<(Box<str>, Box<str>)>;

fn read_attributes(node: MetadataNode<'_>) -> Result<Attributes, ExtensionFault> {
    let MetadataNode::Object(members) = node else {
        return Err(wrong_type("`attributes`", "an object", &node));
    };
    if members.len() > MAX_EXTENSION_ATTRIBUTES {
        let message = format!("{} attributes (maximum {MAX_EXTENSION_ATTRIBUTES})", members.len());
        return Err((MetadataFaultCode::TooMany, message));
    }
    let mut attributes: Vec<(Box<str>, Box<str>)> = Vec::with_capacity(members.len());
    for NodeMember { name, node, .. } in members {
        match split_qualified(&name) {
            Some((namespace, local)) => {
                check_namespace(namespace)?;
                check_name(local)?;
            }
            None if name == "xmlns" => check_name("")?,
            None => check_name(&name)?,
        }
        if attributes.iter().any(|(other, _)| **other == *name) {
            return Err((MetadataFaultCode::Duplicate, format!("duplicate attribute `{}`", excerpt(&name))));
        }
        attributes.push((name.into(), read_text(read_string("an attribute", node)?)?));
    }
    Ok(attributes)
}

/// Start of a name without a colon (Namespaces in XML 1.0, `NCName`).
const fn is_name_start(found: char) -> bool {
    matches!(found, 'A'..='Z' | 'a'..='z' | '_' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
        | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}' | '\u{200D}' | '\u{2070}'..='\u{218F}'
        | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
        | '\u{10000}'..='\u{EFFFF}')
}

const fn is_further_name_char(found: char) -> bool {
    matches!(found, '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}' | '\u{2040}')
}

#[cfg(test)]
fn arbitrary_element(
    input: &mut crate::metadata::tests::ArbitraryInput,
    parent: &str,
    depth: usize,
) -> ExtensionElement {
    let namespace = *input.of(&["https://example.org/ns", "urn:x:1&2", "https://example.org/\u{E9}"]);
    let namespace = if parent.is_empty() || input.next().is_multiple_of(2) { namespace } else { parent };
    let names = ["a", "_b-1.x", "\u{E9}t\u{E9}", "type", "value", "extensions"];
    let attribute_names = ["lang", "Q{http://www.w3.org/XML/1998/namespace}lang", "Q{urn:y}x", "namespace"];
    let mut attributes: Vec<(Box<str>, Box<str>)> = Vec::new();
    for name in attribute_names.iter().take(usize::from(input.next() % 5)) {
        attributes.push(((*name).into(), input.text().into()));
    }
    let count = if depth < 4 { input.next() % 4 } else { 0 };
    let mut content = Vec::new();
    for _ in 0..count {
        content.push(match input.next() % 3 {
            0 => ExtensionContent::Text(input.text().into()),
            1 => ExtensionContent::Text(" \n".into()),
            _ => ExtensionContent::Element(arbitrary_element(input, namespace, depth + 1)),
        });
    }
    ExtensionElement {
        name: (*input.of(&names)).into(),
        attributes,
        content: normalize_content(content),
        namespace: Some(namespace).filter(|namespace| *namespace != parent).map(Into::into),
    }
}
