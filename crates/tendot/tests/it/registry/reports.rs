//! `tendot report`: summary and lists of a prefix, as tables and JSON, for those who may read them.

use tendot_testing::http::HttpRequest;
use tendot_testing::wait_until;

use super::{TestRegistry, check_error};
use crate::support::{StoreKind, TestDir, TestServer, tests_per_store};

tests_per_store!(reports_of_a_prefix);

fn reports_of_a_prefix(store: StoreKind) {
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).envs(store.env()).set("reports.flush_interval=1s").start();
    let registry = TestRegistry::with_prefix(dir, server);
    for name in ["10.70000/a", "10.70000/b", "10.70000/e\u{301}", "10.70000/\u{e9}"] {
        registry.run_ok(&["doi", "create", name, "--url", "https://example.org/"]);
    }
    for name in ["a", "missing"] {
        HttpRequest::new("GET", &format!("/10.70000/{name}")).send(registry.server.address());
    }
    wait_until("counts are written", || {
        registry.json(&["report", "10.70000"])[0]["failures"] == 1
            && registry.json(&["report", "10.70000"])[0]["resolutions"] == 1
    });
    let expected = "10.70000\n  names           4\n  registered      4\n  reserved        0\n  retired         0\n  \
                    resolved        1\n  resolutions     1\n  never-resolved  3\n  failed          1\n  failures        1\n  \
                    links           0\n  confusable      2\n  complete        yes";
    assert_eq!(registry.run_ok(&["report", "10.70000"]), expected);
    let resolved = registry.run_ok(&["report", "10.70000", "resolved"]);
    let mut lines = resolved.lines();
    assert!(lines.next().is_some_and(|head| head.starts_with("NAME        COUNT  FIRST")), "{resolved}");
    assert!(lines.next().is_some_and(|line| line.starts_with("10.70000/a  1      20")), "{resolved}");
    assert_eq!(lines.next(), None);
    assert_eq!(registry.json(&["report", "10.70000", "failed-resolutions"])[0]["name"], "10.70000/missing");
    let names = |arguments: &[&str]| {
        let lines = registry.json(&[&["report", "10.70000"], arguments].concat());
        lines.iter().map(|line| line["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&["never-resolved"]).len(), 3);
    assert_eq!(names(&["never-resolved", "--limit", "1"]), ["10.70000/b"]);
    assert_eq!(names(&["confusable-names"]).len(), 2);
    let links = registry.run(&["report", "10.70000", "invalid-links"]);
    assert_eq!((&*links.stdout, &*links.stderr), (&b""[..], &b"no results\n"[..]));

    let arguments = ["report", "10.70000"];
    let anonymous = registry.command(&arguments).env_remove("TENDOT_TOKEN").output().unwrap();
    check_error(&anonymous, 1, "(not-found)", &arguments);
    registry.run_error(&["report", "10.99999", "resolved"], 1, "(not-found)");
}
