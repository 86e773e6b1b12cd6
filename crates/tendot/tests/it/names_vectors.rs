//! `name`, `same` and `extract` give the results of `conformance/vectors/names*.jsonl`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::process::Output;

use serde_json::Value;
use tendot_testing::{conformance, hex};

use crate::support::output_with_input;

#[test]
fn name_vectors() {
    let files = ["vectors/names.jsonl", "vectors/names-more.jsonl"];
    let cases = files.map(|file| std::fs::read_to_string(conformance(file)).unwrap()).concat();
    let cases: Vec<Value> = cases.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(cases.len() >= 340);
    // Starting processes takes most of the time.
    let differences: Vec<String> = std::thread::scope(|scope| {
        let checks = cases.chunks(cases.len().div_ceil(4)).map(|cases| {
            let difference = |case: &Value| {
                let difference = check(case).err()?;
                Some(format!("{} {}: {difference}", case["case"], case["input"]))
            };
            scope.spawn(move || cases.iter().filter_map(difference).collect::<Vec<_>>())
        });
        let checks: Vec<_> = checks.collect();
        checks.into_iter().flat_map(|check| check.join().unwrap()).collect()
    });
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn check(case: &Value) -> Result<(), String> {
    let expect = &case["expect"];
    let input = case["input"].as_str().unwrap_or_default();
    let class = case["class"].as_str().unwrap();
    if input.contains('\0') && class != "extract" {
        // An argument of a process cannot contain NUL.
        return Ok(());
    }
    match class {
        "name-valid" | "name-invalid" => check_rules(input, expect),
        "bytes-invalid" => {
            let bytes = hex::decode(case["input_hex"].as_str().unwrap());
            let object = name(&["--strict"], OsString::from_vec(bytes));
            equal("code", &kebab(&expect["from_bytes"]), &object["error"]["code"])
        }
        "form" => check_form(input, expect),
        "encode" => {
            for (key, form) in [
                ("doi_uri", "uri"),
                ("urn", "urn"),
                ("url_mandatory", "url-minimal"),
                ("url_recommended", "url"),
                ("canonical2003", "uri-2003"),
            ] {
                let output = tendot(&["name", "--as", form], &[input.into()], b"");
                equal(form, &expect[key], &lines(&output)[0].as_str().into())?;
            }
            Ok(())
        }
        "canonical2003" => {
            let arguments = ["name", "--rules", "minimal2002", "--as", "uri-2003"];
            let output = tendot(&arguments, &[input.into()], b"");
            equal("uri-2003", &expect["canonical2003"], &lines(&output)[0].as_str().into())
        }
        "equivalence" => {
            let names = case["input"].as_array().unwrap().iter();
            let names: Vec<OsString> = names.map(|name| name.as_str().unwrap().into()).collect();
            let output = tendot(&["same"], &names, b"");
            equal("equal", &expect["equal"], &(output.status.code() == Some(0)).into())
        }
        "extract" => {
            for (mode, arguments) in [
                ("text-default", &["extract"][..]),
                ("join-lines", &["extract", "--join-lines"]),
                ("keep-tails", &["extract", "--keep-tails"]),
            ] {
                if let Some(expected) = expect.get(mode) {
                    let output = tendot(arguments, &[], input.as_bytes());
                    equal(mode, expected, &lines(&output).into())?;
                }
            }
            Ok(())
        }
        "repair" => equal("repair", &expect["repair"], &name(&["--repair"], input.into())["name"]),
        class => panic!("unknown class {class}"),
    }
}

fn check_rules(input: &str, expect: &Value) -> Result<(), String> {
    for rules in ["current", "z3984", "minimal2002"] {
        let object = name(&["--strict", "--rules", rules], input.into());
        // The command reads this as a shortDOI, under every rule set.
        let expected = if input == "10/182" { "ok".into() } else { kebab(&expect[rules]) };
        let actual = object["error"]["code"].as_str().unwrap_or("ok");
        equal(rules, &expected, &actual.into())?;
        if actual == "ok" && expect.get("prefix").is_some() {
            equal("prefix", &expect["prefix"], &object["prefix"])?;
            equal("suffix", &expect["suffix"], &object["suffix"])?;
        }
    }
    Ok(())
}

fn check_form(input: &str, expect: &Value) -> Result<(), String> {
    for (policy, arguments) in [("strict", &["--strict"][..]), ("lenient", &[])] {
        let object = name(arguments, input.into());
        let expected = &expect[policy];
        if let Some(error) = expected.get("error") {
            equal(policy, &kebab(error), &object["error"]["code"])?;
            continue;
        }
        for key in ["kind", "name", "form"] {
            equal(&format!("{policy} {key}"), &expected[key], &object[key])?;
        }
    }
    Ok(())
}

fn tendot(arguments: &[&str], rest: &[OsString], input: &[u8]) -> Output {
    output_with_input(crate::support::tendot().args(arguments).args(rest), input)
}

fn name(arguments: &[&str], input: OsString) -> Value {
    let arguments: Vec<&str> = ["name", "--json"].iter().chain(arguments).copied().collect();
    serde_json::from_slice(&tendot(&arguments, &["--".into(), input], b"").stdout).unwrap()
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8(output.stdout.clone()).unwrap().lines().map(str::to_owned).collect()
}

fn equal(what: &str, expected: &Value, actual: &Value) -> Result<(), String> {
    if expected == actual { Ok(()) } else { Err(format!("{what}: expected {expected}, got {actual}")) }
}

/// `MissingSlash` is `missing-slash`, and `InvalidUtf8` is `invalid-utf8`.
fn kebab(code: &Value) -> Value {
    let mut kebab = String::new();
    for c in code.as_str().unwrap().chars() {
        if c.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(c.to_ascii_lowercase());
    }
    kebab.into()
}
