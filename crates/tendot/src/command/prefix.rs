//! `tendot prefix`

use serde_json::{Value as Json, json};

use super::doi::transfer_message;
use crate::args::{PolicyArguments, PolicyField, PrefixArguments, PrefixCommand};
use crate::failure::escape_control;
use crate::registry::{ApiSession, ResourceKind, flag_value, json_object};
use crate::{CliError, CommandStatus};

pub(crate) fn run(arguments: &PrefixArguments) -> Result<CommandStatus, CliError> {
    let session = ApiSession::open(&arguments.registry)?;
    match &arguments.command {
        PrefixCommand::Add { prefix, registrant, test, policy } => {
            let policy = members(policy);
            let body = json_object([
                ("registrant", Some(registrant.as_str().into())),
                ("prefix", prefix.as_deref().map(Into::into)),
                ("test", test.then_some(true.into())),
                ("policy", Some(json_object(policy))),
            ]);
            session.create(&["prefixes"], &[], &body, "prefix", |made| {
                let text = |name: &str| escape_control(made[name].as_str().unwrap_or_default());
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
            // The policy is replaced as a whole, and only if nobody else does so meanwhile.
            let (mut object, revision) = session.get_with_revision(&path)?;
            let mut changed = object["policy"].take();
            if let Some(changed) = changed.as_object_mut() {
                for part in clear {
                    changed.remove(json_name(*part));
                }
                let given = members(policy).into_iter();
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

fn members(policy: &PolicyArguments) -> [(&'static str, Option<Json>); 5] {
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
