//! Error codes of problem details (RFC 9457) that the HTTP server sends itself: one table for the sources and the docs.
//!
//! Errors of the registry bring their own code; `status.rs` has their statuses. A code that both send has one meaning.

/// Error code of the HTTP API: its statuses, meaning, and advice to the client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ErrorCodeSpec {
    /// Member `code` of the problem.
    pub code: &'static str,
    /// HTTP statuses that the code is sent with.
    pub statuses: &'static [u16],
    /// Cause of the error.
    pub meaning: &'static str,
    /// What the client should do.
    pub advice: &'static str,
}

/// Defines a constant per code, and the table of all.
macro_rules! error_codes {
    ($($name:ident = $code:literal, $statuses:expr, $meaning:literal, $advice:literal;)+) => {
        $(
            #[doc = $meaning]
            pub(crate) const $name: &str = $code;
        )+

        /// Error codes that the HTTP server sends itself, by topic.
        pub const HTTP_ERROR_CODES: &[ErrorCodeSpec] = &[
            $(ErrorCodeSpec { code: $name, statuses: &$statuses, meaning: $meaning, advice: $advice },)+
        ];
    };
}

error_codes! {
    MALFORMED = "malformed", [400], "Invalid path, query, header or body",
        "Correct what `detail` and `pointer` name; `/docs` lists members and parameters.";
    INVALID_PRECONDITION = "invalid-precondition", [400], "Invalid `If-Match` or `If-None-Match`",
        "Send `*` or one ETag; only one of the two headers.";
    UNSUPPORTED_MEDIA_TYPE = "unsupported-media-type", [415], "Unsupported `Content-Type` or `Content-Encoding`",
        "Send batches as `application/x-ndjson` or `text/csv`, uncompressed or as gzip.";
    TOO_LARGE = "too-large", [400, 413], "Request body, or result of a reverse lookup, too large",
        "Send less at once, or use a batch; for a reverse lookup, use a smaller `limit`.";
    DECOMPRESSION_RATIO = "decompression-ratio", [413], "Decompressed body too large for its compressed size",
        "Send the body uncompressed.";
    REQUEST_TIMEOUT = "request-timeout", [408], "Timeout while reading the request body", "Send the request again.";
    UNKNOWN_ENDPOINT = "unknown-endpoint", [404], "No endpoint with this path", "See `/docs` or `/openapi.json`.";
    METHOD_NOT_ALLOWED = "method-not-allowed", [405], "The endpoint does not support this method",
        "Use one of the methods in `Allow`.";

    UNAUTHENTICATED = "unauthenticated", [401], "Credentials missing, unknown, revoked or expired",
        "Send `Authorization: Bearer TOKEN` with a valid token.";
    INSECURE_TRANSPORT = "insecure-transport", [403],
        "Credentials are required, but not accepted on this connection: plain HTTP, or a cross-site request",
        "Use TLS; for a proxy, set `http.trusted_proxies` on the server.";
    FORBIDDEN = "forbidden", [403], "The caller is not authorized", "Ask the operator for permission.";

    NOT_FOUND = "not-found", [404], "Name not found", "Check the spelling; `suggestions` has similar names.";
    MISSING_NAME = "missing-name", [400], "The path has no name", "Use a prefix, a slash and a suffix.";
    MISSING_SUFFIX = "missing-suffix", [404], "The path has a prefix without a suffix", "Add a slash and the suffix.";
    EMPTY_SUFFIX = "empty-suffix", [404], "The suffix of the name is empty", "Add the suffix; it may have been cut off.";
    INVALID_NAME = "invalid-name", [400], "The path is not a valid name", "Correct what `detail` names.";
    SHORT_DOI = "short-doi", [400], "shortDOI that this server cannot resolve", "Resolve it at https://doi.org.";
    NOT_RESPONSIBLE = "not-responsible", [400, 404], "Another server or service is responsible for the name",
        "Query that server, or set `upstream` on this one.";
    NO_VALUES = "no-values", [404], "The record has no matching public values",
        "Request other types or indexes, or authenticate.";
    NO_METADATA = "no-metadata", [404], "The name has no metadata", "Register metadata for the name.";
    NOT_ACCEPTABLE = "not-acceptable", [406], "No metadata format matches `Accept`", "Use one of `types`, or `*/*`.";
    ALIAS_LOOP = "alias-loop", [508], "The name is an alias of itself, over other aliases",
        "Change one of the alias records.";
    PREFIX_INACTIVE = "prefix-inactive", [404], "The prefix is inactive", "Ask the contact in `detail`.";
    RETIRED = "retired", [410], "The name is retired and will not be reused", "Use another name.";
    UNSUPPORTED = "unsupported", [501], "Operation not supported", "See `detail`.";

    PRECONDITION_FAILED = "precondition-failed", [412], "The resource exists, but `If-None-Match: *` was sent",
        "Read the resource, and update it with `If-Match`.";
    NAME_MISMATCH = "name-mismatch", [422], "`name` in the body differs from the path", "Omit `name`.";
    INVALID_TIMESTAMP = "invalid-timestamp", [422], "Invalid timestamp",
        "Use RFC 3339, such as `2027-01-31T12:00:00Z`.";
    KEY_IN_USE = "key-in-use", [409], "A batch with this `Idempotency-Key` is still running", "Retry later.";
    KEY_REUSED = "key-reused", [422], "The `Idempotency-Key` was used with a different body",
        "Use a new key for a new request.";

    OVERLOADED = "overloaded", [503], "Too many concurrent requests of this kind",
        "Retry after the seconds in `Retry-After`.";
    BUDGET_EXCEEDED = "budget-exceeded", [503], "The request exceeds the work limit or its time limit",
        "Request less at once; a retry fails, too.";
    WRITE_CONFLICT = "write-conflict", [503], "Concurrent changes of the same objects", "Send the request again.";
    STORE_UNAVAILABLE = "store-unavailable", [503], "The database is unreachable; nothing was changed",
        "Retry after the seconds in `Retry-After`.";
    STORE_FAILED = "store-failed", [500], "The store failed, or stored data is unreadable",
        "Retry later; the server's log has the cause.";
    RANDOM_UNAVAILABLE = "random-unavailable", [500], "The random number generator of the system failed",
        "Inform the operator.";

    UPSTREAM_TIMEOUT = "upstream-timeout", [504], "The upstream resolver did not respond in time", "Retry later.";
    UPSTREAM_LOOP = "upstream-loop", [508], "The query came back to this server through its upstream resolver",
        "Inform the operator: `upstream` forms a loop.";
    UPSTREAM_OVERLOADED = "upstream-overloaded", [503], "Too many upstream queries in flight",
        "Retry after the seconds in `Retry-After`.";
    UPSTREAM_FAILED = "upstream-failed", [502], "The upstream resolver is unreachable, or its response is invalid",
        "Retry later.";
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
