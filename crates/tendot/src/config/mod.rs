//! Server settings, merged from defaults, a file, environment variables and flags; each knows its origin.
//!
//! `command.rs` is `tendot config`; `settings.rs` lists all settings, `value.rs` parses their types, `toml_file.rs` reads a
//! file, `origin.rs` has origins and errors, `redact.rs` hides passwords, `example.rs` writes the example file.

pub(crate) mod command;
mod example;
mod origin;
mod redact;
mod settings;
mod toml_file;
mod value;

use std::path::PathBuf;

pub(crate) use example::example_file;
pub(crate) use origin::{ConfigError, SettingOrigin, config_error};
pub(crate) use redact::redact_password;
pub(crate) use settings::{SETTINGS, ServerSettings, SettingSpec};
pub(crate) use value::{LogFormat, SettingValue, StoreSetting, TomlKind};

use crate::CliError;
use crate::cli::ConfigSourceArguments;

/// Setting as text, with its origin, before parsing.
#[derive(Clone, Debug)]
pub(crate) struct RawSetting {
    pub(crate) key: &'static SettingSpec,
    pub(crate) text: String,
    pub(crate) origin: SettingOrigin,
}

/// Settings merged from defaults, file, environment and flags, with the errors found.
#[derive(Debug)]
pub(crate) struct Configuration {
    pub(crate) settings: Vec<RawSetting>,
    pub(crate) errors: Vec<ConfigError>,
}

impl Configuration {
    /// Loads the file, then environment variables, then flags; later sources win.
    pub(crate) fn load(arguments: &ConfigSourceArguments, flags: &[(&'static str, &str, String)]) -> Self {
        let mut configuration = Self::from_file(arguments.config.clone().or_else(config_file_from_env));
        configuration.apply_env(std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        }));
        for (key, flag, text) in flags {
            configuration.apply(key, text.clone(), SettingOrigin::Flag((*flag).to_owned()));
        }
        for set in &arguments.set {
            let (name, text) = set.split_once('=').unwrap_or((set, ""));
            configuration.apply(name.trim(), text.trim().to_owned(), SettingOrigin::Flag("--set".to_owned()));
        }
        configuration
    }

    /// Loads defaults and the file, if there is one.
    pub(crate) fn from_file(path: Option<PathBuf>) -> Self {
        let settings = SETTINGS.iter().map(|key| RawSetting {
            key,
            text: key.default.to_owned(),
            origin: SettingOrigin::Default,
        });
        let mut configuration = Self { settings: settings.collect(), errors: Vec::new() };
        if let Some(path) = path {
            toml_file::load_file(&path, &mut configuration);
        }
        configuration
    }

    fn apply_env(&mut self, variables: impl Iterator<Item = (String, String)>) {
        for (name, text) in variables.filter(|(name, _)| origin::is_setting_variable(name)) {
            match SETTINGS.iter().find(|key| key.env_name() == name) {
                Some(key) => self.apply(key.name, text, SettingOrigin::Env(name)),
                None => self.errors.push(ConfigError::unknown_env(name)),
            }
        }
    }

    /// Applies one setting as text.
    fn apply(&mut self, name: &str, text: String, origin: SettingOrigin) {
        match self.settings.iter_mut().find(|setting| setting.key.name == name) {
            Some(setting) if setting.key.kind == TomlKind::Array => {
                match toml_file::parse_bracketed_list(name, &text) {
                    Ok(list) => (setting.text, setting.origin) = (list.unwrap_or(text), origin),
                    Err(why) => {
                        let value = redact_password(&text);
                        self.errors.push(ConfigError::invalid_value(name, &value, &why, origin));
                    }
                }
            }
            Some(setting) => (setting.text, setting.origin) = (text, origin),
            None => self.errors.push(ConfigError::unknown_setting(name, origin)),
        }
    }

    /// Parses and validates all settings; returns all errors, not only the first.
    pub(crate) fn parse(mut self) -> Result<ServerSettings, Vec<ConfigError>> {
        let settings = ServerSettings::parse(&self.settings, &mut self.errors);
        if let Some(settings) = &settings {
            settings.validate(&self.settings, &mut self.errors);
        }
        settings.filter(|_| self.errors.is_empty()).ok_or(self.errors)
    }
}

