//! Reads a document tree and collects all faults with their pointers.

use std::fmt::Write;

use serde_json::Value;

use crate::metadata::codec::node::{MetadataNode, NodeMember, XmlPosition};
use crate::metadata::fault::{MetadataFault, MetadataFaultCode};
use crate::metadata::model::extension::EXTENSIONS_MEMBER;
use crate::metadata::schema::SchemaSet;

/// Maximum number of faults reported for one document.
const MAX_FAULTS: usize = 20;
/// Maximum length of an excerpt in messages, in characters.
const EXCERPT_CHARS: usize = 64;

/// Syntax of a document: JSON or XML.
///
/// Repetition is an array in JSON and a repeated element in XML; pointers differ, too.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::metadata) enum DocumentSyntax {
    Json,
    /// XML with the name of the root element.
    Xml(&'static str),
}

/// Reads a metadata tree and collects all faults with their pointers.
pub(in crate::metadata) struct MetadataReader {
    syntax: DocumentSyntax,
    path: Vec<PointerStep>,
    faults: Vec<MetadataFault>,
}

/// Step of the current pointer.
enum PointerStep {
    Member(&'static str, XmlPosition),
    Index(usize),
}

impl MetadataReader {
    pub(in crate::metadata) fn new(syntax: DocumentSyntax) -> Self {
        Self { syntax, path: Vec::new(), faults: Vec::new() }
    }

    /// Returns the result, or the faults.
    pub(in crate::metadata) fn finish<T>(self, read: Option<T>) -> Result<T, Vec<MetadataFault>> {
        match read {
            Some(read) if self.faults.is_empty() => Ok(read),
            _ => Err(self.faults),
        }
    }

    /// Reports a fault at the current position.
    pub(in crate::metadata) fn report(
        &mut self,
        code: MetadataFaultCode,
        message: String,
        allowed: &'static [&'static str],
    ) {
        self.report_at(String::new(), code, message, allowed);
    }

    /// Reports a value that is not allowed.
    pub(in crate::metadata) fn report_not_allowed(&mut self, found: &str, allowed: &'static [&'static str]) {
        self.report(
            MetadataFaultCode::ValueNotAllowed,
            format!("value `{}` is not allowed", excerpt(found)),
            allowed,
        );
    }

    /// Reports a missing member, or one of several.
    pub(in crate::metadata) fn report_missing(&mut self, member: &'static str, message: &str) {
        self.path.push(PointerStep::Member(member, XmlPosition::Element));
        self.report(MetadataFaultCode::Missing, message.to_owned(), &[]);
        self.path.pop();
    }

    /// Reports a fault of a member.
    pub(in crate::metadata) fn report_member(
        &mut self,
        member: &'static str,
        position: XmlPosition,
        code: MetadataFaultCode,
        message: String,
    ) {
        self.path.push(PointerStep::Member(member, position));
        self.report(code, message, &[]);
        self.path.pop();
    }

    pub(in crate::metadata) fn report_wrong_type(&mut self, found: &MetadataNode<'_>, expected: &str) {
        let message = format!("expected {expected}, found {}", found.type_name());
        self.report(MetadataFaultCode::WrongType, message, &[]);
    }

    /// Text of a node; reports other types.
    pub(in crate::metadata) fn expect_text<'a>(
        &mut self,
        node: MetadataNode<'a>,
    ) -> Option<std::borrow::Cow<'a, str>> {
        match node {
            MetadataNode::String(text) => Some(text),
            other => {
                self.report_wrong_type(&other, "a string");
                None
            }
        }
    }

    pub(in crate::metadata) fn is_json(&self) -> bool {
        self.syntax == DocumentSyntax::Json
    }

    /// Members of a node; reports other types.
    pub(in crate::metadata) fn expect_object<'a>(
        &mut self,
        node: MetadataNode<'a>,
    ) -> Option<ObjectReader<'a>> {
        match node {
            MetadataNode::Object(members) => Some(ObjectReader(members)),
            // Empty XML element, or one with text only.
            MetadataNode::String(text) if !self.is_json() => {
                let content = NodeMember {
                    name: "value".into(),
                    position: XmlPosition::Content,
                    node: MetadataNode::String(text),
                };
                let is_blank = matches!(&content.node, MetadataNode::String(text) if text.trim().is_empty());
                Some(ObjectReader(if is_blank { Vec::new() } else { vec![content] }))
            }
            other => {
                let expected = if self.is_json() { "an object" } else { "an element with child elements" };
                self.report_wrong_type(&other, expected);
                None
            }
        }
    }

    fn read_child<T: MetadataElement>(&mut self, step: PointerStep, node: MetadataNode<'_>) -> Option<T> {
        self.path.push(step);
        let read = T::read(node, self);
        self.path.pop();
        read
    }

    /// Reports a fault. `suffix` is appended to the pointer, for members that are not in the schema.
    fn report_at(
        &mut self,
        suffix: String,
        code: MetadataFaultCode,
        message: String,
        allowed: &'static [&'static str],
    ) {
        if self.is_fault_limit_reached() {
            return;
        }
        let mut pointer = match self.syntax {
            DocumentSyntax::Json => String::new(),
            DocumentSyntax::Xml(root) => format!("/{root}"),
        };
        for step in &self.path {
            // Writing to a string cannot fail.
            let _ = match (step, self.syntax) {
                (PointerStep::Index(index), DocumentSyntax::Json) => write!(pointer, "/{index}"),
                (PointerStep::Index(index), DocumentSyntax::Xml(_)) => write!(pointer, "[{}]", index + 1),
                (PointerStep::Member(name, _), DocumentSyntax::Json)
                | (PointerStep::Member(name, XmlPosition::Element), _) => {
                    write!(pointer, "/{name}")
                }
                (PointerStep::Member(name, XmlPosition::Attribute), _) => write!(pointer, "/@{name}"),
                (PointerStep::Member(name, XmlPosition::TypeAttribute), _) => {
                    write!(pointer, "/type/@{name}")
                }
                (PointerStep::Member(_, XmlPosition::Foreign), _) => write!(pointer, "/*"),
                (PointerStep::Member(_, XmlPosition::Content), _) => Ok(()),
            };
        }
        self.faults.push(MetadataFault { pointer: pointer + &suffix, code, message, allowed });
    }

    /// Number of faults so far.
    pub(in crate::metadata) fn fault_count(&self) -> usize {
        self.faults.len()
    }

    fn is_fault_limit_reached(&self) -> bool {
        self.fault_count() >= MAX_FAULTS
    }
}

