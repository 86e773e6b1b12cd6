//! `/doiRA/{name},{name}…`: registration agency of names, as at doi.org.

use http::StatusCode;
use serde::Serialize;
use tendot_names::Doi;
use tendot_proto::record::Namespace;
use tendot_proto::{Handle, HandleValue};
use tendot_registry::{Caller, Error, ResolveQuery};
use utoipa::ToSchema;

use crate::http::handle_api::reply_body::{JsonOptions, json_reply};
use crate::http::request::query::QueryParams;
use crate::http::request::request_head::RequestHead;
use crate::http::request::{name_path, percent};
use crate::http::resolve::lookup::{LookupContext, RecordLookupError};
use crate::http::resolve::resolver::RecordResolver;
use crate::http::resolve::upstream::UpstreamError;
use crate::http::response::errors::{
    malformed_request, problem_for_error, problem_for_store, problem_for_upstream,
};
use crate::http::response::problem::Problem;
use crate::http::response::reply::Reply;
use crate::http::routing::operation_spec::{OperationSpec, PathSpec, text_schema};

/// Maximum names per request.
const MAX_NAMES_PER_REQUEST: usize = 100;

/// Which agency looks after a name, or why that is not known.
#[derive(Serialize, ToSchema)]
#[schema(as = DoiAgency)]
struct DoiAgencyJson {
    #[serde(rename = "DOI")]
    doi: String,
    #[serde(rename = "RA", skip_serializing_if = "Option::is_none")]
    agency: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
}

/// Display names of agencies, by their names in prefix records.
const AGENCY_NAMES: [(&str, &str); 12] = [
    ("AIRITI", "Airiti"),
    ("BSI", "BSI"),
    ("CNKI", "CNKI"),
    ("CROSSREF", "Crossref"),
    ("DATACITE", "DataCite"),
    ("EIDR", "EIDR"),
    ("HAND", "HAND"),
    ("ISTIC", "ISTIC"),
    ("JALC", "JaLC"),
    ("KISTI", "KISTI"),
    ("MEDRA", "mEDRA"),
    ("OP", "OP"),
];

impl RecordResolver {
    /// Handles `/doiRA/`; `path` is the rest of the path, not decoded: a comma in a name is `%2C`.
    pub(crate) async fn get_doi_agencies(&self, path: &str, request: &RequestHead<'_>) -> Reply {
        let parameters = match QueryParams::parse(request.query) {
            Ok(parameters) => parameters,
            Err(error) => return malformed_request(&error.to_string()).into(),
        };
        let mut context = LookupContext::new(request, &QueryParams::default());
        let mut agencies = Vec::new();
        let parts = || path.split(',').filter(|part| !part.is_empty());
        let count = parts().count();
        if count > MAX_NAMES_PER_REQUEST {
            let reason = format!("{count} names in the path; the maximum is {MAX_NAMES_PER_REQUEST}");
            return malformed_request(&reason).into();
        }
        for part in parts() {
            let (doi, result) = match percent::decode_text(part, "path") {
                Ok(name) => {
                    let name = name_path::parse(&name).into_owned();
                    match self.agency_of_name(&name, &mut context).await {
                        Ok(result) => (name, result),
                        Err(problem) => return problem.into(),
                    }
                }
                Err(_) => (part.to_owned(), Err("Invalid DOI")),
            };
            let (agency, status) = match result {
                Ok(agency) => (Some(agency), None),
                Err(status) => (None, Some(status)),
            };
            agencies.push(DoiAgencyJson { doi, agency, status });
        }
        json_reply(StatusCode::OK, &agencies, &JsonOptions::from_query(&parameters))
    }

    /// Agency of a name or prefix, or the reason it is unknown; a problem if the store fails or a limit of the request is
    /// reached. A name that was transferred may have another agency than its prefix.
    async fn agency_of_name(
        &self,
        name: &str,
        context: &mut LookupContext<'_>,
    ) -> Result<Result<String, &'static str>, Box<Problem<'static>>> {
        let is_prefix = name.starts_with("10.") && !name.contains('/');
        if !is_prefix {
            if Doi::new(name).is_err() {
                return Ok(Err("Invalid DOI"));
            }
            match self.public_registration(name, &mut context.budget).await {
                Ok(Some(registered)) => return Ok(Ok(display_name(&registered.agency))),
                Err(Error::Store(error)) => return Err(problem_for_store(&error)),
                // Not registered here: the agency of the prefix, if the name exists.
                Ok(None) | Err(_) => {}
            }
            let query = ResolveQuery::new(Handle::from(name));
            if let Err(error) = self.lookup(&query, &Caller::Anonymous, context).await {
                match error {
                    RecordLookupError::Local(error @ (Error::Store(_) | Error::BudgetExceeded(_))) => {
                        return Err(problem_for_error(&error));
                    }
                    // Nothing is known about the name.
                    RecordLookupError::UpstreamUnavailable(error)
                        if matches!(*error, UpstreamError::TooManyQueries) =>
                    {
                        return Err(Box::new(problem_for_upstream(&error, self.upstream_name())));
                    }
                    error => match error.error() {
                        Some(Error::NotFound) => return Ok(Err("DOI does not exist")),
                        Some(Error::NotResponsible { .. } | Error::OtherServer) | None => {
                            return Ok(Err("Unknown"));
                        }
                        Some(_) => {}
                    },
                }
            }
        }
        let value = self.lookup_namespace(name, true, context).await;
        let value = value.map_err(|error| problem_for_error(&error))?;
        Ok(value.as_ref().and_then(agency_in_namespace).ok_or("Unknown"))
    }
}

/// Display name of the agency in a prefix's namespace value.
fn agency_in_namespace(value: &HandleValue<'_>) -> Option<String> {
    let namespace = Namespace::from_bytes(&value.data).ok()?;
    let agency = namespace.element_text("DOI.RA")?;
    Some(display_name(agency.rsplit('/').next().unwrap_or(agency)))
}

/// Display name of an agency; the code in upper case, as in prefix records, if it is not known.
fn display_name(code: &str) -> String {
    let known = AGENCY_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(code));
    known.map_or_else(|| code.to_ascii_uppercase(), |(_, name)| (*name).to_owned())
}

/// OpenAPI spec of `/doiRA/{names}`.
pub(crate) fn describe() -> PathSpec {
    PathSpec::readable(
        OperationSpec::new("Get the registration agency of names or prefixes")
            .tag("Resolution")
            .path_param(
                "names",
                "Comma-separated names or prefixes, at most 100; encode commas in names as `%2C`",
                text_schema(),
            )
            .query_param("callback", "JSONP callback function", text_schema())
            .query_param("pretty", "Indented JSON", text_schema())
            .example_command("curl -s $SERVER/doiRA/10.5555/DEMO,10.5555/none")
            .response(
                StatusCode::OK,
                "Agency of each name, in the order of the request; `status` if it is unknown",
            )
            .json_list_content::<DoiAgencyJson>("application/json")
            .text_content("application/javascript")
            .problem(StatusCode::BAD_REQUEST, "More than 100 names")
            .problem(StatusCode::BAD_GATEWAY, "Too many upstream queries for one request")
            .server_problems("Database unreachable"),
    )
}
