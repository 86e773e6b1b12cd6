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
use crate::http::response::status;

/// Problem for a failed lookup in this server's store.
pub(crate) fn problem_for_lookup(name: &str, error: &Error) -> Problem<'static> {
    let status = status::status_for(error.response_code(), false);
    let kind = NameKind::classify(name);
    match (error, &kind) {
        (_, NameKind::Empty) => {
            let detail = "A name is a prefix, a slash and a suffix, such as 10.1000/182.".into();
            Problem::new(StatusCode::BAD_REQUEST, "missing-name", "Missing name", detail)
        }
        (Error::NotFound | Error::NotResponsible { .. } | Error::OtherServer, NameKind::Prefix(_)) => {
            Problem {
                reasons: vec!["The slash and the suffix are missing; they may have been cut off."],
                ..Problem::new(
                    StatusCode::NOT_FOUND,
                    "missing-suffix",
                    "Prefix without suffix",
                    String::new(),
                )
            }
        }
        (Error::NotResponsible { .. }, NameKind::Doi(DoiOrShortDoi::Short(_))) => {
            let detail = "A shortDOI is an alias of a DOI. Only the DOI Foundation's resolver knows it.";
            Problem {
                public_url: public_url(name),
                ..Problem::new(status, "short-doi", "shortDOI not available here", detail.into())
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
                "not-responsible",
                "Not responsible for this prefix",
                format!("{}.", capitalize(&error.to_string())),
            )
        },
        (Error::OtherServer, _) => {
            let detail = "Another server of this site is responsible for it.".into();
            Problem {
                public_url: public_url(name),
                ..Problem::new(status, "not-responsible", "Not responsible for this name", detail)
            }
        }
        (Error::NotFound, _) if name.ends_with('/') && name.matches('/').count() == 1 => {
            let detail = "The suffix after the slash is empty; it may have been cut off.".into();
            Problem::new(status, "empty-suffix", "Empty suffix", detail)
        }
        (Error::NotFound, _) => Problem {
            reasons: vec![
                "The source that you copied it from may be wrong.",
                "It may have been copied with an extra or missing character, such as a full stop or a bracket.",
                "It may not be registered yet; ask the publisher.",
            ],
            ..Problem::new(
                status,
                "not-found",
                "Name not found",
                "This server is responsible for the prefix, but has no record of this name.".into(),
            )
        },
        (Error::Tombstone, _) => Problem::new(
            StatusCode::GONE,
            "retired",
            "This name is retired",
            "It no longer resolves, and it will not be reused.".into(),
        ),
        (Error::NoValues, _) => Problem::new(
            StatusCode::NOT_FOUND,
            "no-values",
            "No public values",
            "The record has no public values that match the request.".into(),
        ),
        (Error::Name(_), _) => Problem::new(
            status,
            "invalid-name",
            "Invalid name",
            format!("{}.", capitalize(&error.to_string())),
        ),
        (Error::Exhausted(_), _) => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "budget-exceeded",
            "Request too expensive",
            "The request exceeds the work limit.".into(),
        ),
        (Error::Store(error), _) => *problem_for_store(error),
        _ => Problem::new(
            status,
            "unsupported",
            "Not supported",
            format!("{}.", capitalize(&error.to_string())),
        ),
    }
}

/// Problem for a store failure; details are only logged.
pub(crate) fn problem_for_store(error: &StoreError) -> Box<Problem<'static>> {
    let (status, code, message) = match error {
        StoreError::Unreachable { .. } => {
            (StatusCode::SERVICE_UNAVAILABLE, "store-unavailable", "The database is unreachable")
        }
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "store-failed", "The store failed"),
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
    Problem::new(StatusCode::BAD_REQUEST, "malformed", "Malformed request", detail)
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
    let problem = if accepts_credentials {
        Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", "Not authenticated", detail)
    } else {
        Problem::new(StatusCode::FORBIDDEN, "insecure-transport", "Insecure transport", detail)
    };
    problem.uncached_json_reply()
}
