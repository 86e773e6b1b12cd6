//! Reference of the error codes of the HTTP API.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tendot_registry::metadata::MetadataFaultCode;
use tendot_server::http::{HTTP_ERROR_CODES, registry_error_status};

use super::{GENERATED_NOTICE, table_cell};

/// Row of the table of error codes.
pub(super) struct ErrorCodeRow {
    pub(super) code: &'static str,
    /// HTTP statuses that the code is sent with.
    pub(super) statuses: Vec<u16>,
    pub(super) meaning: &'static str,
    pub(super) advice: &'static str,
}

/// Error codes of the registry, followed by those of the server.
pub(super) fn error_codes() -> Vec<ErrorCodeRow> {
    let registry = tendot_registry::ERROR_CODES.iter().map(|spec| ErrorCodeRow {
        code: spec.code,
        statuses: vec![registry_error_status(spec.kind)],
        meaning: spec.meaning,
        advice: spec.advice,
    });
    let server = HTTP_ERROR_CODES.iter().map(|spec| ErrorCodeRow {
        code: spec.code,
        statuses: spec.statuses.to_vec(),
        meaning: spec.meaning,
        advice: spec.advice,
    });
    registry.chain(server).collect()
}

/// Page with all codes in alphabetical order. If a code occurs twice, the first meaning and advice are used, with the statuses of
/// both rows.
pub(super) fn page(rows: Vec<ErrorCodeRow>) -> String {
    let mut codes: BTreeMap<&str, ErrorCodeRow> = BTreeMap::new();
    for row in rows {
        match codes.get_mut(row.code) {
            Some(first) => first.statuses.extend(row.statuses),
            None => drop(codes.insert(row.code, row)),
        }
    }
    let mut page = format!(
        "{GENERATED_NOTICE}\n\n# Error codes\n\n\
         Errors of the HTTP API are problem details (`application/problem+json`, RFC 9457). Programs can rely on `status` and `code`; \
         `detail` and `hint` are for people and may change. `pointer` is the position of the error in the request body (RFC 6901).\n\n\
         ```json\n\
         {{\"title\":\"Not found\",\"status\":404,\"code\":\"not-found\",\"detail\":\"…\",\"hint\":\"…\"}}\n\
         ```\n\n\
         | code | status | meaning | what to do |\n|---|---|---|---|\n"
    );
    for ErrorCodeRow { code, mut statuses, meaning, advice } in codes.into_values() {
        statuses.sort_unstable();
        statuses.dedup();
        let statuses: Vec<_> = statuses.iter().map(ToString::to_string).collect();
        let (meaning, advice) = (table_cell(meaning), table_cell(advice));
        let _ = writeln!(page, "| `{code}` | {} | {meaning} | {advice} |", statuses.join(", "));
    }
    page.push_str(
        "\n## Metadata faults\n\n\
         An error `invalid-metadata` lists its faults in `faults`, each with `pointer`, `code`, `message` and, if a list of values applies, \
         `allowed`.\n\n| code | meaning | what to do |\n|---|---|---|\n",
    );
    for fault in MetadataFaultCode::ALL {
        let (meaning, advice) = (table_cell(fault.meaning()), table_cell(fault.advice()));
        let _ = writeln!(page, "| `{}` | {meaning} | {advice} |", fault.as_str());
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_merged() {
        let row =
            |code, status, meaning| ErrorCodeRow { code, statuses: vec![status], meaning, advice: "retry" };
        let page = page(vec![row("b", 409, "first"), row("a", 400, "x|y"), row("b", 404, "second")]);
        let expected = "| `a` | 400 | x\\|y | retry |\n| `b` | 404, 409 | first | retry |\n";
        assert!(page.contains(expected), "{page}");
    }
}
