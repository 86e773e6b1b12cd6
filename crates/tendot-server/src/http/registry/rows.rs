//! Rows of a table (RFC 4180) as deposits: the first line names the columns.

use memchr::memchr_iter;
use serde_json::value::RawValue;
use tendot_registry::Refusal;
use tendot_registry::doi::RegistrationRequest;

/// The columns of a table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Columns(Vec<Column>);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Column {
    Name,
    Prefix,
    Url,
    State,
    Metadata,
}

impl Columns {
    /// Reads the first line; an error is what is wrong with it.
    pub(super) fn read(line: &str) -> Result<Self, String> {
        let fields = fields(line).ok_or("the first line has quotes that do not fit")?;
        let mut columns = Vec::with_capacity(fields.len());
        for field in fields {
            let column = match field.trim().to_ascii_lowercase().as_str() {
                "name" | "doi" => Column::Name,
                "prefix" => Column::Prefix,
                "url" => Column::Url,
                "state" => Column::State,
                "metadata" => Column::Metadata,
                other => {
                    return Err(format!(
                        "the first line names the columns: name, prefix, url, state and metadata, not `{other}`"
                    ));
                }
            };
            if columns.contains(&column) {
                return Err(format!("the column `{field}` is there twice"));
            }
            columns.push(column);
        }
        Ok(Self(columns))
    }

    /// The name of a row that may be wrong otherwise, if it has one.
    pub(super) fn name(&self, row: &str) -> Option<Box<str>> {
        let place = self.0.iter().position(|column| *column == Column::Name)?;
        fields(row)?.into_iter().nth(place).filter(|name| !name.is_empty()).map(Into::into)
    }

    /// Reads a row. Empty fields are not given.
    pub(super) fn draft(&self, row: &str) -> Result<RegistrationRequest, Refusal> {
        let fields = fields(row).ok_or_else(|| malformed("the quotes do not fit".into()))?;
        if fields.len() != self.0.len() {
            return Err(malformed(format!("{} fields, there are {} columns", fields.len(), self.0.len())));
        }
        let mut object = serde_json::Map::new();
        let mut metadata = None;
        for (column, field) in self.0.iter().zip(fields).filter(|(_, field)| !field.is_empty()) {
            let name = match column {
                Column::Name => "name",
                Column::Prefix => "prefix",
                Column::Url => "url",
                Column::State => "state",
                // As XML, it is a text.
                Column::Metadata if field.starts_with('<') => "metadata",
                Column::Metadata => {
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

fn malformed(why: String) -> Refusal {
    Refusal::new(tendot_registry::Reason::Malformed, "malformed", why)
}

/// The quotes of a line: while those of a row are odd, one is open, and it goes on in the next line.
pub(super) fn quotes(line: &[u8]) -> u64 {
    memchr_iter(b'"', line).count() as u64
}

/// The fields of a row; none if its quotes do not fit.
fn fields(row: &str) -> Option<Vec<String>> {
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
                        Some(more) => {
                            field.push('"');
                            quoted = more;
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
            Some(more) => rest = more,
            None => return after.is_empty().then_some(fields),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows() {
        let check = |row: &str, expected: Option<&[&str]>| {
            let found = fields(row);
            let found: Option<Vec<&str>> =
                found.as_ref().map(|found| found.iter().map(|one| &**one).collect());
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
    fn columns() {
        let columns = Columns::read("DOI,url").unwrap();
        let draft = columns.draft("10.1/a,https://example.org/").unwrap();
        assert_eq!(
            (draft.name.as_deref(), draft.url.as_deref()),
            (Some("10.1/a"), Some("https://example.org/"))
        );
        assert!(columns.draft("10.1/a").is_err());
        assert!(Columns::read("name,title").is_err() && Columns::read("name,name").is_err());
        assert_eq!((quotes(b"a,\"b"), quotes(b"a,\"b\"\"\"")), (1, 4));
    }
}
