//! How an element with elements in it is declared: once, for reading and writing, in the sequence of the schema.

use super::node::{MetadataNode, NodeMember, XmlPosition};
use super::read::MetadataElement;

/// Declares a struct from its members: how often, of what type, under which name, and where XML has it.
///
/// `one`, `optional`, `many(LIMIT)` (none or more) and `some(LIMIT)` (one or more) say how often. A rule that concerns
/// several members is a function after `=>`, which notes what is wrong.
macro_rules! element {
    (
        $(#[$doc:meta])*
        $name:ident $(=> $rule:path)? {
            $($field:ident: $count:ident $(($limit:literal))? $type:ident = $element:literal $(in $place:ident)?,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Eq, PartialEq)]
        pub(super) struct $name {
            $(pub(super) $field: element!(@type $count $type),)+
        }

        impl super::read::MetadataElement for $name {
            fn read(node: super::node::MetadataNode<'_>, reader: &mut super::read::MetadataReader) -> Option<Self> {
                let before = reader.fault_count();
                let mut members = reader.expect_object(node)?;
                $(let $field = members.$count(reader, $element, element!(@place $($place)?) $(, $limit)?);)+
                members.reject_unknown(reader, &[$($element),+]);
                let read = Self { $($field: $field?),+ };
                // Rules would only tell again what is wrong with a member.
                if reader.fault_count() == before {
                    $($rule(&read, reader);)?
                }
                Some(read)
            }

            fn to_node(&self) -> super::node::MetadataNode<'_> {
                let mut members = Vec::with_capacity([$($element),+].len());
                $(super::element::$count(&self.$field, $element, element!(@place $($place)?), &mut members);)+
                super::node::MetadataNode::Object(members)
            }

            #[cfg(test)]
            fn arbitrary(choices: &mut super::tests::ArbitraryInput) -> Self {
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
    (@place) => { super::node::XmlPosition::Element };
    (@place $place:ident) => { super::node::XmlPosition::$place };
}
pub(super) use element;

/// Writes a member that is there.
pub(super) fn one<'a>(
    value: &'a impl MetadataElement,
    name: &'static str,
    place: XmlPosition,
    members: &mut Vec<NodeMember<'a>>,
) {
    members.push(NodeMember { name: name.into(), place, node: value.to_node() });
}

/// Writes a member if it is there.
pub(super) fn optional<'a>(
    value: &'a Option<impl MetadataElement>,
    name: &'static str,
    place: XmlPosition,
    members: &mut Vec<NodeMember<'a>>,
) {
    if let Some(value) = value {
        one(value, name, place, members);
    }
}

/// Writes a list, if there is anything in it.
pub(super) fn many<'a>(
    values: &'a [impl MetadataElement],
    name: &'static str,
    place: XmlPosition,
    members: &mut Vec<NodeMember<'a>>,
) {
    if let Some(node) = MetadataNode::list(values.iter().map(MetadataElement::to_node)) {
        members.push(NodeMember { name: name.into(), place, node });
    }
}

pub(super) use many as some;
