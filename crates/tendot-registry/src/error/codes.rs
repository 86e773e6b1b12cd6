//! Error codes of the registry: the only table of them, and the source of the reference page.
//!
//! Every [`RegistryError`](crate::RegistryError) is made from a constant of this module, so no code is undocumented.

use crate::RegistryErrorKind;

/// Error code with its documentation. Only this module creates them.
#[derive(Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ErrorCodeSpec {
    /// Stable code for programs, `code` of the problem document.
    pub code: &'static str,
    /// Kind of error, which selects the status.
    pub kind: RegistryErrorKind,
    /// Meaning of the code.
    pub meaning: &'static str,
    /// Advice: what to do.
    pub advice: &'static str,
}

/// Declares the constants and [`ERROR_CODES`].
macro_rules! error_codes {
    ($($name:ident = $code:literal, $kind:ident, $meaning:literal, $advice:literal;)+) => {
        $(
            #[doc = concat!("`", $code, "`: ", $meaning, ".")]
            pub const $name: &ErrorCodeSpec = &ErrorCodeSpec {
                code: $code,
                kind: RegistryErrorKind::$kind,
                meaning: $meaning,
                advice: $advice,
            };
        )+

        /// All error codes of the registry, grouped by kind.
        pub const ERROR_CODES: &[&ErrorCodeSpec] = &[$($name),+];
    };
}

