//! Text output of registry resources: a table for a listing, fields for one resource.

use serde_json::Value as Json;
use tendot_proto::HandleValue;
use tendot_registry::metadata::KernelMetadata;
use unicode_width::UnicodeWidthStr as _;

use crate::CliError;
use crate::resolve::value_text::format_value;
use crate::terminal::{StdoutWriter, escape_control};

/// Kind of registry resource, for table columns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ResourceKind {
    Agency,
    Registrant,
    Prefix,
    Token,
    Session,
    Doi,
    Transfer,
    HistoryEntry,
    ReportSummary,
    ResolvedName,
    NeverResolvedName,
    FailedResolution,
    InvalidLink,
    ConfusableName,
}

impl ResourceKind {
    /// Fields printed for one resource; the first identifies it.
    const fn detail_fields(self) -> &'static [&'static str] {
        match self {
            Self::Agency => {
                &["code", "name", "state", "metadata", "range", "locations", "created", "closed", "successor"]
            }
            Self::Registrant => &["id", "agency", "name", "contact", "admins", "created"],
            Self::Prefix => &["prefix", "registrant", "agency", "test", "policy", "allocated"],
            Self::Token => {
                &["id", "role", "subject", "scopes", "prefixes", "expires", "label", "created", "parent"]
            }
            Self::Session => &["id", "protocol", "identity", "created", "used", "expires"],
            Self::Doi => &[
                "name",
                "state",
                "registrant",
                "agency",
                "url",
                "title",
                "extensions",
                "created",
                "updated",
                "retired",
            ],
            Self::Transfer => &[
                "id", "state", "names", "prefix", "agency", "from", "to", "by", "proposed", "expires",
                "decided",
            ],
            Self::HistoryEntry => &["seq", "at", "kind", "by", "before"],
            Self::ReportSummary => &[
                "prefix",
                "names",
                "registered",
                "reserved",
                "retired",
                "resolved",
                "resolutions",
                "never-resolved",
                "failed",
                "failures",
                "links",
                "confusable",
                "complete",
            ],
            Self::ResolvedName => &["name", "count", "first", "last"],
            Self::NeverResolvedName => &["name", "created"],
            Self::FailedResolution => &["name", "count", "first", "last", "state"],
            Self::InvalidLink => &["name", "index", "code", "data"],
            Self::ConfusableName => &["name", "code", "with"],
        }
    }

    /// Columns of a listing.
    const fn list_columns(self) -> &'static [&'static str] {
        match self {
            Self::Agency => &["code", "name", "state", "metadata", "created"],
            Self::Registrant => &["id", "agency", "name", "contact"],
            Self::Prefix => &["prefix", "registrant", "agency", "test", "policy"],
            Self::Token => &["id", "role", "subject", "scopes", "prefixes", "expires", "label"],
            Self::Doi => &["name", "state", "registrant", "url", "updated"],
            Self::Transfer => &["id", "state", "what", "from", "to", "proposed"],
            Self::Session
            | Self::HistoryEntry
            | Self::ReportSummary
            | Self::ResolvedName
            | Self::NeverResolvedName
            | Self::FailedResolution
            | Self::InvalidLink
            | Self::ConfusableName => self.detail_fields(),
        }
    }

    /// Prints one resource.
    pub(crate) fn print(self, object: &Json, output: &mut StdoutWriter) -> Result<(), CliError> {
        let (first, rest) = self.detail_fields().split_first().unwrap_or((&"", &[]));
        output.write_line(escape_control(&field_text(object, first)))?;
        let width = rest.iter().map(|name| name.len()).max().unwrap_or_default();
        for name in rest {
            let text = field_text(object, name);
            if !text.is_empty() {
                output.write_line(format_args!("  {name:width$}  {}", escape_control(&text)))?;
            }
        }
        for value in object["values"].as_array().into_iter().flatten() {
            match serde_json::from_value::<HandleValue<'static>>(value.clone()) {
                Ok(value) => output.write_line(escape_control(&format_value(&value)?))?,
                Err(_) => output.write_line(escape_control(&value.to_string()))?,
            }
        }
        Ok(())
    }
}

/// Text table printed page by page; columns grow as needed.
pub(super) struct TextTable {
    columns: &'static [&'static str],
    widths: Vec<usize>,
    has_head: bool,
}

