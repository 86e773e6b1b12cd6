//! Request to register or update a DOI: the JSON body.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_path_to_error::Segment;
use tendot_names::{ErrorKind, InputForm, Parser, SyntaxRules};
use tendot_proto::HandleValue;

use crate::RegistryError;
use crate::metadata::{ExpectedDoi, KernelMetadata};
use crate::registration::RegistrationState;
use crate::validate::UniqueKeys;

/// Request to register or update a DOI, as JSON.
///
/// ```
/// use tendot_registry::registration::RegistrationRequest;
///
/// let request = RegistrationRequest::from_json(br#"{"name": "10.70000/a", "url": "https://example.org/"}"#).unwrap();
/// assert_eq!(request.name.as_deref(), Some("10.70000/a"));
/// let request = RegistrationRequest::from_json(br#"{"name": "https://doi.org/10.70000/a%23b"}"#).unwrap();
/// assert_eq!(request.name.as_deref(), Some("10.70000/a#b"));
/// let error = RegistrationRequest::from_json(br#"{"nmae": "10.70000/a"}"#).unwrap_err();
/// assert_eq!(error.code, "malformed");
/// ```
#[derive(Clone, Debug, Default)]
pub struct RegistrationRequest {
    /// Name to register, decoded; an update has it in the path.
    pub name: Option<Box<str>>,
    /// Form in which the name was written, if it was not bare.
    pub input_form: Option<InputForm>,
    /// Prefix under which a name is minted.
    pub prefix: Option<Box<str>>,
    /// URL, stored at index 1.
    pub url: Option<Box<str>>,
    /// Further values.
    pub values: Option<Vec<HandleValue<'static>>>,
    /// Valid kernel metadata as JSON; `Some(None)` to remove it.
    pub metadata: Option<Option<Box<RawValue>>>,
    /// Requested state.
    pub state: Option<RegistrationState>,
}

/// JSON form of a registration request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct RegistrationJson<'a> {
    #[serde(default)]
    name: Option<Box<str>>,
    #[serde(default)]
    prefix: Option<Box<str>>,
    #[serde(default)]
    url: Option<Box<str>>,
    #[serde(default, borrow)]
    values: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "null_as_present")]
    metadata: Option<&'a RawValue>,
    #[serde(default)]
    state: Option<RegistrationState>,
}

/// Distinguishes `null` from an absent member.
fn null_as_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// The `name` of a request whose other fields may be invalid.
#[derive(Deserialize)]
struct NameOnly {
    name: Box<str>,
}

impl RegistrationRequest {
    /// Reads the name of a request that may be invalid otherwise.
    pub fn peek_name(json: &[u8]) -> Option<Box<str>> {
        let is_object = json.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        let named = is_object.then(|| serde_json::from_slice::<NameOnly>(json).ok()).flatten()?;
        Some(named.name)
    }

    /// Parses a request; errors have a JSON pointer. Metadata that names another DOI than `name` is rejected. Without `name`
    /// the DOI is minted, and the metadata must not name any.
    pub fn from_json(json: &[u8]) -> Result<Self, RegistryError> {
        Self::parse(json, None)
    }

    /// Parses a request for a DOI that is not part of it, but of the path; see [`RegistrationRequest::from_json`].
    pub fn from_json_for(json: &[u8], name: &str) -> Result<Self, RegistryError> {
        Self::parse(json, Some(name))
    }

    fn parse(json: &[u8], name: Option<&str>) -> Result<Self, RegistryError> {
        // Serde would read an array as the members in order.
        if json.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
            return Err(RegistryError::malformed("expected an object, found an array"));
        }
        let form: RegistrationJson<'_> =
            serde_json::from_slice(json).map_err(|error| malformed_at(json, &error))?;
        let values = form.values.map(|raw| {
            serde_json::from_str::<UniqueKeys>(raw.get())
                .and_then(|UniqueKeys| serde_json::from_str(raw.get()))
                .map_err(|error| {
                    let reason = without_input(&error);
                    RegistryError::malformed(format!("invalid `values`: {reason}")).with_pointer("/values")
                })
        });
        let (own_name, input_form) = form.name.map(parse_name).unzip();
        let metadata = form.metadata.map(|raw| match raw.get() {
            "null" => Ok(None),
            json => {
                let name = own_name.as_deref().or(name);
                parse_metadata(json, name.map_or(ExpectedDoi::Minted, ExpectedDoi::Name)).map(Some)
            }
        });
        Ok(Self {
            name: own_name,
            input_form: input_form.flatten(),
            prefix: form.prefix,
            url: form.url,
            values: values.transpose()?,
            metadata: metadata.transpose()?,
            state: form.state,
        })
    }
}

