//! Steps of a resolution trace: messages, and hints for failures.

use http::header::{CACHE_CONTROL, HeaderValue, LOCATION};
use tendot_registry::Error;

use crate::http::pages::shown_values;
use crate::http::request::accept;
use crate::http::resolve::locations::redirect_target::{REDIRECT_SCHEMES, TargetError};
use crate::http::resolve::lookup::{LookupContext, MissingRecord, Provenance, RecordLookupError};
use crate::http::resolve::redirect::RedirectOutcome;
use crate::http::resolve::requested_name::{NameKind, RequestedName};
use crate::http::resolve::resolver::RecordResolver;
use crate::http::resolve::trace::{ResolutionTrace, TraceOutcome, TraceRedirect, TraceStep};
use crate::http::response::reply::Reply;

impl ResolutionTrace {
    fn add_ok(&mut self, step: &'static str, message: impl Into<String>) {
        self.steps.push(TraceStep { step, ok: true, message: message.into(), hint: None });
    }

    fn add_failure(&mut self, step: &'static str, message: impl Into<String>, hint: impl Into<String>) {
        let hint = Some(hint.into()).filter(|hint: &String| !hint.is_empty());
        self.steps.push(TraceStep { step, ok: false, message: message.into(), hint });
    }

    /// Adds the step that says whether this server is responsible for the record, or how it was obtained.
    fn add_origin(&mut self, prefix: &str, provenance: Option<Provenance>, base: &str) {
        let Some(provenance) = provenance else {
            return self.add_ok("prefix", format!("responsible for `{prefix}`"));
        };
        self.upstream = Some(provenance);
        self.add_ok("prefix", format!("not responsible for `{prefix}`"));
        if provenance.stale_seconds.is_some() {
            self.add_failure("upstream", provenance.describe(base), "check the upstream resolver");
        } else {
            self.add_ok("upstream", provenance.describe(base));
        }
    }

    /// Adds the values of the record, without administrators, as on the pages of records.
    fn add_values(&mut self) {
        let shown = shown_values(&self.values);
        let types: Vec<String> =
            shown.iter().take(9).map(|value| format!("{} {}", value.index, value.type_name())).collect();
        let more = if shown.len() > types.len() { ", …" } else { "" };
        let separator = if shown.is_empty() { "" } else { ": " };
        let count = pluralize(shown.len(), "public value");
        self.add_ok("values", format!("{count}{separator}{}{more}", types.join(", ")));
    }

    /// Adds the step of a signed record; the name resolves even if the signature is not trusted.
    fn add_signature(&mut self) {
        match &self.signature {
            None => {}
            Some(status) if status.trusted => {
                let message = status.describe();
                self.add_ok("signature", message);
            }
            Some(status) => {
                let message = status.describe();
                self.add_failure("signature", message, "sign the record again, or check its certificates");
            }
        }
    }

    /// Adds the records whose locations are ignored; the name resolves without them.
    fn add_missing(&mut self, missing: &[MissingRecord]) {
        for MissingRecord { name, reason, is_unknown } in missing {
            if *is_unknown {
                let hint = "its locations are ignored and the selection is not cached; retry later";
                self.add_failure("locations", format!("cannot fetch `{name}`: {reason}"), hint);
            } else {
                let hint = "its locations are ignored; fix the record that includes it";
                self.add_failure("locations", format!("no locations in `{name}`: {reason}"), hint);
            }
        }
    }

    fn add_locations(&mut self) {
        self.add_ok(
            "locations",
            match self.locations.as_slice() {
                [location] => format!("one location: {}", location.href),
                locations => pluralize(locations.len(), "location"),
            },
        );
        // Selection ends when one candidate remains.
        let last = self.selection.iter().position(|step| step.remaining.len() == 1);
        let steps = last.map_or(self.selection.len(), |last| last + 1);
        for step in self.selection.iter().take(steps).cloned().collect::<Vec<_>>() {
            let remaining = pluralize(step.remaining.len(), "location");
            self.add_ok("selection", format!("{}: {remaining} remaining", step.method));
        }
        if self.selection.is_empty() && self.locations.len() > 1 {
            self.add_ok("selection", "first URL value; the record has no locations");
        }
    }

