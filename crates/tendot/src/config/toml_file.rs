//! TOML configuration file, with line numbers for errors.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::{ConfigError, Configuration, SETTINGS, SettingOrigin, TomlKind};
use toml::de::{DeTable, DeValue};

/// Maximum size of a configuration file.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

pub(super) fn load_file(path: &Path, configuration: &mut Configuration) {
    let mut text = String::new();
    let result = File::open(path).and_then(|file| file.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text));
    if let Err(error) = result {
        let message = format!("cannot read `{}`: {error}", path.display());
        return configuration.errors.push(ConfigError::new(SettingOrigin::Default, message));
    }
    if text.len() as u64 > MAX_CONFIG_BYTES {
        let message = format!("config file `{}` is larger than 1MiB", path.display());
        return configuration.errors.push(ConfigError::new(SettingOrigin::Default, message));
    }
    let file = TomlFile { path, text: &text };
    match DeTable::parse(&text) {
        Ok(table) => file.apply_table("", table.get_ref(), configuration),
        Err(error) => {
            let origin = file.origin(error.span().map_or(0, |span| span.start));
            let message = format!("invalid TOML: {}", error.message());
            configuration.errors.push(ConfigError::new(origin, message));
        }
    }
}

/// TOML source, for line numbers in errors.
struct TomlFile<'a> {
    path: &'a Path,
    text: &'a str,
}

impl TomlFile<'_> {
    fn origin(&self, at: usize) -> SettingOrigin {
        let before = self.text.as_bytes().iter().take(at);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        SettingOrigin::File { path: self.path.into(), line }
    }

    /// Applies a table recursively; the TOML parser limits the nesting depth.
    fn apply_table(&self, above: &str, table: &DeTable<'_>, configuration: &mut Configuration) {
        for (key, value) in table {
            let name = if above.is_empty() {
                key.get_ref().to_string()
            } else {
                format!("{above}.{}", key.get_ref())
            };
            let origin = self.origin(key.span().start);
            match value.get_ref() {
                DeValue::Table(table) => {
                    let is_known = SETTINGS.iter().any(|key| key.name.starts_with(&format!("{name}.")));
                    if !is_known && table.is_empty() {
                        configuration.errors.push(ConfigError::unknown_setting(&name, origin));
                    }
                    self.apply_table(&name, table, configuration);
                }
                value => match value_text(&name, value) {
                    Some(text) => configuration.apply(&name, text, origin),
                    None => {
                        let message = format!("`{name}` expects a single value, not a list");
                        configuration.errors.push(ConfigError::new(origin, message));
                    }
                },
            }
        }
    }
}

/// Converts a TOML array written in a flag or variable (`["a", "b"]`) to `a, b`; `None` if the text has no brackets.
pub(super) fn parse_bracketed_list(name: &str, text: &str) -> Result<Option<String>, String> {
    if !text.starts_with('[') {
        return Ok(None);
    }
    let document = format!("list = {text}");
    let table = DeTable::parse(&document).map_err(|error| format!("invalid list: {}", error.message()))?;
    let list = table.get_ref().get("list").and_then(|list| value_text(name, list.get_ref()));
    list.map(Some).ok_or_else(|| "expected a list of strings".to_owned())
}

/// Text of a TOML value; `None` for an array where no array is allowed.
fn value_text(name: &str, value: &DeValue<'_>) -> Option<String> {
    Some(match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) if SETTINGS.iter().any(|key| key.name == name && key.kind != TomlKind::Array) => {
            return None;
        }
        DeValue::Array(items) => {
            let items: Option<Vec<String>> =
                items.iter().map(|item| value_text(name, item.get_ref())).collect();
            items?.join(", ")
        }
        DeValue::Table(_) => return None,
    })
}
