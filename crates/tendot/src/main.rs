//! The `tendot` command.

mod args;
mod command;
mod config;
mod database;
mod extract;
mod failure;
mod import;
mod lines;
mod log;
mod moving;
mod output;
mod pool;
mod registry;
mod replacement;
mod site;
mod store;
mod systemd;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command};
use crate::failure::CliError;

/// Result of a command that ran to its end, as an exit code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum CommandStatus {
    /// Yes, or done: exit code 0.
    Yes,
    /// A negative answer, told on stderr: exit code 1.
    No,
    /// Part of the work could not be carried out, told on stderr: exit code 2.
    Incomplete,
}

fn main() -> ExitCode {
    let arguments = Cli::parse();
    let result = match arguments.command {
        Command::Name(arguments) => command::name::run(arguments),
        Command::Same(arguments) => command::same::run(&arguments),
        Command::Extract(arguments) => command::extract::run(&arguments),
        Command::Serve(arguments) => command::serve::run(&arguments),
        Command::Resolve(arguments) => command::resolve::run(&arguments),
        Command::Config(arguments) => command::config::run(&arguments),
        Command::Site(arguments) => command::site::run(&arguments),
        Command::Agency(arguments) => command::agency::run(&arguments),
        Command::Registrant(arguments) => command::registrant::run(&arguments),
        Command::Prefix(arguments) => command::prefix::run(&arguments),
        Command::Doi(arguments) => command::doi::run(&arguments),
        Command::Token(arguments) => command::token::run(&arguments),
        Command::Import(arguments) => command::import::run(&arguments),
        Command::Export(arguments) => command::export::run(&arguments),
        Command::Migrate(arguments) => command::migrate::run(&arguments),
        Command::Backup(arguments) => command::backup::run(&arguments),
        Command::Restore(arguments) => command::restore::run(&arguments),
        Command::Verify(arguments) => command::verify::run(&arguments),
        Command::Doctor(arguments) => command::doctor::run(&arguments),
        Command::Debug(arguments) => command::debug::run(&arguments),
        Command::Completions(arguments) => command::completions::run(&arguments),
        Command::Man(arguments) => command::man::run(&arguments),
    };
    match result {
        Ok(CommandStatus::Yes) => ExitCode::SUCCESS,
        Ok(CommandStatus::No) => ExitCode::from(1),
        Ok(CommandStatus::Incomplete) => ExitCode::from(2),
        // The reader has seen enough, as with `| head`.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::from(if failure.is_negative() { 1 } else { 2 })
        }
    }
}
