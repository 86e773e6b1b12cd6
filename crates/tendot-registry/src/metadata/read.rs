use std::fmt::Write;

use super::fault::{MetadataFaultCode, MetadataFault};
use super::node::{Member, Node, Place};

/// Faults that are told of one document.
const FAULTS: usize = 20;
/// Characters of a wrong value that are told again.
const SHOWN: usize = 64;

/// How the document was written: JSON repeats in lists, XML repeats elements; their pointers differ too.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum DocumentSyntax {
    Json,
    /// With the name of its outermost element.
    Xml(&'static str),
}

/// Where the reading of a document is, and what was wrong so far. It goes on after a fault, to tell all of them.
pub(super) struct Reader {
    syntax: DocumentSyntax,
    path: Vec<Step>,
    faults: Vec<MetadataFault>,
}

enum Step {
    Member(&'static str, Place),
    At(usize),
}

impl Reader {
    pub(super) fn new(syntax: DocumentSyntax) -> Self {
        Self { syntax, path: Vec::new(), faults: Vec::new() }
    }

    /// What was read, if nothing was wrong.
    pub(super) fn end<T>(self, read: Option<T>) -> Result<T, Vec<MetadataFault>> {
        match read {
            Some(read) if self.faults.is_empty() => Ok(read),
            _ => Err(self.faults),
        }
    }

    /// Notes that something is wrong here.
    pub(super) fn fault(&mut self, code: MetadataFaultCode, message: String, allowed: &'static [&'static str]) {
        self.report_at(String::new(), code, message, allowed);
    }

    /// Notes that the value found here is none of those that are allowed.
    pub(super) fn not_allowed(&mut self, found: &str, allowed: &'static [&'static str]) {
        self.fault(MetadataFaultCode::NotAllowed, format!("`{}` is not allowed here", shown(found)), allowed);
    }

    /// Notes that a member of what is read here has to be there, or one of several.
    pub(super) fn missing(&mut self, member: &'static str, message: &str) {
        self.path.push(Step::Member(member, Place::Element));
        self.fault(MetadataFaultCode::Missing, message.to_owned(), &[]);
        self.path.pop();
    }

    /// Notes what is wrong with a member of what is read here.
    pub(super) fn report_member(
        &mut self,
        member: &'static str,
        place: Place,
        code: MetadataFaultCode,
        message: String,
    ) {
        self.path.push(Step::Member(member, place));
        self.fault(code, message, &[]);
        self.path.pop();
    }

    pub(super) fn report_wrong_type(&mut self, found: &Node<'_>, expected: &str) {
        let message = format!("{expected} is expected, not {}", found.what());
        self.fault(MetadataFaultCode::WrongType, message, &[]);
    }

    /// The text of a node.
    pub(super) fn text<'a>(&mut self, node: Node<'a>) -> Option<std::borrow::Cow<'a, str>> {
        match node {
            Node::Text(text) => Some(text),
            other => {
                self.report_wrong_type(&other, "a text");
                None
            }
        }
    }

    pub(super) fn is_json(&self) -> bool {
        self.syntax == DocumentSyntax::Json
    }

    /// The members of a node.
    pub(super) fn members<'a>(&mut self, node: Node<'a>) -> Option<Members<'a>> {
        match node {
            Node::Object(members) => Some(Members(members)),
            // An element of XML without anything in it, or with text only.
            Node::Text(text) if !self.is_json() => {
                let content = Member { name: "value".into(), place: Place::Content, node: Node::Text(text) };
                let is_blank = matches!(&content.node, Node::Text(text) if text.trim().is_empty());
                Some(Members(if is_blank { Vec::new() } else { vec![content] }))
            }
            other => {
                let expected = if self.is_json() { "an object" } else { "an element with elements in it" };
                self.report_wrong_type(&other, expected);
                None
            }
        }
    }

    fn read<T: Content>(&mut self, step: Step, node: Node<'_>) -> Option<T> {
        self.path.push(step);
        let read = T::read(node, self);
        self.path.pop();
        read
    }

    /// `beyond` is a part of the pointer that is not known to the schema.
    fn report_at(
        &mut self,
        beyond: String,
        code: MetadataFaultCode,
        message: String,
        allowed: &'static [&'static str],
    ) {
        if self.is_full() {
            return;
        }
        let mut pointer = match self.syntax {
            DocumentSyntax::Json => String::new(),
            DocumentSyntax::Xml(root) => format!("/{root}"),
        };
        for step in &self.path {
            // Writing to a string does not fail.
            let _ = match (step, self.syntax) {
                (Step::At(at), DocumentSyntax::Json) => write!(pointer, "/{at}"),
                (Step::At(at), DocumentSyntax::Xml(_)) => write!(pointer, "[{}]", at + 1),
                (Step::Member(name, _), DocumentSyntax::Json) | (Step::Member(name, Place::Element), _) => {
                    write!(pointer, "/{name}")
                }
                (Step::Member(name, Place::Attribute), _) => write!(pointer, "/@{name}"),
                (Step::Member(name, Place::TypeAttribute), _) => write!(pointer, "/type/@{name}"),
                (Step::Member(_, Place::Content), _) => Ok(()),
            };
        }
        self.faults.push(MetadataFault { pointer: pointer + &beyond, code, message, allowed });
    }

    /// How many faults were noted.
    pub(super) fn faults(&self) -> usize {
        self.faults.len()
    }

    fn is_full(&self) -> bool {
        self.faults() >= FAULTS
    }
}