    fn add_response(&mut self, response: &Reply) {
        let header = |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let Some(location) = header(LOCATION) else {
            self.add_failure("redirect", "no redirect requested", "");
            return;
        };
        let status = response.status().as_u16();
        self.outcome = TraceOutcome::Resolves;
        self.add_ok("redirect", format!("{status} to {location}"));
        let cache_control = header(CACHE_CONTROL).map(str::to_owned);
        self.redirects.push(TraceRedirect { status, location: location.to_owned(), cache_control });
    }
}

impl RecordResolver {
    /// Adds the steps of one request for a name, up to the first one that fails.
    pub(super) async fn explain_outcome(
        &self,
        trace: &mut ResolutionTrace,
        name: &RequestedName<'_>,
        outcome: Result<&RedirectOutcome, &RecordLookupError>,
        aliases: &[String],
        context: &mut LookupContext<'_>,
    ) {
        let is_found = trace.explain_name(name)
            && trace.explain_responsibility(name, outcome.err(), self)
            && self.explain_record(trace, name, outcome.err(), context).await;
        if is_found && let Ok(outcome) = outcome {
            trace.add_values();
            trace.signature = self.verify_signatures(name.as_str(), context).await;
            trace.add_signature();
            if trace.has_metadata {
                trace.add_ok("metadata", "available by content negotiation");
            }
            trace.add_missing(&context.missing);
            trace.explain_target(name, outcome, aliases);
        }
    }

    /// Whether there is a record with public values.
    async fn explain_record(
        &self,
        trace: &mut ResolutionTrace,
        name: &RequestedName<'_>,
        error: Option<&RecordLookupError>,
        context: &mut LookupContext<'_>,
    ) -> bool {
        match (error, error.and_then(RecordLookupError::error)) {
            (None, _) => {
                match trace.derived_from.clone() {
                    None => trace.add_ok("record", "record found"),
                    Some(base) => {
                        trace.add_ok("record", "no stored record");
                        trace.add_ok(
                            "template",
                            format!("derived from `{base}` by the template of the prefix"),
                        );
                    }
                }
                return true;
            }
            (_, Some(Error::NotFound)) => {
                let suggestions = self.suggest_names(name.as_str(), &mut context.budget).await;
                let similar: Vec<String> = suggestions
                    .iter()
                    .map(|suggestion| format!("{} ({})", suggestion.name, suggestion.reason))
                    .collect();
                let hint = if similar.is_empty() {
                    "check the spelling, or register it".to_owned()
                } else {
                    format!("check the spelling; similar names: {}", similar.join(", "))
                };
                trace.add_failure("record", "record not found", hint);
            }
            (Some(RecordLookupError::Local(_)), Some(Error::Retired)) => {
                trace.add_failure("record", "record retired", "retired names are not reused");
            }
            (_, Some(Error::ValuesNotFound)) => {
                trace.add_ok("record", "record found");
                let message = "none of the requested values is public";
                trace.add_failure("values", message, "make the values publicly readable");
            }
            (_, error) => {
                trace.add_failure("record", error.map(ToString::to_string).unwrap_or_default(), "");
            }
        }
        false
    }
}

impl ResolutionTrace {
    /// Whether the request has a name.
    fn explain_name(&mut self, name: &RequestedName<'_>) -> bool {
        match name.kind() {
            NameKind::Empty => {
                self.add_failure("name", "no name found", "a name is a prefix, a slash and a suffix");
                false
            }
            kind => {
                self.add_ok("name", kind.describe(name.as_str()));
                true
            }
        }
    }

