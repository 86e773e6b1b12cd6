//! Lenient parsing of values and records through a JSON tree.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;

use super::admin::JsonAdmin;
use super::date::JsonDate;
use super::site::JsonSite;
use super::{JsonError, JsonNode, canonical, jwk};
use crate::record::{HandleRecord, HandleValue, Ttl, ValueList, ValuePermissions, ValueReference};

impl HandleRecord<'_> {
    /// Parses the JSON of a record; unknown members are ignored.
    pub fn from_json(json: &[u8]) -> Result<HandleRecord<'static>, JsonError> {
        canonical::parse_canonical(json).map_or_else(|| parse_lenient(json), Ok)
    }
}

/// Parses a record in any accepted form.
pub(super) fn parse_lenient(json: &[u8]) -> Result<HandleRecord<'static>, JsonError> {
    parse_json(json).and_then(|json| parse_record(&JsonNode::new(&json)))
}

impl HandleValue<'_> {
    /// Parses the JSON of a value; unknown members are ignored.
    ///
    /// ```
    /// use tendot_proto::HandleValue;
    ///
    /// let value = HandleValue::from_json(br#"{"index":1,"type":"URL","data":"https://example.org/"}"#).unwrap();
    /// assert_eq!(value, HandleValue::new(1, "URL", "https://example.org/"));
    /// assert_eq!(
    ///     serde_json::to_string(&value).unwrap(),
    ///     r#"{"index":1,"type":"URL","data":{"format":"string","value":"https://example.org/"},"ttl":86400}"#,
    /// );
    ///
    /// let error = HandleValue::from_json(br#"{"index":1.5,"type":"URL","data":""}"#).unwrap_err();
    /// assert_eq!(error.to_string(), "index: expected a 32-bit integer, found 1.5");
    /// ```
    pub fn from_json(json: &[u8]) -> Result<HandleValue<'static>, JsonError> {
        parse_json(json).and_then(|json| parse_value(&JsonNode::new(&json)).map(HandleValue::into_owned))
    }
}

/// Parses the values of a write request: a list of values, an object with a member `values`, or one value.
///
/// ```
/// use tendot_proto::record::values_from_json;
///
/// let values = |json: &str| values_from_json(&json.parse().unwrap()).map(|values| values.len());
/// let one = r#"{"index":1,"type":"URL","data":"https://example.org/"}"#;
/// assert_eq!(values(one), Ok(1));
/// assert_eq!(values(&format!("[{one},{one}]")), Ok(2));
/// assert_eq!(values(&format!(r#"{{"values":[{one}]}}"#)), Ok(1));
/// assert_eq!(values(r#"{"values":{}}"#).unwrap_err().to_string(), "values: expected an array, found an object");
/// ```
pub fn values_from_json(json: &Json) -> Result<Vec<HandleValue<'_>>, JsonError> {
    let node = JsonNode::new(json);
    match node.get("values") {
        Some(values) => values.map_list(parse_value),
        None if json.is_array() => node.map_list(parse_value),
        None => parse_value(&node).map(|value| alloc::vec![value]),
    }
}

impl<'de> Deserialize<'de> for HandleRecord<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse_record(&JsonNode::new(&Json::deserialize(deserializer)?)).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for HandleValue<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        parse_value(&JsonNode::new(&json)).map(HandleValue::into_owned).map_err(D::Error::custom)
    }
}

pub(super) fn parse_json(json: &[u8]) -> Result<Json, JsonError> {
    serde_json::from_slice(json).map_err(|error| JsonError::from_syntax(&error))
}

pub(crate) fn parse_record(node: &JsonNode<'_, '_>) -> Result<HandleRecord<'static>, JsonError> {
    Ok(HandleRecord {
        handle: Cow::Owned(node.required("handle")?.string()?.as_bytes().to_vec()),
        values: node.required("values")?.map_list(|item| parse_value(item).map(HandleValue::into_owned))?,
    })
}

