//! JSON values with their path, and JSON errors.

use alloc::string::{String, ToString as _};
use core::fmt;

use serde_json::Value as Json;

/// JSON error: path and problem.
///
/// ```
/// use tendot_proto::record::HandleRecord;
///
/// let error = HandleRecord::from_json(br#"{"handle":"10.1000/1","values":[{"index":1,"type":"URL"}]}"#).unwrap_err();
/// assert_eq!(error.to_string(), "values[0].data: missing field");
/// assert_eq!(error.path(), "values[0].data");
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JsonError {
    path: String,
    problem: String,
}

impl JsonError {
    /// Path: `values[2].data.value.permissions`. Empty for the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Description of the problem.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    pub(crate) fn from_syntax(error: &serde_json::Error) -> Self {
        Self { path: String::new(), problem: error.to_string() }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.path {
            "" => f.write_str(&self.problem),
            path => write!(f, "{path}: {}", self.problem),
        }
    }
}

impl core::error::Error for JsonError {}

/// JSON value with its path, for error messages.
#[derive(Clone, Copy)]
pub(crate) struct JsonNode<'p, 'j> {
    json: &'j Json,
    path: JsonPath<'p>,
}

/// Path of a JSON value; linked list on the stack.
#[derive(Clone, Copy)]
enum JsonPath<'p> {
    Root,
    Key(&'p Self, &'p str),
    Index(&'p Self, usize),
}

impl<'p, 'j: 'p> JsonNode<'p, 'j> {
    pub(crate) const fn new(json: &'j Json) -> Self {
        Self { json, path: JsonPath::Root }
    }

    pub(crate) const fn json(&self) -> &'j Json {
        self.json
    }

    pub(crate) fn error(&self, problem: impl fmt::Display) -> JsonError {
        JsonError { path: self.path.to_string(), problem: problem.to_string() }
    }

    pub(crate) fn expected(&self, what: &str) -> JsonError {
        self.error(format_args!("expected {what}, found {}", JsonPreview(self.json)))
    }

    /// Member `key`, unless missing or null.
    pub(crate) fn get<'c>(&'c self, key: &'c str) -> Option<JsonNode<'c, 'j>> {
        let json = self.json.get(key).filter(|json| !json.is_null())?;
        Some(JsonNode { json, path: JsonPath::Key(&self.path, key) })
    }

    pub(crate) fn required<'c>(&'c self, key: &'c str) -> Result<JsonNode<'c, 'j>, JsonError> {
        if !self.json.is_object() {
            return Err(self.expected("an object"));
        }
        self.get(key).ok_or_else(|| {
            let missing = JsonNode { json: self.json, path: JsonPath::Key(&self.path, key) };
            missing.error("missing field")
        })
    }

    /// Names of all members.
    pub(crate) fn keys(&self) -> Result<impl Iterator<Item = &'j str> + use<'j>, JsonError> {
        let members = self.json.as_object().ok_or_else(|| self.expected("an object"))?;
        Ok(members.keys().map(|name| &**name))
    }

    /// Applies `parse` to each item of an array. A null from a trailing comma is an error like any other.
    pub(crate) fn map_list<T>(
        &self,
        mut parse: impl FnMut(&JsonNode<'_, 'j>) -> Result<T, JsonError>,
    ) -> Result<alloc::vec::Vec<T>, JsonError> {
        let Json::Array(items) = self.json else {
            return Err(self.expected("an array"));
        };
        let nodes = items.iter().enumerate();
        nodes
            .map(|(index, json)| parse(&JsonNode { json, path: JsonPath::Index(&self.path, index) }))
            .collect()
    }

    pub(crate) fn string(&self) -> Result<&'j str, JsonError> {
        self.json.as_str().ok_or_else(|| self.expected("a string"))
    }

    pub(crate) fn boolean(&self) -> Result<bool, JsonError> {
        self.json.as_bool().ok_or_else(|| self.expected("a boolean"))
    }

    /// Integer that fits `N`. Digits in quotes are accepted, as in Handle.Net.
    pub(crate) fn integer<N: TryFrom<i64>>(&self) -> Result<N, JsonError> {
        let number = match self.json {
            Json::Number(number) => number.as_i64().or_else(|| exact_integer(number.as_f64()?)),
            Json::String(digits) => digits.parse().ok(),
            _ => None,
        };
        number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| {
            self.expected(match size_of::<N>() {
                1 => "an 8-bit integer",
                2 => "a 16-bit integer",
                4 => "a 32-bit integer",
                _ => "an integer",
            })
        })
    }

    /// Four bytes of the wire. Handle.Net reads them as signed, so a negative integer is in the upper half.
    pub(crate) fn wire_u32(&self) -> Result<u32, JsonError> {
        self.integer().or_else(|error| self.integer().map(i32::cast_unsigned).map_err(|_| error))
    }

    /// Decodes hexadecimal.
    pub(crate) fn hex(&self) -> Result<alloc::vec::Vec<u8>, JsonError> {
        let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(self.string()?.as_bytes());
        bytes.map_err(|_| self.expected("hexadecimal digits in pairs"))
    }

    /// Decodes base64: either alphabet, with or without padding, with or without line breaks.
    pub(crate) fn base64(&self) -> Result<alloc::vec::Vec<u8>, JsonError> {
        let unpadded: alloc::vec::Vec<u8> = (self.string()?.trim_end().trim_end_matches('=').bytes())
            .filter(|byte| !byte.is_ascii_whitespace())
            .map(|byte| match byte {
                b'-' => b'+',
                b'_' => b'/',
                other => other,
            })
            .collect();
        data_encoding::BASE64_NOPAD.decode(&unpadded).map_err(|_| self.expected("base64"))
    }
}