/// Type that can be read from a tree and written to one.
pub(in crate::metadata) trait MetadataElement: Sized {
    /// Reads the element, or reports faults.
    fn read(node: MetadataNode<'_>, reader: &mut MetadataReader) -> Option<Self>;
    fn to_node(&self) -> MetadataNode<'_>;
    /// JSON schema of the element.
    fn schema(schemas: &mut SchemaSet) -> Value;
    /// Arbitrary element for tests; the simplest one if the input is used up.
    #[cfg(test)]
    fn arbitrary(input: &mut crate::metadata::tests::ArbitraryInput) -> Self;
}

/// Reads the members of an object by name.
///
/// All methods return `None` after reporting a fault.
pub(in crate::metadata) struct ObjectReader<'a>(Vec<NodeMember<'a>>);

impl<'a> ObjectReader<'a> {
    /// Reads a required member.
    pub(in crate::metadata) fn required<T: MetadataElement>(
        &mut self,
        reader: &mut MetadataReader,
        name: &'static str,
        position: XmlPosition,
    ) -> Option<T> {
        match self.take(reader, name, position) {
            Some(node) => reader.read_child(PointerStep::Member(name, position), node),
            None => {
                reader.report_member(name, position, MetadataFaultCode::Missing, format!("missing `{name}`"));
                None
            }
        }
    }

    /// Reads an optional member.
    pub(in crate::metadata) fn optional<T: MetadataElement>(
        &mut self,
        reader: &mut MetadataReader,
        name: &'static str,
        position: XmlPosition,
    ) -> Option<Option<T>> {
        match self.take(reader, name, position) {
            Some(node) => reader.read_child(PointerStep::Member(name, position), node).map(Some),
            None => Some(None),
        }
    }

    /// Reads zero or more members.
    pub(in crate::metadata) fn list<T: MetadataElement>(
        &mut self,
        reader: &mut MetadataReader,
        name: &'static str,
        position: XmlPosition,
        limit: usize,
    ) -> Option<Vec<T>> {
        let nodes = if reader.is_json() {
            match self.take(reader, name, position) {
                Some(MetadataNode::Array(nodes)) => nodes,
                Some(other) => {
                    reader.path.push(PointerStep::Member(name, position));
                    reader.report_wrong_type(&other, "an array");
                    reader.path.pop();
                    return None;
                }
                None => Vec::new(),
            }
        } else {
            self.0
                .iter_mut()
                .filter(|member| member.matches(reader, name, position))
                .map(NodeMember::take)
                .collect()
        };
        if nodes.len() > limit {
            let message = format!("{} items (maximum {limit})", nodes.len());
            reader.report_member(name, position, MetadataFaultCode::TooMany, message);
            return None;
        }
        let mut read = Vec::with_capacity(nodes.len());
        reader.path.push(PointerStep::Member(name, position));
        for (index, node) in nodes.into_iter().enumerate() {
            read.extend(reader.read_child(PointerStep::Index(index), node));
        }
        reader.path.pop();
        Some(read)
    }

