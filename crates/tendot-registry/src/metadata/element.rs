//! How an element with elements in it is declared: once, for reading and writing, in the sequence of the schema.

use super::node::{Member, Node, Place};
use super::read::Content;

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

        impl super::read::Content for $name {
            fn read(node: super::node::Node<'_>, reader: &mut super::read::Reader) -> Option<Self> {
                let before = reader.faults();
                let mut members = reader.members(node)?;
                $(let $field = members.$count(reader, $element, element!(@place $($place)?) $(, $limit)?);)+
                members.finish(reader, &[$($element),+]);
                let read = Self { $($field: $field?),+ };
                // Rules would only tell again what is wrong with a member.
                if reader.faults() == before {
                    $($rule(&read, reader);)?
                }
                Some(read)
            }

            fn node(&self) -> super::node::Node<'_> {
                let mut members = Vec::with_capacity([$($element),+].len());
                $(super::element::$count(&self.$field, $element, element!(@place $($place)?), &mut members);)+
                super::node::Node::Object(members)
            }

            #[cfg(test)]
            fn any(choices: &mut super::tests::ArbitraryInput) -> Self {
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
    (@place) => { super::node::Place::Element };
    (@place $place:ident) => { super::node::Place::$place };
}
pub(super) use element;

/// Writes a member that is there.
pub(super) fn one<'a>(
    value: &'a impl Content,
    name: &'static str,
    place: Place,
    members: &mut Vec<Member<'a>>,
) {
    members.push(Member { name: name.into(), place, node: value.node() });
}

/// Writes a member if it is there.
pub(super) fn optional<'a>(
    value: &'a Option<impl Content>,
    name: &'static str,
    place: Place,
    members: &mut Vec<Member<'a>>,
) {
    if let Some(value) = value {
        one(value, name, place, members);
    }
}

/// Writes a list, if there is anything in it.
pub(super) fn many<'a>(
    values: &'a [impl Content],
    name: &'static str,
    place: Place,
    members: &mut Vec<Member<'a>>,
) {
    if let Some(node) = Node::list(values.iter().map(Content::node)) {
        members.push(Member { name: name.into(), place, node });
    }
}

pub(super) use many as some;
