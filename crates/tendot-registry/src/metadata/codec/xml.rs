//! Conversion between XML and the document tree.

use roxmltree::{Document, Node as Element, ParsingOptions};
use tendot_proto::record::check_xml_limits;

use super::{MAX_DEPTH, MAX_NODES};
use crate::metadata::codec::node::{MetadataNode, NodeMember, XmlPosition};
use crate::metadata::codec::reader::excerpt;
use crate::metadata::fault::{MetadataFault, MetadataFaultCode};
use crate::metadata::model::text::is_xml_char;

/// Namespace of the kernel schema.
const KERNEL_NAMESPACE: &str = "http://www.doi.org/2010/DOISchema";
/// Namespace of `xsi:schemaLocation`.
const XSI_NAMESPACE: &str = "http://www.w3.org/2001/XMLSchema-instance";

/// Parses XML without a document type, and so without custom entities.
pub(in crate::metadata) fn parse(text: &str) -> Result<Document<'_>, MetadataFault> {
    check_xml_limits(text, MAX_DEPTH)
        .map_err(|error| xml_fault(MetadataFaultCode::InvalidXml, error.to_string()))?;
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).map_err(|error| match error {
        roxmltree::Error::DtdDetected => {
            xml_fault(MetadataFaultCode::DtdNotAllowed, "DTD not allowed".to_owned())
        }
        error => xml_fault(MetadataFaultCode::InvalidXml, format!("invalid XML: {error}")),
    })
}

/// Tree of a document with the given root element.
pub(in crate::metadata) fn to_node<'a>(
    document: &'a Document<'_>,
    root: &str,
) -> Result<MetadataNode<'a>, MetadataFault> {
    let element = document.root_element();
    let (namespace, name) = (element.tag_name().namespace(), element.tag_name().name());
    if name != root || namespace != Some(KERNEL_NAMESPACE) {
        let found_namespace =
            namespace.map_or(String::new(), |namespace| format!(" in namespace `{}`", excerpt(namespace)));
        let message = format!(
            "expected element `{root}` in namespace `{KERNEL_NAMESPACE}`, found `{}`{found_namespace}",
            excerpt(name)
        );
        return Err(xml_fault(MetadataFaultCode::UnknownElement, message));
    }
    Ok(element_to_node(element))
}

/// Converts an element. Attributes of `type` become its sibling members, as in JSON. The depth was checked before.
fn element_to_node<'a>(element: Element<'a, '_>) -> MetadataNode<'a> {
    let mut members: Vec<_> = attributes(element, XmlPosition::Attribute).collect();
    let mut has_elements = false;
    for child in element.children().filter(Element::is_element) {
        has_elements = true;
        let is_kernel = child.tag_name().namespace() == Some(KERNEL_NAMESPACE);
        let name = child.tag_name().name();
        if is_kernel && name == "type" {
            members.extend(attributes(child, XmlPosition::TypeAttribute));
            members.push(NodeMember::new(name, element_text(child)));
        } else if is_kernel {
            members.push(NodeMember::new(name, element_to_node(child)));
        } else {
            let namespace = child.tag_name().namespace().unwrap_or_default();
            let name = format!("Q{{{}}}{name}", excerpt(namespace)).into();
            members.push(NodeMember {
                name,
                position: XmlPosition::Element,
                node: MetadataNode::Unsupported("an element of another namespace"),
            });
        }
    }
    let text = element_text(element);
    if members.is_empty() {
        return text;
    }
    let is_blank = matches!(&text, MetadataNode::String(text) if text.trim().is_empty());
    if !is_blank {
        let position = XmlPosition::Content;
        members.push(NodeMember {
            name: if has_elements { "" } else { "value" }.into(),
            position,
            node: text,
        });
    }
    MetadataNode::Object(members)
}

