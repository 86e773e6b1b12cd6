//! Query parameters of each operation: those of its OpenAPI spec. Others are an error, so that a misspelled filter is not ignored.

use std::collections::HashMap;
use std::sync::LazyLock;

use http::StatusCode;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation as OpenApiOperation, ParameterIn};

use crate::http::api_v1::API;
use crate::http::request::query::QueryParams;
use crate::http::response::codes;
use crate::http::response::problem::{Problem, problem};
use crate::http::routing::endpoint::{ApiEndpoint, RequestMethod};

/// Minimum similarity of a suggestion, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.6;

/// Path template and method of an operation.
type OperationKey = (&'static str, RequestMethod);

/// Names of the parameters of all operations.
static PARAMETERS: LazyLock<HashMap<OperationKey, Vec<String>>> = LazyLock::new(|| {
    let mut parameters = HashMap::new();
    for endpoint in API.endpoints {
        let (Some(path), Some(describe)) = (endpoint.paths.first(), endpoint.describe) else { continue };
        let described = describe().path;
        let operations = [
            (RequestMethod::Get, described.get),
            (RequestMethod::Post, described.post),
            (RequestMethod::Put, described.put),
            (RequestMethod::Delete, described.delete),
        ];
        for (method, operation) in operations {
            let names = operation.map(query_parameter_names).unwrap_or_default();
            parameters.insert((*path, method), names);
        }
    }
    parameters
});

fn query_parameter_names(operation: OpenApiOperation) -> Vec<String> {
    let parameters = operation.parameters.into_iter().flatten().filter_map(|parameter| match parameter {
        RefOr::T(parameter) => Some(parameter),
        RefOr::Ref(_) => None,
    });
    parameters
        .filter(|parameter| parameter.parameter_in == ParameterIn::Query)
        .map(|parameter| parameter.name)
        .collect()
}

/// Problem with the first parameter that the operation does not have.
pub(super) fn check_query_parameters(
    endpoint: &ApiEndpoint,
    method: RequestMethod,
    parameters: &QueryParams<'_>,
) -> Result<(), Box<Problem<'static>>> {
    if parameters.iter().next().is_none() {
        return Ok(());
    }
    let path = endpoint.paths.first().copied().unwrap_or_default();
    let known = PARAMETERS.get(&(path, method)).map(Vec::as_slice).unwrap_or_default();
    match parameters.iter().find(|(name, _)| !known.iter().any(|known| known == name)) {
        Some((name, _)) => Err(unknown_parameter(name, known)),
        None => Ok(()),
    }
}

fn unknown_parameter(name: &str, known: &[String]) -> Box<Problem<'static>> {
    let name: String = name.chars().take(64).collect();
    let detail = format!("Unknown query parameter `{name}`.");
    let similarity = |known: &&String| strsim::normalized_damerau_levenshtein(&name, known);
    let similar = known
        .iter()
        .filter(|known| similarity(known) >= MIN_SIMILARITY)
        .max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    let hint = match (similar, known) {
        (Some(similar), _) => format!("did you mean `{similar}`?"),
        (None, []) => "this operation has no query parameters".into(),
        (None, known) => {
            let known: Vec<_> = known.iter().map(|known| format!("`{known}`")).collect();
            format!("query parameters of this operation: {}", known.join(", "))
        }
    };
    problem(StatusCode::BAD_REQUEST, codes::UNKNOWN_PARAMETER, detail).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_parameters() {
        let hint = |name: &str, known: &[&str]| {
            let known: Vec<_> = known.iter().map(|known| (*known).to_owned()).collect();
            unknown_parameter(name, &known).hint.unwrap_or_default()
        };
        assert_eq!(hint("prefx", &["prefix", "limit"]), "did you mean `prefix`?");
        assert_eq!(hint("dry_run", &["dry-run"]), "did you mean `dry-run`?");
        assert_eq!(
            hint("query", &["after", "limit"]),
            "query parameters of this operation: `after`, `limit`"
        );
        assert_eq!(hint("query", &[]), "this operation has no query parameters");
    }
}
