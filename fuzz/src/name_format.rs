//! Output forms: every DOI parses back from every form.

use tendot_names::{Doi, OutputForm, Parser, SyntaxRules};

pub(crate) fn check(bytes: &[u8]) {
    let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let Ok(name) = Doi::with_rules(text, SyntaxRules::Minimal2002) else { return };
    let parser = Parser::strict().rules(SyntaxRules::Minimal2002);
    for form in OutputForm::ALL {
        let Some(formatted) = name.format(form) else { continue };
        let formatted = formatted.to_string();
        let is_exact = match form {
            OutputForm::Uri
            | OutputForm::Uri202411
            | OutputForm::Urn
            | OutputForm::Url
            | OutputForm::UrlMinimal
            | OutputForm::UrlFull
            | OutputForm::Info => true,
            OutputForm::Eidr => true,
            OutputForm::Uri2003 => false,
            // For display, or ambiguous under the most permissive rule set.
            _ => continue,
        };
        if text.starts_with("api/handles/") {
            continue;
        }
        let Ok(parsed) = parser.parse(&formatted) else { panic!("{text:?} as {formatted:?}") };
        if let Some(doi) = parsed.doi() {
            assert!(if is_exact { doi.eq_exact(name) } else { doi == name }, "{text:?} as {formatted:?}");
        }
    }
    let mut key = Vec::new();
    name.append_comparison_key(&mut key);
    assert_eq!(key, text.to_ascii_uppercase().as_bytes());
}
