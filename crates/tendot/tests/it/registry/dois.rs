//! `tendot doi` and `transfer`: register, reserve, update, transfer, retire and list names; refused requests.

use serde_json::json;

use super::{TestRegistry, normalize};
use crate::support::{StoreKind, tests_per_store};

tests_per_store!(dois, metadata_from_flags, irreversible_commands_ask);

const METADATA: &str = r#"{"primaryReferentType":"Creation","referentCreation":{
    "name":[{"value":"Self-organized criticality","type":"Title","primaryLanguage":"en"}],"structuralType":"Digital",
    "mode":["Visual"],"character":["Language"],"type":["Article"],
    "principalAgent":[{"name":{"value":"Bak, Per","type":"Name"},"role":"Author"}]}}"#;

fn dois(store: StoreKind) {
    let registry = TestRegistry::start(store);
    register(&registry);
    refused_registrations(&registry);
    reserve_and_update(&registry);
    transfer_and_list(&registry);
    retire(&registry);
}

fn register(registry: &TestRegistry) {
    let press = &*registry.registrant;
    registry.dir.write("soc.json", METADATA);
    let create = [
        "doi",
        "create",
        "https://doi.org/10.70000/Soc",
        "--url",
        "https://example.org/soc",
        "--metadata",
        "soc.json",
    ];
    // A dry run changes nothing.
    let dry = registry.run(&[&create[..], &["--dry-run"]].concat());
    assert_eq!(String::from_utf8_lossy(&dry.stderr), "10.70000/Soc would be registered (dry run)\n");
    registry.run_error(&["doi", "show", "10.70000/Soc"], 1, "(not-found)");
    assert_eq!(registry.run_ok(&[&create[..], &["--value", "3:EMAIL:a@b.org"]].concat()), "10.70000/Soc");
    let details = normalize(&registry.run_ok(&["doi", "show", "doi:10.70000/SOC"]), &[(press, "PRESS")]);
    let expected = "10.70000/Soc\n  state       registered\n  registrant  PRESS\n  agency      LIB\n  \
                    url         https://example.org/soc\n  title       Self-organized criticality\n  created     TIME\n  \
                    updated     TIME\n    1 URL https://example.org/soc";
    assert!(details.starts_with(expected), "{details}");
    assert!(details.contains("\n    3 EMAIL a@b.org"), "{details}");
    let minted =
        registry.run_ok(&["doi", "create", "--prefix", "10.70000", "--url", "https://example.org/m"]);
    assert!(minted.starts_with("10.70000/"), "{minted}");
}

fn refused_registrations(registry: &TestRegistry) {
    registry.run_error(
        &["doi", "create", "10.70000/SOC", "--url", "https://example.org/"],
        1,
        "registered as `10.70000/Soc`, since 20",
    );
    registry.run_error(
        &["doi", "create", "10.70000/SOC", "--url", "https://example.org/"],
        1,
        "hint: update it with `tendot doi update '10.70000/Soc'`",
    );
    registry.run_error(&["doi", "create", "10.70000/x", "--url", "//x"], 1, "(invalid-url at /url)");
    registry.dir.write("wrong.json", "{\"primaryReferentType\":\"Nonsense\"}");
    registry.run_error(
        &["doi", "create", "10.70000/x", "--url", "https://example.org/", "--metadata", "wrong.json"],
        1,
        "(invalid-metadata at /metadata",
    );
    registry.dir.write("wrong.xml", "<kernelMetadata/>");
    registry.run_error(
        &["doi", "create", "10.70000/x", "--metadata", "wrong.xml"],
        1,
        "invalid kernel metadata in `wrong.xml`:\n  ",
    );
    registry.run_error(
        &["doi", "create", "10.70000/x", "--metadata", "none.json"],
        2,
        "cannot read `none.json`",
    );
    registry.run_error(
        &["doi", "create", "10.70000/x", "--value", "EMAIL"],
        2,
        "hint: expected a value such as",
    );
    registry.run_error(&["doi", "create", "--url", "https://example.org/"], 2, "error: ");
    registry.run_error(&["doi", "create", "10.80000/x", "--url", "https://example.org/"], 1, "error: ");
}

