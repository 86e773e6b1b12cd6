//! Names and prefixes that belong, or belonged, to others.

use super::*;

/// Removing the last administrator locks out keys only: the registrant's token can recover the record.
#[test]
fn attack_p6_recovery_by_token() {
    let fixture = RegistryFixture::in_memory();
    let name = "10.71000/x";
    let remove = |force| HandleWrite::RemoveValues { name: Handle::from(name), indexes: vec![100], force };
    assert_eq!(write(&fixture, &remove(false), &key_caller(KEY)), '!');
    assert_eq!(write(&fixture, &remove(true), &key_caller(KEY)), '+');
    assert_eq!(
        fixture.update(name, "https://b/", &fixture.caller('2')).map_err(|error| error.code),
        Err("forbidden")
    );
    fixture.update(name, "https://b/", &fixture.caller('1')).unwrap();
    assert_eq!(write(&fixture, &modify(name), &key_caller(KEY)), '+');
    check_invariants(&fixture.registry);
}

/// No caller gets a prefix by creating its record, one derived from a foreign prefix, or one of another agency's range.
#[test]
fn attack_p7_prefix_take_over() {
    let fixture = RegistryFixture::in_memory();
    assert_eq!(
        write(&fixture, &HandleWrite::Home { prefix: Handle::from("0.NA/0.NA") }, &Caller::Operator),
        '+'
    );
    for letter in "nAB123kws".chars() {
        let caller = fixture.caller(letter);
        for (name, rejected_with) in [
            ("0.NA/10.71000", 'c'),
            ("0.na/10.71000.5", ' '),
            ("0.NA/10.71002.5", ' '),
            ("0.NA/10.99999", ' '),
            ("0.TENDOT/agency/evil", '0'),
            ("0.tendot/token/evil", '0'),
        ] {
            let expected = match (rejected_with, letter) {
                (' ', 'n') => '?',
                (' ', _) => '-',
                (rejected_with, _) => rejected_with,
            };
            let actual = write(&fixture, &create(name, vec![admin_value(100, KEY)]), &caller);
            assert_eq!(actual, expected, "{name} by {letter}");
        }
    }
    // Beta, which has no range, gets no prefix of alpha's range, neither by name nor as the next free one.
    let allocate = |prefix: Option<&str>, registrant: &str, letter| {
        let (registrant, prefix) = (fixture.id(registrant), prefix.map(Into::into));
        let command = AllocatePrefix { registrant, prefix, is_test: false, policy: PrefixPolicy::default() };
        fixture
            .execute_as(&command, &fixture.caller(letter))
            .map(|created| created.output.prefix)
            .map_err(|error| error.code)
    };
    assert_eq!(allocate(Some("10.71500"), "B1", 'B'), Err("prefix-out-of-range"));
    assert_eq!(allocate(Some("10.72500"), "A1", 'A'), Err("prefix-out-of-range"));
    assert_eq!(allocate(Some("10.69999"), "B1", 'B'), Err("prefix-out-of-range"));
    assert_eq!(allocate(Some("10.71000.1"), "B1", 'B'), Err("prefix-out-of-range"));
    assert_eq!(allocate(Some("10.71000"), "B1", 'B'), Err("prefix-in-use"));
    assert_eq!(allocate(Some("10.0070000"), "B1", 'B'), Err("prefix-out-of-range"));
    assert_eq!(allocate(Some("11.1"), "B1", 'B'), Err("invalid-prefix"));
    fixture.agency("narrow", Some(("10.70000", "10.70001")));
    assert_eq!(allocate(None, "B1", 'B').as_deref(), Ok("10.70002"));
    assert_eq!(allocate(None, "A1", 'A').as_deref(), Ok("10.71003"));
    assert_eq!(allocate(Some("10.70003"), "B1", 'B').as_deref(), Ok("10.70003"));
    assert_eq!(allocate(None, "B1", 'B').as_deref(), Ok("10.70004"));
    let policy = |pattern: &str| {
        let policy = Some(PrefixPolicy { pattern: Some(pattern.into()), ..PrefixPolicy::default() });
        let change = UpdatePrefix { prefix: PREFIX_A1.into(), policy, expected_revision: None };
        fixture.execute_as(&change, &fixture.caller('A')).map(drop).map_err(|error| error.code)
    };
    assert_eq!(policy("a)|(?:.*"), Err("invalid-pattern"), "the pattern would match everything");
    assert_eq!(policy("(a{1000}){1000}"), Err("invalid-pattern"));
    assert_eq!(policy("[a-z]+"), Ok(()));
    check_invariants(&fixture.registry);
}

