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

/// Shows, checks and writes settings
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    Show(ConfigShowArguments),
    Check(ConfigCheckArguments),
    Init(ConfigInitArguments),
}

/// Shows the settings that hold, and where each comes from
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot config show --config /etc/tendot.toml
  TENDOT_HTTP_ADDRESS=off tendot config show --json | jq 'select(.origin != \"default\")'

Exit codes: 0 they are good, 1 they are not (told on stderr).")]
pub(crate) struct ConfigShowArguments {
    #[command(flatten)]
    pub(crate) configuration: ConfigSourceArguments,

    /// Print a JSON object a setting: key, value, origin (default, file, variable, flag), place
    #[arg(long)]
    pub(crate) json: bool,
}

/// Says whether a file of settings is good, and all that is wrong with it
///
/// The files of certificates that it names are read, too.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot config check /etc/tendot.toml && systemctl restart tendot

Exit codes: 0 it is good, 1 it is not (told on stderr, with the line), 2 it could not be read.")]
pub(crate) struct ConfigCheckArguments {
    /// The file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Print a JSON object for each thing to be told: severity (error, warning), line, message
    #[arg(long)]
    pub(crate) json: bool,
}

/// Writes a file that has every setting, its default, and what it is about
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot config init tendot.toml

Exit codes: 0 done, 2 the file could not be written, or is there already.")]
pub(crate) struct ConfigInitArguments {
    /// The file [default: standard output]
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
    place: Option<String>,
}

fn show(arguments: &ConfigShowArguments) -> Result<CommandStatus, CliError> {
    let configuration = Configuration::load(&arguments.configuration, &[]);
    let mut output = StdoutWriter::new();
    for setting in &configuration.settings {
        if arguments.json {
            let place = (setting.origin != SettingOrigin::Default).then(|| setting.origin.to_string());
            output.write_json(&SettingJson {
                key: setting.key.name,
                value: setting_json(setting),
                origin: setting.origin.kind(),
                place,
            })?;
        } else {
            output.write_line(format_args!("{:<48} # {}", setting.to_toml_line(), setting.origin))?;
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
        .map_err(|error| CliError::io(format!("`{}` can't be read", arguments.file.display()), &error))?;
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
        eprint_line(format_args!("`{}` is good", arguments.file.display()));
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
            eprint_line(format_args!("`{0}` is there; `tendot serve --config {0}` uses it", path.display()));
            Ok(CommandStatus::Success)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(CliError::new(format!("`{}` is there already", path.display()))
                .with_hint("`tendot config init` without a file prints the example"))
        }
        Err(error) => Err(CliError::io(format!("`{}` can't be written", path.display()), &error)),
    }
}
