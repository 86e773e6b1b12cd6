//! Software bill of materials in the format CycloneDX 1.6 (ECMA-424).
//!
//! The same sources always give the same document: it has no serial number and no time.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use semver::Version;
use serde_json::{Value, json};
use xshell::cmd;

use super::metadata::{CargoMetadata, Closure, Package, locked_checksums};
use super::violations::parse_license;
use crate::process::shell;
use crate::root;

/// The program that the document describes.
const PROGRAM: &str = "tendot";

/// Writes the bill of materials of the program on a platform, by default this one.
#[allow(clippy::print_stdout, reason = "prints the path of the file")]
pub(crate) fn write_sbom(target: Option<String>, path: Option<&Path>) -> Result<()> {
    let target = target.map_or_else(host, Ok)?;
    let default_path = root().join(format!("target/sbom/{PROGRAM}-{target}.cdx.json"));
    let path = path.unwrap_or(&default_path);
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, serde_json::to_string_pretty(&sbom(target)?)? + "\n")?;
    println!("{}", path.display());
    Ok(())
}

/// Bill of materials of the program on a platform.
fn sbom(target: String) -> Result<Value> {
    let metadata = CargoMetadata::load(&[target])?;
    Sbom { metadata: &metadata, checksums: locked_checksums()? }.document()
}

/// Platform of this machine.
fn host() -> Result<String> {
    let sh = shell()?;
    let version = cmd!(sh, "rustc -vV").quiet().read()?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("no host in rustc -vV")?.to_owned())
}

/// What a document is made from.
struct Sbom<'m> {
    metadata: &'m CargoMetadata,
    checksums: BTreeMap<(String, Version), String>,
}

impl Sbom<'_> {
    fn document(&self) -> Result<Value> {
        let program = self.metadata.workspace_package(PROGRAM)?;
        let closure = self.metadata.closure(&program.id);
        let packages: BTreeMap<&str, &Package> = self
            .metadata
            .packages
            .iter()
            .filter(|package| closure.edges.contains_key(&*package.id))
            .map(|package| (&*package.id, package))
            .collect();
        let components = packages.values().filter(|package| package.id != program.id);
        let components: Vec<_> = components.map(|package| self.component(package, &closure)).collect();
        let mut application = self.component(program, &closure);
        application["type"] = "application".into();
        let dependencies: Vec<_> = closure
            .edges
            .iter()
            .map(|(id, dependencies)| {
                let references: Vec<_> = dependencies.iter().map(|id| reference(packages[id])).collect();
                json!({"ref": reference(packages[id]), "dependsOn": references})
            })
            .collect();
        Ok(json!({
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"component": application, "lifecycles": [{"phase": "build"}]},
            "components": components,
            "dependencies": dependencies,
        }))
    }

    fn component(&self, package: &Package, closure: &Closure<'_>) -> Value {
        let scope = if closure.linked.contains(&*package.id) { "required" } else { "excluded" };
        let mut component = json!({
            "type": "library",
            "bom-ref": reference(package),
            "name": package.name,
            "version": package.version.to_string(),
            "scope": scope,
        });
        let mut insert = |name: &str, value: Option<Value>| {
            if let (Some(value), Some(members)) = (value, component.as_object_mut()) {
                members.insert(name.to_owned(), value);
            }
        };
        insert("description", package.description.as_ref().map(|text| text.trim().into()));
        let license = package.license.as_deref().and_then(parse_license);
        insert("licenses", license.map(|expression| json!([{"expression": expression.to_string()}])));
        // Packages of the workspace were not downloaded.
        insert("purl", package.source.as_ref().map(|_| reference(package).into()));
        let checksum = self.checksums.get(&(package.name.clone(), package.version.clone()));
        insert("hashes", checksum.map(|digits| json!([{"alg": "SHA-256", "content": digits}])));
        let repository = package.repository.as_ref();
        insert("externalReferences", repository.map(|url| json!([{"type": "vcs", "url": url}])));
        component
    }
}

/// Reference to a component within the document: its package URL, or name and version in the workspace.
fn reference(package: &Package) -> String {
    let Package { name, version, source, .. } = package;
    // A build number is part of the version in package URLs.
    let version = version.to_string().replace('+', "%2B");
    if source.is_some() { format!("pkg:cargo/{name}@{version}") } else { format!("{name}@{version}") }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use tendot_testing::{python_environment, run_checked};

    use super::*;

    /// Library of the CycloneDX project; it contains the published schema.
    const VALIDATOR: &str = "cyclonedx-python-lib[json-validation]==11.12.0";

    /// Validates a document, and that the validator finds faults.
    ///
    /// The validator's parser of IRIs takes seconds for our URLs. They are ASCII, and an ASCII string that is a URI reference is
    /// an IRI reference, so a regular expression for URI references replaces it.
    const SCRIPT: &str = r#"
import json, sys
sys.modules["rfc3987_syntax"] = None
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from jsonschema.validators import Draft7Validator
from rfc3986_validator import validate_rfc3986

formats = Draft7Validator.FORMAT_CHECKER
assert "iri-reference" not in formats.checkers
formats.checks("iri-reference")(lambda text: validate_rfc3986(text, rule="URI_reference"))
validator = JsonStrictValidator(SchemaVersion.V1_6)
document = json.load(open(sys.argv[1]))
error = validator.validate_str(json.dumps(document))
assert error is None, error
for member, invalid in [
    ("unknown", "x"),
    ("hashes", [{"alg": "SHA-256", "content": "x"}]),
    ("licenses", [{"license": {"id": "unknown"}}]),
    ("externalReferences", [{"type": "vcs", "url": "https://example.org/a b"}]),
]:
    component = dict(document["components"][0], **{member: invalid})
    changed = dict(document, components=[component], dependencies=[])
    assert validator.validate_str(json.dumps(changed)) is not None, member
print("valid")
"#;

    #[test]
    fn sbom_is_valid_and_complete() {
        let target = host().unwrap();
        let sbom = sbom(target).unwrap();
        let find = |name: &str| {
            let mut components = sbom["components"].as_array().unwrap().iter();
            components.find(|component| component["name"] == name).unwrap_or_else(|| panic!("no {name}"))
        };
        assert_eq!(sbom["metadata"]["component"]["name"], PROGRAM);
        let hyper = find("hyper");
        assert_eq!(hyper["purl"], hyper["bom-ref"]);
        assert_eq!(hyper["hashes"][0]["content"].as_str().unwrap().len(), 64);
        assert_eq!(hyper["scope"], "required");
        // Only builds the C library.
        assert_eq!(find("cc")["scope"], "excluded");
        assert!(find("tendot-names").get("purl").is_none());
        // A development dependency of the program.
        assert!(sbom["components"].as_array().unwrap().iter().all(|found| found["name"] != "tendot-testing"));

        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sbom.json");
        fs::write(&file, sbom.to_string()).unwrap();
        let python = python_environment(&root().join("target/xtask"), &[VALIDATOR]).join("python");
        let printed = run_checked(Command::new(python).args(["-c", SCRIPT]).arg(&file));
        assert_eq!(printed.trim(), "valid");
    }
}
