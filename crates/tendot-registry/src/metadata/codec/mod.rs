//! Reading and writing of metadata documents in JSON and XML.
//!
//! In reading order: `element` declares an element once for both directions, `node` is the tree common to JSON and XML,
//! `reader` reads it and collects faults, `xml` converts it from and to XML.

pub(super) mod element;
pub(super) mod node;
pub(super) mod reader;
pub(super) mod xml;
