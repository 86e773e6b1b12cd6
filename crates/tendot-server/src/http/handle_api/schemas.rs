//! OpenAPI schemas of handle values, from `values.json`: the types of `tendot_proto` have no schemas.

use std::collections::BTreeMap;

use utoipa::openapi::{RefOr, Schema};

/// Schemas of values in responses and requests.
const SCHEMAS: &str = include_str!("values.json");

/// Parses the schemas of a file, by name.
pub(crate) fn parse_schemas(file: &str) -> BTreeMap<String, RefOr<Schema>> {
    serde_json::from_str(file).unwrap_or_default()
}

/// Defines types that refer to schemas of a file.
macro_rules! in_file {
    ($file:ident: $($form:ident $name:literal),+) => {
        $(
            #[doc = concat!("The schema `", $name, "`.")]
            pub(crate) struct $form;

            impl utoipa::PartialSchema for $form {
                fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                    $crate::http::handle_api::parse_schemas($file).remove($name).unwrap_or_default()
                }
            }

            impl utoipa::ToSchema for $form {
                fn name() -> std::borrow::Cow<'static, str> {
                    $name.into()
                }

                fn schemas(
                    all: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>,
                ) {
                    all.extend($crate::http::handle_api::parse_schemas($file));
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

    /// A keyword that utoipa's types do not support would be dropped silently.
    #[test]
    fn schema_file_round_trips() {
        let written: BTreeMap<String, serde_json::Value> = serde_json::from_str(SCHEMAS).unwrap();
        for (name, schema) in written {
            assert_eq!(serde_json::to_value(&parse_schemas(SCHEMAS)[&name]).unwrap(), schema, "{name}");
        }
        let known = parse_schemas(SCHEMAS);
        assert!(known.contains_key("Value") && known.contains_key("NewRecord"));
    }
}