/// Exact integer of a float: some programs write `1.0` for 1.
fn exact_integer(number: f64) -> Option<i64> {
    let integer = number as i64;
    (integer as f64 == number).then_some(integer)
}

impl fmt::Display for JsonPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Self::Root, key) => f.write_str(key),
            Self::Key(parent, key) => write!(f, "{parent}.{key}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Short rendering of a JSON value for error messages.
struct JsonPreview<'j>(&'j Json);

impl fmt::Display for JsonPreview<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Json::Array(_) => f.write_str("an array"),
            Json::Object(_) => f.write_str("an object"),
            Json::String(text) => match text.char_indices().nth(40) {
                None => write!(f, "{text:?}"),
                Some((cut, _)) => write!(f, "{:?}…", text.get(..cut).unwrap_or_default()),
            },
            short => write!(f, "{short}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64() {
        check(r#""AAEC""#, Some(&[0, 1, 2]));
        check(r#""AA==""#, Some(&[0]));
        check(r#""AA""#, Some(&[0]));

        check(r#""-_+/\n-_+/""#, Some(&[0xfb, 0xff, 0xbf, 0xfb, 0xff, 0xbf]));
        check(r#""A=A=""#, None);
        check(r#""A""#, None);
        check("1", None);
    }

    #[track_caller]
    fn check(json: &str, bytes: Option<&[u8]>) {
        let json: Json = serde_json::from_str(json).unwrap();
        assert_eq!(JsonNode::new(&json).base64().ok().as_deref(), bytes, "{json}");
    }

    #[test]
    fn integers() {
        let parse = |json: &str| {
            let json: Json = serde_json::from_str(json).unwrap();
            JsonNode::new(&json).integer::<u16>().ok()
        };
        let found =
            ["7", "7.0", "\"7\"", "7e1", "7.5", "\"7.0\"", "-7", "65536.0", "1e300", "true"].map(parse);
        assert_eq!(found, [Some(7), Some(7), Some(7), Some(70), None, None, None, None, None, None]);
    }

    #[test]
    fn long_values_are_truncated_in_errors() {
        let json = Json::from("x".repeat(1000));
        let error = JsonNode::new(&json).integer::<u16>().unwrap_err();
        let expected = alloc::format!("expected a 16-bit integer, found \"{}\"…", "x".repeat(40));
        assert_eq!(error.to_string(), expected);
    }
}
