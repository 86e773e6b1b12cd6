//! Settings of the registry.

use jiff::Timestamp;

use super::TestRegistry;
use crate::support::{TestDir, TestServer, text_output};

#[test]
fn registry_settings() {
    let dir = TestDir::new();
    let server = TestServer::builder(&dir)
        .set("registry.max_name_bytes=4096")
        .set("registry.directory_codes=10,20")
        .set("registry.transfer_proposal_days=1")
        .start();
    let registry = TestRegistry::with_prefix(dir, server);
    let press = &*registry.registrant;

    let create = |name: &str| registry.run(&["doi", "create", name, "--url", "https://example.org/"]);
    let name = |length: usize| format!("10.70000/{:x<width$}", "", width = length - "10.70000/".len());
    let created = create(&name(4_096));
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let refused = create(&name(4_097));
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && message.contains("exceeds the limit of 4096"), "{message}");

    assert_eq!(registry.run_ok(&["prefix", "create", "--registrant", press, "20.500"]), "20.500");
    registry.run_error(
        &["prefix", "create", "--registrant", press, "30.500"],
        1,
        "(invalid-prefix at /prefix)",
    );

    let other = registry.run_ok(&["registrant", "create", "--agency", "LIB", "Other"]);
    let [transfer] = &*registry.json(&["transfer", "create", "--prefix", "20.500", "--to", &other]) else {
        panic!("one transfer")
    };
    let time = |member: &str| transfer[member].as_str().unwrap().parse::<Timestamp>().unwrap();
    assert_eq!(time("expires").as_second() - time("proposed").as_second(), 24 * 60 * 60, "{transfer}");
}

#[test]
fn names_are_bounded() {
    let dir = TestDir::new();
    let builder = TestServer::builder(&dir).in_memory();
    for value in ["4097", "255"] {
        let (code, _, messages) =
            text_output(&mut builder.clone().set(&format!("registry.max_name_bytes={value}")).command());
        assert!(code == Some(2) && messages.contains("must be 256 to 4096 bytes"), "{messages}");
    }
}