fn reserve_and_update(registry: &TestRegistry) {
    registry.run_ok(&["doi", "create", "10.70000/later", "--reserve"]);
    assert_eq!(registry.json(&["doi", "show", "10.70000/later"])[0]["state"], "reserved");
    let updated =
        registry.json(&["doi", "update", "10.70000/later", "--register", "--url", "https://example.org/l"]);
    assert_eq!(
        (&updated[0]["state"], &updated[0]["url"]),
        (&json!("registered"), &json!("https://example.org/l"))
    );
    registry.run_ok(&["doi", "update", "10.70000/soc", "--url", "https://example.org/moved"]);
    // A name may contain any characters.
    let odd = "10.70000/../a%2Fb?c#d";
    assert_eq!(registry.run_ok(&["doi", "create", odd, "--url", "https://example.org/odd"]), odd);
    assert_eq!(registry.json(&["doi", "show", odd])[0]["name"], odd);
}

fn transfer_and_list(registry: &TestRegistry) {
    let press = &*registry.registrant;
    let shop = registry.run_ok(&["registrant", "create", "--agency", "LIB", "Shop"]);
    let names = registry.json(&["doi", "list", "--registrant", press]);
    let minted = names.iter().find(|doi| doi["url"] == "https://example.org/m").unwrap();
    let minted = minted["name"].as_str().unwrap();
    let transfer = registry.run_ok(&["transfer", "create", "10.70000/soc", minted, "--to", &shop]);
    assert_eq!(registry.json(&["transfer", "show", &transfer])[0]["state"], "proposed");
    let accepted = registry.run_ok(&["transfer", "accept", &transfer]);
    assert!(accepted.contains("\n  state     done\n"), "{accepted}");
    let of_shop = registry.json(&["doi", "list", "--registrant", &shop]);
    assert_eq!(of_shop.len(), 2, "{of_shop:?}");
    assert_eq!(registry.json(&["doi", "list", "--prefix", "10.70000"]).len(), 4);
    assert_eq!(registry.json(&["doi", "list", "--limit", "3"]).len(), 3);
    let table = normalize(&registry.run_ok(&["doi", "list", "--registrant", press]), &[(press, "PRESS")]);
    let expected = "NAME                   STATE       REGISTRANT    URL                      UPDATED\n\
                    10.70000/../a%2Fb?c#d  registered  PRESS         https://example.org/odd  TIME\n\
                    10.70000/later         registered  PRESS         https://example.org/l    TIME";
    assert_eq!(table, expected);
}

