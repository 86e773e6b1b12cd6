//! Reference of the error codes of the HTTP API.

use std::fmt::Write as _;

use super::{GENERATED_NOTICE, table_cell};

/// Row of the table of error codes.
pub(super) struct ErrorCodeRow {
    pub(super) code: &'static str,
    pub(super) status: u16,
    pub(super) meaning: &'static str,
    pub(super) advice: &'static str,
}

/// Error codes of the registry and of the server.
pub(super) const fn error_codes() -> Vec<ErrorCodeRow> {
    Vec::new()
}

/// Page with all codes in alphabetical order.
pub(super) fn page(mut codes: Vec<ErrorCodeRow>) -> String {
    codes.sort_by_key(|row| row.code);
    let mut page = format!(
        "{GENERATED_NOTICE}\n\n# Error codes\n\n\
         Errors of the HTTP API are `application/problem+json` (RFC 9457). The member `code` is stable; `detail` and `hint` are for \
         people and may change.\n\n\
         ```json\n\
         {{\"type\":\"about:blank\",\"title\":\"Not found\",\"status\":404,\"detail\":\"…\",\"code\":\"not-found\"}}\n\
         ```\n\n\
         | code | status | meaning | what to do |\n|---|---|---|---|\n"
    );
    for ErrorCodeRow { code, status, meaning, advice } in codes {
        let _ = writeln!(page, "| `{code}` | {status} | {} | {} |", table_cell(meaning), table_cell(advice));
    }
    page
}
