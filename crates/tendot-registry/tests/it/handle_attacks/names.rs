//! Names that are equal or look equal, and names of any length.

use super::*;

/// 64 clients create one name in 64 spellings: exactly one succeeds.
#[test]
fn attack_r1_one_name_many_spellings() {
    check_one_wins(&registry());
    let directory = ram_dir();
    check_one_wins(&with_store(EmbeddedStore::open(directory.path()).unwrap(), RegistrySettings::default()));
}

fn check_one_wins(registry: &TestRegistry) {
    let start = std::sync::Barrier::new(64);
    let created: Vec<bool> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..64_u32)
            .map(|number| {
                let start = &start;
                scope.spawn(move || {
                    let recased = |(position, letter): (usize, char)| {
                        if number >> position & 1 == 1 { letter.to_ascii_uppercase() } else { letter }
                    };
                    let name =
                        format!("10.1/{}", "abcdef".chars().enumerate().map(recased).collect::<String>());
                    start.wait();
                    let outcome = write(registry, "300:0.NA/10.1", &create(&name, vec![]));
                    match &outcome {
                        Ok(outcome) => assert_eq!(*outcome.name, *name),
                        Err(Error::AlreadyExists { name: first }) => assert_ne!(**first, *name),
                        Err(error) => panic!("{error}"),
                    }
                    outcome.is_ok()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(created.iter().filter(|created| **created).count(), 1);
}

/// Letters that are equal only in some languages, or only by Unicode case folding, are different.
#[test]
fn attack_r2_other_letters() {
    let registry = registry();
    for suffix in ["é", "É", "k", "\u{212a}", "i", "ı", "İ", "ß", "ẞ"] {
        check_write(&registry, "operator", &create(&format!("10.1/{suffix}"), vec![]), 1);
    }
    for suffix in ["K", "I"] {
        check_write(&registry, "operator", &create(&format!("10.1/{suffix}"), vec![]), 101);
    }
}

/// The same text composed and decomposed is two names; the second gets a warning, or an error if the settings say so.
#[test]
fn attack_r3_composed_and_decomposed() {
    let registry = registry();
    let owner = || admin_value(100, 0x0fff, ADMIN);
    let warnings = |name: &str, values| write(&registry, "operator", &create(name, values)).unwrap().warnings;
    assert_eq!(warnings("10.1/\u{e9}", vec![url_value(1, "https://composed/"), owner()]), []);
    let confusable_with = |name: &str| WriteWarning::ConfusableWith { name: name.into() };
    assert_eq!(
        warnings("10.1/e\u{301}", vec![url_value(2, "https://decomposed/"), owner()]),
        [confusable_with("10.1/\u{e9}")]
    );
    // The other way round, in another ASCII case, and with a retired name.
    assert_eq!(warnings("10.1/Xe\u{301}", vec![owner()]), []);
    assert_eq!(warnings("10.1/x\u{e9}", vec![owner()]), [confusable_with("10.1/Xe\u{301}")]);
    assert_eq!(warnings("10.1/\u{f6}", vec![owner()]), []);
    commit(
        registry.store(),
        Edit::Tombstone { name: "10.1/\u{f6}".into(), precondition: Precondition::Live },
    );
    assert_eq!(warnings("10.1/o\u{308}", vec![owner()]), [confusable_with("10.1/\u{f6}")]);
    let limits = RecordLimits { allow_confusable_names: false, ..RecordLimits::default() };
    let strict = with_store(MemoryStore::new(), RegistrySettings { limits, ..RegistrySettings::default() });
    check_write(&strict, "operator", &create("10.1/\u{e9}", vec![]), 1);
    check_write(&strict, "operator", &create("10.1/e\u{301}", vec![]), 102);
    check_write(&strict, "300:0.NA/10.2", &create("10.1/e\u{301}", vec![]), 400);
    check_write(&strict, "operator", &create("10.1/a\u{301}", vec![]), 1);
    assert_eq!(
        resolve(&registry, "anonymous", &ResolveQuery::new(Handle::from("10.1/\u{e9}"))),
        Ok(vec![1, 100])
    );
    assert_eq!(
        resolve(&registry, "anonymous", &ResolveQuery::new(Handle::from("10.1/E\u{301}"))),
        Ok(vec![2, 100])
    );
}

/// Invisible characters are rejected in new names, and resolved in existing ones.
#[test]
fn attack_r4_invisible_characters() {
    let registry = registry();
    check_write(&registry, "operator", &create("10.1/a\u{200b}", vec![]), 102);
    check_write(&registry, "operator", &create("10.1/\u{202e}a", vec![]), 102);
    check_write(&registry, "operator", &create("10.1/а", vec![]), 1);
    put_record(registry.store(), "10.1/a\u{200b}", vec![url_value(1, "https://a/")]);
    assert_eq!(
        resolve(&registry, "anonymous", &ResolveQuery::new(Handle::from("10.1/a\u{200b}"))),
        Ok(vec![1])
    );
}

/// Mixed scripts are accepted with a warning.
#[test]
fn attack_r4_mixed_scripts() {
    let registry = registry();
    let warnings = |name: &str| {
        let create = create(name, vec![admin_value(100, 0x0fff, ADMIN)]);
        write(&registry, "operator", &create).unwrap().warnings
    };
    assert_eq!(warnings("10.1/p\u{430}per"), [WriteWarning::MixedScripts]);
    for name in ["10.1/paper", "10.1/дом-1", "10.1/例-paper", "10.1/Ü é"] {
        assert_eq!(warnings(name), [], "{name}");
    }
    assert_eq!(
        resolve(&registry, "anonymous", &ResolveQuery::new(Handle::from("10.1/p\u{430}per"))),
        Ok(vec![100])
    );
}

#[test]
fn attack_n7_n8_names() {
    let registry = registry();
    let long_name = format!("10.1/{}", "x".repeat(2_044));
    for name in ["", "10.1", "/", "//", "/x", &long_name] {
        check_write(&registry, "operator", &create(name, vec![]), 102);
    }
    check_write(&registry, "operator", &create(&format!("10.1/{}", "/".repeat(255)), vec![]), 1);
    check_write(&registry, "operator", &create(&long_name[..2_048], vec![]), 1);
    let resolved = |name: &[u8]| resolve(&registry, "anonymous", &ResolveQuery::new(Handle::new(name)));
    for suffix in [&b"\x80"[..], b"\xc0\xaf", b"\xed\xa0\x80"] {
        let name = [b"10.1/", suffix].concat();
        let handle = Handle::new(&name);
        let values = || vec![url_value(1, "https://a/")];
        for change in [
            HandleWrite::Create {
                name: handle,
                values: values(),
                overwrite: true,
                keep_secrets: false,
                uuid_bytes: None,
                force: false,
            },
            HandleWrite::Create {
                name: handle,
                values: values(),
                overwrite: false,
                keep_secrets: false,
                uuid_bytes: Some([7; 16]),
                force: false,
            },
            HandleWrite::Delete { name: handle, permanent: true },
            HandleWrite::AddValues { name: handle, values: values(), overwrite: true, force: false },
            HandleWrite::ModifyValues { name: handle, values: values(), force: false },
            HandleWrite::RemoveValues { name: handle, indexes: vec![1], force: false },
            HandleWrite::Home { prefix: handle },
        ] {
            check_write(&registry, "operator", &change, 102);
        }
        assert_eq!(resolved(&name), Err(102));
    }
    assert_eq!(resolved(long_name.as_bytes()), Err(102));
    assert_eq!(resolved(b""), Err(100));
    assert_eq!(resolved(b"/"), Err(301));
}

/// Prefixes longer than a store key can be.
#[test]
fn attack_r8_long_prefixes() {
    let directory = ram_dir();
    let stored = with_store(EmbeddedStore::open(directory.path()).unwrap(), RegistrySettings::default());
    let prefixes = ["1".repeat(2_046), "1.".repeat(1_022) + "1", "0.NA/1".to_owned() + &".1".repeat(1_000)];
    for prefix in prefixes {
        let name = if prefix.contains('/') { prefix.clone() } else { format!("{prefix}/x") };
        let query = ResolveQuery::new(Handle::from(&*name));
        let expected = if prefix.contains('/') { Err(100) } else { Err(301) };
        assert_eq!(resolve(&stored, "anonymous", &query), expected);
        assert_eq!(resolve(&registry(), "anonymous", &query), expected);
        check_write(&stored, "operator", &HandleWrite::Home { prefix: Handle::from(&*prefix) }, 102);
    }
    check_write(&stored, "operator", &HandleWrite::Home { prefix: Handle::from(&*"1".repeat(255)) }, 1);
}
