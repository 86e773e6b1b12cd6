//! Admin groups: nested, cyclic, large, retired.

use super::*;

#[test]
fn attack_p4_nested_groups() {
    let chain = |depth: usize| {
        let registry = registry();
        for number in 1..=depth {
            let member =
                if number == depth { "300:10.1/b".to_owned() } else { format!("200:10.1/g{}", number + 1) };
            put_record(registry.store(), &format!("10.1/g{number}"), vec![group_value(200, &[&member])]);
        }
        put_record(registry.store(), "0.NA/10.1", vec![admin_value(100, 0x0001, "200:10.1/g1")]);
        registry
    };
    for (depth, expected) in [(1, 1), (7, 1), (8, 1), (9, 400), (30, 400)] {
        check_write(&chain(depth), "300:10.1/b", &create("10.1/new", vec![]), expected);
    }
}

#[test]
fn attack_p5_cyclic_and_large_groups() {
    let check_with = |groups: Vec<(&str, HandleValue<'static>)>, expected| {
        let registry = registry();
        for (name, group) in groups {
            put_record(registry.store(), name, vec![group]);
        }
        put_record(registry.store(), "10.1/x", vec![admin_value(100, 0x0fff, "200:10.1/g")]);
        check_write(&registry, "300:10.1/b", &delete("10.1/x"), expected);
    };
    check_with(vec![("10.1/g", group_value(200, &["300:10.1/b"]))], 1);
    check_with(vec![("10.1/G", group_value(200, &["200:10.1/g", "300:10.1/b"]))], 1);
    // A cycle, and one that writes its names in another case each time.
    let cycle =
        || vec![("10.1/g", group_value(200, &["200:10.1/h"])), ("10.1/h", group_value(200, &["200:10.1/G"]))];
    check_with(cycle(), 400);
    // More members than the limit.
    let group_of_size = |count: u32| {
        let mut members: Vec<_> =
            (0..count).map(|index| ValueReference::new(index + 1, &b"10.1/c"[..])).collect();
        members.push(ValueReference::parse("300:10.1/b"));
        HandleValue::with_data(200, "HS_VLIST", ValueList { members }.to_bytes())
    };
    check_with(vec![("10.1/g", group_of_size(255))], 1);
    check_with(vec![("10.1/g", group_of_size(256))], 400);
    check_with(vec![("10.1/g", group_of_size(50_000))], 400);
    // A group of another service, though a record of that name is still in the store.
    let foreign_group =
        vec![("10.1/g", group_value(200, &["200:10.9/h"])), ("10.9/h", group_value(200, &["300:10.1/b"]))];
    check_with(foreign_group, 400);
    // Values that are not groups.
    check_with(
        vec![(
            "10.1/g",
            HandleValue { value_type: b"HS_VLIST.x"[..].into(), ..group_value(200, &["300:10.1/b"]) },
        )],
        400,
    );
    check_with(vec![("10.1/g", HandleValue::new(200, "HS_VLIST", "not one"))], 400);
    check_with(vec![("10.1/g", group_value(201, &["300:10.1/b"]))], 400);
}

/// Retired records grant nothing: a group, a prefix record, a key.
#[test]
fn attack_p5_retired_records() {
    let registry = registry();
    put_record(
        registry.store(),
        "10.1/g",
        vec![group_value(200, &["300:10.1/b"]), HandleValue::new(300, "HS_SECKEY", "x")],
    );
    put_record(registry.store(), "10.1/x", vec![admin_value(100, 0x0fff, "200:10.1/g")]);
    for retired in ["10.1/g", "0.NA/10.1"] {
        commit(registry.store(), Edit::Tombstone { name: retired.into(), precondition: Precondition::Live });
    }
    check_write(&registry, "300:10.1/b", &delete("10.1/x"), 400);
    check_write(&registry, "300:0.NA/10.1", &create("10.1/new", vec![]), 400);
    let keys = block_on(registry.key_values(Handle::from("10.1/g"), &mut Budget::new(1_000))).unwrap();
    assert_eq!(keys, []);
}

/// A group walk that exceeds the budget of a request fails.
#[test]
fn attack_p5_group_walk_exceeds_budget() {
    let registry = registry();
    put_record(registry.store(), "10.1/g", vec![group_value(200, &["300:10.1/b"])]);
    put_record(registry.store(), "10.1/x", vec![admin_value(100, 0x0fff, "200:10.1/g")]);
    for steps in 0..200 {
        let change = delete("10.1/x");
        let outcome = block_on(registry.write(&change, &caller("300:10.1/b"), NOW, &mut Budget::new(steps)));
        if outcome.is_ok() {
            assert!(steps > 40, "{steps} steps were enough");
            return;
        }
        assert!(matches!(outcome, Err(Error::BudgetExceeded(_))), "{outcome:?}");
    }
    panic!("200 steps were not enough");
}
