//! Hidden values and private objects.

use super::*;

/// Hidden values are returned only to administrators, by every query.
#[test]
fn attack_p10_hidden_values() {
    let fixture = RegistryFixture::in_memory();
    let name = "10.71000/secret";
    let url =
        HandleValue { permissions: ValuePermissions(0x0c), ..HandleValue::new(1, "URL", "https://hidden/") };
    let loc = HandleValue::new(2, "10320/loc", r#"<locations><location href="https://a/"/></locations>"#);
    let values = vec![url, loc, hidden_value(), admin_value(100, "200:0.NA/10.71000")];
    assert_eq!(write(&fixture, &create(name, values), &key_caller(KEY)), '+');
    for (letter, expected) in
        [('n', false), ('3', false), ('2', false), ('p', false), ('1', true), ('k', true)]
    {
        let caller = fixture.caller(letter);
        let found =
            block_on(fixture.registry.get_doi(name, CallContext::new(&caller, NOW, &mut budget()))).unwrap();
        assert_eq!(found.values.iter().any(|value| value.index == 5), expected, "{letter}");
        assert_eq!(found.url().is_some(), expected, "{letter}");
        let mut budget = budget();
        let names = fixture.registry.list_dois(
            DoiFilter { prefix: Some(PREFIX_A1), registrant: None },
            None,
            100,
            CallContext::new(&caller, NOW, &mut budget),
        );
        let item = block_on(names).unwrap().items.into_iter().find(|item| *item.name == *name).unwrap();
        assert_eq!(item.url, None, "{letter}");
        assert_eq!(read_hidden(&fixture, name, &caller) == '+', expected, "{letter}");
    }
    fixture.update(name, "https://b/", &fixture.caller('1')).unwrap();
    let order = HistoryOrder::OldestFirst { after: 0 };
    let mut budget = budget();
    let history = fixture.registry.record_history(
        Handle::from(name),
        order,
        10,
        CallContext::new(&Caller::Anonymous, NOW, &mut budget),
    );
    assert!(!format!("{:?}", block_on(history).unwrap()).contains("hidden"));
}

/// A token that is restricted to another prefix does not reveal reserved names of its own registrant.
#[test]
fn attack_p11_restricted_token() {
    let fixture = RegistryFixture::in_memory();
    let transfer = |name: &str| {
        let names = TransferSubject::Names(vec![name.into()]);
        let error = fixture.transfer(names, "A2", false, &fixture.caller('p')).unwrap_err();
        (error.kind, error.code, error.detail.replace(name, "NAME"), error.pointer)
    };
    assert_eq!(transfer("10.71000/r"), transfer("10.71000/none"));
}

/// Private objects of others get the same errors as absent ones, and ids cannot be guessed.
#[test]
fn attack_p11_private_objects_look_absent() {
    let fixture = RegistryFixture::in_memory();
    let stranger = fixture.caller('3');
    let fields = |error: Option<RegistryError>, id: &str| {
        let error = error.unwrap();
        (error.kind, error.code, error.detail.replace(id, "ID"), error.pointer)
    };
    let transfer = fixture
        .transfer(TransferSubject::Prefix(PREFIX_A1.into()), "A2", false, &fixture.caller('1'))
        .unwrap();
    let pairs: [(&str, &str); 3] = [
        (&fixture.token_id('1'), "0123456789ab"),
        (&transfer, "0123456789ab"),
        ("10.71000/r", "10.71000/none"),
    ];
    type Attempt<'a> = &'a dyn Fn(&str) -> Option<RegistryError>;
    let revoke: Attempt<'_> =
        &|id| fixture.execute_as(&RevokeToken { id: id.into(), cascade: false }, &stranger).err();
    let read: Attempt<'_> = &|id| {
        block_on(fixture.registry.get_transfer(id, CallContext::new(&stranger, NOW, &mut budget()))).err()
    };
    let decide: Attempt<'_> =
        &|id| fixture.execute_as(&DecideTransfer { id: id.into(), accept: true }, &stranger).err();
    let read_doi: Attempt<'_> = &|name| {
        block_on(fixture.registry.get_doi(name, CallContext::new(&stranger, NOW, &mut budget()))).err()
    };
    let update: Attempt<'_> = &|name| fixture.update(name, "https://b/", &stranger).err();
    let retire: Attempt<'_> = &|name| fixture.retire(name, &stranger).err();
    let register: Attempt<'_> = &|name| fixture.register(name, "https://b/", &stranger).err();
    let transfer_name: Attempt<'_> =
        &|name| fixture.transfer(TransferSubject::Names(vec![name.into()]), "B1", false, &stranger).err();
    let batch: Attempt<'_> = &|name| {
        fixture.batch(&[batch_line(1, request(name, "https://b/"))], &stranger).remove(0).result.err()
    };
    let handle_write = |write: HandleWrite<'_>| fixture.write(&write, &key_caller("300:10.9/evil")).err();
    let handle_create: Attempt<'_> = &|name| handle_write(create(name, vec![]));
    let handle_modify: Attempt<'_> = &|name| handle_write(modify(name));
    let handle_delete: Attempt<'_> =
        &|name| handle_write(HandleWrite::Delete { name: Handle::from(name), permanent: true });
    let resolve: Attempt<'_> = &|name| {
        let query = ResolveQuery::new(Handle::from(name));
        block_on(fixture.registry.resolve(&query, &stranger, &mut budget())).err().map(RegistryError::from)
    };
    let history: Attempt<'_> = &|name| {
        let (order, mut budget) = (HistoryOrder::OldestFirst { after: 0 }, budget());
        let history = fixture.registry.record_history(
            Handle::from(name),
            order,
            10,
            CallContext::new(&stranger, NOW, &mut budget),
        );
        block_on(history).err().map(RegistryError::from)
    };
    for ((private, absent), attempts) in [
        (pairs[0], &[revoke][..]),
        (pairs[1], &[read, decide]),
        (
            pairs[2],
            &[
                read_doi,
                update,
                retire,
                register,
                transfer_name,
                batch,
                handle_create,
                handle_modify,
                handle_delete,
                resolve,
                history,
            ],
        ),
    ] {
        for (number, attempt) in attempts.iter().enumerate() {
            assert_eq!(
                fields(attempt(private), private),
                fields(attempt(absent), absent),
                "{private} {number}"
            );
        }
    }
    // Also after the reserved name was deleted.
    fixture.retire("10.71000/r", &fixture.caller('1')).unwrap();
    assert_eq!(
        fields(history("10.71000/r"), "10.71000/r"),
        fields(history("10.71000/none"), "10.71000/none")
    );
    // Ids have no common pattern.
    let ids: Vec<_> = (0..100)
        .map(|_| {
            let token = fixture.new_token(Role::Operator, None, None, vec![], None);
            fixture.execute_as_operator(&token).output.id
        })
        .collect();
    for (first, second) in ids.iter().zip(&ids[1..]) {
        let equal_bytes = first.bytes().zip(second.bytes()).filter(|(first, second)| first == second).count();
        assert!(first.len() == 12 && equal_bytes < 6, "{first} {second}");
    }
}
