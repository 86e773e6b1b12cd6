//! `tendot prefix`: create, list, show and update prefixes.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value as Json, json};

use super::{
    ApiConnectionArguments, ApiSession, ListArguments, MetadataPolicyArgument, ResourceKind, flag_value,
    json_object,
};
use crate::terminal::escape_control;
use crate::{CliError, CommandStatus};

/// Manage prefixes and their policies
///
/// Uses the HTTP API of a running server; see Connection options.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  PREFIX=$(tendot prefix create --registrant $PRESS)
  tendot prefix create --registrant $PRESS 10.70007 --pattern '[a-z]+[.][0-9]+' --host example.org --quota 10000
  tendot prefix update 10.70007 --quota 20000 --unset pattern

Exit codes: 0 success, 1 not found or refused, 2 error")]
pub(crate) struct PrefixArguments {
    #[command(flatten)]
    pub(crate) registry: ApiConnectionArguments,

    #[command(subcommand)]
    pub(crate) command: PrefixCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PrefixCommand {
    /// Allocate a prefix to a registrant and print it
    Create {
        /// Requested prefix [default: the agency's next free one]
        #[arg(value_name = "PREFIX", value_parser = NonEmptyStringValueParser::new())]
        prefix: Option<String>,
        /// Registrant id
        #[arg(long, value_name = "ID")]
        registrant: String,
        /// Test prefix: its DOI names may be deleted
        #[arg(long)]
        test: bool,
        #[command(flatten)]
        policy: PolicyArguments,
    },
    /// List prefixes
    List {
        /// Only prefixes of this registrant
        #[arg(long, value_name = "ID")]
        registrant: Option<String>,
        /// Only prefixes of this agency
        #[arg(long, value_name = "CODE")]
        agency: Option<String>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Show a prefix
    Show {
        /// Prefix
        #[arg(value_name = "PREFIX", value_parser = NonEmptyStringValueParser::new())]
        prefix: String,
    },
    /// Update the policy of a prefix; omitted fields stay unchanged
    Update {
        /// Prefix
        #[arg(value_name = "PREFIX", value_parser = NonEmptyStringValueParser::new())]
        prefix: String,
        #[command(flatten)]
        policy: PolicyArguments,
        /// Remove a policy field; repeatable
        #[arg(long, value_name = "FIELD")]
        unset: Vec<PolicyField>,
    },
}

#[derive(Args, Clone, Debug)]
pub(crate) struct PolicyArguments {
    /// Regular expression that a new suffix must match completely
    #[arg(long, value_name = "REGEX")]
    pub(crate) pattern: Option<String>,
    /// Host that URLs may use, including subdomains; repeatable
    #[arg(long = "host", value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// Maximum number of DOI names
    #[arg(long, value_name = "N")]
    pub(crate) quota: Option<u64>,
    /// Metadata policy, instead of that of the agency
    #[arg(long, value_name = "POLICY")]
    pub(crate) metadata: Option<MetadataPolicyArgument>,
    /// What to do with names that look like existing ones
    #[arg(long, value_name = "ACTION")]
    pub(crate) confusable: Option<ConfusableArgument>,
    /// What to do with metadata whose title, creators, date and types equal those of another name of the registrant
    #[arg(long, value_name = "ACTION")]
    pub(crate) duplicates: Option<DuplicatesArgument>,
    /// Syntax rules for new names
    #[arg(long, value_name = "RULES")]
    pub(crate) rules: Option<NameRulesArgument>,
}

/// Syntax rules for new names.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum NameRulesArgument {
    /// suffixes that start with one character and a slash are reserved (ANSI/NISO Z39.84)
    Z3984,
    /// such suffixes are allowed
    Current,
}

/// Policy for names that look like existing ones.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ConfusableArgument {
    /// register with a warning
    Warn,
    /// refuse the registration
    Refuse,
}

/// Policy for metadata that does not distinguish a name.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DuplicatesArgument {
    /// register with a warning
    Warn,
    /// refuse the registration
    Refuse,
    /// register without comparing
    Allow,
}

/// Policy field that can be removed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PolicyField {
    /// any suffix
    Pattern,
    /// any host
    Hosts,
    /// no quota
    Quota,
    /// metadata policy of the agency
    Metadata,
    /// warn only
    Confusable,
    /// rules of ANSI/NISO Z39.84
    Rules,
    /// warn only
    Duplicates,
}

pub(crate) fn run(arguments: &PrefixArguments) -> Result<CommandStatus, CliError> {
    let session = ApiSession::open(&arguments.registry)?;
    match &arguments.command {
        PrefixCommand::Create { prefix, registrant, test, policy } => {
            let policy = policy_fields(policy);
            let body = json_object([
                ("registrant", Some(registrant.as_str().into())),
                ("prefix", prefix.as_deref().map(Into::into)),
                ("test", test.then_some(true.into())),
                ("policy", Some(json_object(policy))),
            ]);
            session.create(&["prefixes"], &[], &body, "prefix", |created| {
                let text = |name: &str| escape_control(created[name].as_str().unwrap_or_default());
                format!("prefix {} allocated to registrant {}", text("prefix"), text("registrant"))
            })
        }
        PrefixCommand::List { registrant, agency, list } => {
            let query = [("registrant", registrant.as_deref()), ("agency", agency.as_deref())];
            session.list(ResourceKind::Prefix, &["prefixes"], &query, list.limit)
        }
        PrefixCommand::Show { prefix } => session.show(ResourceKind::Prefix, &["prefixes", prefix]),
        PrefixCommand::Update { prefix, policy, unset } => {
            let path = ["prefixes", prefix];
            // The API replaces the whole policy; the revision detects a concurrent update.
            let (mut object, revision) = session.get_with_revision(&path)?;
            let mut updated = object["policy"].take();
            if let Some(members) = updated.as_object_mut() {
                for field in unset {
                    members.remove(field.json_name());
                }
                let set = policy_fields(policy).into_iter();
                members.extend(set.filter_map(|(name, value)| Some((name.to_owned(), value?))));
            }
            session.update(ResourceKind::Prefix, &path, &[], &json!({"policy": updated}), revision.as_deref())
        }
    }
}

fn policy_fields(policy: &PolicyArguments) -> [(&'static str, Option<Json>); 7] {
    [
        ("pattern", policy.pattern.as_deref().map(Into::into)),
        ("hosts", (!policy.hosts.is_empty()).then(|| json!(policy.hosts))),
        ("quota", policy.quota.map(Into::into)),
        ("metadata", policy.metadata.as_ref().and_then(flag_value)),
        ("confusable", policy.confusable.as_ref().and_then(flag_value)),
        ("rules", policy.rules.as_ref().and_then(flag_value)),
        ("duplicates", policy.duplicates.as_ref().and_then(flag_value)),
    ]
}

impl PolicyField {
    /// Member of the policy in the API.
    const fn json_name(self) -> &'static str {
        match self {
            Self::Pattern => "pattern",
            Self::Hosts => "hosts",
            Self::Quota => "quota",
            Self::Metadata => "metadata",
            Self::Confusable => "confusable",
            Self::Rules => "rules",
            Self::Duplicates => "duplicates",
        }
    }
}
