//! `tendot completions` and `tendot man`, generated from the clap definition.

use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::Cli;
use crate::terminal::StdoutWriter;
use crate::{CliError, CommandStatus};

/// Print a shell completion script
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot completions bash > /etc/bash_completion.d/tendot
  tendot completions zsh > ~/.zfunc/_tendot

Exit codes: 0 success, 2 error")]
pub(crate) struct CompletionsArguments {
    /// Shell
    pub(crate) shell: Shell,
}

pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<CommandStatus, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::grouped_command(), "tendot", &mut script);
    let mut output = StdoutWriter::new();
    output.write_bytes(&script)?;
    output.flush()?;
    Ok(CommandStatus::Success)
}

/// Print or write man pages
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot man | man -l -
  tendot man --dir /usr/local/share/man/man1

Exit codes: 0 success, 2 error")]
pub(crate) struct ManArguments {
    /// Write the man pages of all commands to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

pub(crate) fn man(arguments: &ManArguments) -> Result<CommandStatus, CliError> {
    let mut command = Cli::grouped_command();
    command.build();
    if let Some(dir) = &arguments.dir {
        write_man_pages(&command, dir)?;
        return Ok(CommandStatus::Success);
    }
    let mut output = StdoutWriter::new();
    output.write_bytes(&render_man_page(command)?)?;
    output.flush()?;
    Ok(CommandStatus::Success)
}

/// Writes one page per command and subcommand, such as `tendot-config-show.1`.
fn write_man_pages(command: &clap::Command, dir: &Path) -> Result<(), CliError> {
    let path = dir.join(format!("{}.1", command.get_name()));
    std::fs::write(&path, render_man_page(command.clone())?)
        .map_err(|error| CliError::io(format!("cannot write `{}`", path.display()), &error))?;
    let has_page = |command: &&clap::Command| command.get_name() != "help" && !command.is_hide_set();
    for subcommand in command.get_subcommands().filter(has_page) {
        let name = format!("{}-{}", command.get_name(), subcommand.get_name());
        write_man_pages(&subcommand.clone().name(name), dir)?;
    }
    Ok(())
}

fn render_man_page(command: clap::Command) -> Result<Vec<u8>, CliError> {
    let mut page = Vec::new();
    Man::new(command)
        .render(&mut page)
        .map_err(|error| CliError::io("cannot render the man page", &error))?;
    Ok(page)
}
