//! Faults in metadata documents, and their codes.

use std::fmt;

use serde::ser::{Serialize, SerializeStruct, Serializer};

/// Fault in a metadata document: pointer, code and message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MetadataFault {
    /// JSON pointer (`/referentCreation/mode/1`), or XML path (`/kernelMetadata/referentCreation/mode[2]`).
    pub pointer: String,
    /// Stable code for programs.
    pub code: MetadataFaultCode,
    /// Description for people, with the faulty value.
    pub message: String,
    /// Allowed values, if they can be listed.
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
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum MetadataFaultCode {
    /// Invalid JSON, or nested too deeply.
    NotJson,
    /// Invalid XML, or too large.
    NotXml,
    /// XML with a document type declaration.
    DtdNotAllowed,
    /// Missing element.
    Missing,
    /// Unknown element.
    UnknownElement,
    /// Duplicate member.
    Duplicate,
    /// Wrong type, such as text instead of an object.
    WrongType,
    /// Value not allowed, or in conflict with another.
    NotAllowed,
    /// Too many occurrences.
    TooMany,
    /// Too long.
    TooLong,
    /// Empty text.
    Empty,
    /// Character not allowed in XML.
    NotACharacter,
    /// Invalid or incomplete date.
    NotADate,
    /// Invalid language tag.
    NotALanguage,
    /// Invalid URI.
    NotAUri,
    /// Document for another DOI.
    OtherName,
}

impl MetadataFaultCode {
    /// Code in the API.
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
