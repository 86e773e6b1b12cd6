//! `tendot completions`

use clap::CommandFactory as _;

use crate::args::{Arguments, CompletionsArguments};
use crate::output::Output;
use crate::{Answer, Failure};

pub(crate) fn run(arguments: &CompletionsArguments) -> Result<Answer, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "tendot", &mut script);
    let mut output = Output::new();
    output.write(&script)?;
    output.flush()?;
    Ok(Answer::Yes)
}