fn parse_value<'j>(node: &JsonNode<'_, 'j>) -> Result<HandleValue<'j>, JsonError> {
    Ok(HandleValue {
        index: node.required("index")?.wire_u32()?,
        value_type: node.required("type")?.string()?.as_bytes().into(),
        data: parse_data(&node.required("data")?)?,
        permissions: node
            .get("permissions")
            .map_or(Ok(ValuePermissions::DEFAULT), |node| parse_permissions(&node))?,
        ttl: node.get("ttl").map_or(Ok(Ttl::DEFAULT), |ttl| match ttl.json() {
            Json::String(_) => Ok(Ttl::Absolute(JsonDate::from_node(&ttl)?.0)),
            _ => ttl.wire_u32().map(Ttl::Relative),
        })?,
        timestamp: node.get("timestamp").map_or(Ok(0), |date| Ok(JsonDate::from_node(&date)?.0))?,
        references: node.get("references").map_or(Ok(Vec::new()), |list| list.map_list(parse_reference))?,
    })
}

/// Parses permissions: four binary digits, admin read first, public write last. If there are more, the last four count;
/// `*` is all. Handle.Net cannot clear the first of four, which is a bug.
fn parse_permissions(node: &JsonNode<'_, '_>) -> Result<ValuePermissions, JsonError> {
    let text = node.string()?;
    let digits = text.bytes().rev().take(4).collect::<Vec<_>>();
    match text {
        "*" => Ok(ValuePermissions(0x0f)),
        _ if digits.is_empty() || !digits.iter().all(|digit| matches!(digit, b'0' | b'1')) => {
            Err(node.expected("four binary digits"))
        }
        _ => Ok(ValuePermissions(digits.iter().rev().fold(0, |bits, digit| bits << 1 | (digit & 1)))),
    }
}

/// Parses data in one of its forms; a plain string is text data.
pub(super) fn parse_data<'j>(node: &JsonNode<'_, 'j>) -> Result<Cow<'j, [u8]>, JsonError> {
    if let Json::String(text) = node.json() {
        return Ok(Cow::Borrowed(text.as_bytes()));
    }
    let format = node.required("format")?;
    let name = format.string()?;
    let is_format = |known: &str| name.eq_ignore_ascii_case(known);
    let value = node.required("value")?;
    if is_format("string") {
        value.string().map(|text| Cow::Borrowed(text.as_bytes()))
    } else if is_format("base64") {
        value.base64().map(Cow::Owned)
    } else if is_format("hex") {
        value.hex().map(Cow::Owned)
    } else if is_format("admin") {
        JsonAdmin::parse(&value).map(|admin| Cow::Owned(admin.to_bytes()))
    } else if is_format("vlist") {
        value.map_list(parse_reference).map(|members| Cow::Owned(ValueList { members }.to_bytes()))
    } else if is_format("site") {
        JsonSite::parse(&value).map(|site| Cow::Owned(site.to_bytes()))
    } else if is_format("key") {
        jwk::parse_jwk(&value).map(|key| Cow::Owned(key.to_bytes()))
    } else {
        Err(format.expected("string, base64, hex, admin, vlist, site or key"))
    }
}