fn retire(registry: &TestRegistry) {
    let retired = registry.run(&["doi", "retire", "10.70000/soc", "--yes"]);
    assert!(String::from_utf8_lossy(&retired.stdout).contains("\n  state       tombstone\n"), "{retired:?}");
    assert_eq!(String::from_utf8_lossy(&retired.stderr), "retired; the name will not be reassigned\n");
    registry.run_error(&["doi", "update", "10.70000/soc", "--url", "https://example.org/"], 1, "(retired)");
    let history = registry.json(&["doi", "history", "10.70000/soc"]);
    let kinds: Vec<_> = history.iter().map(|change| change["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["create", "update", "update", "tombstone"]);
    let table = registry.run_ok(&["doi", "history", "10.70000/soc"]);
    assert!(
        table.lines().nth(2).unwrap().ends_with("update     operator  https://example.org/soc"),
        "{table}"
    );
}

/// The common fields as flags and as columns of a table; faults name the flag or column.
fn metadata_from_flags(store: StoreKind) {
    let registry = TestRegistry::start(store);
    registry.run_ok(&["agency", "update", "LIB", "--metadata", "required"]);
    let create = |name: &'static str| ["doi", "create", name, "--url", "https://example.org/a"];
    registry.run_error(
        &create("10.70000/a"),
        1,
        "hint: describe it with `--title`, `--creator` and `--type`",
    );
    let flags = ["--title", "Sand", "--creator", "Bak, Per", "--creator", "Tang, Chao", "--date", "1987"];
    let incomplete = [&create("10.70000/a")[..], &flags].concat();
    registry.run_error(&incomplete, 2, "error: incomplete or invalid metadata: missing type\n");
    registry.run_ok(&[&incomplete[..], &["--type", "article"]].concat());
    let creation = registry.json(&["doi", "show", "10.70000/a"])[0]["metadata"]["referentCreation"].clone();
    assert_eq!(creation["name"], json!([{"value": "Sand", "type": "Title"}]));
    assert_eq!(creation["principalAgent"][1]["name"]["value"], "Tang, Chao");
    assert_eq!((&creation["type"], &creation["creationDate"]["date"]), (&json!(["Article"]), &json!("1987")));
    registry.dir.write("a.json", METADATA);
    let both = [&create("10.70000/b")[..], &["--title", "T", "--metadata", "a.json"]].concat();
    registry.run_error(&both, 2, "cannot be used with");
    registry.run_ok(&["doi", "create", "10.70000/c", "--reserve"]);
    let register = ["doi", "update", "10.70000/c", "--register", "--url", "https://example.org/c"];
    let described = ["--title", "C", "--creator", "D", "--type", "Book"];
    assert_eq!(registry.json(&[&register[..], &described].concat())[0]["state"], "registered");
    // Header names decide; a byte order mark, semicolons and written forms are accepted.
    let table = "\u{feff}URL;Title;DOI;Creator;Type\r\nhttps://example.org/t;T;https://doi.org/10.70000/t%23;\"A; B\";Book\r\n\
                 https://example.org/u;U;doi:10.70000/u;;Book\r\n";
    registry.dir.write("table.csv", table);
    let imported = registry.run(&["doi", "import", "table.csv"]);
    let stderr = String::from_utf8_lossy(&imported.stderr);
    assert!(
        stderr.contains("missing creator (invalid-metadata)") && stderr.contains("1 created,"),
        "{stderr}"
    );
    let table = registry.json(&["doi", "show", "10.70000/t#"]);
    assert_eq!(table[0]["metadata"]["referentCreation"]["principalAgent"][1]["name"]["value"], "B");
}

/// Without a terminal, an irreversible command needs `--yes`; `--dry-run` shows the effect. Nothing is written before.
fn irreversible_commands_ask(store: StoreKind) {
    let registry = TestRegistry::start(store);
    let shop = registry.run_ok(&["registrant", "create", "--agency", "LIB", "Shop"]);
    registry.run_ok(&["agency", "create", "MUS", "Museum"]);
    registry.run_ok(&["doi", "create", "10.70000/a", "--url", "https://example.org/a"]);
    registry.run_ok(&["doi", "create", "10.70000/draft", "--reserve"]);
    registry.run_ok(&["doi", "update", "10.70000/a", "--url", "https://example.org/b"]);
    let commands: [(&[&str], &str, &str); 5] = [
        (
            &["doi", "retire", "10.70000/a"],
            "`10.70000/a` will become a tombstone",
            "retired; the name will not be",
        ),
        (
            &["doi", "retire", "10.70000/draft"],
            "can be registered again",
            "deleted; the name can be registered again",
        ),
        (
            &["doi", "redact", "10.70000/a", "--reason", "r"],
            "of 1 earlier states of `10.70000/a`",
            "redacted",
        ),
        (
            &["transfer", "create", "--prefix", "10.70000", "--to", &shop, "--force"],
            "prefix 10.70000 with its DOI names will be transferred from",
            "transferred to",
        ),
        (
            &["agency", "close", "LIB", "--successor", "MUS", "--force"],
            "agency LIB will be closed for good",
            "agency LIB closed",
        ),
    ];
    let state = || {
        let names = registry.json(&["doi", "list"]);
        let owners = registry.json(&["prefix", "list"]);
        (
            names,
            owners,
            registry.json(&["doi", "history", "10.70000/a"]),
            registry.json(&["agency", "show", "LIB"]),
        )
    };
    let before = state();
    for (command, effect, _) in commands {
        registry.run_error(command, 2, effect);
        registry.run_error(command, 2, "hint: use `--yes` to confirm, or `--dry-run` to see the effect");
        let dry_run = registry.run(&[command, &["--dry-run", "--yes"]].concat());
        let stderr = String::from_utf8_lossy(&dry_run.stderr);
        assert!(stderr.contains(effect) && stderr.ends_with("; dry run, nothing was written\n"), "{stderr}");
        assert_eq!(dry_run.status.code(), Some(0), "{command:?}");
    }
    assert_eq!(state(), before);
    // A proposal can be withdrawn: it does not ask, but can be tried.
    let propose = ["agency", "close", "LIB", "--successor", "MUS"];
    let dry_run = registry.run(&[&propose[..], &["--dry-run"]].concat());
    assert!(
        String::from_utf8_lossy(&dry_run.stderr)
            .starts_with("the closure of agency LIB will be proposed to MUS;")
    );
    assert!(registry.json(&["transfer", "list"]).is_empty());
    for (command, _, done) in [commands[2], commands[1], commands[0], commands[3], commands[4]] {
        let executed = registry.run(&[command, &["--yes"]].concat());
        let stderr = String::from_utf8_lossy(&executed.stderr);
        assert!(stderr.contains(done) && executed.status.success(), "{command:?}: {stderr}");
    }
    assert_eq!(registry.run_ok(&["doi", "create", "10.70000/draft", "--reserve"]), "10.70000/draft");
}