/// After a prefix transfer, keys in its records grant nothing, at once and by no operation.
#[test]
fn attack_p8_previous_holder_keys() {
    let fixture = RegistryFixture::in_memory();
    let (own_name, other_name) = ("10.71000/own", "10.71000/x");
    // The creator added its own key twice.
    let values = vec![
        HandleValue::new(1, "URL", "https://a/"),
        hidden_value(),
        admin_value(100, KEY),
        admin_value(101, KEY),
    ];
    assert_eq!(write(&fixture, &create(own_name, values), &key_caller(KEY)), '+');
    let key = key_caller(KEY);
    let attempts = |caller: &Caller, new: &str| {
        [
            write(&fixture, &modify(own_name), caller),
            write(&fixture, &modify(other_name), caller),
            write(&fixture, &add(own_name, vec![admin_value(102, KEY)]), caller),
            write(
                &fixture,
                &HandleWrite::RemoveValues { name: Handle::from(own_name), indexes: vec![102], force: false },
                caller,
            ),
            write(&fixture, &create(new, vec![admin_value(100, KEY)]), caller),
            read_hidden(&fixture, own_name, caller),
            list(&fixture, PREFIX_A1, caller),
            outcome_letter(&fixture.update(other_name, "https://b/", caller)),
        ]
    };
    for caller in [&key, &fixture.caller('1')] {
        assert_eq!(attempts(caller, &format!("10.71000/{caller}")), ['+'; 8], "{caller}");
    }
    let before = block_on(fixture.registry.store().read_log(0, 10_000)).unwrap().len();
    fixture.transfer(TransferSubject::Prefix(PREFIX_A1.into()), "B1", true, &Caller::Operator).unwrap();
    for caller in [&key, &fixture.caller('1'), &fixture.caller('A')] {
        let new = format!("10.71000/later-{caller}");
        // Not even removing values that they added before.
        assert_eq!(attempts(caller, &new), ['-'; 8], "{caller}");
    }
    let log = block_on(fixture.registry.store().read_log(before as u64, 10)).unwrap();
    assert_eq!(log.iter().map(|line| &*line.name).filter(|name| *name == "0.NA/10.71000").count(), 1);
    // The new holder may do everything, also with records that only the old keys administer.
    let new = fixture.caller('3');
    assert_eq!(attempts(&new, "10.71000/new"), ['+'; 8]);
    // A name under the prefix with another owner stays with that owner.
    assert_eq!(outcome_letter(&fixture.update("10.71000/transferred", "https://b/", &new)), '-');
    assert_eq!(
        outcome_letter(&fixture.update("10.71000/transferred", "https://b/", &fixture.caller('2'))),
        '+'
    );
    // A name transfer removes the old keys from the record.
    fixture.transfer(TransferSubject::Names(vec![own_name.into()]), "A2", true, &Caller::Operator).unwrap();
    assert_eq!(write(&fixture, &modify(own_name), &key_caller("300:10.9/two")), '+');
    assert_eq!(write(&fixture, &modify(own_name), &key), '-');
}

