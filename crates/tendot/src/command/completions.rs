//! `tendot completions`

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionsArguments};
use crate::output::StdoutWriter;
use crate::{CliError, CommandStatus};

pub(crate) fn run(arguments: &CompletionsArguments) -> Result<CommandStatus, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "tendot", &mut script);
    let mut output = StdoutWriter::new();
    output.write_bytes(&script)?;
    output.flush()?;
    Ok(CommandStatus::Yes)
}
