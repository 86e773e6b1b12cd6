//! Names that are equal or look equal.

use super::*;

store_tests!(memory, embedded => { attack_r1_one_name_many_spellings });
store_tests!(postgres => { attack_r1_one_name_many_spellings });

/// 64 clients register one name in 64 spellings by three interfaces: exactly one succeeds, and the errors of all others have
/// its spelling.
fn attack_r1_one_name_many_spellings(kind: StoreKind) {
    let fixture = FixtureSource::new(kind).fixture();
    let (start, registry, caller) = (Barrier::new(64), &fixture.registry, fixture.caller('1'));
    let outcomes: Vec<(String, Result<(), Box<str>>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..64_u32)
            .map(|number| {
                let (start, caller) = (&start, &caller);
                scope.spawn(move || {
                    let recased = |(position, letter): (usize, char)| {
                        if number >> position & 1 == 1 { letter.to_ascii_uppercase() } else { letter }
                    };
                    let name = format!(
                        "{PREFIX_A1}/{}",
                        "abcdef".chars().enumerate().map(recased).collect::<String>()
                    );
                    let body = request(&name, &format!("https://{number}.example/"));
                    start.wait();
                    let error = match number % 3 {
                        0 => {
                            let command = RegisterDoi { request: body, random_bytes: [0; 16] };
                            block_on(registry.execute(&command, caller, NOW, &mut budget())).err()
                        }
                        1 => {
                            let write = create(&name, vec![admin_value(100, KEY)]);
                            let written =
                                block_on(registry.write(&write, caller, write_time(), &mut budget()));
                            written.err().map(RegistryError::from)
                        }
                        _ => {
                            let command = RegisterDoi { request: body, random_bytes: [0; 16] };
                            block_on(registry.execute(&command, &key_caller(KEY), NOW, &mut budget())).err()
                        }
                    };
                    let outcome = match error {
                        None => Ok(()),
                        Some(error) => {
                            assert_eq!(error.code, "already-registered");
                            Err(error.existing.unwrap().name)
                        }
                    };
                    (name, outcome)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let winners: Vec<_> = outcomes.iter().filter(|(_, outcome)| outcome.is_ok()).collect();
    assert_eq!(winners.len(), 1);
    let mut others = outcomes.iter().filter_map(|(_, outcome)| outcome.as_ref().err());
    assert!(others.all(|name| **name == *winners[0].0), "the errors have the registered spelling");
}

/// Letters that are equal only in some languages, or only by Unicode case folding, are different.
#[test]
fn attack_r2_other_letters() {
    let fixture = RegistryFixture::in_memory();
    let register = |suffix: &str| {
        outcome_letter(&fixture.register(
            &format!("{PREFIX_A1}/{suffix}"),
            "https://a/",
            &fixture.caller('1'),
        ))
    };
    for suffix in ["é", "É", "k", "\u{212a}", "i", "ı", "İ", "ß", "ẞ"] {
        assert_eq!(register(suffix), '+', "{suffix}");
    }
    for suffix in ["K", "I"] {
        assert_eq!(register(suffix), 'c', "{suffix}");
    }
}

/// The same text composed and decomposed: a warning, or an error by the prefix policy; also within a batch and for handles.
#[test]
fn attack_r3_composed_and_decomposed() {
    let fixture = RegistryFixture::in_memory();
    let caller = fixture.caller('1');
    let register = |name: &str| {
        let created = fixture.execute_as(
            &RegisterDoi { request: request(name, "https://a/"), random_bytes: [0; 16] },
            &caller,
        );
        created.map(|created| created.output.warnings).map_err(|error| error.code)
    };
    let confusable_with = |name: &str| WriteWarning::ConfusableWith { name: name.into() };
    assert_eq!(register("10.71000/\u{e9}"), Ok(vec![]));
    assert_eq!(register("10.71000/e\u{301}"), Ok(vec![confusable_with("10.71000/\u{e9}")]));
    let batch = |names: [&str; 2]| {
        let lines: Vec<_> = names.iter().map(|name| batch_line(1, request(name, "https://a/"))).collect();
        let outcomes = fixture.batch(&lines, &caller);
        (outcome_texts(&outcomes).remove(1), outcomes.into_iter().nth(1).unwrap().warnings)
    };
    let (last, warnings) = batch(["10.71000/\u{f6}", "10.71000/o\u{308}"]);
    assert_eq!(
        (&*last, &*warnings),
        ("created 10.71000/o\u{308}", &[confusable_with("10.71000/\u{f6}")][..])
    );
    let policy = r#"{"policy": {"confusable": "refuse"}}"#;
    fixture.execute_as_operator(&UpdatePrefix {
        prefix: PREFIX_A1.into(),
        ..serde_json::from_str(policy).unwrap()
    });
    assert_eq!(register("10.71000/\u{e4}"), Ok(vec![]));
    assert_eq!(register("10.71000/a\u{308}"), Err("confusable"));
    assert_eq!(batch(["10.71000/\u{fc}", "10.71000/u\u{308}"]).0, "refused confusable");
    assert_eq!(
        write(&fixture, &create("10.71000/a\u{308}", vec![admin_value(100, KEY)]), &key_caller(KEY)),
        'c'
    );
}

/// Invisible characters are rejected; mixed scripts get a warning, or an error by the prefix policy.
#[test]
fn attack_r4_confusables() {
    let fixture = RegistryFixture::in_memory();
    let caller = fixture.caller('1');
    let register = |suffix: &str| {
        let body = request(&format!("{PREFIX_A1}/{suffix}"), "https://a/");
        let created = fixture.execute_as(&RegisterDoi { request: body, random_bytes: [0; 16] }, &caller);
        created.map(|created| created.output.warnings).map_err(|error| error.code)
    };
    for suffix in ["a\u{200b}", "\u{202e}a", "a\u{e0041}", "a\u{0}", "a\nb", "\u{feff}a", "a\u{ad}"] {
        assert_eq!(register(suffix), Err("invalid-name"), "{suffix:?}");
    }
    assert_eq!(register("p\u{430}per"), Ok(vec![WriteWarning::MixedScripts]));
    assert_eq!(register("дом-1"), Ok(vec![]));
    let policy = r#"{"policy": {"confusable": "refuse"}}"#;
    fixture.execute_as_operator(&UpdatePrefix {
        prefix: PREFIX_A1.into(),
        ..serde_json::from_str(policy).unwrap()
    });
    assert_eq!(register("p\u{430}pers"), Err("confusable"));
    for (text, code) in [("", "missing"), ("a\u{202e}b", "invisible-character")] {
        let (agency, name, random_bytes) = (Some("alpha".into()), text.into(), [5; 16]);
        let command = CreateRegistrant { agency, name, contact: None, admins: Vec::new(), random_bytes };
        assert_eq!(
            fixture.execute_as(&command, &Caller::Operator).map_err(|error| error.code).err(),
            Some(code)
        );
    }
}
