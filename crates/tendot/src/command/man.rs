//! `tendot man`

use std::path::Path;

use clap::CommandFactory as _;
use clap_mangen::Man;

use crate::args::{Cli, ManArguments};
use crate::output::StdoutWriter;
use crate::{CliError, CommandStatus};

pub(crate) fn run(arguments: &ManArguments) -> Result<CommandStatus, CliError> {
    let mut command = Cli::command();
    command.build();
    if let Some(folder) = &arguments.dir {
        write_man_pages(&command, folder)?;
        return Ok(CommandStatus::Yes);
    }
    let mut output = StdoutWriter::new();
    output.write_bytes(&render_man_page(command)?)?;
    output.flush()?;
    Ok(CommandStatus::Yes)
}

/// One page for the command and one for each command below it, named as `man` looks for them.
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
