//! `tendot man`

use std::path::Path;

use clap::CommandFactory as _;
use clap_mangen::Man;

use crate::args::{Arguments, ManArguments};
use crate::output::Output;
use crate::{Answer, Failure};

pub(crate) fn run(arguments: &ManArguments) -> Result<Answer, Failure> {
    let mut command = Arguments::command();
    command.build();
    if let Some(folder) = &arguments.dir {
        write_all(&command, folder)?;
        return Ok(Answer::Yes);
    }
    let mut output = Output::new();
    output.write(&page(command)?)?;
    output.flush()?;
    Ok(Answer::Yes)
}

/// One page for the command and one for each command below it, named as `man` looks for them.
fn write_all(command: &clap::Command, folder: &Path) -> Result<(), Failure> {
    let path = folder.join(format!("{}.1", command.get_name()));
    std::fs::write(&path, page(command.clone())?)
        .map_err(|error| Failure::io(format!("`{}` can't be written", path.display()), &error))?;
    let below = command.get_subcommands().filter(|below| below.get_name() != "help");
    for below in below {
        let name = format!("{}-{}", command.get_name(), below.get_name());
        write_all(&below.clone().name(name), folder)?;
    }
    Ok(())
}

fn page(command: clap::Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    Man::new(command)
        .render(&mut page)
        .map_err(|error| Failure::io("the manual page can't be made", &error))?;
    Ok(page)
}
