//! Packages and their dependencies, as `cargo metadata` and `Cargo.lock` describe them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result};
use semver::{Version, VersionReq};
use serde::Deserialize;
use xshell::cmd;

use crate::process::shell;
use crate::root;

/// Resolved dependency graph of the workspace.
#[derive(Debug, Deserialize)]
pub(super) struct CargoMetadata {
    pub(super) packages: Vec<Package>,
    pub(super) resolve: Resolve,
}

/// Package of the graph: of the workspace, or a dependency.
#[derive(Debug, Deserialize)]
pub(super) struct Package {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: Version,
    #[serde(default)]
    pub(super) description: Option<String>,
    /// SPDX expression.
    #[serde(default)]
    pub(super) license: Option<String>,
    #[serde(default)]
    pub(super) repository: Option<String>,
    /// Registry or Git repository; none for packages of the workspace.
    #[serde(default)]
    pub(super) source: Option<String>,
    /// Registries that it may be published to; an empty list for none.
    #[serde(default)]
    pub(super) publish: Option<Vec<String>>,
    #[serde(default)]
    pub(super) dependencies: Vec<DependencyRequirement>,
}

/// Dependency as the manifest of a package requires it.
#[derive(Debug, Deserialize)]
pub(super) struct DependencyRequirement {
    pub(super) name: String,
    pub(super) req: VersionReq,
    #[serde(default)]
    pub(super) path: Option<String>,
    #[serde(default)]
    pub(super) kind: Option<DependencyKind>,
}

/// Kind of a dependency that is not a normal one.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(super) enum DependencyKind {
    Dev,
    Build,
}

/// Edges of the graph.
#[derive(Debug, Deserialize)]
pub(super) struct Resolve {
    nodes: Vec<ResolvedPackage>,
}

#[derive(Debug, Deserialize)]
struct ResolvedPackage {
    id: String,
    deps: Vec<ResolvedDependency>,
}

#[derive(Debug, Deserialize)]
struct ResolvedDependency {
    pkg: String,
    dep_kinds: Vec<ResolvedKind>,
}

#[derive(Debug, Deserialize)]
struct ResolvedKind {
    kind: Option<DependencyKind>,
}

/// Packages that a program is built from.
#[derive(Debug, Default)]
pub(super) struct Closure<'m> {
    /// Dependencies by id of the package, without development dependencies.
    pub(super) edges: BTreeMap<&'m str, BTreeSet<&'m str>>,
    /// Packages that are compiled into the program; the others only run while it is built.
    pub(super) linked: BTreeSet<&'m str>,
}

impl CargoMetadata {
    /// Graph of all features on these platforms.
    pub(super) fn load(targets: &[String]) -> Result<Self> {
        let sh = shell()?;
        let filters = targets.iter().flat_map(|target| ["--filter-platform", target]);
        let json = cmd!(sh, "cargo metadata --locked --format-version 1 --all-features {filters...}")
            .quiet()
            .read()?;
        serde_json::from_str(&json).context("cannot parse the output of `cargo metadata`")
    }

    /// Package of the workspace with this name.
    pub(super) fn workspace_package(&self, name: &str) -> Result<&Package> {
        let mut packages = self.packages.iter();
        packages
            .find(|package| package.name == name && package.source.is_none())
            .with_context(|| format!("the workspace has no package `{name}`"))
    }

    /// Packages that `root` is built from, itself included.
    pub(super) fn closure<'m>(&'m self, root: &'m str) -> Closure<'m> {
        let nodes: BTreeMap<&str, &ResolvedPackage> =
            self.resolve.nodes.iter().map(|node| (&*node.id, node)).collect();
        let mut closure = Closure::default();
        // Linked packages first: what is also reached through a build script keeps its place.
        let (mut linked, mut building) = (vec![root], Vec::new());
        let next = |linked: &mut Vec<&'m str>, building: &mut Vec<&'m str>| {
            linked.pop().map(|id| (id, true)).or_else(|| Some((building.pop()?, false)))
        };
        while let Some((id, is_linked)) = next(&mut linked, &mut building) {
            if is_linked {
                closure.linked.insert(id);
            }
            if closure.edges.contains_key(id) {
                continue;
            }
            let mut dependencies = BTreeSet::new();
            for dependency in nodes.get(id).into_iter().flat_map(|node| &node.deps) {
                let is_of_kind = |wanted| dependency.dep_kinds.iter().any(|found| found.kind == wanted);
                let is_normal = is_of_kind(None);
                if is_normal || is_of_kind(Some(DependencyKind::Build)) {
                    dependencies.insert(&*dependency.pkg);
                    if is_linked && is_normal { &mut linked } else { &mut building }.push(&*dependency.pkg);
                }
            }
            closure.edges.insert(id, dependencies);
        }
        closure
    }
}

/// SHA-256 checksums of downloaded packages by name and version, from `Cargo.lock`.
pub(super) fn locked_checksums() -> Result<BTreeMap<(String, Version), String>> {
    #[derive(Deserialize)]
    struct Lockfile {
        package: Vec<LockedPackage>,
    }
    #[derive(Deserialize)]
    struct LockedPackage {
        name: String,
        version: Version,
        checksum: Option<String>,
    }
    let lockfile: Lockfile = toml::from_str(&fs::read_to_string(root().join("Cargo.lock"))?)?;
    let packages = lockfile.package.into_iter();
    Ok(packages.filter_map(|package| Some(((package.name, package.version), package.checksum?))).collect())
}
