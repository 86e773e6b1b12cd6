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
    let (tokens, _) =
        block_on(fixture.registry.list_tokens(None, 100, &Caller::Operator, NOW, &mut budget())).unwrap();
    assert!(tokens.len() > 10);
    // Revocation takes effect at once.
    let caller = fixture.caller('1');
    fixture.register("10.71000/before", "https://a/", &caller).unwrap();
    fixture.execute_as(&RevokeToken { id: fixture.token_id('1') }, &caller).unwrap();
    assert_eq!(outcome_letter(&fixture.register("10.71000/after", "https://a/", &caller)), '?');
    assert_eq!(
        outcome_letter(
            &fixture.execute_as(&RetireDoi { name: "10.71000/x".into(), expected_revision: None }, &caller)
        ),
        '?'
    );
    let found =
        block_on(fixture.registry.get_doi("10.71000/x", &Caller::Anonymous, NOW, &mut budget())).unwrap();
    assert_eq!(found.state, DoiStatus::Registered);
}

/// A token that expires during a change feed reads no further.
#[test]
fn attack_a15_token_expires_during_feed() {
    let fixture = RegistryFixture::in_memory();
    let read = |letter: char, now_ms| {
        let (start, caller, mut budget) = (ChangeCursor::default(), fixture.caller(letter), budget());
        let changes = fixture.registry.list_changes(&start, 1_000, &caller, now_ms, &mut budget);
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
            &caller,
            now_ms,
            &mut budget,
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
