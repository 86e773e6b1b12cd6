//! `tendot completions` and `tendot man`, generated from the clap definition.

use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::Cli;
use crate::terminal::StdoutWriter;
use crate::{CliError, CommandStatus};

/// Prints the script that completes this command's arguments in a shell
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot completions bash > /etc/bash_completion.d/tendot
  tendot completions zsh > ~/.zfunc/_tendot")]
pub(crate) struct CompletionsArguments {
    /// The shell
    pub(crate) shell: Shell,
}

pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<CommandStatus, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "tendot", &mut script);
    let mut output = StdoutWriter::new();
    output.write_bytes(&script)?;
    output.flush()?;
    Ok(CommandStatus::Success)
}

/// Prints the manual page, or writes one for each command
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot man | man -l -
  tendot man --dir /usr/local/share/man/man1")]
pub(crate) struct ManArguments {
    /// Write the pages of all commands into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

pub(crate) fn man(arguments: &ManArguments) -> Result<CommandStatus, CliError> {
    let mut command = Cli::command();
    command.build();
    if let Some(folder) = &arguments.dir {
        write_man_pages(&command, folder)?;
        return Ok(CommandStatus::Success);
    }
    let mut output = StdoutWriter::new();
    output.write_bytes(&render_man_page(command)?)?;
    output.flush()?;
    Ok(CommandStatus::Success)
}

/// Writes one page per command and subcommand, such as `tendot-config-show.1`.
fn write_man_pages(command: &clap::Command, folder: &Path) -> Result<(), CliError> {
    let path = folder.join(format!("{}.1", command.get_name()));
    std::fs::write(&path, render_man_page(command.clone())?)
        .map_err(|error| CliError::io(format!("`{}` can't be written", path.display()), &error))?;
    let below = command.get_subcommands().filter(|below| below.get_name() != "help");
    for below in below {
        let name = format!("{}-{}", command.get_name(), below.get_name());
        write_man_pages(&below.clone().name(name), folder)?;
    }
    Ok(())
}

fn render_man_page(command: clap::Command) -> Result<Vec<u8>, CliError> {
    let mut page = Vec::new();
    Man::new(command)
        .render(&mut page)
        .map_err(|error| CliError::io("the manual page can't be made", &error))?;
    Ok(page)
}
