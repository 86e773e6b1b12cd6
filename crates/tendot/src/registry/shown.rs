//! What the registry keeps, as people read it: a table of many, or all about one.

use serde_json::Value as Json;
use tendot_proto::Value;
use tendot_registry::metadata::KernelMetadata;

use crate::Failure;
use crate::command::debug::shown_value;
use crate::failure::escaped;
use crate::output::Output;

/// What something is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Noun {
    Agency,
    Registrant,
    Prefix,
    Token,
    Name,
    Transfer,
    Change,
}

impl Noun {
    /// What is told of one, the first of which names it.
    const fn members(self) -> &'static [&'static str] {
        match self {
            Self::Agency => {
                &["code", "name", "state", "metadata", "range", "locations", "created", "ended", "successor"]
            }
            Self::Registrant => &["id", "agency", "name", "contact", "admins", "created"],
            Self::Prefix => &["prefix", "registrant", "agency", "test", "policy", "allocated"],
            Self::Token => &["id", "role", "subject", "scopes", "prefixes", "expires", "label", "created"],
            Self::Name => {
                &["name", "state", "registrant", "agency", "url", "title", "created", "updated", "ended"]
            }
            Self::Transfer => {
                &["id", "state", "names", "prefix", "agency", "from", "to", "by", "proposed", "decided"]
            }
            Self::Change => &["seq", "at", "kind", "by", "before"],
        }
    }

    /// What is told of many.
    const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Agency => &["code", "name", "state", "metadata", "created"],
            Self::Registrant => &["id", "agency", "name", "contact"],
            Self::Prefix => &["prefix", "registrant", "agency", "test", "policy"],
            Self::Token => &["id", "role", "subject", "scopes", "prefixes", "expires", "label"],
            Self::Name => &["name", "state", "registrant", "url", "updated"],
            Self::Transfer => &["id", "state", "what", "from", "to", "proposed"],
            Self::Change => self.members(),
        }
    }

    /// Prints all about one.
    pub(crate) fn print(self, object: &Json, output: &mut Output) -> Result<(), Failure> {
        let (first, rest) = self.members().split_first().unwrap_or((&"", &[]));
        output.line(escaped(&member(object, first)))?;
        let width = rest.iter().map(|name| name.len()).max().unwrap_or_default();
        for name in rest {
            let text = member(object, name);
            if !text.is_empty() {
                output.line(format_args!("  {name:width$}  {}", escaped(&text)))?;
            }
        }
        for value in object["values"].as_array().into_iter().flatten() {
            match serde_json::from_value::<Value<'static>>(value.clone()) {
                Ok(value) => output.line(escaped(&shown_value(&value)?))?,
                Err(_) => output.line(escaped(&value.to_string()))?,
            }
        }
        Ok(())
    }
}

/// A table whose rows come part by part; columns become wider if they have to.
pub(super) struct Table {
    columns: &'static [&'static str],
    widths: Vec<usize>,
    has_head: bool,
}

impl Table {
    pub(super) fn new(noun: Noun) -> Self {
        let columns = noun.columns();
        Self { columns, widths: columns.iter().map(|name| name.len()).collect(), has_head: false }
    }

    pub(super) fn print(&mut self, items: &[Json], output: &mut Output) -> Result<(), Failure> {
        let row = |item: &Json| -> Vec<String> {
            self.columns.iter().map(|name| escaped(&member(item, name))).collect()
        };
        let rows: Vec<_> = items.iter().map(row).collect();
        for row in &rows {
            for (width, field) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(field.chars().count());
            }
        }
        if !rows.is_empty() && !std::mem::replace(&mut self.has_head, true) {
            output.line(self.line(self.columns.iter().map(|name| name.to_uppercase())))?;
        }
        rows.into_iter().try_for_each(|row| output.line(self.line(row.into_iter())))
    }

    fn line(&self, fields: impl Iterator<Item = String>) -> String {
        let mut line = String::new();
        for (field, width) in fields.zip(&self.widths) {
            let field = if field.is_empty() { "-" } else { &field };
            line += &format!("{field:width$}  ");
        }
        line.trim_end().to_owned()
    }
}

/// Items of a list that are shown; the rest is counted.
const SHOWN: usize = 5;

/// A member of an object, as text; empty if there is none.
fn member(object: &Json, name: &str) -> String {
    match name {
        "title" => KernelMetadata::from_json(object["metadata"].to_string().as_bytes())
            .map_or_else(|_| String::new(), |kernel| kernel.title().to_owned()),
        "what" => ["names", "prefix", "agency"].map(|name| text(&object[name])).concat(),
        "before" => {
            let values = object["before"]["values"].as_array().into_iter().flatten();
            let url =
                values.filter(|value| value["type"] == "URL").map(|value| text(&value["data"]["value"]));
            url.take(1).collect()
        }
        _ => text(&object[name]),
    }
}

fn text(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::Bool(is) => if *is { "yes" } else { "no" }.into(),
        Json::Number(number) => number.to_string(),
        Json::String(text) => text.clone(),
        Json::Array(items) => {
            let mut shown: Vec<_> = items.iter().take(SHOWN).map(text).collect();
            if items.len() > SHOWN {
                shown.push(format!("{} more", items.len() - SHOWN));
            }
            shown.join(", ")
        }
        Json::Object(members) => {
            let shown: Vec<_> =
                members.iter().map(|(name, value)| format!("{name} {}", text(value))).collect();
            shown.join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_as_text() {
        let check = |value: Json, expected: &str| assert_eq!(text(&value), expected);
        check(json!(null), "");
        check(json!(true), "yes");
        check(json!(7), "7");
        check(json!(["a", "b"]), "a, b");
        check(json!([1, 2, 3, 4, 5, 6, 7]), "1, 2, 3, 4, 5, 2 more");
        check(json!({"first": "10.1", "last": "10.2"}), "first 10.1, last 10.2");
    }

    #[test]
    fn rows_are_aligned_and_steer_no_terminal() {
        let mut table = Table::new(Noun::Registrant);
        table.widths = vec![4, 6, 6, 7];
        let line = table.line(["ä", "", "long name", "c"].map(Into::into).into_iter());
        assert_eq!(line, "ä     -       long name  c");
        assert_eq!(escaped("\u{1b}[31mred\u{202e}\u{9b}2J"), "\\u{1b}[31mred\\u{202e}\\u{9b}2J");
    }
}