/// Decodes a name in any written form (`doi:`, `urn:doi:`, proxy URL and others), and returns the form unless it is bare. A
/// name that cannot be parsed stays as it is, for the error.
fn parse_name(text: Box<str>) -> (Box<str>, Option<InputForm>) {
    let parser = Parser::strict();
    let parsed = match parser.parse(&text) {
        // The settings of the registry decide on other directory codes.
        Err(error) if error.kind() == ErrorKind::BadDirectoryIndicator => {
            parser.rules(SyntaxRules::Minimal2002).parse(&text)
        }
        parsed => parsed,
    };
    let decoded = parsed.ok().and_then(|parsed| {
        let form = Some(parsed.input_form()).filter(|form| *form != InputForm::Bare)?;
        Some((Box::<str>::from(parsed.doi()?.as_str()), form))
    });
    match decoded {
        Some((name, form)) => (name, Some(form)),
        None => (text, None),
    }
}

/// Adds the JSON pointer of the faulty member. Parses again, so that valid requests do not pay for it.
fn malformed_at(json: &[u8], error: &serde_json::Error) -> RegistryError {
    let rejection = RegistryError::malformed(without_input(error));
    let mut reader = serde_json::Deserializer::from_slice(json);
    let Err(error) = serde_path_to_error::deserialize::<_, RegistrationJson<'_>>(&mut reader) else {
        return rejection;
    };
    match error.path().iter().next() {
        Some(Segment::Map { key }) if error.inner().is_data() => {
            rejection.with_pointer(format!("/{}", key.replace('~', "~0").replace('/', "~1")))
        }
        _ => rejection,
    }
}

/// JSON error message without quoted input, which may be secret and would be stored in the batch journal.
fn without_input(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let message = match message.split_once(", found ") {
        Some((expected, found)) => {
            let position = found.rfind(" at line ").and_then(|at| found.get(at..));
            format!("{expected}{}", position.unwrap_or_default())
        }
        None => message,
    };
    let (mut out, mut is_string, mut is_escaped) = (String::with_capacity(message.len()), false, false);
    for character in message.chars() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_string => is_escaped = true,
            '"' => {
                out.push_str(if is_string { "\"" } else { "\"…" });
                is_string = !is_string;
            }
            _ if is_string => {}
            _ => out.push(character),
        }
    }
    out
}

