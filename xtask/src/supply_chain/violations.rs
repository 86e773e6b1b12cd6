//! Dependencies that break a rule of `deny.toml`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use semver::VersionReq;
use spdx::{Expression, Licensee, ParseMode};

use super::metadata::{CargoMetadata, DependencyKind, Package};
use super::policy::{BanPolicy, DenyPolicy, LicensePolicy, SourcePolicy};

/// One line per violation.
pub(super) fn find(policy: &DenyPolicy, metadata: &CargoMetadata) -> Result<Vec<String>> {
    let packages = &metadata.packages;
    let mut violations = check_licenses(&policy.licenses, packages)?;
    violations.extend(check_bans(&policy.bans, packages));
    violations.extend(packages.iter().filter_map(|package| check_source(&policy.sources, package)));
    Ok(violations)
}

fn check_licenses(policy: &LicensePolicy, packages: &[Package]) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    let mut used = BTreeSet::new();
    for package in packages {
        let exceptions = policy.exceptions.iter().filter(|exception| exception.package.matches(package));
        let allowed: Vec<_> =
            policy.allow.iter().chain(exceptions.flat_map(|exception| &exception.allow)).collect();
        let (Package { name, version, .. }, license) = (package, &package.license);
        let Some(expression) = license.as_deref().and_then(parse_license) else {
            violations.push(format!("{name} {version}: no valid licence expression: {license:?}"));
            continue;
        };
        let mut licensees = Vec::new();
        for text in allowed {
            licensees.push((
                text,
                Licensee::parse(text).with_context(|| format!("licence `{text}` in deny.toml"))?,
            ));
        }
        // Every term is evaluated.
        let is_allowed = expression.evaluate(|required| {
            let found = licensees.iter().find(|(_, licensee)| licensee.satisfies(required));
            used.extend(found.map(|(text, _)| text.as_str()));
            found.is_some()
        });
        if !is_allowed {
            violations.push(format!("{name} {version}: licence `{expression}` is not allowed"));
        }
    }
    let all = policy.allow.iter().chain(policy.exceptions.iter().flat_map(|exception| &exception.allow));
    let unused = all.filter(|text| !used.contains(text.as_str()));
    violations.extend(unused.map(|text| format!("no package has the allowed licence `{text}`: remove it")));
    Ok(violations)
}

/// SPDX expression, also in the old syntax with a slash.
pub(super) fn parse_license(text: &str) -> Option<Expression> {
    let text = Expression::canonicalize(text).ok()?.unwrap_or_else(|| text.to_owned());
    Expression::parse_mode(&text, ParseMode::LAX).ok()
}

fn check_bans(policy: &BanPolicy, packages: &[Package]) -> Vec<String> {
    let mut violations = Vec::new();
    for package in packages {
        let Package { name, version, .. } = package;
        for rule in policy.deny.iter().filter(|rule| rule.package.matches(package)) {
            violations.push(format!("{name} {version}: banned: {}", rule.reason));
        }
        let is_private = package.publish.as_ref().is_some_and(Vec::is_empty);
        for requirement in package.dependencies.iter().filter(|found| found.req == VersionReq::STAR) {
            let may_be_path = is_private || requirement.kind == Some(DependencyKind::Dev);
            if requirement.path.is_none() || !may_be_path {
                violations
                    .push(format!("{name} {version}: dependency `{}` has no version", requirement.name));
            }
        }
    }
    violations.extend(check_multiple_versions(policy, packages));
    violations
}

/// Packages with several versions, except those that the policy skips.
fn check_multiple_versions(policy: &BanPolicy, packages: &[Package]) -> Vec<String> {
    let mut by_name: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
    for package in packages {
        by_name.entry(&package.name).or_default().push(package);
    }
    let mut violations = Vec::new();
    for (name, versions) in &by_name {
        let is_skipped = |package: &Package| policy.skip.iter().any(|rule| rule.package.matches(package));
        let counted: Vec<_> = versions
            .iter()
            .filter(|package| !is_skipped(package))
            .map(|package| package.version.to_string())
            .collect();
        if counted.len() > 1 {
            violations.push(format!("{name}: several versions: {}", counted.join(", ")));
        }
    }
    for rule in &policy.skip {
        let versions = by_name.get(&*rule.package.name).map_or(&[][..], |versions| versions);
        if versions.len() < 2 || !versions.iter().any(|package| rule.package.matches(package)) {
            violations
                .push(format!("{}: skipped, but has one version: remove it from `skip`", rule.package.name));
        }
    }
    violations
}

