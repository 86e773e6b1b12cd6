//! Rules of `deny.toml`, a configuration file of cargo-deny.
//!
//! Keys and levels that are not checked here are errors, so that no rule is ignored.

use std::fs;

use anyhow::{Context as _, Result};
use semver::VersionReq;
use serde::Deserialize;

use super::metadata::Package;
use crate::root;

/// Rules of `deny.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DenyPolicy {
    pub(super) graph: GraphPolicy,
    pub(super) advisories: AdvisoryPolicy,
    pub(super) licenses: LicensePolicy,
    pub(super) bans: BanPolicy,
    pub(super) sources: SourcePolicy,
}

/// Part of the graph that is checked.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct GraphPolicy {
    #[serde(rename = "all-features")]
    _all_features: True,
    pub(super) targets: Vec<String>,
}

/// Known vulnerabilities that are accepted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AdvisoryPolicy {
    pub(super) ignore: Vec<IgnoredAdvisory>,
}

/// Accepted vulnerability.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IgnoredAdvisory {
    pub(super) id: String,
    #[serde(rename = "reason")]
    _reason: String,
}

/// Licences that dependencies may have.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct LicensePolicy {
    pub(super) allow: Vec<String>,
    pub(super) exceptions: Vec<LicenseException>,
    #[serde(rename = "unused-allowed-license")]
    _unused_allowed_license: Deny,
}

/// Licences that one package may have in addition.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LicenseException {
    #[serde(rename = "crate")]
    pub(super) package: PackageSpec,
    pub(super) allow: Vec<String>,
}

/// Packages and versions that are not allowed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct BanPolicy {
    #[serde(rename = "multiple-versions")]
    _multiple_versions: Deny,
    #[serde(rename = "wildcards")]
    _wildcards: Deny,
    #[serde(rename = "allow-wildcard-paths")]
    _allow_wildcard_paths: True,
    pub(super) deny: Vec<PackageRule>,
    pub(super) skip: Vec<PackageRule>,
}

/// Package, and why it is on a list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PackageRule {
    #[serde(rename = "crate")]
    pub(super) package: PackageSpec,
    pub(super) reason: String,
}

/// Registries and Git repositories that packages may come from.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct SourcePolicy {
    #[serde(rename = "unknown-registry")]
    _unknown_registry: Deny,
    #[serde(rename = "unknown-git")]
    _unknown_git: Deny,
    pub(super) allow_registry: Vec<String>,
    pub(super) allow_git: Vec<String>,
}

/// The only level that is supported.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Deny {
    Deny,
}

/// Option that has to be `true`.
#[derive(Debug, Deserialize)]
#[serde(try_from = "bool")]
struct True;

impl TryFrom<bool> for True {
    type Error = &'static str;

    fn try_from(value: bool) -> Result<Self, Self::Error> {
        value.then_some(Self).ok_or("must be `true`")
    }
}

/// Package by name, with versions: `name` or `name:REQUIREMENT`.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct PackageSpec {
    pub(super) name: String,
    versions: VersionReq,
}

impl TryFrom<String> for PackageSpec {
    type Error = semver::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let (name, versions) = text.split_once(':').unwrap_or((&text, "*"));
        Ok(Self { name: name.to_owned(), versions: VersionReq::parse(versions)? })
    }
}

impl PackageSpec {
    pub(super) fn matches(&self, package: &Package) -> bool {
        self.name == package.name && self.versions.matches(&package.version)
    }
}

impl DenyPolicy {
    /// Reads `deny.toml`.
    pub(super) fn open() -> Result<Self> {
        Self::parse(&fs::read_to_string(root().join("deny.toml")).context("cannot read deny.toml")?)
    }

    pub(super) fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).context("invalid deny.toml")
    }
}