/// What can be read from a node and written to one.
pub(super) trait Content: Sized {
    /// Reads it, or notes what is wrong.
    fn read(node: Node<'_>, reader: &mut Reader) -> Option<Self>;
    fn node(&self) -> Node<'_>;
    /// Any of these, for tests: without choices left, the simplest.
    #[cfg(test)]
    fn any(choices: &mut super::tests::ArbitraryInput) -> Self;
}

/// The members of an object, of which those are taken that are known.
///
/// Each way of taking gives `None` if something was wrong, and has noted it.
pub(super) struct Members<'a>(Vec<Member<'a>>);

impl<'a> Members<'a> {
    /// One that has to be there.
    pub(super) fn one<T: Content>(
        &mut self,
        reader: &mut Reader,
        name: &'static str,
        place: Place,
    ) -> Option<T> {
        match self.take(reader, name, place) {
            Some(node) => reader.read(Step::Member(name, place), node),
            None => {
                reader.report_member(name, place, MetadataFaultCode::Missing, format!("`{name}` has to be there"));
                None
            }
        }
    }

    /// One that may be there.
    pub(super) fn optional<T: Content>(
        &mut self,
        reader: &mut Reader,
        name: &'static str,
        place: Place,
    ) -> Option<Option<T>> {
        match self.take(reader, name, place) {
            Some(node) => reader.read(Step::Member(name, place), node).map(Some),
            None => Some(None),
        }
    }

    /// Any number of them.
    pub(super) fn many<T: Content>(
        &mut self,
        reader: &mut Reader,
        name: &'static str,
        place: Place,
        limit: usize,
    ) -> Option<Vec<T>> {
        let nodes = if reader.is_json() {
            match self.take(reader, name, place) {
                Some(Node::List(nodes)) => nodes,
                Some(other) => {
                    reader.path.push(Step::Member(name, place));
                    reader.report_wrong_type(&other, "a list");
                    reader.path.pop();
                    return None;
                }
                None => Vec::new(),
            }
        } else {
            self.0.iter_mut().filter(|member| member.fits(reader, name, place)).map(Member::take).collect()
        };
        if nodes.len() > limit {
            let message = format!("{} are too many, at most {limit} are taken", nodes.len());
            reader.report_member(name, place, MetadataFaultCode::TooMany, message);
            return None;
        }
        let mut read = Vec::with_capacity(nodes.len());
        reader.path.push(Step::Member(name, place));
        for (at, node) in nodes.into_iter().enumerate() {
            read.extend(reader.read(Step::At(at), node));
        }
        reader.path.pop();
        Some(read)
    }

    /// At least one of them.
    pub(super) fn some<T: Content>(
        &mut self,
        reader: &mut Reader,
        name: &'static str,
        place: Place,
        limit: usize,
    ) -> Option<Vec<T>> {
        let before = reader.faults();
        let read = self.many(reader, name, place, limit)?;
        if read.is_empty() && reader.faults() == before {
            let message = format!("at least one `{name}` has to be there");
            reader.report_member(name, place, MetadataFaultCode::Missing, message);
        }
        Some(read)
    }

    /// What is left, as a node again.
    pub(super) fn rest(self) -> Node<'a> {
        Node::Object(self.0)
    }

    /// Notes what is left: nobody should think that it was understood.
    pub(super) fn finish(self, reader: &mut Reader, known: &'static [&'static str]) {
        for Member { name, place, node } in self.0 {
            if matches!(node, Node::Read) {
                continue;
            }
            if reader.is_full() {
                return;
            }
            let name = shown(&name);
            let beyond = match place {
                Place::Element => format!("/{}", if reader.is_json() { escape(&name) } else { name.clone() }),
                Place::Attribute => format!("/@{name}"),
                Place::TypeAttribute => format!("/type/@{name}"),
                Place::Content => String::new(),
            };
            let is_known = known.contains(&&*name);
            let (code, message) = match place {
                Place::Content => (MetadataFaultCode::WrongType, "elements are expected, not text".to_owned()),
                Place::Element if is_known && reader.is_json() => {
                    (MetadataFaultCode::Duplicate, format!("`{name}` is there twice"))
                }
                Place::Element if is_known => {
                    (MetadataFaultCode::TooMany, format!("one `{name}` is taken, not several"))
                }
                _ => (MetadataFaultCode::UnknownElement, format!("there is no `{name}` here")),
            };
            let allowed = if code == MetadataFaultCode::UnknownElement { known } else { &[] };
            reader.report_at(beyond, code, message, allowed);
        }
    }

    fn take(&mut self, reader: &Reader, name: &str, place: Place) -> Option<Node<'a>> {
        self.0.iter_mut().find(|member| member.fits(reader, name, place)).map(Member::take)
    }
}

impl<'a> Member<'a> {
    fn fits(&self, reader: &Reader, name: &str, place: Place) -> bool {
        let is_there = self.name == name && !matches!(self.node, Node::Read);
        is_there && (reader.is_json() || self.place == place)
    }

    fn take(&mut self) -> Node<'a> {
        std::mem::replace(&mut self.node, Node::Read)
    }
}

/// A value as it is told again: its beginning, without what could disturb a terminal or a log.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String =
        text.chars().take(SHOWN).map(|found| if found.is_control() { '\u{FFFD}' } else { found }).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// A name inside a JSON pointer (RFC 6901, 3).
fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