pub(super) fn parse_reference<'j>(node: &JsonNode<'_, 'j>) -> Result<ValueReference<'j>, JsonError> {
    let handle = node.required("handle")?.string()?;
    Ok(ValueReference::new(node.required("index")?.wire_u32()?, handle.as_bytes()))
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use std::string::ToString;

    use super::*;
    use crate::record::Site;

    #[test]
    fn permission_forms() {
        let parse = |text: &str| parse_permissions(&JsonNode::new(&text.into())).ok().map(|bits| bits.0);
        assert_eq!(parse("1110"), Some(0x0e));
        assert_eq!(parse("0110"), Some(0x06));
        assert_eq!(parse("10"), Some(0x02));
        assert_eq!(parse("*"), Some(0x0f));
        assert_eq!(parse("xx0111"), Some(0x07));
        assert_eq!(parse("011x"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn errors_have_the_path() {
        let url = r#"{"index":1,"type":"URL","data":""}"#;
        let error = |second: &str| {
            let json = format!(r#"{{"handle":"10.1000/1","values":[{url},{second}]}}"#);
            HandleRecord::from_json(json.as_bytes()).unwrap_err().to_string()
        };
        assert_eq!(error("null"), "values[1]: expected an object, found null");
        assert_eq!(error("{}"), "values[1].index: missing field");
        assert_eq!(error(r#"{"index":"x"}"#), "values[1].index: expected a 32-bit integer, found \"x\"");
        assert_eq!(error(r#"{"index":1}"#), "values[1].type: missing field");
        assert_eq!(error(r#"{"index":1,"type":"URL"}"#), "values[1].data: missing field");
        let data = |data: &str| error(&format!(r#"{{"index":1,"type":"URL","data":{data}}}"#));
        assert_eq!(data("1"), "values[1].data: expected an object, found 1");
        assert_eq!(data(r#"{"value":""}"#), "values[1].data.format: missing field");
        assert_eq!(
            data(r#"{"format":"xml","value":""}"#),
            "values[1].data.format: expected string, base64, hex, admin, vlist, site or key, found \"xml\""
        );
        assert_eq!(
            data(r#"{"format":"HEX","value":"abc"}"#),
            "values[1].data.value: expected hexadecimal digits in pairs, found \"abc\""
        );
        assert_eq!(
            data(r#"{"format":"admin","value":{"handle":"0.NA/10","index":200,"permissions":"2"}}"#),
            "values[1].data.value.permissions: expected at most 16 binary digits, found \"2\""
        );
        assert_eq!(
            data(r#"{"format":"vlist","value":[{"handle":"0.NA/10","index":200},null]}"#),
            "values[1].data.value[1]: expected an object, found null"
        );
        let site = |servers: &str| {
            data(&format!(
                r#"{{"format":"site","value":{{"protocolVersion":"2.11","serialNumber":1,"servers":{servers}}}}}"#
            ))
        };
        assert_eq!(
            site(r#"[{"address":"example.org"}]"#),
            "values[1].data.value.servers[0].address: expected an IP address, found \"example.org\""
        );
        assert_eq!(site("[null]"), "values[1].data.value.servers[0]: expected an object, found null");
        assert_eq!(
            HandleRecord::from_json(b"{\"handle\":").unwrap_err().to_string(),
            "EOF while parsing a value at line 1 column 10"
        );
        let deep = "[".repeat(200);
        assert_eq!(
            HandleRecord::from_json(deep.as_bytes()).unwrap_err().to_string(),
            "recursion limit exceeded at line 1 column 128"
        );
    }

    /// Forms of the same site from old versions and other writers.
    #[test]
    fn parses_old_site_forms() {
        let parse = |json: &str| {
            let json = serde_json::from_str(json).unwrap();
            JsonSite::parse(&JsonNode::new(&json)).unwrap().into_owned()
        };
        let site = parse(
            r#"{"version":1,"protocolVersion":"2.10","serialNumber":-2,"primarySite":true,"multiPrimary":false,
            "hashOption":0,"attributes":[{"name":"a","value":"1"},{"name":"a","value":"2"}],
            "servers":[{"serverId":1,"address":"::ffff:192.0.2.1","interfaces":
            [{"query":true,"admin":false,"protocol":"UDP","port":2641}]}]}"#,
        );
        assert_eq!((site.serial, site.flags, site.servers.len()), (0xfffe, Site::FLAG_PRIMARY, 1));
        let other = parse(
            r#"{"ProtocolVersion":"2.10","SerialNumber":"65534","PrimarySite":true,"HashOption":0,
            "attributes":{"a":["1","2"]},"serverList":[{"ServerId":1,"Address":"::ffff:192.0.2.1",
            "InterfaceList":[{"Query":true,"Protocol":"udp","Port":2641}]}]}"#,
        );
        assert_eq!(site, other);
    }
}
