//! Error codes of problem details (RFC 9457) that the HTTP server sends itself: one table for the sources and the docs.
//!
//! Errors of the registry bring their own code; `errors.rs` has their statuses. A code that both send has one meaning;
//! the reference page shows the row of the registry, with the statuses of both.

/// Error code of the HTTP API: its statuses, meaning, and advice to the client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct HttpErrorCodeSpec {
    /// Member `code` of the problem.
    pub code: &'static str,
    /// HTTP statuses that the code is sent with.
    pub statuses: &'static [u16],
    /// Cause of the error.
    pub meaning: &'static str,
    /// Advice for the client.
    pub advice: &'static str,
}

/// Defines a constant per code, and the table of all.
macro_rules! error_codes {
    ($($name:ident = $code:literal, $statuses:expr, $meaning:literal, $advice:literal;)+) => {
        $(
            #[doc = concat!("`", $code, "`: ", $meaning, ".")]
            pub(crate) const $name: &str = $code;
        )+

        /// Error codes that the HTTP server sends itself, by topic.
        pub const HTTP_ERROR_CODES: &[HttpErrorCodeSpec] = &[
            $(HttpErrorCodeSpec { code: $name, statuses: &$statuses, meaning: $meaning, advice: $advice },)+
        ];
    };
}

