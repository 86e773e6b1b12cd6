//! serde support: a DOI is serialized as a string.
//!
//! Deserialization is strict; with the module [`lenient`] in a field's `with` attribute it is lenient.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use tendot_names::DoiBuf;
//!
//! #[derive(Deserialize, Serialize)]
//! struct Work {
//!     doi: DoiBuf,
//!     #[serde(with = "tendot_names::serde::lenient")]
//!     cites: DoiBuf,
//! }
//!
//! let work: Work = serde_json::from_str(
//!     r#"{"doi": "https://doi.org/10.1000/182", "cites": "DOI 10.1000/183 "}"#,
//! )?;
//! assert_eq!(serde_json::to_string(&work)?, r#"{"doi":"10.1000/182","cites":"10.1000/183"}"#);
//! # Ok::<(), serde_json::Error>(())
//! ```

use alloc::borrow::Cow;
use core::fmt;

use ::serde::de::Visitor;
use ::serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Doi, DoiBuf, Parser};

impl Serialize for Doi {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Serialize for DoiBuf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for DoiBuf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(DoiVisitor(Parser::strict()))
    }
}

/// Lenient parsing: `#[serde(with = "tendot_names::serde::lenient")]`.
pub mod lenient {
    use super::*;

    /// Serializes the DOI in its input spelling.
    pub fn serialize<S: Serializer>(doi: &DoiBuf, serializer: S) -> Result<S::Ok, S::Error> {
        doi.serialize(serializer)
    }

    /// Parses leniently.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DoiBuf, D::Error> {
        deserializer.deserialize_str(DoiVisitor(Parser::lenient()))
    }
}

/// Proxy URL as the serialized form: `#[serde(with = "tendot_names::serde::as_url")]`.
pub mod as_url {
    use super::*;

    /// Serializes as proxy URL, `https://doi.org/…`.
    pub fn serialize<S: Serializer>(doi: &DoiBuf, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&doi.url())
    }

    /// Parses any strict input form.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DoiBuf, D::Error> {
        DoiBuf::deserialize(deserializer)
    }
}

/// serde visitor that parses a DOI from a string.
struct DoiVisitor(Parser);

impl Visitor<'_> for DoiVisitor {
    type Value = DoiBuf;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a DOI")
    }

    fn visit_str<E: ::serde::de::Error>(self, text: &str) -> Result<DoiBuf, E> {
        self.0.parse_doi(text).map(Cow::into_owned).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString as _;

    use super::*;
    use crate::ErrorKind;

    /// Deserialization reports what the parser reports.
    #[test]
    fn short_dois_are_rejected_at_their_offset() {
        for (input, offset) in [
            ("10/gf4gqc", 2),
            ("doi:10/gf4gqc", 6),
            ("https://doi.org/10/gf4gqc", 18),
            ("https://doi.org/10%2Fgf4gqc", 18),
            ("https://doi.org/1%30/gf4gqc", 20),
        ] {
            let error = input.parse::<DoiBuf>().unwrap_err();
            assert_eq!((error.kind(), error.offset()), (ErrorKind::MissingRegistrant, offset), "{input}");
            let json = serde_json::to_string(input).unwrap();
            let strict = serde_json::from_str::<DoiBuf>(&json).unwrap_err().to_string();
            let mut json = serde_json::Deserializer::from_str(&json);
            let lenient = lenient::deserialize(&mut json).unwrap_err().to_string();
            for message in [strict, lenient] {
                assert!(message.starts_with(&error.to_string()), "{input}: {message}");
            }
        }
    }
}
