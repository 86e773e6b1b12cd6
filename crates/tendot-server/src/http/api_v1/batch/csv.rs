//! CSV rows (RFC 4180) as registrations: the header row names the columns.

use memchr::memchr_iter;
use serde_json::value::RawValue;
use tendot_registry::registration::RegistrationRequest;
use tendot_registry::{RegistryError, codes};

/// Columns named in the header row of a CSV batch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct CsvColumns(Vec<CsvColumn>);

/// Column of a CSV batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum CsvColumn {
    Name,
    Prefix,
    Url,
    State,
    Metadata,
}

impl CsvColumns {
    /// Parses the header row; the error is the reason it is invalid.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let fields = split_fields(line).ok_or("unbalanced quotes in the header row")?;
        let mut columns = Vec::with_capacity(fields.len());
        for field in fields {
            let column = match field.trim().to_ascii_lowercase().as_str() {
                "name" | "doi" => CsvColumn::Name,
                "prefix" => CsvColumn::Prefix,
                "url" => CsvColumn::Url,
                "state" => CsvColumn::State,
                "metadata" => CsvColumn::Metadata,
                other => {
                    return Err(format!(
                        "unknown column `{other}` in the header row; columns are name, prefix, url, state, metadata"
                    ));
                }
            };
            if columns.contains(&column) {
                return Err(format!("duplicate column `{field}`"));
            }
            columns.push(column);
        }
        Ok(Self(columns))
    }

    /// Name in a row that may otherwise be invalid.
    pub(crate) fn name_in_row(&self, row: &str) -> Option<Box<str>> {
        let index = self.0.iter().position(|column| *column == CsvColumn::Name)?;
        split_fields(row)?.into_iter().nth(index).filter(|name| !name.is_empty()).map(Into::into)
    }

    /// Parses a row. Empty fields are absent.
    pub(crate) fn parse_row(&self, row: &str) -> Result<RegistrationRequest, RegistryError> {
        let fields = split_fields(row).ok_or_else(|| malformed("unbalanced quotes".into()))?;
        if fields.len() != self.0.len() {
            return Err(malformed(format!("{} fields, expected {}", fields.len(), self.0.len())));
        }
        let mut object = serde_json::Map::new();
        let mut metadata = None;
        for (column, field) in self.0.iter().zip(fields).filter(|(_, field)| !field.is_empty()) {
            let name = match column {
                CsvColumn::Name => "name",
                CsvColumn::Prefix => "prefix",
                CsvColumn::Url => "url",
                CsvColumn::State => "state",
                // XML metadata is a string.
                CsvColumn::Metadata if field.starts_with('<') => "metadata",
                CsvColumn::Metadata => {
                    metadata =
                        Some(RawValue::from_string(field).map_err(|error| malformed(error.to_string()))?);
                    continue;
                }
            };
            object.insert(name.into(), field.into());
        }
        let mut json = serde_json::to_string(&object).unwrap_or_default();
        if let Some(metadata) = metadata {
            json.pop();
            let comma = if object.is_empty() { "" } else { "," };
            json += &format!("{comma}\"metadata\":{}}}", metadata.get());
        }
        RegistrationRequest::from_json(json.as_bytes())
    }
}

fn malformed(reason: String) -> RegistryError {
    RegistryError::new(codes::MALFORMED, reason)
}

/// Number of quotes in a line: while that of a row is odd, a quoted field continues on the next line.
pub(crate) fn count_quotes(line: &[u8]) -> u64 {
    memchr_iter(b'"', line).count() as u64
}

/// Splits a row into fields; `None` if its quotes are unbalanced.
fn split_fields(row: &str) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    let mut rest = row;
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let mut field = String::new();
                let mut quoted = quoted;
                loop {
                    let (before, after) = quoted.split_once('"')?;
                    field += before;
                    match after.strip_prefix('"') {
                        Some(rest_of_field) => {
                            field.push('"');
                            quoted = rest_of_field;
                        }
                        None => break (field, after),
                    }
                }
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (field, after) = rest.split_at(end);
                if field.contains('"') {
                    return None;
                }
                (field.to_owned(), after)
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None => return after.is_empty().then_some(fields),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_fields() {
        let check = |row: &str, expected: Option<&[&str]>| {
            let found = split_fields(row);
            let found: Option<Vec<&str>> =
                found.as_ref().map(|found| found.iter().map(|field| &**field).collect());
            assert_eq!(found.as_deref(), expected, "{row}");
        };
        check("a,b", Some(&["a", "b"]));
        check("", Some(&[""]));
        check("a,", Some(&["a", ""]));
        check(r#""a,b",c"#, Some(&["a,b", "c"]));
        check(r#""a""b""#, Some(&["a\"b"]));
        check("\"a\nb\",c", Some(&["a\nb", "c"]));
        check(r#""a"#, None);
        check(r#"a"b"#, None);
        check(r#""a"b"#, None);
        check("=cmd(),@x", Some(&["=cmd()", "@x"]));
    }

    #[test]
    fn parses_rows() {
        let columns = CsvColumns::parse("DOI,url").unwrap();
        let draft = columns.parse_row("10.1/a,https://example.org/").unwrap();
        assert_eq!(
            (draft.name.as_deref(), draft.url.as_deref()),
            (Some("10.1/a"), Some("https://example.org/"))
        );
        assert!(columns.parse_row("10.1/a").is_err());
        assert!(CsvColumns::parse("name,title").is_err() && CsvColumns::parse("name,name").is_err());
        assert_eq!((count_quotes(b"a,\"b"), count_quotes(b"a,\"b\"\"\"")), (1, 4));
    }
}
