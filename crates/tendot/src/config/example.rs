//! Settings as TOML text: the commented example file, and lines of `config show`.

use std::fmt::Write as _;

use super::{RawSetting, SETTINGS, SettingSpec, TomlKind, redact_password};

/// Example file with the default and description of every setting, all commented out.
pub(crate) fn example_file() -> String {
    let mut text = String::from(
        "# Tendot configuration. Every line shows the default; remove the leading `#` to change it.\n\
         # Environment variables (`TENDOT_HTTP_ADDRESS`) and flags (`--set http.address=…`) override this file.\n",
    );
    let mut section = "";
    for key in SETTINGS {
        let (above, name) = key.name.rsplit_once('.').unwrap_or(("", key.name));
        if above != section {
            let _ = write!(text, "\n[{above}]");
            section = above;
            text.push('\n');
        }
        let _ = writeln!(text, "\n# {}\n#{name} = {}", key.description, key.default_literal());
    }
    text
}

/// TOML literal of a value.
fn toml_literal(kind: TomlKind, text: &str) -> String {
    match kind {
        TomlKind::Literal => text.to_owned(),
        TomlKind::String => toml_string(text),
        TomlKind::Array => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(toml_string);
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
    }
}

fn toml_string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

impl SettingSpec {
    /// Default as a TOML literal.
    pub(crate) fn default_literal(&self) -> String {
        toml_literal(self.kind, self.default)
    }
}

impl RawSetting {
    /// TOML line `key = value`, with passwords redacted.
    pub(crate) fn to_toml_line(&self) -> String {
        format!("{} = {}", self.key.name, toml_literal(self.key.kind, &self.redacted()))
    }

    /// Text of the setting, with passwords redacted.
    pub(crate) fn redacted(&self) -> String {
        redact_password(&self.text)
    }
}
