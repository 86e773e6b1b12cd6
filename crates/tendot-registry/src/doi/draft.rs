//! What is sent to register or change a name.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tendot_proto::Value;

use super::Stage;
use super::once::Once;
use crate::Refusal;
use crate::metadata::Kernel;

/// What is sent to register or change a name, as JSON.
///
/// ```
/// use tendot_registry::doi::Draft;
///
/// let draft = Draft::from_json(br#"{"name": "10.70000/a", "url": "https://example.org/"}"#).unwrap();
/// assert_eq!(draft.name.as_deref(), Some("10.70000/a"));
/// let refusal = Draft::from_json(br#"{"nmae": "10.70000/a"}"#).unwrap_err();
/// assert_eq!(refusal.code, "malformed");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// The name; in a change, it stands elsewhere.
    pub name: Option<Box<str>>,
    /// The prefix under which a name is to be made.
    pub prefix: Option<Box<str>>,
    /// Where it leads.
    pub url: Option<Box<str>>,
    /// Further values.
    pub values: Option<Vec<Value<'static>>>,
    /// Kernel metadata, checked, as JSON; `Some(None)` if there is to be none.
    pub metadata: Option<Option<Box<RawValue>>>,
    /// How far it is to come.
    pub state: Option<Stage>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form<'a> {
    #[serde(default)]
    name: Option<Box<str>>,
    #[serde(default)]
    prefix: Option<Box<str>>,
    #[serde(default)]
    url: Option<Box<str>>,
    #[serde(default, borrow)]
    values: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "given")]
    metadata: Option<&'a RawValue>,
    #[serde(default)]
    state: Option<Stage>,
}

/// What is given as null is given.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

impl Draft {
    /// Reads it; what is wrong is told with its place.
    pub fn from_json(json: &[u8]) -> Result<Self, Refusal> {
        // A list would be taken for the members in their order.
        if json.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
            return Err(Refusal::malformed("a list, where an object was expected"));
        }
        let form: Form<'_> =
            serde_json::from_slice(json).map_err(|error| Refusal::malformed(error.to_string()))?;
        let values = form.values.map(|raw| {
            serde_json::from_str::<Once>(raw.get())
                .and_then(|Once| serde_json::from_str(raw.get()))
                .map_err(|error| Refusal::malformed(format!("the values: {error}")).at("/values"))
        });
        let metadata = form.metadata.map(|raw| match raw.get() {
            "null" => Ok(None),
            json => metadata(json).map(Some),
        });
        Ok(Self {
            name: form.name,
            prefix: form.prefix,
            url: form.url,
            values: values.transpose()?,
            metadata: metadata.transpose()?,
            state: form.state,
        })
    }
}

/// Metadata as it is kept, if it is right.
fn metadata(json: &str) -> Result<Box<RawValue>, Refusal> {
    let kernel = Kernel::from_json(json.as_bytes()).map_err(|mut faults| {
        for fault in &mut faults {
            fault.pointer.insert_str(0, "/metadata");
        }
        let detail = faults.first().map_or_else(String::new, |fault| fault.message.clone());
        let pointer = faults.first().map(|fault| fault.pointer.clone()).unwrap_or_default();
        Refusal { faults, ..Refusal::invalid("bad-metadata", &pointer, detail) }
    })?;
    RawValue::from_string(kernel.to_json()).map_err(|error| Refusal::malformed(error.to_string()))
}
