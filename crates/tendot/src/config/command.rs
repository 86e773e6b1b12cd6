//! `tendot config show|check|init`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Value as Json, json};
use tendot_server::http::ServerCertificate;

use super::{ConfigError, Configuration, RawSetting, ServerSettings, SettingOrigin, TomlKind, example_file};
use crate::cli::ConfigSourceArguments;
use crate::terminal::{StdoutWriter, eprint_error, eprint_line, eprint_warning};
use crate::{CliError, CommandStatus};

/// Show, check or create the configuration
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    Show(ConfigShowArguments),
    Check(ConfigCheckArguments),
    Init(ConfigInitArguments),
}

/// Print the effective settings and where each one comes from
///
/// A flag overrides an environment variable, which overrides the configuration file. Passwords are redacted.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot config show --config /etc/tendot.toml
  TENDOT_HTTP_ADDRESS=off tendot config show --json | jq 'select(.origin != \"default\")'

Exit codes: 0 success, 1 some settings are invalid, 2 error")]
pub(crate) struct ConfigShowArguments {
    #[command(flatten)]
    pub(crate) configuration: ConfigSourceArguments,

    /// Print JSON, one object per setting: key, value, origin (default, file, env, flag), location
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// Validate a configuration file
///
/// Reports all errors with their lines. Certificate and key files that it names are read, too.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot config check /etc/tendot.toml && systemctl restart tendot

Exit codes: 0 success, 1 the file is invalid, 2 error")]
pub(crate) struct ConfigCheckArguments {
    /// Configuration file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Print JSON, one object per error or warning: severity (error, warning), line, message
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// Write a commented configuration file with all defaults
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot config init tendot.toml
  tendot config init | less

Exit codes: 0 success, 2 error")]
pub(crate) struct ConfigInitArguments {
    /// Output file, which must not exist yet [default: standard output]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

pub(crate) fn run(arguments: &ConfigCommand) -> Result<CommandStatus, CliError> {
    match arguments {
        ConfigCommand::Show(arguments) => show(arguments),
        ConfigCommand::Check(arguments) => check(arguments),
        ConfigCommand::Init(arguments) => init(arguments),
    }
}

#[derive(Serialize)]
struct SettingJson<'a> {
    key: &'a str,
    value: Json,
    origin: &'a str,
    location: Option<String>,
}

fn show(arguments: &ConfigShowArguments) -> Result<CommandStatus, CliError> {
    let configuration = Configuration::load(&arguments.configuration, &[]);
    let mut output = StdoutWriter::new();
    for setting in &configuration.settings {
        if arguments.json {
            let location = (setting.origin != SettingOrigin::Default).then(|| setting.origin.to_string());
            output.write_json(&SettingJson {
                key: setting.key.name,
                value: setting_json(setting),
                origin: setting.origin.kind(),
                location,
            })?;
        } else {
            output.write_line(format_args!("{:<52} # {}", setting.to_toml_line(), setting.origin))?;
        }
    }
    output.flush()?;
    match configuration.parse() {
        Ok(settings) => {
            settings.warnings().iter().for_each(|warning| eprint_warning(warning));
            Ok(CommandStatus::Success)
        }
        Err(errors) => {
            errors.iter().for_each(|error| eprint_error(&error.to_string()));
            Ok(CommandStatus::Negative)
        }
    }
}

/// JSON value of a setting, by its TOML kind.
fn setting_json(setting: &RawSetting) -> Json {
    let text = setting.redacted();
    match setting.key.kind {
        TomlKind::String => Json::from(text),
        TomlKind::Literal => serde_json::from_str(&text).unwrap_or_else(|_| Json::from(text)),
        TomlKind::Array => text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect(),
    }
}

fn check(arguments: &ConfigCheckArguments) -> Result<CommandStatus, CliError> {
    std::fs::metadata(&arguments.file)
        .map_err(|error| CliError::io(format!("cannot read `{}`", arguments.file.display()), &error))?;
    let checked = Configuration::from_file(Some(arguments.file.clone())).parse();
    let (errors, warnings) = match &checked {
        Ok(settings) => (check_certificate(settings).into_iter().collect(), settings.warnings()),
        Err(errors) => (errors.clone(), Vec::new()),
    };
    if arguments.json {
        let mut output = StdoutWriter::new();
        for error in &errors {
            let line = if let SettingOrigin::File { line, .. } = error.origin { Some(line) } else { None };
            output.write_json(&json!({"severity": "error", "line": line, "message": error.message}))?;
        }
        for warning in &warnings {
            output.write_json(&json!({"severity": "warning", "line": null, "message": warning}))?;
        }
        output.flush()?;
    }
    errors.iter().for_each(|error| eprint_error(&error.to_string()));
    warnings.iter().for_each(|warning| eprint_warning(warning));
    if errors.is_empty() {
        eprint_line(format_args!("`{}` is valid", arguments.file.display()));
        return Ok(CommandStatus::Success);
    }
    Ok(CommandStatus::Negative)
}

fn check_certificate(settings: &ServerSettings) -> Option<ConfigError> {
    let (Some(certificate), Some(key)) = (&settings.certificate, &settings.key) else { return None };
    let error = ServerCertificate::load(certificate, key).err()?;
    Some(ConfigError::new(SettingOrigin::Default, error.to_string()))
}

fn init(arguments: &ConfigInitArguments) -> Result<CommandStatus, CliError> {
    let Some(path) = &arguments.file else {
        let mut output = StdoutWriter::new();
        output.write_bytes(example_file().as_bytes())?;
        output.flush()?;
        return Ok(CommandStatus::Success);
    };
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    match file.and_then(|mut file| file.write_all(example_file().as_bytes())) {
        Ok(()) => {
            eprint_line(format_args!("wrote `{0}`; start with `tendot serve --config {0}`", path.display()));
            Ok(CommandStatus::Success)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(CliError::new(format!("`{}` already exists", path.display()))
                .with_hint("run `tendot config init` without a file to print it"))
        }
        Err(error) => Err(CliError::io(format!("cannot write `{}`", path.display()), &error)),
    }
}