/// Parses and normalizes metadata: an object, or a string with kernel XML. It must not name another DOI than expected.
fn parse_metadata(json: &str, expected: ExpectedDoi<'_>) -> Result<Box<RawValue>, RegistryError> {
    let kernel = if json.starts_with('"') {
        let xml: Cow<'_, str> = serde_json::from_str(json)
            .map_err(|error| RegistryError::malformed(error.to_string()).with_pointer("/metadata"))?;
        // The faults have XML paths.
        KernelMetadata::parse_xml(&xml, expected)
            .map_err(|faults| RegistryError::invalid_metadata(faults).with_pointer("/metadata"))?
    } else {
        KernelMetadata::parse_json(json.as_bytes(), expected).map_err(|mut faults| {
            for fault in &mut faults {
                fault.pointer.insert_str(0, "/metadata");
            }
            RegistryError::invalid_metadata(faults)
        })?
    };
    RawValue::from_string(kernel.to_json()).map_err(|error| RegistryError::malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_pointers() {
        let check = |json: &str, pointer: Option<&str>, name: Option<&str>| {
            let rejection = RegistrationRequest::from_json(json.as_bytes()).unwrap_err();
            assert_eq!((rejection.code, rejection.pointer.as_deref()), ("malformed", pointer), "{json}");
            assert!(!rejection.detail.contains("struct"), "{}", rejection.detail);
            assert_eq!(RegistrationRequest::peek_name(json.as_bytes()).as_deref(), name, "{json}");
        };
        check(r#"{"name": 7}"#, Some("/name"), None);
        check(r#"{"name": "10.1/a", "url": 7}"#, Some("/url"), Some("10.1/a"));
        check(r#"{"name": "10.1/a", "state": "x"}"#, Some("/state"), Some("10.1/a"));
        check(r#"{"name": "10.1/a", "a/b": 1}"#, Some("/a~1b"), Some("10.1/a"));
        check(r#"{"name": "10.1/a", "values": 7}"#, Some("/values"), Some("10.1/a"));
        check(r#"{"name": "10.1/a", "#, None, None);
        check(r#"{"name": "a", "name": "b"}"#, None, None);
        check("7", None, None);
        check(r#"["10.1/a"]"#, None, None);
    }

    /// Messages do not quote values, which may be secrets.
    #[test]
    fn audit_f1_messages_quote_no_values() {
        for json in [
            r#"{"name": "10.1/a", "values": [{"index": "the secret", "type": "HS_SECKEY", "data": "x"}]}"#,
            r#"{"name": "10.1/a", "values": [{"index": 300, "type": "HS_SECKEY", "data": "x", "ttl": "the secret\""}]}"#,
            r#"{"name": "10.1/a", "values": [{"index": 300, "type": "HS_SECKEY", "data": ["the secret"]}]}"#,
            r#"{"name": "10.1/a", "values": [{"index": 300, "type": "HS_SECKEY", "data": {"format": "vlist", "value": "the secret"}}]}"#,
            r#"{"name": "10.1/a", "values": [{"index": 300, "type": "HS_SECKEY", "data": {"format": "hex", "value": "the secret"}}]}"#,
            r#"{"name": "10.1/a", "values": [{"index": 300, "type": "HS_SECKEY", "data": {"format": "base64", "value": "the secret"}}]}"#,
            r#"{"name": "10.1/a", "values": [{"index": 300, "type": "HS_SECKEY", "data": 7654321}]}"#,
            r#"{"name": "10.1/a", "values": "the secret, \", expected"}"#,
        ] {
            let error = RegistrationRequest::from_json(json.as_bytes()).unwrap_err();
            assert!(
                !error.detail.contains("the secret") && !error.detail.contains("7654321"),
                "{}",
                error.detail
            );
        }
    }

    /// Every written form is decoded; a bare name stays as it is.
    #[test]
    fn written_forms() {
        let check = |written: &str, name: &str, form: Option<&str>| {
            let json = serde_json::json!({"name": written}).to_string();
            let request = RegistrationRequest::from_json(json.as_bytes()).unwrap();
            let found = (request.name.as_deref(), request.input_form.map(InputForm::as_str));
            assert_eq!(found, (Some(name), form), "{written}");
        };
        check("10.1/a%23b", "10.1/a%23b", None);
        check("doi:10.1/a%23b", "10.1/a#b", Some("doi"));
        check("DOI:10.1/a", "10.1/a", Some("doi"));
        check("urn:doi:10.1/a%23b", "10.1/a#b", Some("urn"));
        check("https://doi.org/10.1/a%2523b", "10.1/a%23b", Some("proxy-url"));
        check("http://dx.doi.org/10.1/a", "10.1/a", Some("proxy-url"));
        check("info:doi/10.1/a", "10.1/a", Some("info"));
        check("doi:20.500.12345/a", "20.500.12345/a", Some("doi"));
        check("20.500.12345/a", "20.500.12345/a", None);
        check("https://doi.org/10.1/a%zz", "https://doi.org/10.1/a%zz", None);
        check("https://doi.org/10/abc", "https://doi.org/10/abc", None);
        check(" 10.1/a", " 10.1/a", None);
        check("", "", None);
    }

    /// Metadata of another DOI is rejected. The DOI of a document cannot be a minted one.
    #[test]
    fn metadata_of_another_doi() {
        let kernel = include_str!("../../tests/fixtures/metadata/place.xml");
        let stated = |kernel: &KernelMetadata| {
            let mut json: serde_json::Value = serde_json::from_str(&kernel.to_json()).unwrap();
            json["referentDoiName"] = "10.1/a".into();
            json
        };
        let metadata = stated(&KernelMetadata::from_xml(kernel).unwrap());
        let check = |member: &str, value: &str, path: Option<&str>, expected: Option<&str>| {
            let json = serde_json::json!({member: value, "metadata": metadata}).to_string();
            let request = match path {
                Some(path) => RegistrationRequest::from_json_for(json.as_bytes(), path),
                None => RegistrationRequest::from_json(json.as_bytes()),
            };
            let fault = request.err().map(|error| error.faults[0].code.as_str());
            assert_eq!(fault, expected, "{json} {path:?}");
        };
        check("name", "10.1/A", None, None);
        check("name", "10.1/b", None, Some("name-mismatch"));
        check("url", "https://a/", Some("10.1/a"), None);
        check("url", "https://a/", Some("10.1/b"), Some("name-mismatch"));
        check("prefix", "10.1", None, Some("name-mismatch"));
        let without_name = KernelMetadata::from_xml(kernel).unwrap().to_json();
        let json = format!(r#"{{"prefix": "10.1", "metadata": {without_name}}}"#);
        assert!(RegistrationRequest::from_json(json.as_bytes()).is_ok());
    }

    /// D2: no document type, no entities, nothing fetched.
    #[test]
    fn attack_d2_xml() {
        let request = |xml: &str| {
            let json = serde_json::json!({"name": "10.70000/A{b}%_<c>", "metadata": xml}).to_string();
            RegistrationRequest::from_json(json.as_bytes())
        };
        let kernel = include_str!("../../tests/fixtures/metadata/place.xml");
        let stored = request(kernel).unwrap().metadata.unwrap().unwrap();
        assert_eq!(stored.get(), KernelMetadata::from_xml(kernel).unwrap().to_json());
        let bomb =
            "<!DOCTYPE k [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><kernelMetadata>&b;</kernelMetadata>";
        for (xml, code) in [(bomb, "dtd-not-allowed"), ("not XML", "invalid-xml"), ("", "invalid-xml")] {
            let rejection = request(xml).unwrap_err();
            assert_eq!(
                (rejection.code, rejection.pointer.as_deref()),
                ("invalid-metadata", Some("/metadata"))
            );
            assert_eq!(rejection.faults[0].code.as_str(), code, "{xml}");
        }
    }
}
