//! Known vulnerabilities of dependencies.
//!
//! Not part of `cargo xtask test`: the database of advisories is not reachable everywhere, and it changes without a commit.

use anyhow::{Result, bail};
use xshell::cmd;

use super::policy::DenyPolicy;
use crate::process::shell;

/// Checks for advisories with cargo-deny, or else cargo-audit; both download the RustSec database.
pub(crate) fn check_advisories() -> Result<()> {
    let (policy, sh) = (DenyPolicy::open()?, shell()?);
    let is_installed = |tool: &str| cmd!(sh, "cargo {tool} --version").quiet().ignore_stderr().read().is_ok();
    let Some(arguments) = scanner(&policy, is_installed) else {
        bail!(
            "neither cargo-deny nor cargo-audit is installed; install one of them with `cargo install --locked cargo-deny` or \
             `cargo install --locked cargo-audit`"
        );
    };
    Ok(cmd!(sh, "cargo {arguments...}").run()?)
}

/// Arguments of `cargo` for the scanner that is installed. cargo-audit does not read `deny.toml`.
fn scanner(policy: &DenyPolicy, is_installed: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    if is_installed("deny") {
        return Some(words("deny --all-features --locked check advisories"));
    }
    let ignored =
        policy.advisories.ignore.iter().flat_map(|advisory| ["--ignore".to_owned(), advisory.id.clone()]);
    is_installed("audit").then(|| words("audit --deny warnings").into_iter().chain(ignored).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_the_installed_scanner() {
        let mut policy = DenyPolicy::open().unwrap();
        let json = serde_json::json!({"id": "RUSTSEC-2020-0001", "reason": "why"});
        policy.advisories.ignore = vec![serde_json::from_value(json).unwrap()];
        let check = |installed: &[&str], expected: Option<&str>| {
            let found =
                scanner(&policy, |tool| installed.contains(&tool)).map(|arguments| arguments.join(" "));
            assert_eq!(found.as_deref(), expected);
        };
        check(&["deny", "audit"], Some("deny --all-features --locked check advisories"));
        check(&["audit"], Some("audit --deny warnings --ignore RUSTSEC-2020-0001"));
        check(&[], None);
    }
}
