//! `tendot`: DOI name parser, Handle System server, resolver and registry in one command.
//!
//! [`cli`](cli::Cli) parses the command line, `main` calls the `run` function of one command, and its
//! [`CommandStatus`] or [`CliError`] becomes the exit code: 0 success, 1 negative
//! result, 2 error. Data goes to stdout through [`StdoutWriter`](terminal::StdoutWriter), everything else to stderr.
//!
//! A command's arguments (clap), its `run` and the code that only it uses are in one place:
//!
//! | folder | commands | works on |
//! |---|---|---|
//! | [`names`] | `name`, `same`, `extract` | text (`tendot-names`) |
//! | [`resolve`] | `resolve`, `explain` | one record, over the network or in a store |
//! | [`store`] | `import`, `export`, `migrate`, `backup`, `restore`, `verify`, `audit` | a store, without a server (`tendot-store`) |
//! | [`config`] | `config` | settings of the server |
//! | [`serve`] | `serve` | starts the servers of `tendot-server` |
//! | [`site`] | `site` | key and site record of the server |
//! | [`registry`] | `agency`, `registrant`, `prefix`, `doi`, `transfer`, `token`, `report` | the HTTP API of a running server (`tendot-client`) |
//! | [`handle`] | `handle` | records at a server, over HTTP or the native protocol (`tendot-client`) |
//! | [`key`] | `key` | key files and certificates, trust anchors |
//! | [`debug`] | `debug` | native messages and values (`tendot-proto`) |
//! | [`shell`] | `completions`, `man` | the definition of the command line |
//! | [`mod@reference`] | `reference` (hidden) | writes `docs/reference/` from definitions in the code |
//!
//! To follow one command: `tendot name 10.1000/182` is [`names::name::run`], which reads arguments or lines
//! ([`LineReader`](line_reader::LineReader)), parses each with `tendot_names::Parser` and prints it as text or JSON.

mod atomic_file;
mod cli;
mod config;
mod csv;
mod debug;
mod error;
mod handle;
mod key;
mod line_reader;
mod names;
mod ordered_pool;
mod reference;
mod registry;
mod resolve;
mod runtime;
mod serve;
mod shell;
mod site;
mod store;
mod terminal;

use std::process::ExitCode;

use crate::cli::{Cli, CliCommand};
use crate::error::{CliError, CommandStatus};

fn main() -> ExitCode {
    let result = match Cli::from_args().command {
        CliCommand::Name(arguments) => names::name::run(arguments),
        CliCommand::Same(arguments) => names::same::run(&arguments),
        CliCommand::Extract(arguments) => names::extract::run(&arguments),
        CliCommand::Resolve(arguments) => resolve::run(&arguments),
        CliCommand::Explain(arguments) => resolve::explain::run(&arguments),
        CliCommand::Serve(arguments) => serve::run(&arguments),
        CliCommand::Config(arguments) => config::command::run(&arguments),
        CliCommand::Site(arguments) => site::run(&arguments),
        CliCommand::Handle(arguments) => handle::run(&arguments),
        CliCommand::Key(arguments) => key::run(&arguments),
        CliCommand::Agency(arguments) => registry::agency::run(&arguments),
        CliCommand::Registrant(arguments) => registry::registrant::run(&arguments),
        CliCommand::Prefix(arguments) => registry::prefix::run(&arguments),
        CliCommand::Doi(arguments) => registry::doi::run(&arguments),
        CliCommand::Transfer(arguments) => registry::transfer::run(&arguments),
        CliCommand::Token(arguments) => registry::token::run(&arguments),
        CliCommand::Session(arguments) => registry::session::run(&arguments),
        CliCommand::Report(arguments) => registry::report::run(&arguments),
        CliCommand::Import(arguments) => store::import::run(&arguments),
        CliCommand::Export(arguments) => store::export::run(&arguments),
        CliCommand::Backup(arguments) => store::backup::run(&arguments),
        CliCommand::Restore(arguments) => store::restore::run(&arguments),
        CliCommand::Verify(arguments) => store::verify::run(&arguments),
        CliCommand::Audit(arguments) => store::audit::run(&arguments),
        CliCommand::Migrate(arguments) => store::migrate::run(&arguments),
        CliCommand::Debug(arguments) => debug::run(&arguments),
        CliCommand::Completions(arguments) => shell::completions(&arguments),
        CliCommand::Man(arguments) => shell::man(&arguments),
        CliCommand::Reference(arguments) => reference::run(&arguments),
    };
    match result {
        Ok(CommandStatus::Success) => ExitCode::SUCCESS,
        Ok(CommandStatus::Negative) => ExitCode::from(1),
        Ok(CommandStatus::Partial) => ExitCode::from(2),
        // The reader of a pipe, such as `head`, closed it: not an error.
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            error.print();
            ExitCode::from(if error.is_negative() { 1 } else { 2 })
        }
    }
}