impl TextTable {
    pub(super) fn new(kind: ResourceKind) -> Self {
        let columns = kind.list_columns();
        Self { columns, widths: columns.iter().map(|name| name.len()).collect(), has_head: false }
    }

    pub(super) fn print(&mut self, items: &[Json], output: &mut StdoutWriter) -> Result<(), CliError> {
        let row = |item: &Json| -> Vec<String> {
            self.columns.iter().map(|name| escape_control(&field_text(item, name))).collect()
        };
        let rows: Vec<_> = items.iter().map(row).collect();
        for row in &rows {
            for (width, field) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(field.width());
            }
        }
        if !rows.is_empty() && !std::mem::replace(&mut self.has_head, true) {
            output.write_line(self.line(self.columns.iter().map(|name| name.to_uppercase())))?;
        }
        rows.into_iter().try_for_each(|row| output.write_line(self.line(row.into_iter())))
    }

    fn line(&self, fields: impl Iterator<Item = String>) -> String {
        let mut line = String::new();
        for (field, width) in fields.zip(&self.widths) {
            let field = if field.is_empty() { "-" } else { &field };
            let padding = width.saturating_sub(field.width()) + 2;
            line += field;
            line.extend(std::iter::repeat_n(' ', padding));
        }
        line.trim_end().to_owned()
    }
}

/// Maximum number of items printed of an array; the rest is counted.
const MAX_LISTED_ITEMS: usize = 5;

/// Member of an object as text; empty if absent.
fn field_text(object: &Json, name: &str) -> String {
    match name {
        "title" => KernelMetadata::from_json(object["metadata"].to_string().as_bytes())
            .map_or_else(|_| String::new(), |kernel| kernel.title().to_owned()),
        "extensions" => KernelMetadata::from_json(object["metadata"].to_string().as_bytes()).map_or_else(
            |_| String::new(),
            |kernel| {
                let extensions = kernel.extensions();
                let names = extensions
                    .iter()
                    .map(|extension| format!("{} ({})", extension.name, extension.namespace));
                names.collect::<Vec<_>>().join(", ")
            },
        ),
        "what" => ["names", "prefix", "agency"].map(|name| json_text(&object[name])).concat(),
        "before" => {
            let values = object["before"]["values"].as_array().into_iter().flatten();
            let url =
                values.filter(|value| value["type"] == "URL").map(|value| json_text(&value["data"]["value"]));
            url.take(1).collect()
        }
        _ => json_text(&object[name]),
    }
}

fn json_text(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::Bool(flag) => if *flag { "yes" } else { "no" }.into(),
        Json::Number(number) => number.to_string(),
        Json::String(text) => text.clone(),
        Json::Array(items) => {
            let mut texts: Vec<_> = items.iter().take(MAX_LISTED_ITEMS).map(json_text).collect();
            if items.len() > MAX_LISTED_ITEMS {
                texts.push(format!("{} more", items.len() - MAX_LISTED_ITEMS));
            }
            texts.join(", ")
        }
        Json::Object(members) => {
            let texts: Vec<_> =
                members.iter().map(|(name, value)| format!("{name} {}", json_text(value))).collect();
            texts.join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_as_text() {
        let check = |value: Json, expected: &str| assert_eq!(json_text(&value), expected);
        check(json!(null), "");
        check(json!(true), "yes");
        check(json!(7), "7");
        check(json!(["a", "b"]), "a, b");
        check(json!([1, 2, 3, 4, 5, 6, 7]), "1, 2, 3, 4, 5, 2 more");
        check(json!({"first": "10.1", "last": "10.2"}), "first 10.1, last 10.2");
    }

    #[test]
    fn rows_are_aligned_and_escaped() {
        let mut table = TextTable::new(ResourceKind::Registrant);
        table.widths = vec![4, 6, 6, 7];
        let line = table.line(["ä", "", "long name", "c"].map(Into::into).into_iter());
        assert_eq!(line, "ä     -       long name  c");
        // Characters that fill two columns of the terminal, and a combining one.
        let line = table.line(["例子", "e\u{301}", "c", "d"].map(Into::into).into_iter());
        assert_eq!(line, "例子  e\u{301}       c       d");
        assert_eq!(escape_control("\u{1b}[31mred\u{202e}\u{9b}2J"), "\\u{1b}[31mred\\u{202e}\\u{9b}2J");
    }
}
