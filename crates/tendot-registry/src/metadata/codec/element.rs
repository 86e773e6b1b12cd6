//! Macro that declares an element once for reading and writing, in the sequence of the schema.

use crate::metadata::codec::node::{MetadataNode, NodeMember, XmlPosition};
use crate::metadata::codec::reader::MetadataElement;

/// Declares a struct by its members: cardinality, type, name, and position in XML.
///
/// The cardinality is `required`, `optional`, `list(LIMIT)` (zero or more) or `non_empty(LIMIT)` (one or more). A rule over several
/// members is a function after `=>`, which reports faults.
macro_rules! element {
    (
        $(#[doc = $doc:literal])*
        $name:ident $(=> $rule:path)? {
            $($field:ident: $count:ident $(($limit:literal))? $type:ident = $element:literal $(in $position:ident)?,)+
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, Eq, PartialEq)]
        pub(in crate::metadata) struct $name {
            $(pub(in crate::metadata) $field: element!(@type $count $type),)+
        }

        impl $name {
            /// Members of the JSON object.
            pub(in crate::metadata) fn schema_members(
                schemas: &mut crate::metadata::schema::SchemaSet,
            ) -> Vec<crate::metadata::schema::SchemaMember> {
                vec![$(crate::metadata::schema::$count::<$type>(schemas, $element $(, $limit)?)),+]
            }
        }

        impl crate::metadata::codec::reader::MetadataElement for $name {
            fn read(node: crate::metadata::codec::node::MetadataNode<'_>, reader: &mut crate::metadata::codec::reader::MetadataReader) -> Option<Self> {
                let faults_before = reader.fault_count();
                let mut members = reader.expect_object(node)?;
                $(let $field = members.$count(reader, $element, element!(@position $($position)?) $(, $limit)?);)+
                members.reject_unknown(reader, &[$($element),+]);
                let read = Self { $($field: $field?),+ };
                // After faults in members, rules would only report them again.
                if reader.fault_count() == faults_before {
                    $($rule(&read, reader);)?
                }
                Some(read)
            }

            fn to_node(&self) -> crate::metadata::codec::node::MetadataNode<'_> {
                let mut members = Vec::with_capacity([$($element),+].len());
                $(crate::metadata::codec::element::$count(&self.$field, $element, element!(@position $($position)?), &mut members);)+
                crate::metadata::codec::node::MetadataNode::Object(members)
            }

            fn schema(schemas: &mut crate::metadata::schema::SchemaSet) -> serde_json::Value {
                schemas.element(stringify!($name), concat!($($doc),*), Self::schema_members)
            }

            #[cfg(test)]
            fn arbitrary(input: &mut crate::metadata::tests::ArbitraryInput) -> Self {
                let element = Self { $($field: input.$count()),+ };
                $(let element = input.satisfying(element, $rule);)?
                element
            }
        }
    };
    (@type required $type:ident) => { $type };
    (@type optional $type:ident) => { Option<$type> };
    (@type list $type:ident) => { Vec<$type> };
    (@type non_empty $type:ident) => { Vec<$type> };
    (@position) => { crate::metadata::codec::node::XmlPosition::Element };
    (@position $position:ident) => { crate::metadata::codec::node::XmlPosition::$position };
}
pub(in crate::metadata) use element;

/// Writes a required member.
pub(in crate::metadata) fn required<'a>(
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
        required(value, name, position, members);
    }
}

/// Writes a list unless it is empty.
pub(in crate::metadata) fn list<'a>(
    values: &'a [impl MetadataElement],
    name: &'static str,
    position: XmlPosition,
    members: &mut Vec<NodeMember<'a>>,
) {
    if let Some(node) = MetadataNode::list(values.iter().map(MetadataElement::to_node)) {
        members.push(NodeMember { name: name.into(), position, node });
    }
}

pub(in crate::metadata) use list as non_empty;