/// Path of the configuration file from `TENDOT_CONFIG`.
fn config_file_from_env() -> Option<PathBuf> {
    std::env::var_os(origin::CONFIG_FILE_ENV).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Loads and parses the settings; all errors become one `CliError`.
pub(crate) fn load_settings(
    arguments: &ConfigSourceArguments,
    flags: &[(&'static str, &str, String)],
) -> Result<ServerSettings, CliError> {
    Configuration::load(arguments, flags).parse().map_err(|errors| config_error(&errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<ServerSettings, Vec<String>> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.toml");
        std::fs::write(&path, text).unwrap();
        let text = |error: &ConfigError| error.to_string().replace(&path.display().to_string(), "t.toml");
        Configuration::from_file(Some(path.clone()))
            .parse()
            .map_err(|errors| errors.iter().map(text).collect())
    }

    #[test]
    fn example_file_equals_defaults() {
        let example = example_file();
        let lines: Vec<&str> = example.lines().map(|line| line.strip_prefix('#').unwrap_or(line)).collect();
        // A setting follows `#` directly; a description follows `# `.
        let uncommented: String =
            lines.iter().filter(|line| !line.starts_with(' ')).map(|line| format!("{line}\n")).collect();
        assert_eq!(uncommented.lines().filter(|line| line.contains('=')).count(), SETTINGS.len());
        let defaults = Configuration::from_file(None).parse().unwrap();
        assert_eq!(format!("{:?}", parse_text(&uncommented).unwrap()), format!("{defaults:?}"));
    }

    #[test]
    fn error_messages() {
        check(
            "reports.failure_retention_days = 4000",
            "t.toml:1: invalid value `4000` for `reports.failure_retention_days`: must be 0 to 3650 days; 0 disables it",
        );
        check("http.adress = \"x\"", "t.toml:1: unknown setting `http.adress`; did you mean `http.address`?");
        check(
            "\n[http]\naddress = \"x\"",
            "t.toml:3: invalid value `x` for `http.address`: expected an address such as `127.0.0.1:8080` or `[::]:8080`, or `off`",
        );
        check(
            "[http.limits]\nheader_timeout = 10",
            "t.toml:2: invalid value `10` for `http.limits.header_timeout`: missing unit; write `10s`",
        );
        check(
            "http.limits.max_header_bytes = \"64kg\"",
            "t.toml:1: invalid value `64kg` for `http.limits.max_header_bytes`: expected a size such as `64KiB` or `1MiB`",
        );
        check(
            "http.limits.max_connections = 0",
            "t.toml:1: invalid value `0` for `http.limits.max_connections`: must be at least 1",
        );
        check(
            "http.trust_loopback = \"maybe\"",
            "t.toml:1: invalid value `maybe` for `http.trust_loopback`: expected `true`, `false` or `auto`",
        );
        check(
            "http.trusted_proxies = [\"10.0.0.0/8\", \"x\"]",
            "t.toml:1: invalid value `10.0.0.0/8, x` for `http.trusted_proxies`: invalid network `x`; expected a network such as `10.0.0.0/8`",
        );
        check("http.address = [\"a\", \"b\"]", "t.toml:1: `http.address` expects a single value, not a list");
        check(
            "upstream = \"handle-system:/no/such\"",
            "t.toml:1: invalid value `handle-system:/no/such` for `upstream`: cannot read `/no/such`: No such file or directory",
        );
        check(
            "upstream = \"doi.org\"",
            "t.toml:1: invalid value `doi.org` for `upstream`: expected `https://HOST` or `http://HOST`; \
             expected a URL such as `https://doi.org`",
        );
        check(
            "upstream = \"https://me:secret@doi.org\"",
            "t.toml:1: invalid value `https://me:***@doi.org` for `upstream`: user name not",
        );
        check(
            "store = \"postgre://me:secret@host/db\"",
            "t.toml:1: invalid value `postgre://me:***@host/db` for `store`: expected `embedded:DIR`",
        );
        check(
            "upstream = \"https://doi.org\"\ncache.size = \"9MB\"",
            "t.toml:2: invalid value `9MB` for `cache.size`: expected a size such as",
        );
        check(
            "upstream_private_addresses = true",
            "`upstream_private_addresses` has no effect unless `upstream` is `handle-system`",
        );
        check("cache.size = \"64MiB\"", "t.toml:1: `cache.size` has no effect unless `upstream` is set");
        check(
            "native.admins = [\"300:0.NA/10.1\", \"x\"]",
            "t.toml:1: invalid value `300:0.NA/10.1, x` for `native.admins`: invalid identity `x`; expected an identity such as `300:0.NA/10.1000`",
        );
        check(
            "log.level = \"loud\"",
            "t.toml:1: invalid value `loud` for `log.level`: expected `error`, `warn`, `info`, `debug` or `trace`",
        );
        check("[nothing]", "t.toml:1: unknown setting `nothing`");
        check("a = ", "t.toml:1: invalid TOML: ");
        check("https.address = \"[::]:443\"", "`https.address` requires `https.certificate` and `https.key`");
        check("https.key = \"a\"", "t.toml:1: `https.key` has no effect unless `https.address` is set");
        let errors = parse_text("x = 1\nhttp.address = 5").unwrap_err();
        assert_eq!(errors.len(), 2, "{errors:?}");
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let errors = parse_text(text).unwrap_err();
        assert!(errors.iter().any(|error| error.starts_with(expected)), "{text}: {errors:?}");
    }

    /// A world-readable file with a password causes a warning.
    #[test]
    fn warns_about_world_readable_passwords() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.toml");
        let check = |store: &str, mode: u32, has_warning: bool| {
            std::fs::write(&path, format!("store = \"{store}\"")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let warnings = Configuration::from_file(Some(path.clone())).parse().unwrap().warnings();
            let expected = format!("`{}` contains a password and is world-readable", path.display());
            assert_eq!(
                warnings.iter().any(|warning| warning.starts_with(&expected)),
                has_warning,
                "{store}: {warnings:?}"
            );
            assert!(!warnings.concat().contains("secret"));
        };
        check("postgres://user:secret@host/db", 0o644, true);
        check("postgres://host/db?password=secret", 0o604, true);
        check("postgres://user:secret@host/db", 0o640, false);
        check("postgres://user@host/db", 0o644, false);
        check("embedded:", 0o644, false);
        let mut configuration = Configuration::from_file(None);
        configuration.apply(
            "store",
            "postgres://user:secret@host/db".into(),
            SettingOrigin::Flag("--store".into()),
        );
        assert_eq!(configuration.parse().unwrap().warnings(), [""; 0]);
    }

    #[test]
    fn parses_lists() {
        let check = |text: &str, expected: Result<&[&str], &str>| {
            let mut configuration = Configuration::from_file(None);
            configuration.apply("native.admins", text.into(), SettingOrigin::Flag("--set".into()));
            let parsed = configuration.parse().map_err(|errors| errors[0].to_string());
            match (parsed, expected) {
                (Ok(settings), Ok(expected)) => {
                    let found: Vec<String> = settings.admins.iter().map(ToString::to_string).collect();
                    assert_eq!(found, expected, "{text}");
                }
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{text}: {found}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        };
        check("", Ok(&[]));
        check("[]", Ok(&[]));
        check("300:0.NA/10.1", Ok(&["300:0.NA/10.1"]));
        check("300:0.NA/10.1, 0.NA/10.2", Ok(&["300:0.NA/10.1", "0:0.NA/10.2"]));
        check("[\"300:0.NA/10.1\"]", Ok(&["300:0.NA/10.1"]));
        check("[\"300:0.NA/10.1\", '301:10.1/x']", Ok(&["300:0.NA/10.1", "301:10.1/x"]));
        check("[300:0.NA/10.1]", Err("invalid list"));
        check("[\"300:0.NA/10.1\"", Err("invalid list"));
        check(
            "\"300:0.NA/10.1\"",
            Err("invalid identity `\"300:0.NA/10.1\"`; expected an identity such as `300:0.NA/10.1000`"),
        );
        check("x:0.NA/10.1", Err("invalid identity `x:0.NA/10.1`"));
        check("-1:0.NA/10.1", Err("invalid identity `-1:0.NA/10.1`"));
        check("[\"x\"]", Err("invalid identity `x`"));
    }

    #[test]
    fn later_sources_win() {
        let mut configuration = Configuration::from_file(None);
        let variables = [
            ("TENDOT_HTTP_ADDRESS", "127.0.0.1:1"),
            ("TENDOT_HTTP_LIMITS_IDLE_TIMEOUT", "5s"),
            ("TENDOT_TOKEN", "secret"),
            ("TENDOT_TOKEN_FILE", "operator.token"),
            ("TENDOT_TEST_SEED", "7"),
            ("TENDOT_SERVICE_HOST", "10.0.0.1"),
            ("TENDOT_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ("OTHER", "x"),
        ];
        configuration.apply_env(variables.map(|(name, text)| (name.into(), text.into())).into_iter());
        configuration.apply("http.address", "off".into(), SettingOrigin::Flag("--http".into()));
        let settings = configuration.parse().unwrap();
        assert_eq!(settings.http_address, None);
        assert_eq!(settings.idle_timeout.as_secs(), 5);

        let mut configuration = Configuration::from_file(None);
        configuration.apply_env([("TENDOT_HTTP_ADRESS".to_owned(), "x".to_owned())].into_iter());
        let errors = configuration.parse().unwrap_err();
        assert_eq!(
            errors[0].to_string(),
            "unknown environment variable `TENDOT_HTTP_ADRESS`; did you mean `TENDOT_HTTP_ADDRESS`?"
        );
    }
}
