//! Parsing: no input panics, error offsets are in bounds, results satisfy their rules, and surrounding space changes nothing.

use tendot_names::{Doi, DoiOrShortDoi, Parser, SyntaxRules, repair};

pub(crate) fn check(bytes: &[u8]) {
    for rules in SyntaxRules::ALL {
        let strict = Parser::strict().rules(rules).parse_bytes(bytes);
        let lenient = Parser::lenient().rules(rules).parse_bytes(bytes);
        for parsed in [&strict, &lenient] {
            match parsed {
                Ok(parsed) => match parsed.identifier() {
                    DoiOrShortDoi::Doi(name) => {
                        assert!(!name.prefix().is_empty() && !name.suffix().is_empty());
                        let checked = Doi::with_rules(name.as_str(), rules);
                        assert!(
                            checked.is_ok() || checked.unwrap_err().kind().code() == "unassigned-character"
                        );
                    }
                    DoiOrShortDoi::ShortDoi(short) => assert_eq!(short.prefix(), "10"),
                },
                Err(error) => assert!(error.offset() <= bytes.len()),
            }
        }
        // Only strict parsing keeps white space at the end; other rule sets also allow quotes in DOIs.
        let ends_in_space = str::from_utf8(bytes).is_ok_and(|text| text.ends_with(char::is_whitespace));
        if let Ok(strict) = &strict
            && rules == SyntaxRules::Current
            && !ends_in_space
        {
            let lenient =
                lenient.as_ref().expect("lenient parsing accepts everything that strict parsing accepts");
            if lenient.adjustments().is_empty() {
                assert_eq!(strict.identifier(), lenient.identifier());
                assert_eq!(strict.input_form(), lenient.input_form());
            }
        }
        let spaced = [b" ", bytes, b"\n"].concat();
        match (lenient, Parser::lenient().rules(rules).parse_bytes(&spaced)) {
            (Ok(plain), Ok(spaced)) => assert_eq!(plain.identifier(), spaced.identifier()),
            (Err(plain), Err(spaced)) => assert_eq!(plain.kind(), spaced.kind()),
            (plain, spaced) => panic!("{plain:?} but with space {spaced:?}"),
        }
    }
    if let Ok(field) = str::from_utf8(bytes) {
        repair(field);
    }
}
