//! `tendot prefix`: create, list, show, update and transfer prefixes.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value as Json, json};

use super::transfer::{TransferTargetArguments, transfer_message};
use super::{
    ApiConnectionArguments, ApiSession, ListArguments, MetadataPolicyArgument, ResourceKind, flag_value,
    json_object,
};
use crate::terminal::escape_control;
use crate::{CliError, CommandStatus};

/// Prefixes, and what may be registered under them
///
/// Asks a running service, see `--server` and `--token`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  PREFIX=$(tendot prefix add --registrant $PRESS)
  tendot prefix add --registrant $PRESS 10.70007 --pattern '[a-z]+[.][0-9]+' --host example.org --quota 10000
  tendot prefix set 10.70007 --quota 20000 --clear pattern
  tendot prefix transfer 10.70007 --to $OTHER

Exit codes: 0 done, 1 there is no such prefix or it was refused (told on stderr), 2 it could not be carried out.")]
pub(crate) struct PrefixArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: PrefixCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PrefixCommand {
    /// Give a prefix to a registrant, and print it
    Add {
        /// The one that is wanted [default: the agency's next free one]
        #[arg(value_name = "PREFIX", value_parser = NonEmptyStringValueParser::new())]
        prefix: Option<String>,
        /// The id of who gets it
        #[arg(long, value_name = "ID")]
        registrant: String,
        /// Its names are only to try things out, and may be removed again
        #[arg(long)]
        test: bool,
        #[command(flatten)]
        policy: PolicyArguments,
    },
    /// Print prefixes
    List {
        /// Only those of this registrant
        #[arg(long, value_name = "ID")]
        registrant: Option<String>,
        /// Only those of this agency
        #[arg(long, value_name = "CODE")]
        agency: Option<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Print all about a prefix
    Show {
        /// The prefix
        #[arg(value_name = "PREFIX", value_parser = NonEmptyStringValueParser::new())]
        prefix: String,
    },
    /// Change what may be registered under a prefix; what is not given stays
    Set {
        /// The prefix
        #[arg(value_name = "PREFIX", value_parser = NonEmptyStringValueParser::new())]
        prefix: String,
        #[command(flatten)]
        policy: PolicyArguments,
        /// What is no longer asked for; may be repeated
        #[arg(long, value_name = "WHAT")]
        clear: Vec<PolicyField>,
    },
    /// Propose that another registrant gets a prefix and the names under it; print the id of the transfer
    Transfer {
        /// The prefix
        #[arg(value_name = "PREFIX", value_parser = NonEmptyStringValueParser::new())]
        prefix: String,
        #[command(flatten)]
        receiver: TransferTargetArguments,
    },
}

#[derive(Args, Clone, Debug)]
pub(crate) struct PolicyArguments {
    /// A regular expression that all of a new suffix has to match
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) pattern: Option<String>,
    /// A host that addresses may lead to, with all below it; may be repeated
    #[arg(long = "host", value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// How many names there may be
    #[arg(long, value_name = "N")]
    pub(crate) quota: Option<u64>,
    /// Whether names have to come with metadata, whatever the agency says
    #[arg(long, value_name = "WHEN")]
    pub(crate) metadata: Option<MetadataPolicyArgument>,
    /// What is done about names that look like others
    #[arg(long, value_name = "WHAT")]
    pub(crate) confusable: Option<ConfusableArgument>,
}

/// What is done about names that look like others.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ConfusableArgument {
    /// They are registered, with a warning
    Warn,
    /// They are not registered
    Refuse,
}

/// A part of what may be registered under a prefix.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PolicyField {
    /// Any suffix
    Pattern,
    /// Any host
    Hosts,
    /// Any number of names
    Quota,
    /// Metadata as the agency says
    Metadata,
    /// Names that look like others are noted
    Confusable,
}

pub(crate) fn run(arguments: &PrefixArguments) -> Result<CommandStatus, CliError> {
    let session = ApiSession::open(&arguments.registry)?;
    match &arguments.command {
        PrefixCommand::Add { prefix, registrant, test, policy } => {
            let policy = policy_fields(policy);
            let body = json_object([
                ("registrant", Some(registrant.as_str().into())),
                ("prefix", prefix.as_deref().map(Into::into)),
                ("test", test.then_some(true.into())),
                ("policy", Some(json_object(policy))),
            ]);
            session.create(&["prefixes"], &[], &body, "prefix", |created| {
                let text = |name: &str| escape_control(created[name].as_str().unwrap_or_default());
                format!("{} has the prefix {}", text("registrant"), text("prefix"))
            })
        }
        PrefixCommand::List { registrant, agency, list } => {
            let query = [("registrant", registrant.as_deref()), ("agency", agency.as_deref())];
            session.list(ResourceKind::Prefix, &["prefixes"], &query, list.limit)
        }
        PrefixCommand::Show { prefix } => session.show(ResourceKind::Prefix, &["prefixes", prefix]),
        PrefixCommand::Set { prefix, policy, clear } => {
            let path = ["prefixes", prefix];
            // The API replaces the whole policy; the revision detects a concurrent update.
            let (mut object, revision) = session.get_with_revision(&path)?;
            let mut changed = object["policy"].take();
            if let Some(changed) = changed.as_object_mut() {
                for part in clear {
                    changed.remove(json_name(*part));
                }
                let given = policy_fields(policy).into_iter();
                changed.extend(given.filter_map(|(name, value)| Some((name.to_owned(), value?))));
            }
            session.update(ResourceKind::Prefix, &path, &[], &json!({"policy": changed}), revision.as_deref())
        }
        PrefixCommand::Transfer { prefix, receiver } => {
            let body = json!({"prefix": prefix, "to": receiver.to, "force": receiver.force});
            session.create(&["transfers"], &[], &body, "id", transfer_message)
        }
    }
}

fn policy_fields(policy: &PolicyArguments) -> [(&'static str, Option<Json>); 5] {
    [
        ("pattern", policy.pattern.as_deref().map(Into::into)),
        ("hosts", (!policy.hosts.is_empty()).then(|| json!(policy.hosts))),
        ("quota", policy.quota.map(Into::into)),
        ("metadata", policy.metadata.as_ref().and_then(flag_value)),
        ("confusable", policy.confusable.as_ref().and_then(flag_value)),
    ]
}

const fn json_name(part: PolicyField) -> &'static str {
    match part {
        PolicyField::Pattern => "pattern",
        PolicyField::Hosts => "hosts",
        PolicyField::Quota => "quota",
        PolicyField::Metadata => "metadata",
        PolicyField::Confusable => "confusable",
    }
}
