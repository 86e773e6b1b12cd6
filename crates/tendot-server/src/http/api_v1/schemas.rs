//! OpenAPI schemas of requests, from `schemas.json`: the types of `tendot_registry` have no schemas. The schemas of responses
//! are derived from the types beside the handlers.

use utoipa::openapi::Schema;

use crate::http::handle_api::in_file;
use crate::http::routing::operation_spec::enum_schema;

/// All schemas.
const SCHEMAS: &str = include_str!("schemas.json");

in_file!(SCHEMAS: NewAgencyForm "NewAgency", AgencyUpdateForm "AgencyUpdate", NewRegistrantForm "NewRegistrant",
    RegistrantUpdateForm "RegistrantUpdate", PolicyForm "Policy", NewPrefixForm "NewPrefix",
    PrefixUpdateForm "PrefixUpdate", NewTokenForm "NewToken", NewDoiForm "NewDoi", DoiUpdateForm "DoiUpdate",
    BatchLineForm "BatchLine", NewTransferForm "NewTransfer", NewRedactionForm "NewRedaction");

/// Schema of an agency's or prefix's policy for metadata.
pub(super) fn metadata_policy_schema() -> Schema {
    described(enum_schema(["required", "optional"]), "Whether kernel metadata is required")
}

/// Schema with a description.
pub(super) fn described(mut schema: Schema, description: &str) -> Schema {
    match &mut schema {
        Schema::Object(object) => object.description = Some(description.into()),
        Schema::Array(array) => array.description = Some(description.into()),
        _ => {}
    }
    schema
}
