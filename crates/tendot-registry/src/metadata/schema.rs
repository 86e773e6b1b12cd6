//! JSON schemas of metadata documents, from the declarations of their elements.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::metadata::codec::reader::MetadataElement;
use crate::metadata::{kernel, system_metadata};

/// Name of the schema of a whole document, of either view.
const DOCUMENT: &str = "Metadata";

/// JSON schemas of metadata documents by name, as components of an OpenAPI document; `Metadata` is a whole document.
pub fn metadata_schemas() -> BTreeMap<String, Value> {
    let mut schemas = SchemaSet::default();
    let mut views = kernel::document_schemas(&mut schemas);
    views.extend(system_metadata::document_schemas(&mut schemas));
    let description = "Kernel metadata with the element names of kernel XML 2.3, or System Metadata of ISO 26324:2025. \
                       Elements that may repeat are arrays; `extensions` has elements of other namespaces.";
    let document = json!({"description": description, "oneOf": views});
    schemas.0.insert(DOCUMENT.into(), document);
    schemas.0
}

/// Schemas of elements by name; each is built once.
#[derive(Default)]
pub(in crate::metadata) struct SchemaSet(BTreeMap<String, Value>);

/// Member of an object.
pub(in crate::metadata) struct SchemaMember {
    name: &'static str,
    schema: Value,
    is_required: bool,
}

impl SchemaSet {
    /// Reference to the schema of an element, which is built from its members on first use.
    pub(in crate::metadata) fn element(
        &mut self,
        name: &str,
        description: &str,
        members: fn(&mut Self) -> Vec<SchemaMember>,
    ) -> Value {
        let name = format!("{DOCUMENT}{name}");
        if !self.0.contains_key(&name) {
            let schema = object(description, members(self));
            self.0.insert(name.clone(), schema);
        }
        reference(&name)
    }

    /// Reference to the schema of a document.
    pub(in crate::metadata) fn document(
        &mut self,
        name: &str,
        description: &str,
        members: Vec<SchemaMember>,
    ) -> Value {
        let name = format!("{DOCUMENT}{name}");
        self.0.insert(name.clone(), object(description, members));
        reference(&name)
    }

    /// Reference to a schema that may refer to itself.
    pub(in crate::metadata) fn recursive(
        &mut self,
        name: &str,
        schema: impl FnOnce(Value) -> Value,
    ) -> Value {
        let name = format!("{DOCUMENT}{name}");
        let reference = reference(&name);
        self.0.entry(name).or_insert_with(|| schema(reference.clone()));
        reference
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Object with these members and no others.
pub(in crate::metadata) fn object(description: &str, members: Vec<SchemaMember>) -> Value {
    let required: Vec<&str> =
        members.iter().filter(|member| member.is_required).map(|member| member.name).collect();
    let properties: Map<String, Value> =
        members.into_iter().map(|member| (member.name.to_owned(), member.schema)).collect();
    let mut schema = Map::from_iter([
        ("type".to_owned(), json!("object")),
        ("description".to_owned(), json!(description.trim())),
        ("additionalProperties".to_owned(), json!(false)),
    ]);
    // Nothing is written for an empty list or object.
    if !properties.is_empty() {
        schema.insert("properties".to_owned(), properties.into());
    }
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema.into()
}

/// Member with one of these values.
pub(in crate::metadata) fn constant(name: &'static str, value: &str) -> SchemaMember {
    SchemaMember { name, schema: json!({"type": "string", "enum": [value]}), is_required: true }
}

/// Schema of a required member.
pub(in crate::metadata) fn required<T: MetadataElement>(
    schemas: &mut SchemaSet,
    name: &'static str,
) -> SchemaMember {
    SchemaMember { name, schema: T::schema(schemas), is_required: true }
}

/// Schema of an optional member.
pub(in crate::metadata) fn optional<T: MetadataElement>(
    schemas: &mut SchemaSet,
    name: &'static str,
) -> SchemaMember {
    SchemaMember { is_required: false, ..required::<T>(schemas, name) }
}

/// Schema of a list.
pub(in crate::metadata) fn list<T: MetadataElement>(
    schemas: &mut SchemaSet,
    name: &'static str,
    limit: usize,
) -> SchemaMember {
    let schema = json!({"type": "array", "items": T::schema(schemas), "maxItems": limit});
    SchemaMember { name, schema, is_required: false }
}

/// Schema of a list with at least one item.
pub(in crate::metadata) fn non_empty<T: MetadataElement>(
    schemas: &mut SchemaSet,
    name: &'static str,
    limit: usize,
) -> SchemaMember {
    let schema = json!({"type": "array", "items": T::schema(schemas), "minItems": 1, "maxItems": limit});
    SchemaMember { name, schema, is_required: true }
}

/// Schema of a text with a pattern.
pub(in crate::metadata) fn text(description: &str, pattern: &str) -> Value {
    json!({"type": "string", "description": description, "pattern": pattern})
}

/// Schema of a closed set of values.
pub(in crate::metadata) fn closed_set(values: &[&str]) -> Value {
    json!({"type": "string", "enum": values})
}

/// Schema of an open set of values: those that are listed, or one that was registered since.
pub(in crate::metadata) fn open_set(listed: &[&str]) -> Value {
    let description = format!("Listed values: {}; further values may be registered", listed.join(", "));
    json!({"type": "string", "description": description, "pattern": "^[A-Za-z0-9_.+/-]{1,64}$"})
}
