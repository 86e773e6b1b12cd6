//! Registration policy of a prefix: suffix pattern, hosts, metadata, confusable names, quota.

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use crate::party::Demand;
use crate::{RegistryError, codes};

/// Registration policy of a prefix.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PrefixPolicy {
    /// Regular expression that a new suffix must match completely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Box<str>>,
    /// Hosts to which URLs may point, including their subdomains; empty for any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Box<str>>,
    /// Whether metadata is required; overrides the agency's policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Demand>,
    /// Treatment of confusable names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confusable: Option<Lookalikes>,
    /// Maximum number of names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<u64>,
}

/// Treatment of names that are confusable with existing ones.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Lookalikes {
    /// Registered with a warning.
    Warn,
    /// Rejected.
    Refuse,
}

impl PrefixPolicy {
    pub(super) fn validate(&self) -> Result<(), RegistryError> {
        if let Some(pattern) = &self.pattern {
            // Compiled alone, too, so that it cannot close the group around it.
            RegexBuilder::new(pattern)
                .size_limit(1 << 18)
                .build()
                .and_then(|_| compile_pattern(pattern))
                .map_err(|error| {
                    RegistryError::invalid(codes::INVALID_PATTERN, "/policy/pattern", error.to_string())
                })?;
        }
        if self.hosts.len() > 100 {
            return Err(RegistryError::invalid(
                codes::TOO_MANY,
                "/policy/hosts",
                "at most 100 hosts are taken",
            ));
        }
        let is_host = |host: &str| {
            !host.is_empty()
                && host.len() <= 253
                && !host.starts_with('.')
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.')
        };
        match self.hosts.iter().position(|host| !is_host(host)) {
            Some(number) => Err(RegistryError::invalid(
                codes::INVALID_HOST,
                &format!("/policy/hosts/{number}"),
                "a host is written as `example.org`, in ASCII",
            )),
            None => Ok(()),
        }
    }

    pub(super) fn allows_host(&self, host: &str) -> bool {
        self.hosts.is_empty()
            || self.hosts.iter().any(|allowed| {
                let at = host.len().checked_sub(allowed.len());
                let end = at.and_then(|at| host.get(at..));
                let before = at.and_then(|at| at.checked_sub(1)).and_then(|at| host.as_bytes().get(at));
                end.is_some_and(|end| end.eq_ignore_ascii_case(allowed))
                    && (host.len() == allowed.len() || before == Some(&b'.'))
            })
    }
}

/// Compiles a suffix pattern, anchored at both ends. Size and matching time are bounded.
pub(super) fn compile_pattern(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&format!("^(?:{pattern})$")).size_limit(1 << 18).build()
}