/// The admin group of a new owner of names gets a free index in the prefix record; no other value is lost.
#[test]
fn attack_p12_group_index_collisions() {
    let mut fixture = RegistryFixture::in_memory();
    let record = "0.NA/10.71005";
    let existing =
        vec![HandleValue::new(201, "NOTE", "of the prefix"), HandleValue::new(203, "HS_PUBKEY", "a key")];
    let edits =
        vec![Edit::Put { name: record.into(), values: existing.clone(), precondition: Precondition::Absent }];
    block_on(fixture.registry.store().commit(ChangeSet {
        author: "import".into(),
        timestamp_ms: NOW,
        edits,
    }))
    .unwrap();
    fixture.prefix("A1", Some("10.71005"), PrefixPolicy::default());
    for number in 0..3 {
        let (name, to) = (format!("10.71005/{number}"), format!("new {number}"));
        fixture.registrant(&to, "alpha", &[&format!("300:10.9/{number}")]);
        fixture.register(&name, "https://a/", &Caller::Operator).unwrap();
        fixture.transfer(TransferSubject::Names(vec![name.into()]), &to, true, &Caller::Operator).unwrap();
    }
    let values = values(&fixture, record);
    let indexes: Vec<u32> = values.iter().map(|value| value.index).filter(|index| *index > 200).collect();
    assert_eq!(indexes, [201, 202, 203, 204, 205]);
    for value in existing {
        assert!(values.iter().any(|other| other.index == value.index && other.data == value.data));
    }
    // Each owner administers its own names.
    for (number, other) in [(0, 1), (1, 2), (2, 0)] {
        let name = format!("10.71005/{number}");
        assert_eq!(write(&fixture, &modify(&name), &key_caller(&format!("300:10.9/{other}"))), '-');
        assert_eq!(write(&fixture, &modify(&name), &key_caller(&format!("300:10.9/{number}"))), '+');
    }
    // A change of administrators changes the registrant's own group and no other value.
    let change = UpdateRegistrant { id: fixture.id("new 1"), admins: Some(vec![]), ..Default::default() };
    fixture.execute_as_operator(&change);
    let changed = self::values(&fixture, record);
    let is_other = |value: &&HandleValue<'_>| value.index != 204;
    assert!(values.iter().filter(is_other).eq(changed.iter().filter(is_other)));
    assert_ne!(values, changed);
}

fn values(fixture: &RegistryFixture, name: &str) -> Vec<HandleValue<'static>> {
    let key = NameKey::new(name).unwrap();
    block_on(fixture.registry.store().get(&key)).unwrap().unwrap().values
}

/// Values of handle clients at indexes that the registry uses are not overwritten, and no record gets a duplicate index.
#[test]
fn attack_p13_reserved_indexes() {
    let fixture = RegistryFixture::in_memory();
    let code = |outcome: Result<(), RegistryError>| outcome.map_err(|error| (error.code, error.detail));
    let reserved_index = |name: &str| {
        let detail = format!("index 100 of `{name}` is reserved for HS_ADMIN but has another value");
        Err(("reserved-index", detail))
    };
    let name = "10.71000/odd";
    let note = HandleValue::new(100, "NOTE", "mine");
    let initial = vec![HandleValue::new(1, "URL", "https://a/"), note, admin_value(7, "200:0.NA/10.71000")];
    assert_eq!(write(&fixture, &create(name, initial), &key_caller(KEY)), '+');
    let before = values(&fixture, name);
    assert_eq!(code(fixture.update(name, "https://b/", &fixture.caller('1'))), reserved_index(name));
    let transfer = || {
        fixture.transfer(TransferSubject::Names(vec![name.into()]), "A2", true, &Caller::Operator).map(drop)
    };
    let error = transfer().unwrap_err();
    assert_eq!(error.pointer.as_deref(), Some("/names/0"));
    assert_eq!(code(Err(error)), reserved_index(name));
    assert_eq!(values(&fixture, name), before);
    // A request that lists the values replaces them.
    let body = RegistrationRequest {
        values: Some(vec![HandleValue::new(5, "NOTE", "mine")]),
        ..RegistrationRequest::default()
    };
    fixture
        .execute_as(
            &UpdateDoi { name: name.into(), request: body, expected_revision: None },
            &fixture.caller('1'),
        )
        .unwrap();
    assert!(transfer().is_ok());
    // An administrator at the URL's index is moved.
    let first = "10.71000/first";
    let initial = vec![admin_value(1, KEY), admin_value(101, KEY), HandleValue::new(2, "URL", "https://a/")];
    assert_eq!(write(&fixture, &create(first, initial), &key_caller(KEY)), '+');
    for url in ["https://b/", "https://c/"] {
        assert_eq!(code(fixture.update(first, url, &fixture.caller('1'))), Ok(()));
    }
    let found = values(&fixture, first);
    let found: Vec<(u32, bool)> =
        found.iter().map(|value| (value.index, value.has_type("HS_ADMIN"))).collect();
    assert_eq!(found, [(1, false), (2, false), (100, true), (101, true), (102, true)]);
}
