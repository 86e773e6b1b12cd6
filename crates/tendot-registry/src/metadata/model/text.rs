//! Simple types: text, language tag, URI, boolean and integer.

/// Maximum length of a text, in bytes.
const MAX_TEXT_BYTES: usize = 4_096;
/// Maximum length of a language tag, in bytes.
const MAX_LANGUAGE_BYTES: usize = 64;

/// Declares a text type with a syntax check.
macro_rules! text_type {
    (
        $(#[doc = $doc:literal])* $name:ident, $is:expr, $pattern:literal, $code:ident, $message:literal, $examples:expr
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, Eq, PartialEq)]
        pub(in crate::metadata) struct $name(Box<str>);

        impl $name {
            pub(in crate::metadata) fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl MetadataElement for $name {
            fn read(node: MetadataNode<'_>, reader: &mut MetadataReader) -> Option<Self> {
                let text = plain_text(node, reader)?;
                if !$is(&text) {
                    reader.report(MetadataFaultCode::$code, format!($message, excerpt(&text)), &[]);
                    return None;
                }
                Some(Self(text))
            }

            fn to_node(&self) -> MetadataNode<'_> {
                MetadataNode::text(self.as_str())
            }

            fn schema(_: &mut SchemaSet) -> Value {
                schema::text(concat!($($doc),*).trim(), $pattern)
            }

            #[cfg(test)]
            fn arbitrary(input: &mut crate::metadata::tests::ArbitraryInput) -> Self {
                Self((*input.of::<&str>(&$examples)).into())
            }
        }
    };
}
pub(super) use text_type;

use serde_json::{Value, json};

use crate::metadata::codec::node::MetadataNode;
use crate::metadata::codec::reader::{MetadataElement, MetadataReader, excerpt};
use crate::metadata::fault::MetadataFaultCode;
use crate::metadata::schema::{self, SchemaSet};

text_type! {
    /// Language tag (RFC 5646, as far as XML Schema checks it).
    LanguageTag, is_language, "^[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*$", InvalidLanguage, "invalid language tag `{}`; for example `en` or `pt-BR`", ["en", "pt-BR", "i-navajo"]
}

text_type! {
    /// Absolute URI.
    Uri, is_uri, r"^[A-Za-z][A-Za-z0-9+.-]*:\S+$", InvalidUri, "invalid URI `{}`", ["https://doi.org/10.1000/182", "urn:isbn:1", "x:\u{E9}&<>'\""]
}

/// Text: not empty, trimmed, only XML characters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::metadata) struct NonEmptyText(Box<str>);

impl NonEmptyText {
    pub(in crate::metadata) fn as_str(&self) -> &str {
        &self.0
    }
}

impl MetadataElement for NonEmptyText {
    fn read(node: MetadataNode<'_>, reader: &mut MetadataReader) -> Option<Self> {
        plain_text(node, reader).map(Self)
    }

    fn to_node(&self) -> MetadataNode<'_> {
        MetadataNode::text(self.as_str())
    }

    fn schema(_: &mut SchemaSet) -> Value {
        json!({"type": "string", "pattern": r"\S", "maxLength": MAX_TEXT_BYTES})
    }

    #[cfg(test)]
    fn arbitrary(input: &mut crate::metadata::tests::ArbitraryInput) -> Self {
        Self(input.text().into())
    }
}

/// Boolean; XML also allows 1 and 0.
impl MetadataElement for bool {
    fn read(node: MetadataNode<'_>, reader: &mut MetadataReader) -> Option<Self> {
        match (&node, reader.is_json()) {
            (MetadataNode::Bool(flag), _) => Some(*flag),
            (MetadataNode::String(text), false) if matches!(text.trim(), "true" | "1") => Some(true),
            (MetadataNode::String(text), false) if matches!(text.trim(), "false" | "0") => Some(false),
            _ => {
                reader.report_wrong_type(&node, "a boolean");
                None
            }
        }
    }

    fn to_node(&self) -> MetadataNode<'_> {
        MetadataNode::Bool(*self)
    }

    fn schema(_: &mut SchemaSet) -> Value {
        json!({"type": "boolean"})
    }

    #[cfg(test)]
    fn arbitrary(input: &mut crate::metadata::tests::ArbitraryInput) -> Self {
        input.next() % 2 == 1
    }
}

/// Unsigned 32-bit integer.
impl MetadataElement for u32 {
    fn read(node: MetadataNode<'_>, reader: &mut MetadataReader) -> Option<Self> {
        let number = match (&node, reader.is_json()) {
            (MetadataNode::Integer(number), _) => Self::try_from(*number).ok(),
            (MetadataNode::String(text), false) => text.trim().parse().ok(),
            _ => None,
        };
        if number.is_none() {
            reader.report_wrong_type(&node, "an integer up to 4294967295");
        }
        number
    }

    fn to_node(&self) -> MetadataNode<'_> {
        MetadataNode::Integer((*self).into())
    }

    fn schema(_: &mut SchemaSet) -> Value {
        json!({"type": "integer", "minimum": 0, "maximum": Self::MAX})
    }

    #[cfg(test)]
    fn arbitrary(input: &mut crate::metadata::tests::ArbitraryInput) -> Self {
        input.next().into()
    }
}

/// Reads a text: trimmed, not empty, only characters of XML.
pub(super) fn plain_text(node: MetadataNode<'_>, reader: &mut MetadataReader) -> Option<Box<str>> {
    let text = reader.expect_text(node)?;
    let trimmed = text.trim();
    if trimmed.is_empty() {
        reader.report(MetadataFaultCode::Empty, "empty text".to_owned(), &[]);
        return None;
    }
    if trimmed.len() > MAX_TEXT_BYTES {
        let message = format!("{} bytes (maximum {MAX_TEXT_BYTES})", trimmed.len());
        reader.report(MetadataFaultCode::TooLong, message, &[]);
        return None;
    }
    // Fast path: almost no text has such bytes.
    let may_be_invalid = |byte: u8| byte < 0x20 || byte == 0xEF;
    if let Some(invalid) =
        trimmed.bytes().any(may_be_invalid).then(|| trimmed.chars().find(|c| !is_xml_char(*c))).flatten()
    {
        let message = format!("character U+{:04X} is not allowed in XML", u32::from(invalid));
        reader.report(MetadataFaultCode::InvalidCharacter, message, &[]);
        return None;
    }
    Some(trimmed.into())
}

/// Whether a character is allowed in XML 1.0 (section 2.2).
pub(in crate::metadata) fn is_xml_char(found: char) -> bool {
    matches!(found, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..)
}

fn is_language(text: &str) -> bool {
    let mut parts = text.split('-');
    let fits = |part: &str| (1..=8).contains(&part.len());
    text.len() <= MAX_LANGUAGE_BYTES
        && parts
            .next()
            .is_some_and(|first| fits(first) && first.bytes().all(|byte| byte.is_ascii_alphabetic()))
        && parts.all(|part| fits(part) && part.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        && !rest.is_empty()
        && !rest.contains(|found: char| found.is_whitespace() || found.is_control())
}
