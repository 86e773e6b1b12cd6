//! Command line: the top-level parser and argument groups that several commands share.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::builder::Styles;
use clap::{Args, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::config::command::ConfigCommand;
use crate::debug::DebugArguments;
use crate::handle::HandleArguments;
use crate::key::KeyArguments;
use crate::names::extract::ExtractArguments;
use crate::names::name::NameArguments;
use crate::names::same::SameArguments;
use crate::reference::ReferenceArguments;
use crate::registry::agency::AgencyArguments;
use crate::registry::doi::DoiArguments;
use crate::registry::prefix::PrefixArguments;
use crate::registry::registrant::RegistrantArguments;
use crate::registry::report::ReportArguments;
use crate::registry::session::SessionArguments;
use crate::registry::token::TokenArguments;
use crate::registry::transfer::TransferArguments;
use crate::resolve::ResolveArguments;
use crate::resolve::explain::ExplainArguments;
use crate::serve::ServeArguments;
use crate::shell::{CompletionsArguments, ManArguments};
use crate::site::SiteCommand;
use crate::store::audit::AuditArguments;
use crate::store::backup::BackupArguments;
use crate::store::export::ExportArguments;
use crate::store::import::ImportArguments;
use crate::store::migrate::MigrateArguments;
use crate::store::restore::RestoreArguments;
use crate::store::verify::VerifyArguments;

/// DOI names, Handle System server, resolver and registry
#[derive(Debug, Parser)]
#[command(
    name = "tendot",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "Run `tendot COMMAND --help` for examples.\n\nExit codes: 0 success, 1 negative result, 2 error"
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
    Resolve(ResolveArguments),
    Explain(ExplainArguments),
    Serve(ServeArguments),
    #[command(subcommand)]
    Config(ConfigCommand),
    #[command(subcommand)]
    Site(SiteCommand),
    Handle(HandleArguments),
    Key(KeyArguments),
    Agency(AgencyArguments),
    Registrant(RegistrantArguments),
    Prefix(PrefixArguments),
    Doi(DoiArguments),
    Transfer(TransferArguments),
    Token(TokenArguments),
    Session(SessionArguments),
    Report(ReportArguments),
    Import(ImportArguments),
    Export(ExportArguments),
    Backup(BackupArguments),
    Restore(RestoreArguments),
    Verify(VerifyArguments),
    Audit(AuditArguments),
    Migrate(MigrateArguments),
    Debug(DebugArguments),
    Completions(CompletionsArguments),
    Man(ManArguments),
    #[command(hide = true)]
    Reference(ReferenceArguments),
}

/// Commands by topic, for the top-level help and the reference page.
pub(crate) const COMMAND_GROUPS: [(&str, &[&str]); 7] = [
    ("Names", &["name", "same", "extract"]),
    ("Resolution", &["resolve", "explain"]),
    ("Server", &["serve", "config", "site"]),
    ("Handles", &["handle", "key"]),
    ("Registry", &["agency", "registrant", "prefix", "doi", "transfer", "token", "session", "report"]),
    ("Store", &["import", "export", "backup", "restore", "verify", "audit", "migrate"]),
    ("Tools", &["debug", "completions", "man", "help"]),
];

impl Cli {
    /// Parses the arguments of this process; exits on a usage error, and after `--help`.
    pub(crate) fn from_args() -> Self {
        let matches = Self::grouped_command().get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// Definition of the command line, with the commands grouped in the top-level help.
    pub(crate) fn grouped_command() -> Command {
        let mut command = Self::command();
        command.build();
        let styles = Styles::styled();
        let (header, literal) = (styles.get_header(), styles.get_literal());
        let mut groups = String::new();
        for (group, names) in COMMAND_GROUPS {
            let _ = writeln!(groups, "\n{header}{group}:{header:#}");
            for subcommand in names.iter().filter_map(|name| command.find_subcommand(name)) {
                let (name, about) = (subcommand.get_name(), subcommand.get_about());
                let about = about.map(ToString::to_string).unwrap_or_default();
                let _ = writeln!(groups, "  {literal}{name:<11}{literal:#}  {about}");
            }
        }
        let template = format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{groups}\n{header}Options:{header:#}\n{{options}}{{after-help}}"
        );
        Self::command().help_template(template)
    }
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ConfigSourceArguments {
    /// Configuration file, see `tendot config init` [env: TENDOT_CONFIG]
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    pub(crate) config: Option<PathBuf>,

    /// Override a setting, such as `http.limits.idle_timeout=30s`; repeatable
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Configuration")]
    pub(crate) set: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_is_well_formed() {
        Cli::grouped_command().debug_assert();
    }

    #[test]
    fn each_command_is_in_one_group() {
        let mut command = Cli::command();
        command.build();
        let names: Vec<_> = command
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(Command::get_name)
            .collect();
        let grouped: Vec<_> = COMMAND_GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(grouped, names);
    }
}
