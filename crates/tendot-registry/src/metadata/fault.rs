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

/// Declares [`MetadataFaultCode`] with the documentation of each code.
macro_rules! metadata_fault_codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $code:literal, $meaning:literal, $advice:literal;)+) => {
        /// Stable code of a metadata fault.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        #[non_exhaustive]
        pub enum MetadataFaultCode {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl MetadataFaultCode {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Code in the API.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $code,)+
                }
            }

            /// Meaning, for the reference page.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)+
                }
            }

            /// Advice: what to do. For the reference page.
            pub const fn advice(self) -> &'static str {
                match self {
                    $(Self::$variant => $advice,)+
                }
            }
        }
    };
}

metadata_fault_codes! {
    /// Invalid JSON, or nested too deeply.
    InvalidJson = "invalid-json",
        "the document is not valid JSON, or is nested too deeply", "correct it at the position in `message`";
    /// Invalid XML, or too large.
    InvalidXml = "invalid-xml",
        "the document is not valid XML, or exceeds a limit", "correct it at the position in `message`";
    /// XML with a document type declaration.
    DtdNotAllowed = "dtd-not-allowed",
        "the XML has a document type declaration", "remove the declaration";
    /// Missing element.
    Missing = "missing",
        "a required element is missing", "add the element that `message` names";
    /// Unknown element.
    UnknownElement = "unknown-element",
        "the element is unknown", "check the spelling";
    /// Duplicate member.
    Duplicate = "duplicate",
        "the element or key occurs twice", "remove one of them";
    /// Wrong type, such as text instead of an object.
    WrongType = "wrong-type",
        "the type is wrong, for example a string instead of an object", "use the type in `message`";
    /// Value not allowed, or in conflict with another.
    ValueNotAllowed = "value-not-allowed",
        "the value is not allowed, or conflicts with another value", "use one of the values in `allowed`, or see `message`";
    /// Too many occurrences.
    TooMany = "too-many",
        "a list has too many items", "send fewer items";
    /// Too long.
    TooLong = "too-long",
        "a text or the document is too long", "shorten it";
    /// Empty text.
    Empty = "empty",
        "the text is empty", "add text, or omit the element";
    /// Character not allowed in XML.
    InvalidCharacter = "invalid-character",
        "the text has a character that XML does not allow", "remove the character";
    /// Invalid or incomplete date.
    InvalidDate = "invalid-date",
        "the date is invalid or not exact enough", "use a date such as `2027-01-31`";
    /// Invalid language tag.
    InvalidLanguage = "invalid-language",
        "the language tag is invalid", "use a tag such as `en` or `pt-BR`";
    /// Invalid URI.
    InvalidUri = "invalid-uri",
        "the URI is invalid", "use an absolute URI";
    /// Document for another DOI.
    NameMismatch = "name-mismatch",
        "the document is for another DOI", "correct `referentDoiName`, or omit it";
}
