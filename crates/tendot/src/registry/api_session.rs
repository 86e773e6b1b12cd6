//! Requests to the registry API, printed responses, and hints for errors.

use std::fmt::Display;
use std::path::Path;
use std::{fs, io};

use clap::ValueEnum;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};
use tendot_client::{RegistryClient, RegistryClientError, RegistryProblem, RegistryReply};
use tendot_registry::codes;
use tokio::runtime::Runtime;

use super::table::TextTable;
use super::{ApiConnectionArguments, ResourceKind};
use crate::terminal::{StdoutWriter, eprint_line, eprint_warning, escape_control, escape_json_line};
use crate::{CliError, CommandStatus, runtime};

const DEFAULT_SERVER_URL: &str = "http://127.0.0.1:8080";

/// Query of a dry run.
pub(super) const DRY_RUN: &[(&str, &str)] = &[("dry-run", "true")];

/// Items per page of a listing.
const PAGE_SIZE: u64 = 500;

/// Connection to the registry API with an optional token.
pub(crate) struct ApiSession {
    pub(super) client: RegistryClient,
    pub(super) runtime: Runtime,
    pub(crate) json: bool,
}

/// One page of a listing.
#[derive(Deserialize)]
struct ListPage {
    items: Vec<Box<RawValue>>,
    #[serde(default)]
    next: Option<Json>,
}

impl ApiSession {
    pub(crate) fn open(arguments: &ApiConnectionArguments) -> Result<Self, CliError> {
        let server = server_or_default(arguments.server.as_deref());
        let token = read_token(arguments.token.as_deref(), arguments.token_file.as_deref())?;
        let ca_certificates = arguments
            .ca_file
            .as_ref()
            .map(|file| fs::read(file).map_err(|error| read_error(file, &error)))
            .transpose()?;
        let client = RegistryClient::new(&server, token.as_deref(), ca_certificates.as_deref());
        let client = client.map_err(|error| match &error {
            RegistryClientError::InsecureTransport { .. } => {
                CliError::new(error.to_string()).with_hint("use `https://…` or an SSH tunnel")
            }
            _ => CliError::new(escape_control(&error.to_string())),
        })?;
        Ok(Self { client, runtime: runtime::multi_thread(1)?, json: arguments.json })
    }

    /// Creates a resource and prints only its member `id`, for use in shell variables.
    pub(crate) fn create(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        body: &Json,
        id: &str,
        message: impl FnOnce(&Json) -> String,
    ) -> Result<CommandStatus, CliError> {
        let reply = self.map_error(self.runtime.block_on(self.client.post(path, query, body)))?;
        let object = self.parse_object(&reply)?;
        let mut output = StdoutWriter::new();
        if self.json {
            output.write_line(json_line(&reply))?;
        } else {
            output.write_line(escape_control(object[id].as_str().unwrap_or_default()))?;
        }
        output.flush()?;
        eprint_warnings(&object);
        eprint_line(message(&object));
        Ok(CommandStatus::Success)
    }

    /// Fetches and prints one resource.
    pub(crate) fn show(&self, kind: ResourceKind, path: &[&str]) -> Result<CommandStatus, CliError> {
        let reply = self.map_error(self.runtime.block_on(self.client.get(path, &[])))?;
        self.print(kind, &reply)
    }

