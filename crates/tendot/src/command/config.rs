//! `tendot config`

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};

use serde::Serialize;
use serde_json::{Value as Json, json};
use tendot_server::http::Tls;

use crate::args::{ConfigArguments, ConfigCheckArguments, ConfigInitArguments, ConfigShowArguments};
use crate::config::{Configuration, Form, Origin, Problem, Said, Settings, example};
use crate::failure::{tell, tell_error, tell_warning};
use crate::output::Output;
use crate::{Answer, Failure};

pub(crate) fn run(arguments: &ConfigArguments) -> Result<Answer, Failure> {
    match arguments {
        ConfigArguments::Show(arguments) => show(arguments),
        ConfigArguments::Check(arguments) => check(arguments),
        ConfigArguments::Init(arguments) => init(arguments),
    }
}

#[derive(Serialize)]
struct Shown<'a> {
    key: &'a str,
    value: Json,
    origin: &'a str,
    place: Option<String>,
}

fn show(arguments: &ConfigShowArguments) -> Result<Answer, Failure> {
    let configuration = Configuration::gather(&arguments.configuration, &[]);
    let mut output = Output::new();
    for said in &configuration.said {
        if arguments.json {
            let place = (said.origin != Origin::Default).then(|| said.origin.to_string());
            output.json(&Shown {
                key: said.key.name,
                value: value(said),
                origin: said.origin.kind(),
                place,
            })?;
        } else {
            output.line(format_args!("{:<48} # {}", said.line(), said.origin))?;
        }
    }
    output.flush()?;
    match configuration.settings() {
        Ok(settings) => {
            settings.warnings().iter().for_each(|warning| tell_warning(warning));
            Ok(Answer::Yes)
        }
        Err(problems) => {
            problems.iter().for_each(|problem| tell_error(&problem.to_string()));
            Ok(Answer::No)
        }
    }
}

/// A value as JSON has it.
fn value(said: &Said) -> Json {
    let text = said.shown();
    match said.key.form {
        Form::Text => Json::from(text),
        Form::Bare => serde_json::from_str(&text).unwrap_or_else(|_| Json::from(text)),
        Form::List => text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect(),
    }
}

fn check(arguments: &ConfigCheckArguments) -> Result<Answer, Failure> {
    std::fs::metadata(&arguments.file)
        .map_err(|error| Failure::io(format!("`{}` can't be read", arguments.file.display()), &error))?;
    let checked = Configuration::from_file(Some(arguments.file.clone())).settings();
    let (problems, warnings) = match &checked {
        Ok(settings) => (check_certificate(settings).into_iter().collect(), settings.warnings()),
        Err(problems) => (problems.clone(), Vec::new()),
    };
    if arguments.json {
        let mut output = Output::new();
        for problem in &problems {
            let line = if let Origin::File { line, .. } = problem.origin { Some(line) } else { None };
            output.json(&json!({"severity": "error", "line": line, "message": problem.message}))?;
        }
        for warning in &warnings {
            output.json(&json!({"severity": "warning", "line": null, "message": warning}))?;
        }
        output.flush()?;
    }
    problems.iter().for_each(|problem| tell_error(&problem.to_string()));
    warnings.iter().for_each(|warning| tell_warning(warning));
    if problems.is_empty() {
        tell(format_args!("`{}` is good", arguments.file.display()));
        return Ok(Answer::Yes);
    }
    Ok(Answer::No)
}

fn check_certificate(settings: &Settings) -> Option<Problem> {
    let (Some(certificate), Some(key)) = (&settings.certificate, &settings.key) else { return None };
    let error = Tls::read(certificate, key).err()?;
    Some(Problem::new(Origin::Default, error.to_string()))
}

fn init(arguments: &ConfigInitArguments) -> Result<Answer, Failure> {
    let Some(path) = &arguments.file else {
        let mut output = Output::new();
        output.write(example().as_bytes())?;
        output.flush()?;
        return Ok(Answer::Yes);
    };
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    match file.and_then(|mut file| file.write_all(example().as_bytes())) {
        Ok(()) => {
            tell(format_args!("`{0}` is there; `tendot serve --config {0}` uses it", path.display()));
            Ok(Answer::Yes)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(Failure::new(format!("`{}` is there already", path.display()))
                .hint("`tendot config init` without a file prints the example"))
        }
        Err(error) => Err(Failure::io(format!("`{}` can't be written", path.display()), &error)),
    }
}