error_codes! {
    MALFORMED = "malformed", Malformed,
        "the request cannot be parsed: invalid JSON, an unknown field, a wrong type, or an invalid query or CSV row",
        "correct what `detail` and `pointer` name; the fields are described at `/docs`";

    UNAUTHENTICATED = "unauthenticated", Unauthenticated,
        "authentication is required, or the credentials are invalid",
        "send `Authorization: Bearer TOKEN` with a valid token";
    INVALID_TOKEN = "invalid-token", Unauthenticated,
        "the token was revoked or has expired, or its agency or registrant no longer exists",
        "get a new token";

    FORBIDDEN = "forbidden", Forbidden,
        "the caller is not authorized: the object belongs to another registrant or agency, or the operation is reserved for \
         the agency or the operator",
        "ask the owner, the agency or the operator, or request a transfer";
    INSUFFICIENT_SCOPE = "insufficient-scope", Forbidden,
        "the token lacks the scope, is restricted to other prefixes, or is restricted at all and changes keys or administrators",
        "use a token with the scope and the prefix, for keys and administrators one without scopes, prefixes and expiry";
    PREFIX_OUT_OF_RANGE = "prefix-out-of-range", Forbidden,
        "the prefix is outside the range of the agency",
        "request a prefix within the range, or ask the operator";

    NOT_FOUND = "not-found", NotFound,
        "the object does not exist, or is not visible to the caller",
        "check the spelling; reserved names are visible only to their registrant, its agency and the operator";
    UNKNOWN_PREFIX = "unknown-prefix", NotFound,
        "the prefix is not allocated",
        "check the spelling, or have the prefix allocated";
    NOT_RESPONSIBLE = "not-responsible", NotFound,
        "another server or service is responsible for the name",
        "send the request to that server";

    ALREADY_REGISTERED = "already-registered", Conflict,
        "the name is registered or retired; `existing` has its original spelling, which may differ in case",
        "update the existing name, or choose another one";
    CONFUSABLE = "confusable", Conflict,
        "the name is confusable with `existing`, or mixes scripts with confusable letters, and the policy of the prefix \
         rejects it",
        "choose another name, or ask the agency to change the policy";
    DUPLICATE_METADATA = "duplicate-metadata", Conflict,
        "title, creators, date and types of the metadata equal those of `existing`, another name of the registrant, and the \
         policy of the prefix rejects it",
        "make the metadata distinguish the object, use the existing name, or ask the agency to change the policy";
    INVALID_STATE_TRANSITION = "invalid-state-transition", Conflict,
        "a registered name cannot become reserved",
        "retire the name instead";
    AGENCY_EXISTS = "agency-exists", Conflict,
        "an agency with this code exists",
        "choose another code";
    AGENCY_CLOSED = "agency-closed", Conflict,
        "the agency is closed; `detail` names its successor",
        "use the successor";
    PREFIX_IN_USE = "prefix-in-use", Conflict,
        "the prefix is allocated, retired, or has names",
        "request another prefix, or omit `prefix` to get the next free one";
    PREFIX_ALLOCATED = "prefix-allocated", Conflict,
        "the record of an allocated prefix cannot be deleted, and the prefix cannot be unhomed",
        "keep it; the names under the prefix depend on it";
    ALREADY_DECIDED = "already-decided", Conflict,
        "the transfer was already accepted or declined",
        "read the transfer, or propose a new one";
    ALREADY_OWNER = "already-owner", Conflict,
        "the recipient already owns everything in the transfer",
        "nothing to do";
    NAME_RETIRED = "name-retired", Conflict,
        "a transfer contains a retired name",
        "remove the name that `pointer` names";
    KEY_IN_USE = "key-in-use", Conflict,
        "a batch with the same `Idempotency-Key` is still running",
        "retry later";
    OWNERSHIP_CHANGED = "ownership-changed", Conflict,
        "the ownership changed after the transfer was proposed",
        "propose the transfer again";
    PROPOSAL_EXPIRED = "proposal-expired", Conflict,
        "the proposal of the transfer has expired (`registry.transfer_proposal_days`)",
        "propose the transfer again";
    PROPOSER_INVALID = "proposer-invalid", Conflict,
        "the credential that proposed the transfer is no longer valid: its token was revoked or has expired, or its key was removed",
        "propose the transfer again";

    RETIRED = "retired", Gone,
        "the name is retired and cannot be changed or reused",
        "choose another name";

    REVISION_MISMATCH = "revision-mismatch", PreconditionFailed,
        "the current revision is not the one in `If-Match`",
        "read the current revision and retry";

    MISSING = "missing", Invalid,
        "a required field is missing or empty",
        "add the field that `pointer` names";
    INVALID_NAME = "invalid-name", Invalid,
        "the DOI or handle is invalid",
        "see `hint` for a suggestion; `tendot name` explains the fault";
    INVALID_URL = "invalid-url", Invalid,
        "the URL is relative, has credentials or control characters, or a scheme or host that is not allowed",
        "use an absolute `https://` URL";
    INVALID_VALUE = "invalid-value", Invalid,
        "a handle value is malformed, or is set by the registry only (`HS_ADMIN` and its index)",
        "correct or remove the value that `pointer` names";
    INVALID_METADATA = "invalid-metadata", Invalid,
        "the metadata is invalid; `faults` lists every fault",
        "correct the faults; their codes have a table of their own";
    SUFFIX_PATTERN = "suffix-pattern", Invalid,
        "the suffix does not match the pattern in the policy of the prefix",
        "choose a suffix that matches";
    RESERVED_SUFFIX = "reserved-suffix", Invalid,
        "the suffix starts with one character and a slash, which ANSI/NISO Z39.84 reserves (section 4.3)",
        "choose another suffix, or ask the agency to set `rules` in the policy to `current`";
    HOST_NOT_ALLOWED = "host-not-allowed", Invalid,
        "a URL, location or alias leads to a host or prefix that the policy of the prefix does not allow",
        "use an allowed host, or ask the agency to change the policy";
    NAME_MISMATCH = "name-mismatch", Invalid,
        "`name` is not the DOI that is updated, or the metadata is for another DOI",
        "omit `name`, or correct it";
    PREFIX_MISMATCH = "prefix-mismatch", Invalid,
        "`name` does not belong to `prefix`",
        "send only one of them";
    INVALID_CODE = "invalid-code", Invalid,
        "the agency code is invalid",
        "use 1 to 32 ASCII letters, digits, `-` or `_`";
    INVALID_PREFIX = "invalid-prefix", Invalid,
        "the prefix is not a DOI prefix, or has a directory code that the operator has not enabled",
        "use a prefix such as `10.70000`; `registry.directory_codes` enables others";
    INVALID_RANGE = "invalid-range", Invalid,
        "the prefix range is invalid",
        "use `first` and `last` in this order, such as `10.70000` and `10.79999`";
    INVALID_PATTERN = "invalid-pattern", Invalid,
        "the regular expression is invalid or too large",
        "correct it; it must match the whole suffix";
    INVALID_HOST = "invalid-host", Invalid,
        "the host name is invalid",
        "use a host name in ASCII, such as `example.org`";
    INVALID_IDENTITY = "invalid-identity", Invalid,
        "the administrator is not a Handle identity",
        "use INDEX:HANDLE, such as `300:10.70000/admin`";
    INVALID_SUBJECT = "invalid-subject", Invalid,
        "the subject does not match the role of the token",
        "use the code of an agency or the id of a registrant; an operator token has none";
    EXPIRES_IN_PAST = "expires-in-past", Invalid,
        "`expires` is in the past",
        "use a later time";
    EXPIRES_AFTER_PARENT = "expires-after-parent", Invalid,
        "`expires` is after the expiry of the token that creates the new one",
        "use an earlier time, omit `expires`, or create the token with another credential";
    INVISIBLE_CHARACTER = "invisible-character", Invalid,
        "a text has an invisible character",
        "remove the character";
    TOO_LONG = "too-long", Invalid,
        "a text is too long",
        "shorten the text";
    TOO_MANY = "too-many", Invalid,
        "a list has too many items",
        "send fewer items";
    RESERVED_INDEX = "reserved-index", Invalid,
        "the name has another value at index 100, which is reserved for its `HS_ADMIN` value",
        "move that value to another index, with `values` or over the Handle protocol";
    DUPLICATE_NAME = "duplicate-name", Invalid,
        "a transfer contains the same name twice",
        "remove the duplicate";
    UNKNOWN_AGENCY = "unknown-agency", Invalid,
        "the request names an agency that does not exist",
        "check the code of the agency";
    UNKNOWN_REGISTRANT = "unknown-registrant", Invalid,
        "the request names a registrant that does not exist",
        "check the id of the registrant";
    UNKNOWN_NAME = "unknown-name", Invalid,
        "a transfer contains a name or a prefix that does not exist",
        "check the name that `pointer` names";
    KEY_REUSED = "key-reused", Invalid,
        "the `Idempotency-Key` was used for another request",
        "use a new key for a new request";
    REJECTED_BY_STORE = "rejected-by-store", Invalid,
        "the store rejects the name or the record, for example because it is too large",
        "make it smaller";
    HANDLE_RULE = "handle-rule", Invalid,
        "a rule of the Handle System does not allow the operation; see `detail`",
        "follow `detail`";

    QUOTA_EXCEEDED = "quota-exceeded", LimitReached,
        "the prefix has as many names as its quota allows",
        "ask the agency to raise the quota";
    TOO_MANY_REGISTRANTS = "too-many-registrants", LimitReached,
        "1,000 other registrants already have names under the prefix",
        "transfer the prefix, or register names under another one";
    PREFIX_RANGE_EXHAUSTED = "prefix-range-exhausted", LimitReached,
        "the agency has no free prefix",
        "ask the operator for another range";
    DISK_FULL = "disk-full", LimitReached,
        "the disk of the server is full",
        "inform the operator";

    WRITE_CONFLICT = "write-conflict", Unavailable,
        "concurrent writes changed the same data in every attempt",
        "retry";
    BUDGET_EXCEEDED = "budget-exceeded", Unavailable,
        "the request costs more than one request may",
        "request less at once; a retry does not help";
    STORE_UNAVAILABLE = "store-unavailable", Unavailable,
        "the database is unreachable; nothing was written",
        "retry after the seconds in `Retry-After`";
    OUTCOME_UNKNOWN = "outcome-unknown", Unavailable,
        "the database connection was lost or the disk failed during the commit; all of the change was written, or nothing",
        "read the name, or retry with the same `Idempotency-Key`, which applies the request at most once";
    STORE_READ_ONLY = "store-read-only", Unavailable,
        "the store is read-only",
        "retry later; the log of the server has the reason";
    SITE_PEER_UNAVAILABLE = "site-peer-unavailable", Unavailable,
        "another server of the site did not respond",
        "retry later";
    MINTING_FAILED = "minting-failed", Unavailable,
        "no unused suffix was found",
        "retry";

    CORRUPT = "corrupt", Internal,
        "stored data is corrupt; whether the name exists is unknown",
        "tell the operator; `tendot verify` lists the corruption";
    STORE_FAILED = "store-failed", Internal,
        "internal error of the store",
        "retry later; the log of the server has the reason";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_unique_and_documented() {
        let codes: BTreeSet<_> = ERROR_CODES.iter().map(|spec| spec.code).collect();
        assert_eq!(codes.len(), ERROR_CODES.len());
        for spec in ERROR_CODES {
            let is_code = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
            assert!(spec.code.bytes().all(is_code), "{}", spec.code);
            assert!(!spec.meaning.is_empty() && !spec.advice.is_empty());
            assert!(!spec.meaning.contains('|') && !spec.advice.contains('|'), "table cell: {}", spec.code);
        }
    }
}
