//! Macro that declares an element once for reading and writing, in the sequence of the schema.

use crate::metadata::codec::node::{MetadataNode, NodeMember, XmlPosition};
use crate::metadata::codec::reader::MetadataElement;

/// Declares a struct by its members: cardinality, type, name, and position in XML.
///
/// The cardinality is `one`, `optional`, `many(LIMIT)` (zero or more) or `some(LIMIT)` (one or more). A rule over several
/// members is a function after `=>`, which reports faults.
macro_rules! element {
    (
        $(#[$doc:meta])*
        $name:ident $(=> $rule:path)? {
            $($field:ident: $count:ident $(($limit:literal))? $type:ident = $element:literal $(in $position:ident)?,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Eq, PartialEq)]
        pub(in crate::metadata) struct $name {
            $(pub(in crate::metadata) $field: element!(@type $count $type),)+
        }

        impl crate::metadata::codec::reader::MetadataElement for $name {
            fn read(node: crate::metadata::codec::node::MetadataNode<'_>, reader: &mut crate::metadata::codec::reader::MetadataReader) -> Option<Self> {
                let before = reader.fault_count();
                let mut members = reader.expect_object(node)?;
                $(let $field = members.$count(reader, $element, element!(@position $($position)?) $(, $limit)?);)+
                members.reject_unknown(reader, &[$($element),+]);
                let read = Self { $($field: $field?),+ };
                // After faults in members, rules would only report them again.
                if reader.fault_count() == before {
                    $($rule(&read, reader);)?
                }
                Some(read)
            }

            fn to_node(&self) -> crate::metadata::codec::node::MetadataNode<'_> {
                let mut members = Vec::with_capacity([$($element),+].len());
                $(crate::metadata::codec::element::$count(&self.$field, $element, element!(@position $($position)?), &mut members);)+
                crate::metadata::codec::node::MetadataNode::Object(members)
            }

            #[cfg(test)]
            fn arbitrary(choices: &mut crate::metadata::tests::ArbitraryInput) -> Self {
                let any = Self { $($field: choices.$count()),+ };
                $(let any = choices.fitting(any, $rule);)?
                any
            }
        }
    };
    (@type one $type:ident) => { $type };
    (@type optional $type:ident) => { Option<$type> };
    (@type many $type:ident) => { Vec<$type> };
    (@type some $type:ident) => { Vec<$type> };
    (@position) => { crate::metadata::codec::node::XmlPosition::Element };
    (@position $position:ident) => { crate::metadata::codec::node::XmlPosition::$position };
}
pub(in crate::metadata) use element;

/// Writes a required member.
pub(in crate::metadata) fn one<'a>(
    value: &'a impl MetadataElement,
    name: &'static str,
    position: XmlPosition,
    members: &mut Vec<NodeMember<'a>>,
) {
    members.push(NodeMember { name: name.into(), position, node: value.to_node() });
}

/// Writes an optional member.
pub(in crate::metadata) fn optional<'a>(
    value: &'a Option<impl MetadataElement>,
    name: &'static str,
    position: XmlPosition,
    members: &mut Vec<NodeMember<'a>>,
) {
    if let Some(value) = value {
        one(value, name, position, members);
    }
}

/// Writes a list unless it is empty.
pub(in crate::metadata) fn many<'a>(
    values: &'a [impl MetadataElement],
    name: &'static str,
    position: XmlPosition,
    members: &mut Vec<NodeMember<'a>>,
) {
    if let Some(node) = MetadataNode::list(values.iter().map(MetadataElement::to_node)) {
        members.push(NodeMember { name: name.into(), position, node });
    }
}

pub(in crate::metadata) use many as some;