    /// Prints a listing page by page.
    pub(crate) fn list(
        &self,
        kind: ResourceKind,
        path: &[&str],
        query: &[(&str, Option<&str>)],
        limit: Option<u64>,
    ) -> Result<CommandStatus, CliError> {
        let mut output = StdoutWriter::new();
        let mut table = TextTable::new(kind);
        let mut left = limit.unwrap_or(u64::MAX);
        let (mut after, mut is_empty): (Option<String>, _) = (None, true);
        loop {
            let count = left.min(PAGE_SIZE).to_string();
            let mut query: Vec<_> =
                query.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
            query.push(("limit", &count));
            query.extend(after.as_deref().map(|after| ("after", after)));
            let reply = self.map_error(self.runtime.block_on(self.client.get(path, &query)))?;
            let page: ListPage =
                serde_json::from_slice(&reply.body).map_err(|error| self.invalid_response(&error))?;
            let items = &page.items[..page.items.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            left -= items.len() as u64;
            is_empty &= items.is_empty();
            if self.json {
                items.iter().try_for_each(|item| output.write_line(escape_json_line(item.get())))?;
            } else {
                let items: Result<Vec<Json>, _> =
                    items.iter().map(|item| serde_json::from_str(item.get())).collect();
                table.print(&items.map_err(|error| self.invalid_response(&error))?, &mut output)?;
            }
            // Readers of a pipe see each page at once.
            output.flush()?;
            after = match page.next {
                Some(Json::String(next)) => Some(next),
                Some(Json::Number(next)) => Some(next.to_string()),
                _ => None,
            };
            if left == 0 || after.is_none() {
                if is_empty {
                    eprint_line("no results");
                }
                return Ok(CommandStatus::Success);
            }
        }
    }

    /// Prints a streamed report (NDJSON) page by page. The lines of one name are never split, so the last page may exceed `limit`.
    pub(crate) fn list_lines(
        &self,
        kind: ResourceKind,
        path: &[&str],
        limit: Option<u64>,
    ) -> Result<CommandStatus, CliError> {
        let mut output = StdoutWriter::new();
        let mut table = TextTable::new(kind);
        let mut left = limit.unwrap_or(u64::MAX);
        let (mut after, mut is_empty): (Option<String>, _) = (None, true);
        loop {
            let requested = left.min(PAGE_SIZE);
            let count = requested.to_string();
            let mut query = vec![("limit", &*count)];
            query.extend(after.as_deref().map(|after| ("after", after)));
            let reply = self.map_error(self.runtime.block_on(self.client.get(path, &query)))?;
            let body = std::str::from_utf8(&reply.body).map_err(|error| self.invalid_response(&error))?;
            let items: Result<Vec<Json>, _> = body.lines().map(serde_json::from_str).collect();
            let items = items.map_err(|error| self.invalid_response(&error))?;
            is_empty &= items.is_empty();
            if self.json {
                body.lines().try_for_each(|line| output.write_line(escape_json_line(line)))?;
            } else {
                table.print(&items, &mut output)?;
            }
            // Readers of a pipe see each page at once.
            output.flush()?;
            left = left.saturating_sub(items.len() as u64);
            let last = items.last().and_then(|item| item["name"].as_str()).map(str::to_owned);
            let is_last_page = (items.len() as u64) < requested || last.is_none() || last == after;
            if left == 0 || is_last_page {
                if is_empty {
                    eprint_line("no results");
                }
                return Ok(CommandStatus::Success);
            }
            after = last;
        }
    }

    /// Updates a resource and prints its new state.
    pub(crate) fn update(
        &self,
        kind: ResourceKind,
        path: &[&str],
        query: &[(&str, &str)],
        body: &Json,
        revision: Option<&str>,
    ) -> Result<CommandStatus, CliError> {
        let reply = self.map_error(self.runtime.block_on(self.client.put(path, query, body, revision)))?;
        self.print(kind, &reply)
    }

    /// Posts an action on a resource and prints its new state.
    pub(crate) fn post_action(&self, kind: ResourceKind, path: &[&str]) -> Result<CommandStatus, CliError> {
        let reply = self.map_error(self.runtime.block_on(self.client.post(path, &[], &json_object([]))))?;
        self.print(kind, &reply)
    }

    /// Deletes a resource.
    pub(crate) fn delete(&self, path: &[&str]) -> Result<RegistryReply, CliError> {
        self.map_error(self.runtime.block_on(self.client.delete(path, &[])))
    }

    /// Deletes a resource and returns the outcome.
    pub(crate) fn delete_with_outcome(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Json, CliError> {
        self.parse_object(&self.map_error(self.runtime.block_on(self.client.delete(path, query)))?)
    }

    /// Deletes a resource and prints its last state.
    pub(crate) fn delete_and_print(
        &self,
        kind: ResourceKind,
        path: &[&str],
    ) -> Result<(CommandStatus, Json), CliError> {
        let reply = self.delete(path)?;
        Ok((self.print(kind, &reply)?, self.parse_object(&reply)?))
    }

    /// Resource as its deletion would leave it.
    pub(crate) fn plan_deletion(&self, path: &[&str]) -> Result<Json, CliError> {
        let reply = self.map_error(self.runtime.block_on(self.client.delete(path, DRY_RUN)))?;
        self.parse_object(&reply)
    }

    /// Resource that a request would create.
    pub(crate) fn plan_creation(&self, path: &[&str], body: &Json) -> Result<Json, CliError> {
        let reply = self.map_error(self.runtime.block_on(self.client.post(path, DRY_RUN, body)))?;
        self.parse_object(&reply)
    }

    /// Resource as JSON, and its revision (`ETag`).
    pub(crate) fn get_with_revision(&self, path: &[&str]) -> Result<(Json, Option<String>), CliError> {
        let reply = self.map_error(self.runtime.block_on(self.client.get(path, &[])))?;
        Ok((self.parse_object(&reply)?, reply.revision))
    }

    /// Prints a response with one resource.
    pub(crate) fn print(&self, kind: ResourceKind, reply: &RegistryReply) -> Result<CommandStatus, CliError> {
        let object = self.parse_object(reply)?;
        let mut output = StdoutWriter::new();
        if self.json {
            output.write_line(json_line(reply))?;
        } else {
            kind.print(&object, &mut output)?;
        }
        output.flush()?;
        eprint_warnings(&object);
        Ok(CommandStatus::Success)
    }

    fn parse_object(&self, reply: &RegistryReply) -> Result<Json, CliError> {
        serde_json::from_slice(&reply.body).map_err(|error| self.invalid_response(&error))
    }

    fn invalid_response(&self, error: &dyn Display) -> CliError {
        CliError::new(format!("invalid response from {}: {error}", self.client.base_url()))
    }

    /// Maps a client error to a `CliError` with a hint.
    pub(super) fn map_error<T>(&self, result: Result<T, RegistryClientError>) -> Result<T, CliError> {
        result.map_err(|error| match error {
            RegistryClientError::Problem(problem) => self.problem_error(&problem),
            RegistryClientError::Unreachable { .. } => CliError::new(escape_control(&error.to_string())).with_hint(
                "is the server running? start it with `tendot serve`, or set `--server URL` or TENDOT_SERVER",
            ),
            error => CliError::new(escape_control(&error.to_string())),
        })
    }

    fn problem_error(&self, problem: &RegistryProblem) -> CliError {
        // Advice in the response is about the HTTP API, so it is replaced by a hint about the command.
        let hint = match (&*problem.code, problem.status) {
            (_, 401 | 403) if !self.client.has_token() => Some(MISSING_TOKEN_HINT.into()),
            (_, 401) => Some(
                "the token is unknown, revoked or expired; check `--token`, `--token-file` or TENDOT_TOKEN"
                    .into(),
            ),
            (ALREADY_REGISTERED, _) => {
                let existing = problem.existing.as_ref().filter(|_| problem.hint.is_some());
                existing.map(|name| format!("update it with `tendot doi update '{}'`", escape_control(name)))
            }
            (MISSING, _) if problem.pointer.as_deref() == Some("/metadata") => {
                Some(MISSING_METADATA_HINT.into())
            }
            (MISSING, _) if problem.pointer.as_deref() == Some("/url") => {
                Some("set `--url`, or use `--reserve` to add it later".into())
            }
            (KEY_REUSED, _) => {
                let hint = "the idempotency key was already used with different content; use another `--idempotency-key`";
                Some(hint.into())
            }
            _ => problem.hint.as_deref().map(escape_control),
        };
        let failure = CliError::new(format_problem(problem));
        let failure = hint.into_iter().fold(failure, CliError::with_hint);
        match problem.status {
            404 | 409 | 410 | 412 | 422 => failure.negative(),
            _ => failure,
        }
    }
}

/// Server URL: the flag, else `TENDOT_SERVER`, else the local server.
pub(crate) fn server_or_default(flag: Option<&str>) -> String {
    let flag = flag.filter(|text| !text.is_empty()).map(ToOwned::to_owned);
    flag.or_else(server_from_environment).unwrap_or_else(|| DEFAULT_SERVER_URL.into())
}

/// Value of `TENDOT_SERVER`.
pub(crate) fn server_from_environment() -> Option<String> {
    variable("TENDOT_SERVER")
}

/// API token. Flags override environment variables; a token overrides a token file.
pub(crate) fn read_token(token: Option<&str>, file: Option<&Path>) -> Result<Option<String>, CliError> {
    let read_file = |file: &Path| fs::read_to_string(file).map_err(|error| read_error(file, &error));
    let token = match (token, file) {
        (Some(token), _) => Some(token.to_owned()),
        (None, Some(file)) => Some(read_file(file)?),
        (None, None) => match (variable("TENDOT_TOKEN"), variable("TENDOT_TOKEN_FILE")) {
            (Some(token), _) => Some(token),
            (None, Some(file)) => Some(read_file(Path::new(&file))?),
            (None, None) => None,
        },
    };
    // A token read from a file ends with a newline.
    Ok(token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()))
}

/// Environment variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

fn read_error(file: &Path, error: &io::Error) -> CliError {
    CliError::io(format!("cannot read `{}`", file.display()), error)
}

const ALREADY_REGISTERED: &str = codes::ALREADY_REGISTERED.code;

const MISSING: &str = codes::MISSING.code;

const KEY_REUSED: &str = codes::KEY_REUSED.code;

const MISSING_TOKEN_HINT: &str = "set `--token-file`, `--token` or TENDOT_TOKEN; the operator token is in `operator.token` in the \
                                  server's data directory (default `tendot-data`)";

const MISSING_METADATA_HINT: &str = "describe it with `--title`, `--creator` and `--type`, or with `--metadata FILE`; or add metadata later \
                                     with `--reserve`";

/// Problem as text: message, JSON pointer and code (RFC 9457).
fn format_problem(problem: &RegistryProblem) -> String {
    let mut text = escape_control(problem.detail.trim_end_matches('.'));
    if let Some(since) = &problem.since {
        text += &format!(", since {}", escape_control(since));
    }
    let pointer = problem.pointer.iter().filter(|pointer| !pointer.is_empty());
    let pointer: String = pointer.map(|pointer| format!(" at {}", escape_control(pointer))).collect();
    text += &format!(" ({}{pointer})", escape_control(&problem.code));
    for fault in problem.faults.iter().skip(1) {
        text += &format!("\n  {} at {}", escape_control(&fault.message), escape_control(&fault.pointer));
    }
    text
}

/// Response as one line of JSON.
fn json_line(reply: &RegistryReply) -> String {
    escape_json_line(&String::from_utf8_lossy(&reply.body))
}

fn eprint_warnings(object: &Json) {
    for warning in object["warnings"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        eprint_warning(&escape_control(warning));
    }
}

/// JSON object of the members that have a value.
pub(crate) fn json_object<'a>(members: impl IntoIterator<Item = (&'a str, Option<Json>)>) -> Json {
    let members = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Json::Object(members.collect::<Map<_, _>>())
}

/// Flag value as the API spells it.
pub(crate) fn flag_value(value: &impl ValueEnum) -> Option<Json> {
    value.to_possible_value().map(|value| value.get_name().into())
}
