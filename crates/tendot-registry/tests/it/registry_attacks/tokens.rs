//! Expired and revoked tokens.

use super::*;

/// Revoked and expired tokens, and tokens of a closed agency, are rejected.
#[test]
fn attack_a14_old_tokens() {
    let fixture = RegistryFixture::in_memory();
    let is_valid = |letter: char, now_ms| {
        block_on(fixture.registry.authenticate_token(&fixture.tokens[&letter], now_ms, &mut budget()))
            .unwrap()
            .is_some()
    };
    assert!(is_valid('1', NOW) && is_valid('x', NOW - 1));
    assert!(!is_valid('x', NOW) && !is_valid('v', NOW) && !is_valid('v', 0));
    for letter in "xve".chars() {
        assert_eq!(
            outcome_letter(&fixture.register("10.71000/a14", "https://a/", &fixture.caller(letter))),
            '?',
            "{letter}"
        );
    }
    // Another secret, a truncated token, another case.
    let (valid_token, second_token) = (&fixture.tokens[&'1'], &fixture.tokens[&'2']);
    let (id, secret) = valid_token.rsplit_once('_').unwrap();
    let (_, other_secret) = second_token.rsplit_once('_').unwrap();
    for invalid_token in [
        format!("{id}_{other_secret}"),
        format!("{id}_"),
        id.to_owned(),
        format!("{id}_{}", secret.to_uppercase()),
        format!("{id}_{}", &secret[..63]),
        format!("{valid_token} "),
        valid_token.replace("tendot_", ""),
        "tendot_".to_owned(),
        String::new(),
        format!("tendot_../agency/alpha_{secret}"),
        format!("tendot_{}_{secret}", "x".repeat(100_000)),
    ] {
        assert_eq!(
            block_on(fixture.registry.authenticate_token(&invalid_token, NOW, &mut budget())).unwrap(),
            None,
            "{invalid_token:.40}"
        );
    }
    // The store has no token secrets.
    let mut registrations = String::new();
    block_on(fixture.registry.store().scan_records(None, None, |entry| {
        registrations.push_str(&String::from_utf8_lossy(&entry.registration));
        true
    }))
    .unwrap();
    assert!(registrations.contains("\"hash\""));
    for token in fixture.tokens.values() {
        let (_, secret) = token.rsplit_once('_').unwrap();
        assert!(!registrations.contains(secret));
    }
    // The list of tokens has no secrets, either.
    let tokens = block_on(fixture.registry.list_tokens(
        None,
        100,
        CallContext::new(&Caller::Operator, NOW, &mut budget()),
    ))
    .unwrap()
    .items;
    assert!(tokens.len() > 10);
    // Revocation takes effect at once.
    let caller = fixture.caller('1');
    fixture.register("10.71000/before", "https://a/", &caller).unwrap();
    fixture.execute_as(&RevokeToken { id: fixture.token_id('1'), cascade: false }, &caller).unwrap();
    assert_eq!(outcome_letter(&fixture.register("10.71000/after", "https://a/", &caller)), '?');
    assert_eq!(
        outcome_letter(
            &fixture.execute_as(&RetireDoi { name: "10.71000/x".into(), expected_revision: None }, &caller)
        ),
        '?'
    );
    let found = block_on(
        fixture.registry.get_doi("10.71000/x", CallContext::new(&Caller::Anonymous, NOW, &mut budget())),
    )
    .unwrap();
    assert_eq!(found.state, DoiStatus::Registered);
}

/// A token that expires during a change feed reads no further.
#[test]
fn attack_a15_token_expires_during_feed() {
    let fixture = RegistryFixture::in_memory();
    let read = |letter: char, now_ms| {
        let (start, caller, mut budget) = (ChangeCursor::default(), fixture.caller(letter), budget());
        let changes =
            fixture.registry.list_changes(&start, 1_000, CallContext::new(&caller, now_ms, &mut budget));
        block_on(changes).map_err(RegistryError::from).map(|changes| {
            let names: Vec<_> = changes.items.iter().map(|item| &*item.name).collect();
            (
                names.contains(&"10.71000/r"),
                changes.items.iter().any(|item| item.subject == ChangeSubject::Transfer),
            )
        })
    };
    assert_eq!(read('x', NOW - 1).unwrap(), (true, false));
    assert_eq!(outcome_letter(&read('x', NOW)), '?');
    let history = |now_ms| {
        let (order, caller, mut budget) =
            (HistoryOrder::OldestFirst { after: 0 }, fixture.caller('x'), budget());
        let history = fixture.registry.record_history(
            Handle::from("10.71000/r"),
            order,
            10,
            CallContext::new(&caller, now_ms, &mut budget),
        );
        outcome_letter(&block_on(history).map_err(RegistryError::from))
    };
    assert_eq!((history(NOW - 1), history(NOW)), ('+', '?'));
    // Only the operator sees transfers.
    for (letter, expected) in
        [('n', (false, false)), ('1', (true, false)), ('o', (true, true)), ('O', (true, true))]
    {
        assert_eq!(read(letter, NOW).unwrap(), expected, "{letter}");
    }
}

