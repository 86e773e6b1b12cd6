//! Reading and writing of metadata documents in JSON and XML.
//!
//! In reading order: `element` declares an element once for both directions, `node` is the tree common to JSON and XML,
//! `reader` reads it and collects faults, `xml` converts it from and to XML.

pub(super) mod element;
pub(super) mod node;
pub(super) mod reader;
pub(super) mod xml;

/// Maximum depth of elements in XML; the kernel's deepest element, a URI of a linked creation, needs 7, an extension 10.
const MAX_XML_DEPTH: usize = 12;

/// Maximum depth of objects and arrays in JSON; each level of an extension needs two.
const MAX_JSON_DEPTH: usize = 24;

/// Maximum number of members and items in JSON (enough for 10,000 agents), or of elements, texts and comments in XML (enough
/// for 5,000).
const MAX_NODES: u32 = 1 << 17;
