//! `tendot config`

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};

use serde::Serialize;
use serde_json::{Value as Json, json};
use tendot_server::http::ServerCertificate;

use crate::args::{ConfigArguments, ConfigCheckArguments, ConfigInitArguments, ConfigShowArguments};
use crate::config::{
    ConfigError, Configuration, RawSetting, ServerSettings, SettingOrigin, TomlKind, example_file,
};
use crate::failure::{eprint_error, eprint_line, eprint_warning};
use crate::output::StdoutWriter;
use crate::{CliError, CommandStatus};

pub(crate) fn run(arguments: &ConfigArguments) -> Result<CommandStatus, CliError> {
    match arguments {
        ConfigArguments::Show(arguments) => show(arguments),
        ConfigArguments::Check(arguments) => check(arguments),
        ConfigArguments::Init(arguments) => init(arguments),
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
    let configuration = Configuration::gather(&arguments.configuration, &[]);
    let mut output = StdoutWriter::new();
    for said in &configuration.said {
        if arguments.json {
            let place = (said.origin != SettingOrigin::Default).then(|| said.origin.to_string());
            output.write_json(&SettingJson {
                key: said.key.name,
                value: setting_json(said),
                origin: said.origin.kind(),
                place,
            })?;
        } else {
            output.write_line(format_args!("{:<48} # {}", said.to_toml_line(), said.origin))?;
        }
    }
    output.flush()?;
    match configuration.parse() {
        Ok(settings) => {
            settings.warnings().iter().for_each(|warning| eprint_warning(warning));
            Ok(CommandStatus::Yes)
        }
        Err(problems) => {
            problems.iter().for_each(|problem| eprint_error(&problem.to_string()));
            Ok(CommandStatus::No)
        }
    }
}

/// A value as JSON has it.
fn setting_json(said: &RawSetting) -> Json {
    let text = said.redacted();
    match said.key.form {
        TomlKind::Text => Json::from(text),
        TomlKind::Bare => serde_json::from_str(&text).unwrap_or_else(|_| Json::from(text)),
        TomlKind::List => text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect(),
    }
}

fn check(arguments: &ConfigCheckArguments) -> Result<CommandStatus, CliError> {
    std::fs::metadata(&arguments.file)
        .map_err(|error| CliError::io(format!("`{}` can't be read", arguments.file.display()), &error))?;
    let checked = Configuration::from_file(Some(arguments.file.clone())).parse();
    let (problems, warnings) = match &checked {
        Ok(settings) => (check_certificate(settings).into_iter().collect(), settings.warnings()),
        Err(problems) => (problems.clone(), Vec::new()),
    };
    if arguments.json {
        let mut output = StdoutWriter::new();
        for problem in &problems {
            let line = if let SettingOrigin::File { line, .. } = problem.origin { Some(line) } else { None };
            output.write_json(&json!({"severity": "error", "line": line, "message": problem.message}))?;
        }
        for warning in &warnings {
            output.write_json(&json!({"severity": "warning", "line": null, "message": warning}))?;
        }
        output.flush()?;
    }
    problems.iter().for_each(|problem| eprint_error(&problem.to_string()));
    warnings.iter().for_each(|warning| eprint_warning(warning));
    if problems.is_empty() {
        eprint_line(format_args!("`{}` is good", arguments.file.display()));
        return Ok(CommandStatus::Yes);
    }
    Ok(CommandStatus::No)
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
        return Ok(CommandStatus::Yes);
    };
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    match file.and_then(|mut file| file.write_all(example_file().as_bytes())) {
        Ok(()) => {
            eprint_line(format_args!("`{0}` is there; `tendot serve --config {0}` uses it", path.display()));
            Ok(CommandStatus::Yes)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(CliError::new(format!("`{}` is there already", path.display()))
                .with_hint("`tendot config init` without a file prints the example"))
        }
        Err(error) => Err(CliError::io(format!("`{}` can't be written", path.display()), &error)),
    }
}
