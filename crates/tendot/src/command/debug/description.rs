//! Something described by named fields, once, for people and for programs.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::hex_of_bytes;
use crate::Failure;
use crate::failure::escaped;
use crate::output::Output;

/// Named fields, in order.
#[derive(Default)]
pub(super) struct Description(Vec<(&'static str, Field)>);

/// What one field holds.
pub(super) enum Field {
    Text(String),
    Number(u64),
    Truth(bool),
    /// There is none.
    Nothing,
    List(Vec<Self>),
    /// Something that has a JSON form of its own, and how it is shown to people.
    Json {
        json: Box<RawValue>,
        shown: String,
    },
    Fields(Description),
}

impl Description {
    pub(super) fn add(&mut self, name: &'static str, field: impl Into<Field>) {
        self.0.push((name, field.into()));
    }

    pub(super) fn add_hex(&mut self, name: &'static str, bytes: &[u8]) {
        self.add(name, hex_of_bytes(bytes));
    }

    /// A number that people would rather see otherwise.
    pub(super) fn add_number_with_text(
        &mut self,
        name: &'static str,
        number: u32,
        shown: String,
    ) -> Result<(), Failure> {
        let json = to_raw_value(&number).map_err(|error| Failure::new(format!("no JSON: {error}")))?;
        self.add(name, Field::Json { json, shown });
        Ok(())
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// A field a line, those of fields within fields further to the right.
    pub(super) fn write(&self, output: &mut Output) -> Result<(), Failure> {
        self.write_indented(output, 0)
    }

    fn write_indented(&self, output: &mut Output, indent: usize) -> Result<(), Failure> {
        let width = self.0.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for (name, field) in &self.0 {
            match field {
                Field::Fields(fields) => {
                    output.line(format_args!("{:indent$}{name}", ""))?;
                    fields.write_indented(output, indent + 2)?;
                }
                Field::List(items)
                    if items.iter().any(|item| matches!(item, Field::Json { .. } | Field::Fields(_))) =>
                {
                    output.line(format_args!("{:indent$}{name}", ""))?;
                    for item in items {
                        match item {
                            Field::Fields(fields) => fields.write_indented(output, indent + 2)?,
                            item => output.line(format_args!("{:indent$}  {}", "", item.shown()))?,
                        }
                    }
                }
                field => {
                    let line = format!("{:indent$}{name:width$}  {}", "", field.shown());
                    output.line(line.trim_end())?;
                }
            }
        }
        Ok(())
    }
}

impl Field {
    fn shown(&self) -> String {
        match self {
            Self::Text(text) => escaped(text),
            Self::Number(number) => number.to_string(),
            Self::Truth(true) => "yes".into(),
            Self::Truth(false) => "no".into(),
            Self::Nothing => "none".into(),
            Self::List(items) if items.is_empty() => "none".into(),
            Self::List(items) => items.iter().map(Self::shown).collect::<Vec<_>>().join(", "),
            Self::Json { shown, .. } => escaped(shown),
            Self::Fields(_) => String::new(),
        }
    }
}

impl Serialize for Description {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, field) in &self.0 {
            map.serialize_entry(name, field)?;
        }
        map.end()
    }
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Number(number) => number.serialize(serializer),
            Self::Truth(truth) => truth.serialize(serializer),
            Self::Nothing => serializer.serialize_unit(),
            Self::List(items) => items.serialize(serializer),
            Self::Json { json, .. } => json.serialize(serializer),
            Self::Fields(fields) => fields.serialize(serializer),
        }
    }
}

impl From<String> for Field {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<bool> for Field {
    fn from(truth: bool) -> Self {
        Self::Truth(truth)
    }
}

impl From<u64> for Field {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Field {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u16> for Field {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

impl From<u8> for Field {
    fn from(number: u8) -> Self {
        Self::Number(number.into())
    }
}

impl From<Description> for Field {
    fn from(fields: Description) -> Self {
        Self::Fields(fields)
    }
}

impl<T: Into<Self>> FromIterator<T> for Field {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}
