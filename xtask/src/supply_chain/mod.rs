//! Dependencies of the workspace: rules, known vulnerabilities, bill of materials.
//!
//! - `metadata.rs`: packages and their dependencies, as Cargo resolves them
//! - `policy.rs`: the rules of `deny.toml`
//! - `violations.rs`: dependencies that break a rule
//! - `advisories.rs`: known vulnerabilities, with cargo-deny or cargo-audit
//! - `sbom.rs`: bill of materials in the format CycloneDX

mod advisories;
mod metadata;
mod policy;
mod sbom;
mod violations;

use anyhow::{Result, ensure};

pub(crate) use advisories::check_advisories;
use metadata::CargoMetadata;
use policy::DenyPolicy;
pub(crate) use sbom::write_sbom;

/// Checks licences, bans and sources. Building cargo-deny takes minutes, this check less than a second.
pub(crate) fn check() -> Result<()> {
    let policy = DenyPolicy::open()?;
    let metadata = CargoMetadata::load(&policy.graph.targets)?;
    let violations = violations::find(&policy, &metadata)?;
    ensure!(
        violations.is_empty(),
        "{} violations of deny.toml:\n{}",
        violations.len(),
        violations.join("\n")
    );
    Ok(())
}
