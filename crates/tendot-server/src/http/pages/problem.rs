//! Error pages: problems as HTML.

use std::borrow::Cow;

use askama::Template;
use tendot_registry::Error;

use crate::http::pages::code_spans::CodeSpans;
use crate::http::pages::page_budget::{PageBudget, escape_invisible, truncate_chars};
use crate::http::pages::registration::RegistrationCard;
use crate::http::pages::{ServiceIdentity, render, vary_by_accept};
use crate::http::request::accept;
use crate::http::request::name_path;
use crate::http::request::percent::RequestSyntaxError;
use crate::http::request::request_head::RequestHead;
use crate::http::resolve::lookup::{LookupContext, RecordLookupError};
use crate::http::resolve::requested_name::{NameKind, RequestedName};
use crate::http::resolve::resolver::RecordResolver;
use crate::http::response::errors::{
    self, NO_UPSTREAM_REASON, malformed_request, problem_for_lookup, problem_for_upstream,
};
use crate::http::response::problem::Problem;
use crate::http::response::reply::Reply;
use crate::http::response::{caching, codes};

/// Error page.
#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    site: &'a ServiceIdentity,
    status: u16,
    title: Cow<'static, str>,
    detail: CodeSpans,
    name: String,
    /// URI form of the name, if a suggestion looks like it.
    uri: Option<String>,
    /// Text of the search box: the requested name, for correction.
    search_text: String,
    reasons: Vec<&'static str>,
    suggestions: Vec<SuggestionRow>,
    public_url: Option<String>,
    excerpt: Option<(String, String, String)>,
    is_retired: bool,
    /// Registry data of a retired name.
    registration: Option<RegistrationCard>,
    path: String,
}

/// Suggestion as shown.
struct SuggestionRow {
    path: String,
    name: String,
    /// URI form, if it looks like the requested name.
    uri: Option<String>,
    reason: &'static str,
}

impl<'a> ProblemPage<'a> {
    fn new(problem: &Problem<'_>, site: &'a ServiceIdentity) -> Self {
        let mut page_budget = PageBudget::new();
        let uris = problem.look_alike_uris();
        let public_url =
            problem.links_resolver.then(|| site.resolver_url(&RequestedName::parse(problem.name)));
        Self {
            site,
            status: problem.status.as_u16(),
            title: problem.title.clone(),
            detail: CodeSpans::about(&escape_invisible(problem.name), page_budget.line(&problem.detail)),
            name: page_budget.line(problem.name),
            uri: uris.get(problem.name).map(|uri| page_budget.line(uri)),
            search_text: escape_invisible(&truncate_chars(
                if problem.search_text.is_empty() { problem.name } else { problem.search_text },
                1_000,
            )),
            reasons: problem.reasons.clone(),
            suggestions: problem
                .suggestions
                .iter()
                .filter_map(|suggestion| {
                    let path = page_budget.url(&name_path::format(&suggestion.name))?;
                    let name = page_budget.line(&suggestion.name);
                    let uri = uris.get(&*suggestion.name).map(|uri| page_budget.line(uri));
                    Some(SuggestionRow { path, name, uri, reason: suggestion.reason })
                })
                .collect(),
            public_url: public_url.flatten().and_then(|url| page_budget.url(&url)),
            excerpt: problem.excerpt.map(|(before, error, after)| {
                let skipped = before.chars().count().saturating_sub(60);
                let start: String = before.chars().skip(skipped).collect();
                let start = if skipped > 0 { format!("…{start}") } else { start };
                (
                    page_budget.line(&start),
                    page_budget.line(error),
                    page_budget.line(&truncate_chars(after, 60)),
                )
            }),
            is_retired: problem.retired.is_some(),
            registration: problem
                .retired
                .as_ref()
                .map(|details| RegistrationCard::new(details, &mut page_budget))
                .filter(|registration| !registration.rows.is_empty()),
            path: if problem.name.is_empty() { String::new() } else { name_path::format(problem.name) },
        }
    }
}

impl Problem<'_> {
    /// Reply as HTML or JSON, whichever `Accept` prefers.
    fn negotiated_reply(&self, request: &RequestHead<'_>) -> Reply {
        vary_by_accept(if accept::prefers_json(request.headers) {
            self.json_reply()
        } else {
            self.with_retry_after(render(self.status, &ProblemPage::new(self, request.identity)))
        })
    }
}

