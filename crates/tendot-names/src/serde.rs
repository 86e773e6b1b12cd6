//! Serialization: a name is its string, as written.
//!
//! Deserializing is strict. To take what people write, name the module [`lenient`] at the field.
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
        deserializer.deserialize_str(Text::<Strict>(PhantomData))
    }
}

/// `#[serde(with = "tendot_names::serde::lenient")]`: reads what people write.
pub mod lenient {
    use super::*;

    /// Writes the name as written.
    pub fn serialize<S: Serializer>(doi: &DoiBuf, serializer: S) -> Result<S::Ok, S::Error> {
        doi.serialize(serializer)
    }

    /// Reads a name leniently.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DoiBuf, D::Error> {
        deserializer.deserialize_str(Text::<Lenient>(PhantomData))
    }
}

/// `#[serde(with = "tendot_names::serde::as_url")]`: writes the address at the DOI proxy, reads any strict form.
pub mod as_url {
    use super::*;

    /// Writes `https://doi.org/…`.
    pub fn serialize<S: Serializer>(doi: &DoiBuf, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&doi.url())
    }

    /// Reads a name strictly, in any form.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DoiBuf, D::Error> {
        DoiBuf::deserialize(deserializer)
    }
}

trait Reads {
    fn read(text: &str) -> Result<DoiBuf, Error>;
}

struct Strict;

impl Reads for Strict {
    fn read(text: &str) -> Result<DoiBuf, Error> {
        text.parse()
    }
}

struct Lenient;

impl Reads for Lenient {
    fn read(text: &str) -> Result<DoiBuf, Error> {
        match Parser::lenient().parse(text)?.into_identifier() {
            DoiOrShortDoi::Doi(name) => Ok(name.into_owned()),
            DoiOrShortDoi::Short(_) => Err(Error::new(ErrorKind::MissingRegistrant, 0)),
        }
    }
}

struct Text<R>(PhantomData<R>);

impl<R: Reads> Visitor<'_> for Text<R> {
    type Value = DoiBuf;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a DOI name")
    }

    fn visit_str<E: ::serde::de::Error>(self, text: &str) -> Result<DoiBuf, E> {
        R::read(text).map_err(E::custom)
    }
}
