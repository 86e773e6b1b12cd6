//! Kernel metadata as XML.

use roxmltree::{Document, Node as Element, ParsingOptions};
use tendot_proto::record::bound_xml;

use super::fault::{MetadataFaultCode, MetadataFault};
use super::node::{Member, Node, Place};
use super::read::shown;
use super::value::is_xml_char;

/// The namespace of the kernel's schema.
const NAMESPACE: &str = "http://www.doi.org/2010/DOISchema";
/// The namespace in which documents say where their schema is.
const XSI_NAMESPACE: &str = "http://www.w3.org/2001/XMLSchema-instance";
/// Elements inside elements.
const DEPTH: usize = 12;
/// Elements, texts and comments: enough for 5,000 agents.
const NODES: u32 = 1 << 17;

/// Parses a text, which may have no document type, and so no entities of its own.
pub(super) fn parse(text: &str) -> Result<Document<'_>, MetadataFault> {
    let too_much = |(at, found, limit)| {
        fault(
            MetadataFaultCode::NotXml,
            format!("at byte {at} the XML has {found} of something, at most {limit} are read"),
        )
    };
    bound_xml(text, DEPTH).map_err(too_much)?;
    let options = ParsingOptions { nodes_limit: NODES, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).map_err(|error| match error {
        roxmltree::Error::DtdDetected => fault(MetadataFaultCode::DtdNotAllowed, "DTD not allowed".to_owned()),
        error => fault(MetadataFaultCode::NotXml, format!("this is not the XML that is expected: {error}")),
    })
}

/// The tree of a document with this outermost element.
pub(super) fn node<'a>(document: &'a Document<'_>, root: &str) -> Result<Node<'a>, MetadataFault> {
    let found = document.root_element();
    let (namespace, name) = (found.tag_name().namespace(), found.tag_name().name());
    if name != root || namespace != Some(NAMESPACE) {
        let of = namespace.map_or(String::new(), |namespace| format!(" of `{}`", shown(namespace)));
        let message = format!("`{root}` of `{NAMESPACE}` is expected, not `{}`{of}", shown(name));
        return Err(fault(MetadataFaultCode::UnknownElement, message));
    }
    Ok(tree(found))
}

/// Attributes of `type` become members beside it, as JSON has them. How deep it goes was bounded before.
fn tree<'a>(element: Element<'a, '_>) -> Node<'a> {
    let mut members: Vec<_> = attributes(element, Place::Attribute).collect();
    let mut has_elements = false;
    for child in element.children().filter(Element::is_element) {
        has_elements = true;
        let is_ours = child.tag_name().namespace() == Some(NAMESPACE);
        let name = child.tag_name().name();
        if is_ours && name == "type" {
            members.extend(attributes(child, Place::TypeAttribute));
            members.push(Member::new(name, text(child)));
        } else if is_ours {
            members.push(Member::new(name, tree(child)));
        } else {
            let namespace = child.tag_name().namespace().unwrap_or_default();
            let name = format!("Q{{{}}}{name}", shown(namespace)).into();
            members.push(Member { name, place: Place::Element, node: Node::Odd("of another namespace") });
        }
    }
    let text = text(element);
    if members.is_empty() {
        return text;
    }
    let is_blank = matches!(&text, Node::Text(text) if text.trim().is_empty());
    if !is_blank {
        let place = Place::Content;
        members.push(Member { name: if has_elements { "" } else { "value" }.into(), place, node: text });
    }
    Node::Object(members)
}

/// All but those that say where the schema is.
fn attributes<'a>(element: Element<'a, '_>, place: Place) -> impl Iterator<Item = Member<'a>> {
    element.attributes().filter(|found| found.namespace() != Some(XSI_NAMESPACE)).map(move |found| {
        let name = match found.namespace() {
            None => found.name().into(),
            Some(namespace) => format!("Q{{{}}}{}", shown(namespace), found.name()).into(),
        };
        Member { name, place, node: Node::text(found.value()) }
    })
}

/// The texts right inside an element; comments may stand between them.
fn text<'a>(element: Element<'a, '_>) -> Node<'a> {
    let mut texts = element.children().filter(Element::is_text).filter_map(|child| child.text());
    let first = texts.next().unwrap_or_default();
    let rest: String = texts.collect();
    if rest.is_empty() { Node::text(first) } else { Node::text(format!("{first}{rest}")) }
}

/// A document, indented for people.
pub(super) fn write(root: &str, node: &Node<'_>) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    write_element(&mut text, 0, root, &[("xmlns", NAMESPACE)], node);
    text
}

fn write_element(out: &mut String, depth: usize, name: &str, attributes: &[(&str, &str)], node: &Node<'_>) {
    let members = match node {
        Node::List(nodes) => {
            return nodes.iter().for_each(|node| write_element(out, depth, name, attributes, node));
        }
        Node::Object(members) => members.as_slice(),
        _ => &[],
    };
    out.extend(std::iter::repeat_n("  ", depth).chain(["<", name]));
    for (name, value) in attributes {
        write_attribute(out, name, value);
    }
    for member in members.iter().filter(|member| member.place == Place::Attribute) {
        write_attribute(out, &member.name, &plain(&member.node));
    }
    out.push('>');
    let mut has_elements = false;
    for member in members {
        if member.place == Place::Content {
            write_text(out, &plain(&member.node), false);
        } else if member.place == Place::Element {
            if !has_elements {
                out.push('\n');
            }
            has_elements = true;
            let described: Vec<_> = members
                .iter()
                .filter(|other| other.place == Place::TypeAttribute && member.name == "type")
                .map(|other| (&*other.name, plain(&other.node)))
                .collect();
            let described: Vec<_> = described.iter().map(|(name, value)| (*name, value.as_str())).collect();
            write_element(out, depth + 1, &member.name, &described, &member.node);
        }
    }
    if has_elements {
        out.extend(std::iter::repeat_n("  ", depth));
    } else if members.is_empty() {
        write_text(out, &plain(node), false);
    }
    out.extend(["</", name, ">\n"]);
}

fn write_attribute(out: &mut String, name: &str, value: &str) {
    out.extend([" ", name, "=\""]);
    write_text(out, value, true);
    out.push('"');
}

fn plain(node: &Node<'_>) -> String {
    match node {
        Node::Text(text) => text.clone().into_owned(),
        Node::Flag(flag) => flag.to_string(),
        Node::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// Line ends would be changed by whoever reads them, so that they are written as numbers.
fn write_text(out: &mut String, text: &str, in_attribute: bool) {
    for found in text.chars() {
        match found {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' if in_attribute => out.push_str("&quot;"),
            '\r' => out.push_str("&#13;"),
            '\n' if in_attribute => out.push_str("&#10;"),
            '\t' if in_attribute => out.push_str("&#9;"),
            // Only a name, which is not ours to judge here, can have one.
            found if !is_xml_char(found) => out.push('\u{FFFD}'),
            found => out.push(found),
        }
    }
}

fn fault(code: MetadataFaultCode, message: String) -> MetadataFault {
    MetadataFault { pointer: String::new(), code, message, allowed: &[] }
}
