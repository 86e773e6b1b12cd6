//! Result lines of a batch: one per input line.

use bytes::Bytes;
use serde::Serialize;
use tendot_names::InputForm;
use tendot_registry::RegistryError;
use tendot_registry::batch::BatchLineOutcome;
use tendot_registry::metadata::MetadataFault;
use tendot_store::NameKey;

use crate::http::api_v1::problem_for_registry_error;
use crate::http::response::problem::ProblemJson;

/// Limits of the error of a refused line: characters of a text, and bytes of metadata faults.
const MAX_MESSAGE_CHARS: usize = 300;
const MAX_FAULT_BYTES: usize = 600;

/// Result of one line of a batch.
#[derive(Serialize)]
struct LineResultJson<'a> {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ProblemJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// Renders result lines.
pub(super) fn render_results(outcomes: &[BatchLineOutcome]) -> Bytes {
    let mut rendered = Vec::with_capacity(outcomes.len() * 64);
    for outcome in outcomes {
        let error = outcome.result.as_ref().err().map(truncate_error);
        let problem = error.map(|error| problem_for_registry_error(&error).line(outcome.number));
        let result = LineResultJson {
            line: outcome.number,
            name: outcome.name.as_deref().filter(|name| name.len() <= NameKey::MAX_LEN),
            status: outcome.result.as_ref().map_or("refused", |status| status.as_str()),
            error: problem.as_ref().map(|problem| problem.to_json()),
            form: outcome.input_form.map(InputForm::as_str),
            warnings: outcome.warnings.iter().map(ToString::to_string).collect(),
        };
        if serde_json::to_writer(&mut rendered, &result).is_ok() {
            rendered.push(b'\n');
        }
    }
    rendered.into()
}

/// Truncates the error of a line: a thousand of them are journaled together.
fn truncate_error(error: &RegistryError) -> RegistryError {
    let truncate = |text: &str| match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    let mut remaining = MAX_FAULT_BYTES;
    let faults = error.faults.iter().map_while(|fault| {
        let fault = MetadataFault { message: truncate(&fault.message), allowed: &[], ..fault.clone() };
        remaining = remaining.checked_sub(fault.pointer.len() + fault.message.len())?;
        Some(fault)
    });
    let mut truncated = error.clone_without_source();
    truncated.detail = truncate(&error.detail);
    truncated.pointer = truncated.pointer.filter(|pointer| pointer.len() <= MAX_MESSAGE_CHARS);
    truncated.hint = error.hint.as_deref().map(truncate);
    truncated.faults = faults.collect();
    truncated
}
