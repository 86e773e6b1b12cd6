use std::fmt;

use serde::ser::{Serialize, SerializeStruct, Serializer};

/// Fault in a metadata document: pointer, code and message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MetadataFault {
    /// Where: a JSON pointer (`/referentCreation/mode/1`), or a path of XML (`/kernelMetadata/referentCreation/mode[2]`).
    pub pointer: String,
    /// What is wrong, for programs.
    pub code: MetadataFaultCode,
    /// What is wrong, with the value that was found, for people.
    pub message: String,
    /// What would have been taken, if that can be listed.
    pub allowed: &'static [&'static str],
}

impl fmt::Display for MetadataFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pointer.is_empty() {
            write!(f, "{}: ", self.pointer)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for MetadataFault {}

impl Serialize for MetadataFault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let lists = !self.allowed.is_empty();
        let mut object = serializer.serialize_struct("MetadataFault", 3 + usize::from(lists))?;
        object.serialize_field("pointer", &self.pointer)?;
        object.serialize_field("code", self.code.as_str())?;
        object.serialize_field("message", &self.message)?;
        if lists {
            object.serialize_field("allowed", self.allowed)?;
        }
        object.end()
    }
}

/// Stable code of a metadata fault.
///
/// Their texts stay as they are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum MetadataFaultCode {
    /// The text is not JSON, or nested too deep.
    NotJson,
    /// The text is not XML, or more than is read.
    NotXml,
    /// The XML has a document type.
    DtdNotAllowed,
    /// The element has to be there.
    Missing,
    /// There is no such element here.
    UnknownElement,
    /// The member stands there twice.
    Duplicate,
    /// It is a text where an object is expected, or the like.
    WrongType,
    /// The value is not in the list of those that are allowed, or does not fit to another.
    NotAllowed,
    /// It is repeated too often.
    TooMany,
    /// It has too many bytes.
    TooLong,
    /// The text is empty.
    Empty,
    /// The text has a character that XML cannot say.
    NotACharacter,
    /// This is no date, or none that is exact enough.
    NotADate,
    /// This is no code of a language.
    NotALanguage,
    /// This is no URI.
    NotAUri,
    /// The document is about another name.
    OtherName,
}

impl MetadataFaultCode {
    /// The code as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotJson => "not-json",
            Self::NotXml => "not-xml",
            Self::DtdNotAllowed => "dtd-not-allowed",
            Self::Missing => "missing",
            Self::UnknownElement => "unknown-element",
            Self::Duplicate => "duplicate",
            Self::WrongType => "wrong-type",
            Self::NotAllowed => "not-allowed",
            Self::TooMany => "too-many",
            Self::TooLong => "too-long",
            Self::Empty => "empty",
            Self::NotACharacter => "not-a-character",
            Self::NotADate => "not-a-date",
            Self::NotALanguage => "not-a-language",
            Self::NotAUri => "not-a-uri",
            Self::OtherName => "other-name",
        }
    }
}
