//! CSV rows (RFC 4180) as registrations: the header row names the columns and decides on the delimiter.

use memchr::memchr_iter;
use serde_json::value::RawValue;
use tendot_registry::metadata::BasicMetadata;
use tendot_registry::registration::RegistrationRequest;
use tendot_registry::{RegistryError, codes};

/// Columns named in the header row of a CSV batch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct CsvColumns {
    columns: Vec<CsvColumn>,
    delimiter: char,
}

/// Characters that may separate fields; the first one in the header row does.
const DELIMITERS: [char; 3] = [',', ';', '\t'];

/// Column of a CSV batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum CsvColumn {
    Name,
    Prefix,
    Url,
    State,
    Metadata,
    Title,
    Creator,
    Date,
    Type,
}

impl CsvColumns {
    /// Parses the header row; the error is the reason it is invalid.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let delimiter = line.chars().find(|found| DELIMITERS.contains(found)).unwrap_or(',');
        let fields = split_fields(line, delimiter).ok_or("unbalanced quotes in the header row")?;
        let mut columns = Vec::with_capacity(fields.len());
        for field in fields {
            let column = match field.trim().to_ascii_lowercase().as_str() {
                "name" | "doi" => CsvColumn::Name,
                "prefix" => CsvColumn::Prefix,
                "url" => CsvColumn::Url,
                "state" => CsvColumn::State,
                "metadata" => CsvColumn::Metadata,
                "title" => CsvColumn::Title,
                "creator" => CsvColumn::Creator,
                "date" => CsvColumn::Date,
                "type" => CsvColumn::Type,
                other => {
                    return Err(format!(
                        "unknown column `{other}` in the header row; columns are name, prefix, url, state, metadata, title, \
                         creator, date, type"
                    ));
                }
            };
            if columns.contains(&column) {
                return Err(format!("duplicate column `{field}`"));
            }
            columns.push(column);
        }
        Ok(Self { columns, delimiter })
    }

    /// Name in a row that may otherwise be invalid.
    pub(crate) fn name_in_row(&self, row: &str) -> Option<Box<str>> {
        let index = self.columns.iter().position(|column| *column == CsvColumn::Name)?;
        split_fields(row, self.delimiter)?
            .into_iter()
            .nth(index)
            .filter(|name| !name.is_empty())
            .map(Into::into)
    }

    /// Parses a row. Empty fields are absent.
    pub(crate) fn parse_row(&self, row: &str) -> Result<RegistrationRequest, RegistryError> {
        let fields =
            split_fields(row, self.delimiter).ok_or_else(|| malformed("unbalanced quotes".into()))?;
        if fields.len() != self.columns.len() {
            return Err(malformed(format!("{} fields, expected {}", fields.len(), self.columns.len())));
        }
        let mut object = serde_json::Map::new();
        let mut metadata = self.basic_metadata(&fields)?;
        let has_basic_metadata = metadata.is_some();
        for (column, field) in self.columns.iter().zip(fields).filter(|(_, field)| !field.is_empty()) {
            if *column == CsvColumn::Metadata && has_basic_metadata {
                let reason = "`metadata` excludes `title`, `creator`, `date` and `type`";
                return Err(malformed(reason.into()));
            }
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
                CsvColumn::Title | CsvColumn::Creator | CsvColumn::Date | CsvColumn::Type => continue,
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

    /// Kernel metadata from the columns `title`, `creator` (several separated by `;`), `date` and `type`, if one has text.
    fn basic_metadata(&self, fields: &[String]) -> Result<Option<Box<RawValue>>, RegistryError> {
        let field = |column| {
            let index = self.columns.iter().position(|found| *found == column)?;
            fields.get(index).map(|field| field.trim()).filter(|field| !field.is_empty())
        };
        let creators = field(CsvColumn::Creator).into_iter().flat_map(|names| names.split(';'));
        let basic = BasicMetadata {
            title: field(CsvColumn::Title),
            creators: creators.map(str::trim).filter(|name| !name.is_empty()).collect(),
            date: field(CsvColumn::Date),
            creation_type: field(CsvColumn::Type),
        };
        if basic.is_empty() {
            return Ok(None);
        }
        let kernel = basic.to_kernel().map_err(RegistryError::invalid_metadata)?;
        RawValue::from_string(kernel.to_json()).map(Some).map_err(|error| malformed(error.to_string()))
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
fn split_fields(row: &str, delimiter: char) -> Option<Vec<String>> {
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
                let end = rest.find(delimiter).unwrap_or(rest.len());
                let (field, after) = rest.split_at(end);
                if field.contains('"') {
                    return None;
                }
                (field.to_owned(), after)
            }
        };
        fields.push(field);
        match after.strip_prefix(delimiter) {
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
            let found = split_fields(row, ',');
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
        assert!(CsvColumns::parse("name,target").is_err() && CsvColumns::parse("name,name").is_err());
        for header in ["url;NAME", "url\tName", "url\t\"name\""] {
            let columns = CsvColumns::parse(header).unwrap();
            let row = format!("https://example.org/,{}10.1/a", columns.delimiter);
            let draft = columns.parse_row(&row).unwrap();
            let found = (draft.name.as_deref(), draft.url.as_deref());
            assert_eq!(found, (Some("10.1/a"), Some("https://example.org/,")), "{header}");
        }
        assert_eq!((count_quotes(b"a,\"b"), count_quotes(b"a,\"b\"\"\"")), (1, 4));
    }

    #[test]
    fn makes_metadata_from_columns() {
        let columns = CsvColumns::parse("name,title,creator,date,type,metadata").unwrap();
        let draft = columns.parse_row("10.1/a,Sand,\"Bak, Per; Tang, Chao\",1987,article,").unwrap();
        let kernel = draft.metadata.unwrap().unwrap();
        for part in ["\"Sand\"", "\"Bak, Per\"", "\"Tang, Chao\"", "\"1987\"", "\"Article\""] {
            assert!(kernel.get().contains(part), "{kernel}");
        }
        assert!(columns.parse_row("10.1/a,,,,,").unwrap().metadata.is_none());
        let error = columns.parse_row("10.1/a,Sand,,,article,").unwrap_err();
        assert_eq!((error.code, error.pointer.as_deref()), ("invalid-metadata", Some("/creator")));
        assert_eq!(columns.parse_row("10.1/a,Sand,P,,article,{}").unwrap_err().code, "malformed");
    }
}
