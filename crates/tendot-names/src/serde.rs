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

use core::fmt;
use core::marker::PhantomData;

use ::serde::de::Visitor;
use ::serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Doi, DoiBuf, DoiOrShortDoi, Error, ErrorKind, Parser};

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
        deserializer.deserialize_str(DoiVisitor::<Strict>(PhantomData))
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
        deserializer.deserialize_str(DoiVisitor::<Lenient>(PhantomData))
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

/// Strict or lenient parsing of a deserialized string.
trait ParseMode {
    fn parse(text: &str) -> Result<DoiBuf, Error>;
}

struct Strict;

impl ParseMode for Strict {
    fn parse(text: &str) -> Result<DoiBuf, Error> {
        text.parse()
    }
}

struct Lenient;

impl ParseMode for Lenient {
    fn parse(text: &str) -> Result<DoiBuf, Error> {
        match Parser::lenient().parse(text)?.into_identifier() {
            DoiOrShortDoi::Doi(doi) => Ok(doi.into_owned()),
            DoiOrShortDoi::ShortDoi(_) => Err(Error::new(ErrorKind::MissingRegistrant, 0)),
        }
    }
}

/// serde visitor that parses a DOI from a string.
struct DoiVisitor<M>(PhantomData<M>);

impl<M: ParseMode> Visitor<'_> for DoiVisitor<M> {
    type Value = DoiBuf;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a DOI")
    }

    fn visit_str<E: ::serde::de::Error>(self, text: &str) -> Result<DoiBuf, E> {
        M::parse(text).map_err(E::custom)
    }
}