    /// Whether this server or the upstream resolver is responsible for the name.
    fn explain_responsibility(
        &mut self,
        name: &RequestedName<'_>,
        error: Option<&RecordLookupError>,
        resolver: &RecordResolver,
    ) -> bool {
        let upstream = resolver.upstream_name();
        let prefix = name.as_str().split('/').next().unwrap_or_default();
        match error {
            Some(RecordLookupError::Local(Error::Name(error))) => {
                self.add_failure("name", error.to_string(), "check the spelling");
            }
            Some(RecordLookupError::Local(error @ Error::NotResponsible { .. })) => {
                let mut hint = "home the prefix or import its records".to_owned();
                if let Some(url) = resolver.identity.resolver_url(name) {
                    hint += &format!("; public resolver: {url}");
                }
                self.add_failure("prefix", error.to_string(), hint);
            }
            Some(RecordLookupError::Local(error @ Error::OtherServer)) => {
                self.add_failure("prefix", error.to_string(), "query that server, or set `upstream`");
            }
            Some(RecordLookupError::Local(error @ (Error::Store(_) | Error::BudgetExceeded(_)))) => {
                self.outcome = TraceOutcome::Failed;
                self.add_failure("prefix", error.to_string(), "run `tendot verify`");
            }
            Some(RecordLookupError::UpstreamUnavailable(error)) => {
                self.outcome = TraceOutcome::Failed;
                self.add_ok("prefix", format!("not responsible for `{prefix}`"));
                let hint = "the name may be valid: retry later, or check the upstream resolver";
                self.add_failure("upstream", error.public_message(), hint);
            }
            Some(RecordLookupError::Upstream(Error::NotResponsible { .. }, provenance)) => {
                self.add_origin(prefix, Some(*provenance), upstream);
                self.add_failure("upstream", "it cannot locate the prefix", "check the prefix");
            }
            Some(error) => {
                self.add_origin(prefix, error.provenance(), upstream);
                return true;
            }
            None => {
                self.add_origin(prefix, self.upstream, upstream);
                return true;
            }
        }
        false
    }

    /// Where the name redirects to, or why it does not.
    fn explain_target(&mut self, name: &RequestedName<'_>, outcome: &RedirectOutcome, aliases: &[String]) {
        match outcome {
            RedirectOutcome::Redirect(response) => {
                for alias in aliases {
                    self.add_ok("alias", format!("alias of `{alias}`"));
                }
                if aliases.is_empty() {
                    self.add_locations();
                }
                self.add_response(response);
            }
            RedirectOutcome::Metadata(media_type, _) => {
                self.outcome = TraceOutcome::Resolves;
                self.add_ok("metadata", format!("`Accept` selects `{media_type}`"));
            }
            RedirectOutcome::NotAcceptable => {
                let types: Vec<&str> =
                    accept::metadata_media_types().map(|(_, media_type)| media_type).collect();
                let hint = format!("use `*/*` or one of {}", types.join(", "));
                self.add_failure("metadata", "no format matches `Accept`", hint);
            }
            RedirectOutcome::AliasLoop(chain) => {
                let (name, chain) = (name.as_str(), chain.join(" → "));
                let message = format!("alias loop, or too many aliases: {name} → {chain}");
                self.add_failure("alias", message, "replace one `HS_ALIAS` by a URL");
            }
            RedirectOutcome::PrefixInactive(message) => {
                let message = format!("the prefix is inactive. {message}");
                let hint = "`HS_NAMESPACE` of the prefix has the status `inactive`";
                self.add_failure("prefix", message, hint);
            }
            RedirectOutcome::ShowRecord(None) => {
                let hint = "add a `URL` value; the record page is shown instead";
                self.add_failure("locations", "no URL value", hint);
            }
            RedirectOutcome::ShowRecord(Some(error)) => {
                self.add_locations();
                let message = format!("redirect target rejected: {error}");
                self.add_failure("redirect", message, target_hint(*error));
            }
        }
    }
}

/// Hint for a URL that is not a valid redirect target.
fn target_hint(error: TargetError) -> String {
    match error {
        TargetError::UnsupportedScheme => format!("allowed schemes: {}", REDIRECT_SCHEMES.join(", ")),
        TargetError::ControlCharacter => "remove the control characters".into(),
        TargetError::InvalidHost => "use a valid host name".into(),
    }
}

fn pluralize(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