/// A token that another one created expires with it at the latest, names it, and can be revoked together with it.
#[test]
fn audit_f7_child_tokens_end_with_their_parent() {
    let fixture = RegistryFixture::in_memory();
    let new_token = |expires_ms| {
        fixture.new_token(Role::Registrant, Some(fixture.id("A1")), None, Vec::new(), expires_ms)
    };
    let create = |expires_ms, creator: &Caller| {
        let command = new_token(expires_ms);
        let token = fixture.execute_at(&command, creator, NOW - 10)?.output;
        let identity =
            block_on(fixture.registry.authenticate_token(&command.plaintext(), NOW - 9, &mut budget()));
        Ok::<_, RegistryError>((token, Caller::Token(identity.unwrap().unwrap())))
    };
    // The parent expires at NOW.
    let parent = fixture.caller('x');
    let (child, child_caller) = create(None, &parent).unwrap();
    assert_eq!(child.expires_ms, Some(NOW));
    assert_eq!(child.parent.as_deref(), Some(&*fixture.token_id('x')));
    assert_eq!(create(Some(NOW - 5), &parent).unwrap().0.expires_ms, Some(NOW - 5));
    assert_eq!(create(Some(NOW + 1), &parent).unwrap_err().code, "expires-after-parent");
    let (grandchild, grandchild_caller) = create(Some(NOW), &child_caller).unwrap();
    assert_eq!(create(Some(NOW + 1), &grandchild_caller).unwrap_err().code, "expires-after-parent");
    // Credentials that do not expire have no such limit, and leave no parent if they are not tokens.
    let (free, _) = create(Some(NOW + 1_000), &fixture.caller('1')).unwrap();
    assert_eq!(free.parent.as_deref(), Some(&*fixture.token_id('1')));
    assert_eq!(create(None, &Caller::Operator).unwrap().0.parent, None);

    // Without `cascade`, the children stay and are listed.
    let revoke =
        |id: &str, cascade| fixture.execute_as_operator(&RevokeToken { id: id.into(), cascade }).output;
    let revoked = revoke(&free.id, false);
    assert_eq!((&*revoked.revoked, &*revoked.children), (&[free.id.clone()][..], &[][..]));
    let revoked = revoke(&grandchild.id, false);
    assert_eq!(revoked.children, []);
    let (grandchild, grandchild_caller) = create(None, &child_caller).unwrap();
    let revoked = revoke(&fixture.token_id('x'), true);
    assert_eq!(revoked.revoked.len(), 4, "with both children and the grandchild");
    assert!(revoked.revoked.contains(&child.id) && revoked.revoked.contains(&grandchild.id));
    for caller in [child_caller, grandchild_caller] {
        let refused = fixture.execute_at(&new_token(None), &caller, NOW - 8).unwrap_err();
        assert_eq!(refused.code, "invalid-token");
    }
    let (parent, parent_caller) = create(None, &Caller::Operator).unwrap();
    let (child, _) = create(None, &parent_caller).unwrap();
    assert_eq!(revoke(&parent.id, false).children, [child.id]);
    // Nothing of the index is left for revoked tokens.
    let left = block_on(fixture.registry.store().list_aux(b"holdings/token/", None, 10)).unwrap();
    assert_eq!(left.len(), 1, "the mark of the token of A1: {left:?}");
}

/// A transfer can be accepted only while the credential that proposed it is valid, and for 30 days.
#[test]
fn audit_f8_proposals_end_with_their_credential_and_time() {
    const DAY: u64 = 24 * 60 * 60 * 1_000;
    let fixture = RegistryFixture::in_memory();
    let recipient = fixture.caller('2');
    let propose = |caller: &Caller, now_ms| {
        let proposal = ProposeTransfer {
            subject: TransferSubject::Prefix(PREFIX_A1.into()),
            to: fixture.id("A2"),
            force: false,
            random_bytes: fixture.random_bytes(),
        };
        fixture.execute_at(&proposal, caller, now_ms).unwrap().output
    };
    let decide = |id: &str, accept, now_ms| {
        let decided = fixture.execute_at(&DecideTransfer { id: id.into(), accept }, &recipient, now_ms);
        decided.map(drop).map_err(|error| error.code)
    };
    // Expired.
    let expired = propose(&fixture.caller('1'), NOW);
    assert_eq!(expired.proposed_with.as_deref(), Some(&*fixture.token_id('1')));
    assert_eq!(decide(&expired.id, true, NOW + 30 * DAY), Err("proposal-expired"));
    assert_eq!(decide(&expired.id, false, NOW + 31 * DAY), Ok(()), "an expired proposal can be declined");
    // The token expires before.
    let outlived = propose(&fixture.caller('x'), NOW - 5);
    assert_eq!(decide(&outlived.id, true, NOW), Err("proposer-invalid"));
    // Revoked, also with its parent; the revocation lists the proposal.
    let command = fixture.new_token(Role::Registrant, Some(fixture.id("A1")), None, Vec::new(), None);
    fixture.execute_at(&command, &fixture.caller('1'), NOW).unwrap();
    let identity = block_on(fixture.registry.authenticate_token(&command.plaintext(), NOW, &mut budget()));
    let revoked = propose(&Caller::Token(identity.unwrap().unwrap()), NOW);
    let declined = propose(&fixture.caller('1'), NOW);
    decide(&declined.id, false, NOW).unwrap();
    let open = propose(&fixture.caller('1'), NOW);
    let outcome =
        fixture.execute_as_operator(&RevokeToken { id: fixture.token_id('1'), cascade: true }).output;
    assert_eq!(outcome.revoked.len(), 2);
    assert_eq!(outcome.proposals, [open.id.clone(), revoked.id.clone()]);
    for id in [&open.id, &revoked.id] {
        assert_eq!(decide(id, true, NOW + 1), Err("proposer-invalid"));
    }
    // A valid one.
    let accepted = propose(&fixture.caller('t'), NOW);
    assert_eq!(decide(&accepted.id, true, NOW + 30 * DAY - 1), Ok(()));
}
