//! `tendot explain` prints how a name of a store resolves, or why it does not.

use serde_json::Value as Json;

use crate::support::{TestDir, output_with_input};

const RECORDS: &str = r#"{"handle":"10.5555/ONE","values":[{"index":1,"type":"URL","data":"https://example.org/one"},{"index":2,"type":"DESC","data":"x"}]}
{"handle":"10.5555/ALIAS","values":[{"index":1,"type":"HS_ALIAS","data":"10.5555/ONE"}]}
{"handle":"10.5555/CIRCLE","values":[{"index":1,"type":"HS_ALIAS","data":"10.5555/CIRCLE"}]}
{"handle":"10.5555/LOST","values":[{"index":1,"type":"HS_ALIAS","data":"10.5555/NONE"}]}
{"handle":"10.5555/NOURL","values":[{"index":2,"type":"DESC","data":"x"}]}
{"handle":"10.5555/SCRIPT","values":[{"index":1,"type":"URL","data":"javascript:alert(1)"}]}
{"handle":"10.5555/HIDDEN","values":[{"index":1,"type":"URL","data":"https://example.org/","permissions":"1100"}]}
{"handle":"10.5555/LOC","values":[{"index":1,"type":"10320/loc","data":"<locations><location href='https://a.example.org/' weight='1'/><location href='https://b.example.org/' weight='0'/></locations>"}]}
"#;

#[test]
fn names() {
    let dir = TestDir::new();
    import(&dir);
    let check = |name: &str, code: i32, last: &str| {
        let (found, stdout) = explain(&dir, &[name]);
        assert_eq!(found, code, "{name}: {stdout}");
        assert!(stdout.lines().last().unwrap_or_default().contains(last), "{name}: {stdout}");
        let wrong = stdout.lines().filter(|line| line.starts_with("failed")).count();
        assert_eq!(wrong, usize::from(code != 0), "{name}: {stdout}");
    };
    check("10.5555/one", 0, "302 to https://example.org/one");
    check("https://doi.org/10.5555%2Fone", 0, "302 to https://example.org/one");
    check("See Bak (1987), doi:10.5555/ONE.", 0, "302 to https://example.org/one");
    check("10.5555/ALIAS", 0, "302 to https://example.org/one");
    check("10.5555/LOC", 0, "302 to https://a.example.org/");
    check("10.5555/LOST", 1, "record not found");
    check("10.5555/CIRCLE", 1, "alias loop");
    check("10.5555/NOURL", 1, "no URL value; add a `URL` value");
    check(
        "10.5555/SCRIPT",
        1,
        "redirect target rejected: the URL scheme is not allowed; allowed schemes: http",
    );
    check("10.5555/HIDDEN", 1, "none of the requested values is public");
    check("10.5555/ONEE", 1, "similar names: 10.5555/ONE (one character differs)");
    check("10.9999/x", 1, "not responsible for prefix `10.9999`");
    check("", 1, "no name found");
}

#[test]
fn json() {
    let dir = TestDir::new();
    import(&dir);
    let (code, stdout) = explain(&dir, &["--json", "10.5555/ALIAS"]);
    let explained: Json = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (code, &explained["outcome"], &explained["aliases"][0]),
        (0, &"resolves".into(), &"10.5555/ONE".into())
    );
    assert_eq!(explained["redirects"][0]["location"], "/10.5555/ONE");
    assert_eq!(explained["redirects"][1]["location"], "https://example.org/one");
    assert!(explained["steps"].as_array().unwrap().iter().all(|step| step["ok"] == true));
}

#[test]
fn no_store() {
    let dir = TestDir::new();
    assert_eq!(explain(&dir, &["10.5555/ONE"]), (2, String::new()));
}

fn import(dir: &TestDir) {
    assert!(output_with_input(&mut dir.tendot(&["import"]), RECORDS.as_bytes()).status.success());
}

/// The exit code and standard output.
fn explain(dir: &TestDir, arguments: &[&str]) -> (i32, String) {
    let (code, stdout, _) = dir.run(&[&["explain"], arguments].concat());
    (code.unwrap(), stdout)
}
