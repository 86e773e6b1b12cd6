//! Named fields, printed as text or JSON.

use data_encoding::HEXLOWER;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::CliError;
use crate::terminal::{StdoutWriter, escape_control};

/// Named fields in wire order, printed as text or JSON.
#[derive(Default)]
pub(super) struct FieldList(Vec<(&'static str, FieldValue)>);

/// Value of one field.
pub(super) enum FieldValue {
    Text(String),
    Number(u64),
    Bool(bool),
    Null,
    List(Vec<Self>),
    /// JSON value with a text form of its own.
    Json {
        json: Box<RawValue>,
        text: String,
    },
    Fields(FieldList),
}

impl FieldList {
    pub(super) fn add(&mut self, name: &'static str, field: impl Into<FieldValue>) {
        self.0.push((name, field.into()));
    }

    pub(super) fn add_hex(&mut self, name: &'static str, bytes: &[u8]) {
        self.add(name, HEXLOWER.encode(bytes));
    }

    /// Adds a number that is printed as `text` in text output.
    pub(super) fn add_number_with_text(
        &mut self,
        name: &'static str,
        number: u32,
        text: String,
    ) -> Result<(), CliError> {
        let json = to_raw_value(&number)
            .map_err(|error| CliError::new(format!("cannot serialize the value as JSON: {error}")))?;
        self.add(name, FieldValue::Json { json, text });
        Ok(())
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Prints one field per line; nested fields are indented.
    pub(super) fn write(&self, output: &mut StdoutWriter) -> Result<(), CliError> {
        self.write_indented(output, 0)
    }

    fn write_indented(&self, output: &mut StdoutWriter, indent: usize) -> Result<(), CliError> {
        let width = self.0.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for (name, field) in &self.0 {
            match field {
                FieldValue::Fields(fields) => {
                    output.write_line(format_args!("{:indent$}{name}", ""))?;
                    fields.write_indented(output, indent + 2)?;
                }
                FieldValue::List(items)
                    if items
                        .iter()
                        .any(|item| matches!(item, FieldValue::Json { .. } | FieldValue::Fields(_))) =>
                {
                    output.write_line(format_args!("{:indent$}{name}", ""))?;
                    for item in items {
                        match item {
                            FieldValue::Fields(fields) => fields.write_indented(output, indent + 2)?,
                            item => output.write_line(format_args!("{:indent$}  {}", "", item.to_text()))?,
                        }
                    }
                }
                field => {
                    let line = format!("{:indent$}{name:width$}  {}", "", field.to_text());
                    output.write_line(line.trim_end())?;
                }
            }
        }
        Ok(())
    }
}

impl FieldValue {
    fn to_text(&self) -> String {
        match self {
            Self::Text(text) => escape_control(text),
            Self::Number(number) => number.to_string(),
            Self::Bool(true) => "yes".into(),
            Self::Bool(false) => "no".into(),
            Self::Null => "none".into(),
            Self::List(items) if items.is_empty() => "none".into(),
            Self::List(items) => items.iter().map(Self::to_text).collect::<Vec<_>>().join(", "),
            Self::Json { text, .. } => escape_control(text),
            Self::Fields(_) => String::new(),
        }
    }
}

impl Serialize for FieldList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, field) in &self.0 {
            map.serialize_entry(name, field)?;
        }
        map.end()
    }
}

impl Serialize for FieldValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Number(number) => number.serialize(serializer),
            Self::Bool(flag) => flag.serialize(serializer),
            Self::Null => serializer.serialize_unit(),
            Self::List(items) => items.serialize(serializer),
            Self::Json { json, .. } => json.serialize(serializer),
            Self::Fields(fields) => fields.serialize(serializer),
        }
    }
}

impl From<String> for FieldValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for FieldValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<bool> for FieldValue {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

impl From<u64> for FieldValue {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for FieldValue {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u16> for FieldValue {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

impl From<u8> for FieldValue {
    fn from(number: u8) -> Self {
        Self::Number(number.into())
    }
}

impl From<FieldList> for FieldValue {
    fn from(fields: FieldList) -> Self {
        Self::Fields(fields)
    }
}

impl<T: Into<Self>> FromIterator<T> for FieldValue {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}
