//! The JSON of values, as it is described: `tendot_proto` writes and reads it, and knows nothing of descriptions.

use std::borrow::Cow;
use std::collections::BTreeMap;

use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The schemas of values as they are answered, and as they are taken.
const SCHEMAS: &str = include_str!("values.json");

fn schemas() -> BTreeMap<String, RefOr<Schema>> {
    serde_json::from_str(SCHEMAS).unwrap_or_default()
}

/// A value in an answer.
pub(crate) struct ValueForm;

/// The values in a request.
pub(super) struct NewRecordForm;

macro_rules! in_file {
    ($form:ident, $name:literal) => {
        impl PartialSchema for $form {
            fn schema() -> RefOr<Schema> {
                schemas().remove($name).unwrap_or_default()
            }
        }

        impl ToSchema for $form {
            fn name() -> Cow<'static, str> {
                $name.into()
            }

            fn schemas(all: &mut Vec<(String, RefOr<Schema>)>) {
                all.extend(schemas());
            }
        }
    };
}

in_file!(ValueForm, "Value");
in_file!(NewRecordForm, "NewRecord");

#[cfg(test)]
mod tests {
    use super::*;

    /// What the document's types have no place for would be lost in silence.
    #[test]
    fn the_file_is_understood() {
        let written: BTreeMap<String, serde_json::Value> = serde_json::from_str(SCHEMAS).unwrap();
        for (name, schema) in written {
            assert_eq!(serde_json::to_value(&schemas()[&name]).unwrap(), schema, "{name}");
        }
        assert!(schemas().contains_key("Value") && schemas().contains_key("NewRecord"));
    }
}
