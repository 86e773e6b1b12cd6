//! The JSON of values, as it is described: `tendot_proto` writes and reads it, and knows nothing of descriptions.

use std::collections::BTreeMap;

use utoipa::openapi::{RefOr, Schema};

/// The schemas of values as they are answered, and as they are taken.
const SCHEMAS: &str = include_str!("values.json");

/// The schemas of a file, by their names.
pub(crate) fn parse_schemas(file: &str) -> BTreeMap<String, RefOr<Schema>> {
    serde_json::from_str(file).unwrap_or_default()
}

/// Types that stand for schemas of a file, by which descriptions refer to them.
macro_rules! in_file {
    ($file:ident: $($form:ident $name:literal),+) => {
        $(
            #[doc = concat!("The schema `", $name, "`.")]
            pub(crate) struct $form;

            impl utoipa::PartialSchema for $form {
                fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                    $crate::http::api::parse_schemas($file).remove($name).unwrap_or_default()
                }
            }

            impl utoipa::ToSchema for $form {
                fn name() -> std::borrow::Cow<'static, str> {
                    $name.into()
                }

                fn schemas(
                    all: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>,
                ) {
                    all.extend($crate::http::api::parse_schemas($file));
                }
            }
        )+
    };
}
pub(crate) use in_file;

in_file!(SCHEMAS: ValueForm "Value", NewRecordForm "NewRecord");

#[cfg(test)]
mod tests {
    use super::*;

    /// What the document's types have no place for would be lost in silence.
    #[test]
    fn the_file_is_understood() {
        let written: BTreeMap<String, serde_json::Value> = serde_json::from_str(SCHEMAS).unwrap();
        for (name, schema) in written {
            assert_eq!(serde_json::to_value(&parse_schemas(SCHEMAS)[&name]).unwrap(), schema, "{name}");
        }
        let known = parse_schemas(SCHEMAS);
        assert!(known.contains_key("Value") && known.contains_key("NewRecord"));
    }
}
