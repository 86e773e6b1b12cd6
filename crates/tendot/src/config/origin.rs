//! Origins of settings, and configuration errors.

use std::fmt;
use std::path::PathBuf;

use super::SETTINGS;

use crate::CliError;

/// Environment variable with the path of the configuration file.
pub(super) const CONFIG_FILE_ENV: &str = "TENDOT_CONFIG";

/// `TENDOT_` variables that are not settings of the server.
const NON_SETTING_ENVS: [&str; 4] = [CONFIG_FILE_ENV, "TENDOT_TOKEN", "TENDOT_TOKEN_FILE", "TENDOT_SERVER"];

/// Where the value of a setting came from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum SettingOrigin {
    Default,
    File { path: PathBuf, line: usize },
    Env(String),
    Flag(String),
}

impl SettingOrigin {
    /// Stable identifier for JSON output.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File { .. } => "file",
            Self::Env(_) => "env",
            Self::Flag(_) => "flag",
        }
    }
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File { path, line } => write!(formatter, "{}:{line}", path.display()),
            Self::Env(name) | Self::Flag(name) => formatter.write_str(name),
        }
    }
}

/// Invalid or unknown setting, with its origin.
#[derive(Clone, Debug)]
pub(crate) struct ConfigError {
    pub(crate) origin: SettingOrigin,
    pub(crate) message: String,
}

impl ConfigError {
    pub(crate) fn new(origin: SettingOrigin, message: impl Into<String>) -> Self {
        Self { origin, message: message.into() }
    }

    pub(super) fn unknown_setting(name: &str, origin: SettingOrigin) -> Self {
        let suggestion = suggest(name, SETTINGS.iter().map(|key| key.name.to_owned()));
        Self::new(origin, format!("unknown setting `{}`{suggestion}", name.escape_debug()))
    }

    pub(super) fn unknown_env(name: String) -> Self {
        let suggestion = suggest(&name, SETTINGS.iter().map(super::SettingSpec::env_name));
        let message = format!("unknown environment variable `{name}`{suggestion}");
        Self::new(SettingOrigin::Default, message)
    }

    pub(super) fn invalid_value(name: &str, value: &str, why: &str, origin: SettingOrigin) -> Self {
        Self::new(origin, format!("invalid value `{}` for `{name}`: {why}", value.escape_debug()))
    }
}

/// All errors as one `CliError`.
pub(crate) fn config_error(errors: &[ConfigError]) -> CliError {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    CliError::new(lines.join("\n       "))
        .with_hint("`tendot config init` lists all settings; `tendot config show` prints the effective ones")
}

/// Suggestion of the most similar known name, as the end of a message; empty if none is similar.
fn suggest(name: &str, candidates: impl Iterator<Item = String>) -> String {
    let scored = candidates.map(|known| (strsim::normalized_damerau_levenshtein(name, &known), known));
    let best = scored.max_by(|(a, _), (b, _)| a.total_cmp(b)).filter(|(similarity, _)| *similarity > 0.6);
    best.map(|(_, known)| format!("; did you mean `{known}`?")).unwrap_or_default()
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            SettingOrigin::Default => formatter.write_str(&self.message),
            origin => write!(formatter, "{origin}: {}", self.message),
        }
    }
}

/// True for variables that are settings. Tests use `TENDOT_TEST_`; Kubernetes sets `TENDOT_SERVICE_…` and `TENDOT_PORT…`.
pub(super) fn is_setting_variable(variable: &str) -> bool {
    let Some(rest) = variable.strip_prefix("TENDOT_") else { return false };
    !NON_SETTING_ENVS.contains(&variable)
        && !rest.starts_with("TEST_")
        && !rest.starts_with("SERVICE_")
        && rest != "PORT"
        && !rest.starts_with("PORT_")
}
