//! `tendot report`: reports on a prefix.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};

use super::{ApiConnectionArguments, ApiSession, ListArguments, ResourceKind};
use crate::{CliError, CommandStatus};

/// Report on a prefix: resolved, unresolved and failed names, invalid links, confusable names
///
/// For the registrant of the prefix, its agency and the operator. Uses the HTTP API of a running server; see Connection options.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  tendot report 10.70000
  tendot report 10.70000 failed-resolutions --limit 20
  tendot report 10.70000 invalid-links --json

Exit codes: 0 success, 1 not found or refused, 2 error")]
pub(crate) struct ReportArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    /// Prefix, such as 10.70000
    #[arg(value_name = "PREFIX", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) prefix: String,

    /// Kind of report
    #[arg(value_name = "REPORT", default_value = "summary")]
    pub(crate) report: ReportArgument,

    #[command(flatten)]
    pub(crate) list: ListArguments,
}

/// Kind of report.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum ReportArgument {
    /// numbers of names and findings
    Summary,
    /// resolved names with count, first and last day
    Resolved,
    /// registered names that were never resolved
    NeverResolved,
    /// requested names that do not exist, with count, first and last day
    FailedResolutions,
    /// links that a registration today would reject
    InvalidLinks,
    /// names that look like others
    ConfusableNames,
}

pub(crate) fn run(arguments: &ReportArguments) -> Result<CommandStatus, CliError> {
    let session = ApiSession::open(&arguments.registry)?;
    let prefix = &*arguments.prefix;
    let (kind, path) = match arguments.report {
        ReportArgument::Summary => {
            if arguments.list.limit.is_some() {
                return Err(CliError::new("`--limit` does not apply to a summary"));
            }
            return session.show(ResourceKind::ReportSummary, &["reports", prefix]);
        }
        ReportArgument::Resolved => (ResourceKind::ResolvedName, "resolved"),
        ReportArgument::NeverResolved => (ResourceKind::NeverResolvedName, "never-resolved"),
        ReportArgument::FailedResolutions => (ResourceKind::FailedResolution, "failed-resolutions"),
        ReportArgument::InvalidLinks => (ResourceKind::InvalidLink, "invalid-links"),
        ReportArgument::ConfusableNames => (ResourceKind::ConfusableName, "confusable-names"),
    };
    session.list_lines(kind, &["reports", prefix, path], arguments.list.limit)
}