/// Attributes except `xsi:*`.
fn attributes<'a>(element: Element<'a, '_>, position: XmlPosition) -> impl Iterator<Item = NodeMember<'a>> {
    element.attributes().filter(|attribute| attribute.namespace() != Some(XSI_NAMESPACE)).map(
        move |attribute| {
            let name = match attribute.namespace() {
                None => attribute.name().into(),
                Some(namespace) => format!("Q{{{}}}{}", excerpt(namespace), attribute.name()).into(),
            };
            NodeMember { name, position, node: MetadataNode::text(attribute.value()) }
        },
    )
}

/// Direct text of an element; comments may split it.
fn element_text<'a>(element: Element<'a, '_>) -> MetadataNode<'a> {
    let mut texts = element.children().filter(Element::is_text).filter_map(|child| child.text());
    let first = texts.next().unwrap_or_default();
    let rest: String = texts.collect();
    if rest.is_empty() { MetadataNode::text(first) } else { MetadataNode::text(format!("{first}{rest}")) }
}

/// Indented XML document.
pub(in crate::metadata) fn write_document(root: &str, node: &MetadataNode<'_>) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    write_element(&mut text, 0, root, &[("xmlns", KERNEL_NAMESPACE)], node);
    text
}

fn write_element(
    out: &mut String,
    depth: usize,
    name: &str,
    attributes: &[(&str, &str)],
    node: &MetadataNode<'_>,
) {
    let members = match node {
        MetadataNode::Array(nodes) => {
            return nodes.iter().for_each(|node| write_element(out, depth, name, attributes, node));
        }
        MetadataNode::Object(members) => members.as_slice(),
        _ => &[],
    };
    out.extend(std::iter::repeat_n("  ", depth).chain(["<", name]));
    for (name, value) in attributes {
        write_attribute(out, name, value);
    }
    for member in members.iter().filter(|member| member.position == XmlPosition::Attribute) {
        write_attribute(out, &member.name, &scalar_text(&member.node));
    }
    out.push('>');
    let mut has_elements = false;
    for member in members {
        if member.position == XmlPosition::Content {
            write_text(out, &scalar_text(&member.node), false);
        } else if member.position == XmlPosition::Element {
            if !has_elements {
                out.push('\n');
            }
            has_elements = true;
            let type_attributes: Vec<_> = members
                .iter()
                .filter(|other| other.position == XmlPosition::TypeAttribute && member.name == "type")
                .map(|other| (&*other.name, scalar_text(&other.node)))
                .collect();
            let type_attributes: Vec<_> =
                type_attributes.iter().map(|(name, value)| (*name, value.as_str())).collect();
            write_element(out, depth + 1, &member.name, &type_attributes, &member.node);
        }
    }
    if has_elements {
        out.extend(std::iter::repeat_n("  ", depth));
    } else if members.is_empty() {
        write_text(out, &scalar_text(node), false);
    }
    out.extend(["</", name, ">\n"]);
}

fn write_attribute(out: &mut String, name: &str, value: &str) {
    out.extend([" ", name, "=\""]);
    write_text(out, value, true);
    out.push('"');
}

fn scalar_text(node: &MetadataNode<'_>) -> String {
    match node {
        MetadataNode::String(text) => text.clone().into_owned(),
        MetadataNode::Bool(flag) => flag.to_string(),
        MetadataNode::Integer(number) => number.to_string(),
        _ => String::new(),
    }
}

/// Escapes text. Line ends are written as character references, because XML parsers normalize them.
fn write_text(out: &mut String, text: &str, in_attribute: bool) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' if in_attribute => out.push_str("&quot;"),
            '\r' => out.push_str("&#13;"),
            '\n' if in_attribute => out.push_str("&#10;"),
            '\t' if in_attribute => out.push_str("&#9;"),
            // Only a DOI can contain one; it is not validated here.
            character if !is_xml_char(character) => out.push('\u{FFFD}'),
            character => out.push(character),
        }
    }
}

fn xml_fault(code: MetadataFaultCode, message: String) -> MetadataFault {
    MetadataFault { pointer: String::new(), code, message, allowed: &[] }
}
