//! Document tree common to JSON and XML.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{MAX_JSON_DEPTH, MAX_NODES};

/// Document tree common to JSON and XML.
#[derive(Clone, Debug)]
pub(in crate::metadata) enum MetadataNode<'a> {
    String(Cow<'a, str>),
    Bool(bool),
    Integer(u64),
    Array(Vec<Self>),
    Object(Vec<NodeMember<'a>>),
    /// JSON value that metadata does not allow, by name.
    Unsupported(&'static str),
    /// Member that was consumed.
    Consumed,
}

/// Member of a JSON object, or child or attribute of an XML element.
///
/// JSON members may be duplicated.
#[derive(Clone, Debug)]
pub(in crate::metadata) struct NodeMember<'a> {
    pub(in crate::metadata) name: Cow<'a, str>,
    pub(in crate::metadata) position: XmlPosition,
    pub(in crate::metadata) node: MetadataNode<'a>,
}

/// Position of a member in XML: element, attribute or text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::metadata) enum XmlPosition {
    /// Child element.
    Element,
    /// Attribute of the element.
    Attribute,
    /// Attribute of the child element `type`.
    TypeAttribute,
    /// Text content.
    Content,
    /// Child element of another namespace.
    Foreign,
}

impl<'a> MetadataNode<'a> {
    /// Text node.
    pub(in crate::metadata) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::String(text.into())
    }

    /// Object of the members that are present.
    pub(in crate::metadata) fn object<const N: usize>(members: [(&'a str, Option<Self>); N]) -> Self {
        let present = members.into_iter().filter_map(|(name, node)| Some(NodeMember::new(name, node?)));
        Self::Object(present.collect())
    }

    /// Array; `None` if it is empty.
    pub(in crate::metadata) fn list(nodes: impl IntoIterator<Item = Self>) -> Option<Self> {
        let nodes: Vec<_> = nodes.into_iter().collect();
        (!nodes.is_empty()).then_some(Self::Array(nodes))
    }

    /// Name of the type, for messages.
    pub(in crate::metadata) fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "a string",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) => "an integer",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
            Self::Unsupported(type_name) => type_name,
            Self::Consumed => "nothing",
        }
    }

    /// Compact JSON.
    pub(in crate::metadata) fn to_json(&self) -> String {
        // Cannot fail: keys are strings, and no I/O is involved.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(in crate::metadata) fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        let left = Cell::new(MAX_NODES);
        BoundedNodeVisitor { depth: MAX_JSON_DEPTH, left: &left }.deserialize(deserializer)
    }
}

impl<'a> NodeMember<'a> {
    pub(in crate::metadata) fn new(name: &'a str, node: MetadataNode<'a>) -> Self {
        Self { name: Cow::Borrowed(name), position: XmlPosition::Element, node }
    }
}

impl Serialize for MetadataNode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::String(text) => serializer.serialize_str(text),
            Self::Bool(flag) => serializer.serialize_bool(*flag),
            Self::Integer(number) => serializer.serialize_u64(*number),
            Self::Array(nodes) => serializer.collect_seq(nodes),
            Self::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for member in members {
                    map.serialize_entry(&*member.name, &member.node)?;
                }
                map.end()
            }
            Self::Unsupported(_) | Self::Consumed => serializer.serialize_unit(),
        }
    }
}

/// Deserializer of a tree with limits on depth and number of nodes.
#[derive(Clone, Copy)]
struct BoundedNodeVisitor<'b> {
    depth: usize,
    left: &'b Cell<u32>,
}

impl BoundedNodeVisitor<'_> {
    fn descend<E: Error>(self) -> Result<Self, E> {
        let depth = self.depth.checked_sub(1);
        let depth =
            depth.ok_or_else(|| E::custom(format_args!("nested deeper than {MAX_JSON_DEPTH} levels")))?;
        Ok(Self { depth, ..self })
    }

    fn charge_node<E: Error>(self) -> Result<(), E> {
        let left = self.left.get().checked_sub(1);
        self.left.set(left.ok_or_else(|| E::custom(format_args!("more than {MAX_NODES} values")))?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for BoundedNodeVisitor<'_> {
    type Value = MetadataNode<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<MetadataNode<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BoundedNodeVisitor<'_> {
    type Value = MetadataNode<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a metadata document")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<MetadataNode<'de>, E> {
        Ok(MetadataNode::String(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<MetadataNode<'de>, E> {
        Ok(MetadataNode::String(Cow::Owned(text.into())))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<MetadataNode<'de>, E> {
        Ok(MetadataNode::Bool(flag))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<MetadataNode<'de>, E> {
        Ok(MetadataNode::Integer(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<MetadataNode<'de>, E> {
        Ok(u64::try_from(number)
            .map_or(MetadataNode::Unsupported("a negative number"), MetadataNode::Integer))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<MetadataNode<'de>, E> {
        Ok(MetadataNode::Unsupported("a fractional number"))
    }

    fn visit_unit<E: Error>(self) -> Result<MetadataNode<'de>, E> {
        Ok(MetadataNode::Unsupported("null"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<MetadataNode<'de>, A::Error> {
        let deeper = self.descend()?;
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element_seed(deeper)? {
            self.charge_node()?;
            nodes.push(node);
        }
        Ok(MetadataNode::Array(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MetadataNode<'de>, A::Error> {
        let deeper = self.descend()?;
        let mut members = Vec::new();
        while let Some(name) = map.next_key_seed(MemberNameSeed)? {
            let node = map.next_value_seed(deeper)?;
            self.charge_node()?;
            members.push(NodeMember { name, position: XmlPosition::Element, node });
        }
        Ok(MetadataNode::Object(members))
    }
}

/// Deserializer of a member name; borrows it where possible.
struct MemberNameSeed;

impl<'de> DeserializeSeed<'de> for MemberNameSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for MemberNameSeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an element name")
    }

    fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(name.into()))
    }
}
