//! Registration policy of a prefix: syntax rules, suffix pattern, hosts, metadata, confusable names, duplicates, quota.

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use url::Host;

use crate::party::MetadataPolicy;
use crate::{RegistryError, codes};

/// Maximum size of a compiled suffix pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 18;

/// Maximum number of hosts of a policy.
const MAX_POLICY_HOSTS: usize = 100;

/// Maximum length of a host name (RFC 1035, 2.3.4).
const MAX_HOST_LEN: usize = 253;

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
    pub metadata: Option<MetadataPolicy>,
    /// Treatment of confusable names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confusable: Option<ConfusablePolicy>,
    /// Syntax rules for new names; [`NameRules::Z3984`] by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<NameRules>,
    /// Treatment of metadata that does not distinguish a name from another one of the registrant; default: warn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<DuplicatePolicy>,
    /// Maximum number of names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<u64>,
}

/// Treatment of names that are confusable with existing ones.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfusablePolicy {
    /// Registered with a warning.
    Warn,
    /// Rejected.
    #[serde(rename = "refuse")]
    Reject,
}

/// Treatment of metadata whose title, creators, date and types equal those of another name of the same registrant.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DuplicatePolicy {
    /// Registered with a warning.
    #[default]
    Warn,
    /// Rejected.
    #[serde(rename = "refuse")]
    Reject,
    /// Registered without a warning; the names are not compared.
    Allow,
}

/// Syntax rules for new names.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NameRules {
    /// ANSI/NISO Z39.84: a suffix that starts with one character and a slash is reserved (section 4.3).
    #[default]
    Z3984,
    /// Rules of registered DOIs, some of which have reserved suffixes.
    Current,
}

impl PrefixPolicy {
    pub(super) fn validate(&self) -> Result<(), RegistryError> {
        if let Some(pattern) = &self.pattern {
            // Compiled alone, too, so that it cannot close the group around it.
            RegexBuilder::new(pattern)
                .size_limit(MAX_PATTERN_BYTES)
                .build()
                .and_then(|_| compile_pattern(pattern))
                .map_err(|error| {
                    RegistryError::invalid(codes::INVALID_PATTERN, "/policy/pattern", error.to_string())
                })?;
        }
        if self.hosts.len() > MAX_POLICY_HOSTS {
            return Err(RegistryError::invalid(
                codes::TOO_MANY,
                "/policy/hosts",
                format!("too many hosts (maximum {MAX_POLICY_HOSTS})"),
            ));
        }
        let is_host = |host: &str| {
            host.len() <= MAX_HOST_LEN
                && !host.starts_with('.')
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.[]:".contains(&byte))
                && Host::parse(host).is_ok()
        };
        match self.hosts.iter().position(|host| !is_host(host)) {
            Some(number) => Err(RegistryError::invalid(
                codes::INVALID_HOST,
                &format!("/policy/hosts/{number}"),
                "invalid host; use ASCII, for example `example.org`",
            )),
            None => Ok(()),
        }
    }

    /// Whether URLs may point to a host: one of the policy, or below a domain of it. A final dot does not matter.
    pub(super) fn allows_host(&self, host: &Host) -> bool {
        self.hosts.is_empty()
            || self.hosts.iter().any(|allowed| match (Host::parse(allowed), host) {
                (Ok(Host::Domain(allowed)), Host::Domain(host)) => {
                    let allowed = allowed.strip_suffix('.').unwrap_or(&allowed);
                    let host = host.strip_suffix('.').unwrap_or(host);
                    host.strip_suffix(allowed).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                }
                (allowed, host) => allowed.is_ok_and(|allowed| allowed == *host),
            })
    }
}

/// Compiles a suffix pattern, anchored at both ends. Size and matching time are bounded.
pub(super) fn compile_pattern(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&format!("^(?:{pattern})$")).size_limit(MAX_PATTERN_BYTES).build()
}
