//! Errors of lookups, the store, the upstream resolver and authentication as problems.

use http::StatusCode;
use tendot_names::DoiOrShortDoi;
use tendot_registry::Error;
use tendot_store::StoreError;

use crate::http::authentication::AuthenticationError;
use crate::http::resolve::name_kind::{NameKind, public_url};
use crate::http::resolve::upstream::UpstreamError;
use crate::http::response::problem::{Problem, capitalize};
use crate::http::response::reply::Reply;
use crate::http::response::{codes, status};

/// Problem for a failed lookup in this server's store.
pub(crate) fn problem_for_lookup(name: &str, error: &Error) -> Problem<'static> {
    let status = status::status_for(error.response_code(), false);
    let kind = NameKind::classify(name);
    match (error, &kind) {
        (_, NameKind::Empty) => {
            let detail = "A name is a prefix, a slash and a suffix, such as 10.1000/182.".into();
            Problem::new(StatusCode::BAD_REQUEST, codes::MISSING_NAME, "Missing name", detail)
        }
        (Error::NotFound | Error::NotResponsible { .. } | Error::OtherServer, NameKind::Prefix(_)) => {
            Problem {
                reasons: vec!["The slash and the suffix are missing; they may have been cut off."],
                ..Problem::new(
                    StatusCode::NOT_FOUND,
                    codes::MISSING_SUFFIX,
                    "Prefix without suffix",
                    String::new(),
                )
            }
        }
        (Error::NotResponsible { .. }, NameKind::Doi(DoiOrShortDoi::ShortDoi(_))) => {
            let detail = "A shortDOI is an alias of a DOI. Only the DOI Foundation's resolver knows it.";
            Problem {
                public_url: public_url(name),
                ..Problem::new(status, codes::SHORT_DOI, "shortDOI not available here", detail.into())
            }
        }
        (Error::NotResponsible { .. }, _) => Problem {
            reasons: vec![
                "Another service may be responsible; this server has no upstream resolver.",
                "The prefix may be misspelled.",
            ],
            public_url: public_url(name),
            ..Problem::new(
                status,
                codes::NOT_RESPONSIBLE,
                "Not responsible for this prefix",
                format!("{}.", capitalize(&error.to_string())),
            )
        },
        (Error::OtherServer, _) => {
            let detail = "Another server of this site is responsible for it.".into();
            Problem {
                public_url: public_url(name),
                ..Problem::new(status, codes::NOT_RESPONSIBLE, "Not responsible for this name", detail)
            }
        }
        (Error::NotFound, _) if name.ends_with('/') && name.matches('/').count() == 1 => {
            let detail = "The suffix after the slash is empty; it may have been cut off.".into();
            Problem::new(status, codes::EMPTY_SUFFIX, "Empty suffix", detail)
        }
        (Error::NotFound, _) => Problem {
            reasons: vec![
                "The source that you copied it from may be wrong.",
                "It may have been copied with an extra or missing character, such as a full stop or a bracket.",
                "It may not be registered yet; ask the publisher.",
            ],
            ..Problem::new(
                status,
                codes::NOT_FOUND,
                "Name not found",
                "This server is responsible for the prefix, but has no record of this name.".into(),
            )
        },
        (Error::Retired, _) => Problem::new(
            StatusCode::GONE,
            codes::RETIRED,
            "This name is retired",
            "It no longer resolves, and it will not be reused.".into(),
        ),
        (Error::ValuesNotFound, _) => Problem::new(
            StatusCode::NOT_FOUND,
            codes::NO_VALUES,
            "No public values",
            "The record has no public values that match the request.".into(),
        ),
        (Error::Name(_), _) => Problem::new(
            status,
            codes::INVALID_NAME,
            "Invalid name",
            format!("{}.", capitalize(&error.to_string())),
        ),
        (Error::BudgetExceeded(_), _) => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            codes::BUDGET_EXCEEDED,
            "Request too expensive",
            "The request exceeds the work limit.".into(),
        ),
        (Error::Store(error), _) => *problem_for_store(error),
        _ => Problem::new(
            status,
            codes::UNSUPPORTED,
            "Not supported",
            format!("{}.", capitalize(&error.to_string())),
        ),
    }
}

/// Problem for a store failure; details are only logged.
pub(crate) fn problem_for_store(error: &StoreError) -> Box<Problem<'static>> {
    let (status, code, message) = match error {
        StoreError::Unavailable { .. } => {
            (StatusCode::SERVICE_UNAVAILABLE, codes::STORE_UNAVAILABLE, "The database is unreachable")
        }
        _ => (StatusCode::INTERNAL_SERVER_ERROR, codes::STORE_FAILED, "The store failed"),
    };
    Box::new(Problem::new(status, code, "Server error", format!("{message}. Retry later.")))
}

/// Problem for a failed query of the upstream resolver.
pub(crate) fn problem_for_upstream(name: &str, error: &UpstreamError) -> Problem<'static> {
    Problem {
        reasons: vec!["The name may be valid; the upstream resolver sent no usable response."],
        public_url: public_url(name),
        ..Problem::new(
            error.status(),
            error.code(),
            "Upstream resolver failed",
            format!("Another service is responsible for it, but {}. Retry later.", error.public_message()),
        )
    }
}

/// Problem for a failed lookup, for programs.
pub(crate) fn problem_of_name(name: &str, error: &Error) -> Reply {
    let mut problem = Problem { name, ..problem_for_lookup(name, error) };
    if problem.detail.is_empty() {
        problem.detail = format!("{}.", capitalize(&error.to_string()));
    }
    problem.uncached_json_reply()
}

/// Problem for a malformed request.
pub(crate) fn malformed_request(message: &str) -> Problem<'static> {
    let detail = format!("{}.", capitalize(message));
    Problem::new(StatusCode::BAD_REQUEST, codes::MALFORMED, "Malformed request", detail)
}

/// Problem for a malformed request, for programs.
pub(crate) fn problem_of_request(message: &str) -> Reply {
    malformed_request(message).uncached_json_reply()
}

/// Problem for failed authentication, for programs.
pub(crate) fn problem_of_caller(error: AuthenticationError, accepts_credentials: bool) -> Reply {
    if let Some(response) = error.retry_reply() {
        return response;
    }
    let detail = format!("{}.", capitalize(&error.to_string()));
    let status = status::unauthenticated_status(accepts_credentials);
    let code = status::unauthenticated_code(accepts_credentials);
    let title = if accepts_credentials { "Not authenticated" } else { "Insecure transport" };
    let problem = Problem::new(status, code, title, detail);
    problem.uncached_json_reply()
}