    /// Reads one or more members.
    pub(in crate::metadata) fn non_empty<T: MetadataElement>(
        &mut self,
        reader: &mut MetadataReader,
        name: &'static str,
        position: XmlPosition,
        limit: usize,
    ) -> Option<Vec<T>> {
        let faults_before = reader.fault_count();
        let read = self.list(reader, name, position, limit)?;
        if read.is_empty() && reader.fault_count() == faults_before {
            let message = format!("at least one `{name}` is required");
            reader.report_member(name, position, MetadataFaultCode::Missing, message);
        }
        Some(read)
    }

    /// Remaining members as a node.
    pub(in crate::metadata) fn into_rest(self) -> MetadataNode<'a> {
        MetadataNode::Object(self.0)
    }

    /// Reports the remaining members as unknown, so that nothing is ignored silently.
    pub(in crate::metadata) fn reject_unknown(
        self,
        reader: &mut MetadataReader,
        known: &'static [&'static str],
    ) {
        for NodeMember { name, position, node } in self.0 {
            if matches!(node, MetadataNode::Consumed) {
                continue;
            }
            if reader.is_fault_limit_reached() {
                return;
            }
            let name = if position == XmlPosition::Foreign { foreign_name(&node) } else { excerpt(&name) };
            let suffix = match position {
                XmlPosition::Element | XmlPosition::Foreign => {
                    format!("/{}", if reader.is_json() { escape_pointer(&name) } else { name.clone() })
                }
                XmlPosition::Attribute => format!("/@{name}"),
                XmlPosition::TypeAttribute => format!("/type/@{name}"),
                XmlPosition::Content => String::new(),
            };
            // Extensions are elements of other namespaces in XML, and a member in JSON.
            let is_known = known.contains(&&*name) && (reader.is_json() || name != EXTENSIONS_MEMBER);
            let (code, message) = match position {
                XmlPosition::Content => {
                    (MetadataFaultCode::WrongType, "expected elements, found text".to_owned())
                }
                XmlPosition::Element if is_known && reader.is_json() => {
                    (MetadataFaultCode::Duplicate, format!("duplicate key `{name}`"))
                }
                XmlPosition::Element if is_known => {
                    (MetadataFaultCode::TooMany, format!("`{name}` must not be repeated"))
                }
                _ => (MetadataFaultCode::UnknownElement, format!("unknown element `{name}`")),
            };
            let allowed = if code == MetadataFaultCode::UnknownElement { known } else { &[] };
            reader.report_at(suffix, code, message, allowed);
        }
    }

    fn take(
        &mut self,
        reader: &MetadataReader,
        name: &str,
        position: XmlPosition,
    ) -> Option<MetadataNode<'a>> {
        self.0.iter_mut().find(|member| member.matches(reader, name, position)).map(NodeMember::take)
    }
}

impl<'a> NodeMember<'a> {
    fn matches(&self, reader: &MetadataReader, name: &str, position: XmlPosition) -> bool {
        let is_unread = self.name == name && !matches!(self.node, MetadataNode::Consumed);
        is_unread && (reader.is_json() || self.position == position)
    }

    fn take(&mut self) -> MetadataNode<'a> {
        std::mem::replace(&mut self.node, MetadataNode::Consumed)
    }
}

/// Name of an element of another namespace, for messages: `Q{namespace}name`.
fn foreign_name(node: &MetadataNode<'_>) -> String {
    let member = |name: &str| match node {
        MetadataNode::Object(members) => members.iter().find_map(|member| match &member.node {
            MetadataNode::String(text) if member.name == name => Some(excerpt(text)),
            _ => None,
        }),
        _ => None,
    };
    format!("Q{{{}}}{}", member("namespace").unwrap_or_default(), member("name").unwrap_or_default())
}

/// Excerpt of a value for messages: its beginning, without control characters.
pub(in crate::metadata) fn excerpt(text: &str) -> String {
    let mut excerpt: String = text
        .chars()
        .take(EXCERPT_CHARS)
        .map(|found| if found.is_control() { '\u{FFFD}' } else { found })
        .collect();
    if text.chars().nth(EXCERPT_CHARS).is_some() {
        excerpt.push('…');
    }
    excerpt
}

/// Escapes a name for a JSON pointer (RFC 6901, 3).
fn escape_pointer(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
