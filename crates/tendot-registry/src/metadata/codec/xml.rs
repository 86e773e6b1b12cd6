//! Conversion between XML and the document tree.

use roxmltree::{Document, Node as Element, ParsingOptions};
use tendot_proto::record::check_xml_limits;

use super::{MAX_NODES, MAX_XML_DEPTH};
use crate::metadata::codec::node::{MetadataNode, NodeMember, XmlPosition};
use crate::metadata::codec::reader::excerpt;
use crate::metadata::fault::{MetadataFault, MetadataFaultCode};
use crate::metadata::model::extension::{EXTENSIONS_MEMBER, split_qualified};
use crate::metadata::model::text::is_xml_char;

/// Namespace of the kernel schema.
pub(in crate::metadata) const KERNEL_NAMESPACE: &str = "http://www.doi.org/2010/DOISchema";
/// Namespace of `xml:lang`; its prefix is always declared.
const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";
/// Namespace of `xsi:schemaLocation`.
const XSI_NAMESPACE: &str = "http://www.w3.org/2001/XMLSchema-instance";

/// Parses XML without a document type, and so without custom entities.
pub(in crate::metadata) fn parse(text: &str) -> Result<Document<'_>, MetadataFault> {
    check_xml_limits(text, MAX_XML_DEPTH)
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
        } else if child.tag_name().namespace().is_some_and(|namespace| !namespace.is_empty()) {
            members.push(NodeMember {
                name: EXTENSIONS_MEMBER.into(),
                position: XmlPosition::Foreign,
                node: foreign_to_node(child, None),
            });
        } else {
            members.push(NodeMember {
                name: format!("Q{{}}{name}").into(),
                position: XmlPosition::Element,
                node: MetadataNode::Unsupported("an element without a namespace"),
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

/// Converts an element of another namespace to the JSON form of an extension; `parent` is the namespace of its parent.
fn foreign_to_node<'a>(element: Element<'a, '_>, parent: Option<&str>) -> MetadataNode<'a> {
    let namespace = element.tag_name().namespace().unwrap_or_default();
    let attributes = element.attributes().map(|attribute| {
        let name = match attribute.namespace() {
            None => attribute.name().into(),
            Some(namespace) => format!("Q{{{namespace}}}{}", attribute.name()).into(),
        };
        NodeMember { name, position: XmlPosition::Attribute, node: MetadataNode::text(attribute.value()) }
    });
    let attributes: Vec<_> = attributes.collect();
    let content = element.children().filter_map(|child| {
        if child.is_element() {
            return Some(foreign_to_node(child, Some(namespace)));
        }
        child.text().filter(|_| child.is_text()).map(MetadataNode::text)
    });
    MetadataNode::object([
        ("namespace", (Some(namespace) != parent).then(|| MetadataNode::text(namespace))),
        ("name", Some(MetadataNode::text(element.tag_name().name()))),
        ("attributes", (!attributes.is_empty()).then_some(MetadataNode::Object(attributes))),
        ("content", MetadataNode::list(content)),
    ])
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
    let mut prefixes = NamespacePrefixes(Vec::new());
    prefixes.collect(node, false);
    let declarations: Vec<_> = prefixes
        .0
        .iter()
        .enumerate()
        .map(|(number, namespace)| (format!("xmlns:{}", prefix(number)), *namespace))
        .collect();
    let mut attributes = vec![("xmlns", KERNEL_NAMESPACE)];
    attributes.extend(declarations.iter().map(|(name, namespace)| (name.as_str(), *namespace)));
    write_element(&mut text, 0, root, &attributes, node, &prefixes);
    text
}

/// Namespaces of extensions in the order of their prefixes, which are declared at the root element.
struct NamespacePrefixes<'n>(Vec<&'n str>);

fn prefix(number: usize) -> String {
    format!("ext{}", number + 1)
}

impl<'n> NamespacePrefixes<'n> {
    /// Collects the namespaces of extensions, which are in members of the position `Foreign`.
    fn collect(&mut self, node: &'n MetadataNode<'_>, is_foreign: bool) {
        match node {
            MetadataNode::Array(nodes) => nodes.iter().for_each(|node| self.collect(node, is_foreign)),
            MetadataNode::Object(members) => {
                for member in members {
                    match (&*member.name, &member.node) {
                        _ if !is_foreign => {
                            self.collect(&member.node, member.position == XmlPosition::Foreign);
                        }
                        ("namespace", MetadataNode::String(namespace)) => self.add(namespace),
                        ("attributes", MetadataNode::Object(attributes)) => {
                            let namespaces =
                                attributes.iter().filter_map(|attribute| split_qualified(&attribute.name));
                            namespaces.for_each(|(namespace, _)| self.add(namespace));
                        }
                        ("content", node) => self.collect(node, true),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, namespace: &'n str) {
        if namespace != XML_NAMESPACE && !self.0.contains(&namespace) {
            self.0.push(namespace);
        }
    }

    /// Name with its prefix.
    fn qualify(&self, namespace: &str, name: &str) -> String {
        if namespace == XML_NAMESPACE {
            return format!("xml:{name}");
        }
        match self.0.iter().position(|other| *other == namespace) {
            Some(number) => format!("{}:{name}", prefix(number)),
            None => name.to_owned(),
        }
    }

    /// Writes an extension without white space of its own.
    fn write_extension(&self, out: &mut String, node: &MetadataNode<'_>, parent: &str) {
        let members = match node {
            MetadataNode::Object(members) => members.as_slice(),
            node => return write_text(out, &scalar_text(node), false),
        };
        let member =
            |name: &str| members.iter().find(|member| member.name == name).map(|member| &member.node);
        let namespace = member("namespace").map(scalar_text);
        let namespace = namespace.as_deref().unwrap_or(parent);
        let name = self.qualify(namespace, &member("name").map(scalar_text).unwrap_or_default());
        out.extend(["<", &name]);
        if let Some(MetadataNode::Object(attributes)) = member("attributes") {
            for attribute in attributes {
                let name = match split_qualified(&attribute.name) {
                    Some((namespace, local)) => self.qualify(namespace, local),
                    None => attribute.name.clone().into_owned(),
                };
                write_attribute(out, &name, &scalar_text(&attribute.node));
            }
        }
        out.push('>');
        match member("content") {
            Some(MetadataNode::Array(nodes)) => {
                nodes.iter().for_each(|node| self.write_extension(out, node, namespace));
            }
            Some(text) => write_text(out, &scalar_text(text), false),
            None => {}
        }
        out.extend(["</", &name, ">"]);
    }
}

fn write_element(
    out: &mut String,
    depth: usize,
    name: &str,
    attributes: &[(&str, &str)],
    node: &MetadataNode<'_>,
    prefixes: &NamespacePrefixes<'_>,
) {
    let members = match node {
        MetadataNode::Array(nodes) => {
            return nodes.iter().for_each(|node| write_element(out, depth, name, attributes, node, prefixes));
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
            write_element(out, depth + 1, &member.name, &type_attributes, &member.node, prefixes);
        } else if let (XmlPosition::Foreign, MetadataNode::Array(extensions)) =
            (member.position, &member.node)
        {
            if !has_elements {
                out.push('\n');
            }
            has_elements = true;
            for extension in extensions {
                out.extend(std::iter::repeat_n("  ", depth + 1));
                prefixes.write_extension(out, extension, "");
                out.push('\n');
            }
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
