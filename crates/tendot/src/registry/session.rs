//! Questions to a service, and what is done with the answers.

use std::fmt::Display;
use std::fs;

use clap::ValueEnum;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};
use tendot_client::{RegistryClient, RegistryClientError, RegistryProblem, RegistryReply};
use tokio::runtime::{Builder, Runtime};

use super::shown::{Noun, Table};
use crate::args::ApiConnectionArguments;
use crate::failure::{escaped, tell, tell_warning};
use crate::output::Output;
use crate::{Answer, Failure};

const SERVER: &str = "http://127.0.0.1:8080";

/// Items that are asked for at once.
const PAGE: u64 = 500;

/// A service that is asked, by somebody who may have a token.
pub(crate) struct Session {
    pub(super) client: RegistryClient,
    pub(super) runtime: Runtime,
    pub(crate) json: bool,
}

/// A part of a list.
#[derive(Deserialize)]
struct Page {
    items: Vec<Box<RawValue>>,
    #[serde(default)]
    next: Option<Json>,
}

impl Session {
    pub(crate) fn open(arguments: &ApiConnectionArguments) -> Result<Self, Failure> {
        let said = |flag: &Option<String>, variable| {
            flag.clone().or_else(|| std::env::var(variable).ok()).filter(|said| !said.is_empty())
        };
        let server = said(&arguments.server, "TENDOT_SERVER").unwrap_or_else(|| SERVER.into());
        // A token that was read from a file has its line's end.
        let token = said(&arguments.token, "TENDOT_TOKEN").map(|token| token.trim().to_owned());
        let trusted = arguments.trust.as_ref().map(|file| {
            fs::read(file).map_err(|error| Failure::io(format!("`{}` can't be read", file.display()), &error))
        });
        let trusted = trusted.transpose()?;
        let client = RegistryClient::new(&server, token.as_deref(), trusted.as_deref());
        let client = client.map_err(|error| match &error {
            RegistryClientError::InTheClear { .. } => {
                Failure::new(error.to_string()).hint("ask it at `https://…`, or through a tunnel")
            }
            _ => Failure::new(escaped(&error.to_string())),
        })?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| Failure::io("nothing can be asked", &error))?;
        Ok(Self { client, runtime, json: arguments.json })
    }

    /// Makes something, and prints its `id` alone, so that it can be taken from there.
    pub(crate) fn add(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        body: &Json,
        id: &str,
        made: impl FnOnce(&Json) -> String,
    ) -> Result<Answer, Failure> {
        let reply = self.answered(self.runtime.block_on(self.client.post(path, query, body)))?;
        let object = self.object(&reply)?;
        let mut output = Output::new();
        if self.json {
            output.line(compact(&reply))?;
        } else {
            output.line(escaped(object[id].as_str().unwrap_or_default()))?;
        }
        output.flush()?;
        eprint_warnings(&object);
        tell(made(&object));
        Ok(Answer::Yes)
    }

    /// Prints something.
    pub(crate) fn show(&self, noun: Noun, path: &[&str]) -> Result<Answer, Failure> {
        let reply = self.answered(self.runtime.block_on(self.client.get(path, &[])))?;
        self.print(noun, &reply)
    }

    /// Prints a list, part by part.
    pub(crate) fn list(
        &self,
        noun: Noun,
        path: &[&str],
        query: &[(&str, Option<&str>)],
        limit: Option<u64>,
    ) -> Result<Answer, Failure> {
        let mut output = Output::new();
        let mut table = Table::new(noun);
        let mut left = limit.unwrap_or(u64::MAX);
        let (mut after, mut is_empty): (Option<String>, _) = (None, true);
        loop {
            let count = left.min(PAGE).to_string();
            let mut query: Vec<_> =
                query.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
            query.push(("limit", &count));
            query.extend(after.as_deref().map(|after| ("after", after)));
            let reply = self.answered(self.runtime.block_on(self.client.get(path, &query)))?;
            let page: Page = serde_json::from_slice(&reply.body).map_err(|error| self.invalid_response(&error))?;
            let items = &page.items[..page.items.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            left -= items.len() as u64;
            is_empty &= items.is_empty();
            if self.json {
                items.iter().try_for_each(|item| output.line(item.get()))?;
            } else {
                let items: Result<Vec<Json>, _> =
                    items.iter().map(|item| serde_json::from_str(item.get())).collect();
                table.print(&items.map_err(|error| self.invalid_response(&error))?, &mut output)?;
            }
            // What others see of it is not held back until all is there.
            output.flush()?;
            after = match page.next {
                Some(Json::String(next)) => Some(next),
                Some(Json::Number(next)) => Some(next.to_string()),
                _ => None,
            };
            if left == 0 || after.is_none() {
                if is_empty {
                    tell("there are none");
                }
                return Ok(Answer::Yes);
            }
        }
    }

    /// Changes something, and prints what it is then.
    pub(crate) fn set(
        &self,
        noun: Noun,
        path: &[&str],
        query: &[(&str, &str)],
        body: &Json,
        revision: Option<&str>,
    ) -> Result<Answer, Failure> {
        let reply = self.answered(self.runtime.block_on(self.client.put(path, query, body, revision)))?;
        self.print(noun, &reply)
    }

    /// Does something to what is there, and prints what it is then.
    pub(crate) fn act(&self, noun: Noun, path: &[&str]) -> Result<Answer, Failure> {
        let reply = self.answered(self.runtime.block_on(self.client.post(path, &[], &form([]))))?;
        self.print(noun, &reply)
    }

    /// Ends something.
    pub(crate) fn end(&self, path: &[&str]) -> Result<RegistryReply, Failure> {
        self.answered(self.runtime.block_on(self.client.delete(path)))
    }

    /// Something as JSON, and its revision.
    pub(crate) fn read(&self, path: &[&str]) -> Result<(Json, Option<String>), Failure> {
        let reply = self.answered(self.runtime.block_on(self.client.get(path, &[])))?;
        Ok((self.object(&reply)?, reply.revision))
    }

    /// Prints an answer that is about one thing.
    pub(crate) fn print(&self, noun: Noun, reply: &RegistryReply) -> Result<Answer, Failure> {
        let object = self.object(reply)?;
        let mut output = Output::new();
        if self.json {
            output.line(compact(reply))?;
        } else {
            noun.print(&object, &mut output)?;
        }
        output.flush()?;
        eprint_warnings(&object);
        Ok(Answer::Yes)
    }

    fn object(&self, reply: &RegistryReply) -> Result<Json, Failure> {
        serde_json::from_slice(&reply.body).map_err(|error| self.invalid_response(&error))
    }

    fn invalid_response(&self, error: &dyn Display) -> Failure {
        Failure::new(format!("{} gave an answer that is none: {error}", self.client.base_url()))
    }

    /// An answer, or why there is none.
    pub(super) fn answered<T>(&self, asked: Result<T, RegistryClientError>) -> Result<T, Failure> {
        asked.map_err(|error| match error {
            RegistryClientError::Problem(problem) => self.problem(&problem),
            RegistryClientError::Unreachable { .. } => Failure::new(escaped(&error.to_string())).hint(
                "is it running? `tendot serve` starts a service; `--server URL` or TENDOT_SERVER says where",
            ),
            error => Failure::new(escaped(&error.to_string())),
        })
    }

    fn problem(&self, problem: &RegistryProblem) -> Failure {
        // The service's own advice is about its interface.
        let hint = match (&*problem.code, problem.status) {
            (_, 401 | 403) if !self.client.has_token() => Some(MISSING_TOKEN_HINT.into()),
            (_, 401) => {
                Some("`--token` or TENDOT_TOKEN has one that is not known there, or no longer".into())
            }
            ("already-registered", _) => {
                let existing = problem.existing.as_ref().filter(|_| problem.hint.is_some());
                existing.map(|name| format!("`tendot doi set '{}'` changes it", escaped(name)))
            }
            ("missing", _) if problem.hint.is_some() => Some("with `--reserve` it may come later".into()),
            ("key-reused", _) => {
                Some("the file has changed, or another one was sent with this `--key`".into())
            }
            _ => problem.hint.as_deref().map(escaped),
        };
        let failure = Failure::new(told(problem));
        let failure = hint.into_iter().fold(failure, Failure::hint);
        match problem.status {
            404 | 409 | 410 | 412 | 422 => failure.refusal(),
            _ => failure,
        }
    }
}

