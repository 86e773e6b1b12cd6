//! Command line: the top-level parser and argument groups that several commands share.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::command::ConfigCommand;
use crate::debug::DebugArguments;
use crate::names::extract::ExtractArguments;
use crate::names::name::NameArguments;
use crate::names::same::SameArguments;
use crate::registry::agency::AgencyArguments;
use crate::registry::doi::DoiArguments;
use crate::registry::prefix::PrefixArguments;
use crate::registry::registrant::RegistrantArguments;
use crate::registry::token::TokenArguments;
use crate::resolve::ResolveArguments;
use crate::resolve::explain::ExplainArguments;
use crate::serve::ServeArguments;
use crate::shell::{CompletionsArguments, ManArguments};
use crate::site::SiteCommand;
use crate::store::backup::BackupArguments;
use crate::store::export::ExportArguments;
use crate::store::import::ImportArguments;
use crate::store::migrate::MigrateArguments;
use crate::store::restore::RestoreArguments;
use crate::store::verify::VerifyArguments;

/// The DOI system as one program: names, directory, resolver and registry.
#[derive(Debug, Parser)]
#[command(
    name = "tendot",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "Exit codes: 0 yes or done, 1 a negative answer, 2 the command could not be carried out."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    Name(NameArguments),
    Same(SameArguments),
    Extract(ExtractArguments),
    Serve(ServeArguments),
    Resolve(ResolveArguments),
    #[command(subcommand)]
    Config(ConfigCommand),
    #[command(subcommand)]
    Site(SiteCommand),
    Agency(AgencyArguments),
    Registrant(RegistrantArguments),
    Prefix(PrefixArguments),
    Doi(DoiArguments),
    Token(TokenArguments),
    Import(ImportArguments),
    Export(ExportArguments),
    Migrate(MigrateArguments),
    Backup(BackupArguments),
    Restore(RestoreArguments),
    Verify(VerifyArguments),
    Doctor(ExplainArguments),
    Debug(DebugArguments),
    Completions(CompletionsArguments),
    Man(ManArguments),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ConfigSourceArguments {
    /// A file of settings, see `tendot config init` [default: TENDOT_CONFIG, else none]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Any setting of that file, such as `http.limits.idle_time=30s`
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