impl RecordResolver {
    /// Reply for a failed lookup, with suggestions.
    pub(crate) async fn lookup_failed(
        &self,
        name: &RequestedName<'_>,
        error: &RecordLookupError,
        request: &RequestHead<'_>,
        context: &mut LookupContext<'_>,
    ) -> Reply {
        let mut problem = match error {
            RecordLookupError::Local(error) => problem_for_lookup(name, error),
            RecordLookupError::Upstream(error, _) => {
                problem_for_upstream_lookup(name, error, self.upstream_name())
            }
            RecordLookupError::UpstreamUnavailable(error) => {
                problem_for_upstream(error, self.upstream_name())
            }
        };
        problem.name = name.as_str();
        if let (RecordLookupError::Local(Error::NotResponsible { .. }), Some(path)) =
            (error, name.unknown_path())
        {
            problem = errors::unknown_path(path, name);
        }
        if let (NameKind::Prefix(prefix), codes::MISSING_SUFFIX) = (name.kind(), problem.code) {
            problem.detail = self.describe_prefix(prefix).await;
        }
        if matches!(error, RecordLookupError::Local(Error::Retired)) {
            problem.add_retirement(self.retired_details(name.as_str()).await);
        }
        if matches!(error.error(), Some(Error::NotFound | Error::NotResponsible { .. } | Error::OtherServer))
        {
            problem.suggestions = self.suggest_names(name.as_str(), &mut context.budget).await;
        }
        let mut response = problem.negotiated_reply(request);
        if let Some(provenance) = error.provenance() {
            caching::add_cache_status(response.headers_mut(), provenance);
        }
        if let RecordLookupError::UpstreamUnavailable(error) = error {
            caching::add_upstream_failure(response.headers_mut(), error);
        }
        response
    }
}

/// Problem for a name that the upstream resolver has not found either.
fn problem_for_upstream_lookup(name: &RequestedName<'_>, error: &Error, upstream: &str) -> Problem<'static> {
    let mut problem = Problem { links_resolver: true, ..problem_for_lookup(name, error) };
    problem.reasons.retain(|reason| *reason != NO_UPSTREAM_REASON);
    let result = match problem.code {
        codes::NOT_FOUND => "has no record of it",
        codes::NOT_RESPONSIBLE => "cannot locate it",
        _ => return problem,
    };
    problem.detail = format!("This server is not responsible for it, and {upstream} {result}.");
    problem
}

/// Page for a syntax error, with the text around it.
pub(crate) fn syntax_error_page(error: &RequestSyntaxError, text: &str, request: &RequestHead<'_>) -> Reply {
    let excerpt = text.split_at_checked(error.offset).map(|(before, rest)| {
        let end = rest.char_indices().nth(3).map_or(rest.len(), |(end, _)| end);
        let (marked, after) = rest.split_at(end);
        (before, marked, after)
    });
    Problem {
        excerpt: excerpt.filter(|(_, marked, _)| !marked.is_empty()),
        ..*malformed_request(&error.to_string())
    }
    .negotiated_reply(request)
}

/// Page for text that cannot be a name, such as one that is not UTF-8 after percent-decoding.
pub(crate) fn invalid_name(text: &str, error: &tendot_names::Error, request: &RequestHead<'_>) -> Reply {
    Problem { name: text, ..*errors::invalid_name(error) }.negotiated_reply(request)
}

/// Page for an OpenURL request without a DOI or handle.
pub(crate) fn no_identifier(request: &RequestHead<'_>) -> Reply {
    errors::no_identifier().negotiated_reply(request)
}

/// Page for text of the search box without a DOI or handle.
pub(crate) fn no_name_in_text(text: &str, request: &RequestHead<'_>) -> Reply {
    Problem { search_text: text, ..*errors::no_name_in_text() }.negotiated_reply(request)
}

/// Page for an alias loop, or for a chain of too many aliases.
pub(crate) fn alias_loop(name: &RequestedName<'_>, chain: &[String], request: &RequestHead<'_>) -> Reply {
    let name = name.as_str();
    Problem { name, ..*errors::alias_loop(name, chain) }.negotiated_reply(request)
}

/// Page for a name whose prefix is inactive, with the message of the prefix record.
pub(crate) fn prefix_inactive(name: &RequestedName<'_>, message: String, request: &RequestHead<'_>) -> Reply {
    Problem { name: name.as_str(), ..*errors::prefix_inactive(message) }.negotiated_reply(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The upstream resolver is not responsible either: for a name of another prefix, or of another server of the site.
    #[test]
    fn upstream_is_not_responsible() {
        let name = RequestedName::new("10.9999/x");
        let other_prefix = Error::NotResponsible { prefix: "10.9999".into() };
        for (error, reasons) in
            [(other_prefix, &["The prefix may be misspelled."][..]), (Error::OtherServer, &[][..])]
        {
            let problem = problem_for_upstream_lookup(&name, &error, "https://doi.org");
            assert_eq!((problem.code, &*problem.reasons), (codes::NOT_RESPONSIBLE, reasons));
            assert!(problem.detail.ends_with("https://doi.org cannot locate it."), "{}", problem.detail);
            assert!(problem.links_resolver);
        }
    }
}