const MISSING_TOKEN_HINT: &str = "`--token` or TENDOT_TOKEN says who asks; the operator's token is in the file `operator.token` of the \
                        service's data directory, `tendot-data` unless it was told otherwise";

/// What is wrong, with its place and its code.
fn told(problem: &RegistryProblem) -> String {
    let mut text = escaped(problem.detail.trim_end_matches('.'));
    if let Some(since) = &problem.since {
        text += &format!(", since {}", escaped(since));
    }
    let place = problem.pointer.iter().filter(|pointer| !pointer.is_empty());
    let place: String = place.map(|pointer| format!(" at {}", escaped(pointer))).collect();
    text += &format!(" ({}{place})", escaped(&problem.code));
    for fault in problem.faults.iter().skip(1) {
        text += &format!("\n  {} at {}", escaped(&fault.message), escaped(&fault.pointer));
    }
    text
}

/// The answer in one line. What a terminal would obey is written as JSON can: such characters stand only in texts.
fn compact(reply: &RegistryReply) -> String {
    let body = String::from_utf8_lossy(&reply.body);
    let mut line = String::with_capacity(body.len());
    for character in body.trim_end().chars() {
        match u32::from(character) {
            code @ 0x80..=0xffff if tendot_registry::is_invisible(character) => {
                line += &format!("\\u{code:04x}");
            }
            _ => line.push(character),
        }
    }
    line
}

fn eprint_warnings(object: &Json) {
    for warning in object["warnings"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        tell_warning(&escaped(warning));
    }
}

/// What is sent: the members that are there.
pub(crate) fn form<'a>(members: impl IntoIterator<Item = (&'a str, Option<Json>)>) -> Json {
    let members = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Json::Object(members.collect::<Map<_, _>>())
}

/// How the service calls what a flag was given.
pub(crate) fn word(value: &impl ValueEnum) -> Option<Json> {
    value.to_possible_value().map(|value| value.get_name().into())
}