error_codes! {
    MALFORMED = "malformed", [400],
        "invalid path, query, header or body",
        "correct what `detail` and `pointer` name; `/docs` lists members and parameters";
    UNKNOWN_PARAMETER = "unknown-parameter", [400],
        "a query parameter that the operation does not have",
        "correct it as `hint` says; `/docs` lists the parameters";
    INVALID_PRECONDITION = "invalid-precondition", [400],
        "invalid `If-Match` or `If-None-Match`",
        "send `*` or one ETag; only one of the two headers";
    UNSUPPORTED_MEDIA_TYPE = "unsupported-media-type", [415],
        "unsupported `Content-Type` or `Content-Encoding`",
        "send changes as `application/json`, batches as `application/x-ndjson` or `text/csv`, uncompressed or as gzip";
    TOO_LARGE = "too-large", [400, 413],
        "request body, or result of a reverse lookup, too large",
        "send less at once, or use a batch; for a reverse lookup, use a smaller `limit`";
    DECOMPRESSION_RATIO = "decompression-ratio", [413],
        "decompressed body too large for its compressed size",
        "send the body uncompressed";
    REQUEST_TIMEOUT = "request-timeout", [408],
        "timeout while reading the request body",
        "send the request again";
    UNKNOWN_ENDPOINT = "unknown-endpoint", [404],
        "no endpoint with this path, and no name that the server knows",
        "see `/docs` or `/openapi.json`";
    METHOD_NOT_ALLOWED = "method-not-allowed", [405],
        "the endpoint does not support this method",
        "use one of the methods in `Allow`";

    UNAUTHENTICATED = "unauthenticated", [401],
        "credentials missing, unknown, revoked or expired",
        "send `Authorization: Bearer TOKEN` with a valid token";
    INSECURE_TRANSPORT = "insecure-transport", [403],
        "credentials are required, but ignored on this connection: plain HTTP, a proxy that is not trusted or did not report HTTPS, or a cross-site request",
        "use TLS; for a proxy, set `http.trusted_proxies` on the server and let it send `X-Forwarded-Proto: https`";
    CROSS_ORIGIN = "cross-origin", [403],
        "a change with a password came from a page of another origin",
        "send the change from a page of this server or from a program, or use an API token";
    FORBIDDEN = "forbidden", [403],
        "the caller is not authorized",
        "ask the operator for permission";

    NOT_FOUND = "not-found", [404],
        "name not found",
        "check the spelling; `suggestions` has similar names";
    MISSING_NAME = "missing-name", [400],
        "the path has no name",
        "use a prefix, a slash and a suffix";
    MISSING_SUFFIX = "missing-suffix", [404],
        "the path has a prefix without a suffix",
        "add a slash and the suffix";
    EMPTY_SUFFIX = "empty-suffix", [404],
        "the suffix of the name is empty",
        "add the suffix; it may have been cut off";
    INVALID_NAME = "invalid-name", [400],
        "the path is not a valid name",
        "correct what `detail` names";
    NO_IDENTIFIER = "no-identifier", [404],
        "the OpenURL request has metadata or other identifiers only, or the text of the search box has no name",
        "add a DOI or handle, in OpenURL requests as `id`, `rft_id` or `rft.doi`";
    SHORT_DOI = "short-doi", [404],
        "shortDOI that this server cannot resolve",
        "resolve it at https://doi.org";
    NOT_RESPONSIBLE = "not-responsible", [404],
        "another server or service is responsible for the name",
        "query that server, or set `upstream` on this one";
    NO_VALUES = "no-values", [404],
        "the record has no matching public values",
        "request other types or indexes, or authenticate";
    NO_METADATA = "no-metadata", [404],
        "the name has no metadata",
        "register metadata for the name";
    NOT_ACCEPTABLE = "not-acceptable", [406],
        "no metadata format matches `Accept`",
        "use one of `types`, or `*/*`";
    ALIAS_LOOP = "alias-loop", [508],
        "the name is an alias of itself, over other aliases",
        "change one of the alias records";
    PREFIX_INACTIVE = "prefix-inactive", [404],
        "the prefix is inactive",
        "ask the contact in `detail`";
    RETIRED = "retired", [410],
        "the name is retired and will not be reused",
        "use another name";
    UNSUPPORTED = "unsupported", [403, 501],
        "operation not supported",
        "see `detail`";

    PRECONDITION_FAILED = "precondition-failed", [412],
        "the resource exists, but `If-None-Match: *` was sent",
        "read the resource, and update it with `If-Match`";
    NAME_MISMATCH = "name-mismatch", [422],
        "`name` in the body differs from the path",
        "omit `name`";
    INVALID_TIMESTAMP = "invalid-timestamp", [422],
        "invalid timestamp",
        "use RFC 3339, such as `2027-01-31T12:00:00Z`";

    OVERLOADED = "overloaded", [503],
        "too many concurrent requests of this kind",
        "retry after the seconds in `Retry-After`";
    BUDGET_EXCEEDED = "budget-exceeded", [503],
        "the request exceeds the work limit or its time limit",
        "request less at once; a retry fails, too";
    WRITE_CONFLICT = "write-conflict", [503],
        "concurrent changes of the same objects",
        "send the request again";
    STORE_UNAVAILABLE = "store-unavailable", [503],
        "the database is unreachable; nothing was changed",
        "retry after the seconds in `Retry-After`";
    STORE_FAILED = "store-failed", [500],
        "the store failed, or stored data is unreadable",
        "retry later; the server's log has the cause";

    UPSTREAM_TIMEOUT = "upstream-timeout", [504],
        "the upstream resolver did not respond in time",
        "retry later";
    UPSTREAM_LOOP = "upstream-loop", [508],
        "the query came back to this server through its upstream resolver",
        "inform the operator: `upstream` forms a loop";
    UPSTREAM_OVERLOADED = "upstream-overloaded", [503],
        "too many upstream queries in flight",
        "retry after the seconds in `Retry-After`";
    UPSTREAM_FAILED = "upstream-failed", [502],
        "the upstream resolver is unreachable, or its response is invalid",
        "retry later";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use http::StatusCode;

    use super::*;

    #[test]
    fn codes_are_unique_and_kebab_case() {
        let mut codes = BTreeSet::new();
        for spec in HTTP_ERROR_CODES {
            assert!(codes.insert(spec.code), "{} twice", spec.code);
            assert!(spec.code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", spec.code);
            assert!(!spec.statuses.is_empty(), "{}", spec.code);
            for status in spec.statuses {
                let status = StatusCode::from_u16(*status).unwrap();
                assert!(status.is_client_error() || status.is_server_error(), "{}", spec.code);
            }
        }
    }
}
