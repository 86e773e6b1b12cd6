//! Name of a request, parsed once: its text, its key in the store, and its kind.

use std::borrow::Cow;
use std::sync::OnceLock;

use tendot_names::{DoiOrShortDoi, OutputForm, Parser};
use tendot_proto::Handle;
use tendot_store::NameKey;

use crate::http::request::name_path;

/// Name that a request is for.
#[derive(Debug)]
pub(crate) struct RequestedName<'a> {
    text: Cow<'a, str>,
    /// Whether the request has a word or prefix without a slash.
    is_word: bool,
    /// Computed on first use; `None` if no record can have this name.
    key: OnceLock<Option<NameKey>>,
}

impl<'a> RequestedName<'a> {
    /// Name as it is written.
    pub(crate) fn new(text: impl Into<Cow<'a, str>>) -> Self {
        Self { text: text.into(), is_word: false, key: OnceLock::new() }
    }

    /// Name in a decoded path or form field, in any written form; also a shortDOI.
    pub(crate) fn parse(text: &'a str) -> Self {
        let is_word = !name_path::parse(text).contains('/');
        Self { is_word, ..Self::new(name_path::parse_or_short_doi(text)) }
    }

    /// Path for which there is no endpoint, if it is more likely an address of a page or API than a name: a word, or a prefix
    /// that does not begin with a digit.
    pub(crate) fn unknown_path(&self) -> Option<&str> {
        let is_prefix = self.text.starts_with(|first: char| first.is_ascii_digit());
        match self.kind() {
            NameKind::Doi(DoiOrShortDoi::ShortDoi(short)) if self.is_word => {
                self.text.get(self.text.len() - short.suffix().len()..)
            }
            NameKind::Empty => None,
            _ => (!is_prefix).then_some(&*self.text),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn handle(&self) -> Handle<'_> {
        Handle::from(&*self.text)
    }

    /// Key in the store; `None` if no record can have this name.
    pub(crate) fn key(&self) -> Option<&NameKey> {
        self.key.get_or_init(|| NameKey::new(&self.text).ok()).as_ref()
    }

    /// Path of the name on this server, percent-encoded.
    pub(crate) fn path(&self) -> String {
        name_path::format(&self.text)
    }

    pub(crate) fn kind(&self) -> NameKind<'_> {
        NameKind::classify(&self.text)
    }
}

/// Kind of a name: DOI, other handle, prefix alone, or empty.
pub(crate) enum NameKind<'a> {
    /// DOI or shortDOI.
    Doi(DoiOrShortDoi<'a>),
    /// Handle that is not a DOI.
    Handle,
    /// Prefix alone, without a slash or as the handle of its record.
    Prefix(&'a str),
    Empty,
}

impl<'a> NameKind<'a> {
    fn classify(name: &'a str) -> Self {
        let suffix = name.split_once('/').filter(|(prefix, _)| prefix.eq_ignore_ascii_case("0.NA"));
        match (suffix, Parser::strict().parse(name)) {
            _ if name.is_empty() => Self::Empty,
            (Some((_, prefix)), _) if !prefix.contains('/') && !prefix.is_empty() => Self::Prefix(prefix),
            _ if !name.contains('/') => Self::Prefix(name),
            // If it parses as another name, it is taken literally: it comes from a path.
            (_, Ok(parsed)) if parsed.identifier().as_str() == name => Self::Doi(parsed.into_identifier()),
            _ => Self::Handle,
        }
    }

    /// Message of the first step of a trace.
    pub(super) fn describe(&self, name: &str) -> String {
        match self {
            Self::Doi(identifier) => {
                let kind = if matches!(identifier, DoiOrShortDoi::Doi(_)) { "DOI" } else { "shortDOI" };
                let canonical = identifier.format(OutputForm::Canonical).map(|form| form.to_string());
                format!("parsed as {kind} `{name}`, canonical form `{}`", canonical.unwrap_or_default())
            }
            Self::Handle => format!("parsed as handle `{name}` (not a DOI)"),
            Self::Prefix(prefix) => format!("parsed as prefix `{prefix}`, without a suffix"),
            Self::Empty => String::new(),
        }
    }
}
