//! `/doiRA/{name},{name}…`: which agency looks after a name.

use http::StatusCode;
use serde::Serialize;
use tendot_names::Doi;
use tendot_proto::record::Namespace;
use tendot_proto::{Handle, HandleValue};
use tendot_registry::{Caller, Error, ResolveQuery};
use tendot_store::StoreError;
use utoipa::ToSchema;

use super::answer::{JSON, Reply, reply};
use super::describe::{OperationSpec, PathSpec, text_schema};
use super::page::{self, ProblemJson};
use super::parameters::QueryParams;
use super::request::RequestHead;
use super::search::{LookupContext, RecordLookupError};
use super::{HttpServer, form, percent};

/// Names in one request.
const MAX_NAMES_PER_REQUEST: usize = 100;

/// Which agency looks after a name, or why that is not known.
#[derive(Serialize, ToSchema)]
#[schema(as = AgencyOfName)]
struct Found {
    #[serde(rename = "DOI")]
    doi: String,
    #[serde(rename = "RA", skip_serializing_if = "Option::is_none")]
    agency: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
}

/// Agencies as they write themselves, by the names that prefixes have for them.
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

impl HttpServer {
    /// Answers `/doiRA/`; `path` is what stands after it, not decoded: a comma in a name is `%2C`.
    pub(crate) async fn get_doi_agencies(&self, path: &str, request: &RequestHead<'_>) -> Reply {
        let mut search = LookupContext::new(request, &QueryParams::default());
        let mut found = Vec::new();
        for part in path.split(',').filter(|part| !part.is_empty()).take(MAX_NAMES_PER_REQUEST) {
            let (doi, result) = match percent::decode_text(part, "path") {
                Ok(name) => {
                    let name = form::parse(&name).into_owned();
                    match self.agency_of_name(&name, &mut search).await {
                        Ok(result) => (name, result),
                        Err(error) => return page::problem_for_store(&error).into(),
                    }
                }
                Err(_) => (part.to_owned(), Err("Invalid DOI")),
            };
            let (agency, status) = match result {
                Ok(agency) => (Some(agency), None),
                Err(status) => (None, Some(status)),
            };
            found.push(Found { doi, agency, status });
        }
        reply(StatusCode::OK, JSON, serde_json::to_vec(&found).unwrap_or_default())
    }

    /// The agency of a name, or of a prefix, or why there is none to tell; an error if the store fails.
    async fn agency_of_name(
        &self,
        name: &str,
        search: &mut LookupContext<'_>,
    ) -> Result<Result<String, &'static str>, StoreError> {
        let is_prefix = name.starts_with("10.") && !name.contains('/');
        if !is_prefix {
            if Doi::new(name).is_err() {
                return Ok(Err("Invalid DOI"));
            }
            let query = ResolveQuery::new(Handle::from(name));
            if let Err(error) = self.lookup(&query, &Caller::Anonymous, search).await {
                match error {
                    RecordLookupError::Here(Error::Store(error)) => return Err(error),
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
        let value = self.lookup_namespace(name, true, search).await?;
        Ok(value.as_ref().and_then(agency_in_namespace).ok_or("Unknown"))
    }
}

/// The agency that the value of a prefix names, as it writes itself.
fn agency_in_namespace(value: &HandleValue<'_>) -> Option<String> {
    let namespace = Namespace::from_bytes(&value.data).ok()?;
    let agency = namespace.element_text("DOI.RA")?;
    let code = agency.rsplit('/').next().unwrap_or(agency);
    let known = AGENCY_NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(code));
    Some(known.map_or(code, |(_, name)| name).to_owned())
}

/// What is done at `/doiRA/{names}`.
pub(super) fn describe() -> PathSpec {
    PathSpec::readable(
        OperationSpec::new("Which agency looks after names, or prefixes")
            .tag("Names")
            .path_param(
                "names",
                "Names or prefixes, with commas between them, 100 at most; a comma in a name is `%2C`",
                text_schema(),
            )
            .example_command("curl -s $SERVER/doiRA/10.5555/DEMO,10.5555/none")
            .response(
                StatusCode::OK,
                "The agency of each, in the order of the request; `status` if there is none to tell",
            )
            .json_list_content::<Found>("application/json")
            .response(StatusCode::INTERNAL_SERVER_ERROR, "The store failed")
            .json_content::<ProblemJson<'_>>("application/problem+json")
            .response(StatusCode::SERVICE_UNAVAILABLE, "The database is not reached at present")
            .json_content::<ProblemJson<'_>>("application/problem+json"),
    )
}