fn check_source(policy: &SourcePolicy, package: &Package) -> Option<String> {
    // Packages of the workspace have none.
    let source = package.source.as_ref()?;
    let is_allowed = match source.split_once('+') {
        Some(("registry" | "sparse", url)) => policy.allow_registry.iter().any(|allowed| allowed == url),
        Some(("git", url)) => {
            let repository = url.split(['?', '#']).next().unwrap_or_default();
            policy.allow_git.iter().any(|allowed| allowed == repository)
        }
        _ => false,
    };
    (!is_allowed).then(|| format!("{} {}: source `{source}` is not allowed", package.name, package.version))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const POLICY: &str = r#"
        graph = { all-features = true, targets = [] }
        advisories = { ignore = [] }
        sources = { unknown-registry = "deny", unknown-git = "deny", allow-registry = ["https://r"], allow-git = ["https://g"] }
        [licenses]
        allow = ["MIT", "Apache-2.0"]
        exceptions = [{ crate = "special", allow = ["Zlib"] }]
        unused-allowed-license = "deny"
        [bans]
        multiple-versions = "deny"
        wildcards = "deny"
        allow-wildcard-paths = true
        deny = [{ crate = "banned", reason = "why" }]
        skip = [{ crate = "twice:<2", reason = "why" }]
    "#;

    /// Package from the registry.
    fn package(name: &str, version: &str, license: &str) -> serde_json::Value {
        json!({"id": format!("{name}@{version}"), "name": name, "version": version, "license": license, "source": "registry+https://r"})
    }

    /// Packages that use every rule of [`POLICY`].
    fn allowed() -> Vec<serde_json::Value> {
        vec![
            package("a", "1.0.0", "MIT"),
            package("b", "1.0.0", "GPL-3.0-only OR (Apache-2.0 AND MIT)"),
            package("old", "1.0.0", "MIT/Apache-2.0"),
            package("special", "1.0.0", "Zlib"),
            package("twice", "1.9.0", "MIT"),
            package("twice", "2.0.0", "MIT"),
        ]
    }

    #[track_caller]
    fn check(added: serde_json::Value, expected: &[&str]) {
        let mut packages = allowed();
        packages.push(added);
        check_all(packages, expected);
    }

    #[track_caller]
    fn check_all(packages: Vec<serde_json::Value>, expected: &[&str]) {
        let metadata =
            serde_json::from_value(json!({"packages": packages, "resolve": {"nodes": []}})).unwrap();
        assert_eq!(find(&DenyPolicy::parse(POLICY).unwrap(), &metadata).unwrap(), expected);
    }

    #[test]
    fn licenses() {
        check_all(allowed(), &[]);
        check(package("x", "1.0.0", "GPL-3.0-only"), &["x 1.0.0: licence `GPL-3.0-only` is not allowed"]);
        check(package("x", "1.0.0", "MIT AND Zlib"), &["x 1.0.0: licence `MIT AND Zlib` is not allowed"]);
        check(
            json!({"id": "x", "name": "x", "version": "1.0.0"}),
            &["x 1.0.0: no valid licence expression: None"],
        );
        let mut packages = allowed();
        packages.remove(3);
        check_all(packages, &["no package has the allowed licence `Zlib`: remove it"]);
    }

    #[test]
    fn bans() {
        check(package("banned", "1.0.0", "MIT"), &["banned 1.0.0: banned: why"]);
        check(package("a", "2.0.0", "MIT"), &["a: several versions: 1.0.0, 2.0.0"]);
        check(package("twice", "3.0.0", "MIT"), &["twice: several versions: 2.0.0, 3.0.0"]);
        let mut packages = allowed();
        packages.pop();
        check_all(packages, &["twice: skipped, but has one version: remove it from `skip`"]);
        let dependent = |publish: serde_json::Value, requirement: serde_json::Value| {
            json!({"id": "x", "name": "x", "version": "1.0.0", "license": "MIT", "publish": publish,
                "dependencies": [requirement]})
        };
        let message = &["x 1.0.0: dependency `y` has no version"][..];
        check(dependent(json!(null), json!({"name": "y", "req": "*"})), message);
        check(dependent(json!([]), json!({"name": "y", "req": "*"})), message);
        check(dependent(json!(null), json!({"name": "y", "req": "*", "path": "/y"})), message);
        check(dependent(json!([]), json!({"name": "y", "req": "*", "path": "/y"})), &[]);
        check(dependent(json!(null), json!({"name": "y", "req": "*", "path": "/y", "kind": "dev"})), &[]);
        check(dependent(json!(null), json!({"name": "y", "req": "^1"})), &[]);
    }

    #[test]
    fn sources() {
        let from = |source: &str| json!({"id": "x", "name": "x", "version": "1.0.0", "license": "MIT", "source": source});
        check(from("git+https://g?branch=main#0123"), &[]);
        check(from("git+https://h#0123"), &["x 1.0.0: source `git+https://h#0123` is not allowed"]);
        check(from("registry+https://other"), &["x 1.0.0: source `registry+https://other` is not allowed"]);
        check(from("registry+https://g"), &["x 1.0.0: source `registry+https://g` is not allowed"]);
    }

    #[test]
    fn rejects_rules_that_are_not_checked() {
        for (from, to) in [
            ("wildcards = \"deny\"", "wildcards = \"warn\""),
            ("all-features = true", "all-features = false"),
            ("ignore = []", "ignore = [], yanked = \"deny\""),
            (", reason = \"why\"", ""),
        ] {
            assert!(POLICY.contains(from));
            assert!(DenyPolicy::parse(&POLICY.replacen(from, to, 1)).is_err(), "{to}");
        }
    }
}
