//! Kind of a name: DOI, handle, prefix or nothing; and its URL at the public resolver.

use tendot_names::{DoiOrShortDoi, OutputForm, Parser};

use crate::http::resolve::redirect::format;

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
    pub(crate) fn classify(name: &'a str) -> Self {
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

/// Public resolver URL of a name that this server is not responsible for.
pub(crate) fn public_url(name: &str) -> Option<String> {
    match NameKind::classify(name) {
        NameKind::Doi(identifier) => identifier.format(OutputForm::Url).map(|url| url.to_string()),
        NameKind::Handle => Some(format!("https://hdl.handle.net{}", format(name))),
        NameKind::Prefix(_) | NameKind::Empty => None,
    }
}
