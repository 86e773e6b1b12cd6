//! Output forms: every DOI parses back from every form.

use tendot_names::{Form, Name, Reader, Rules};

pub(crate) fn check(bytes: &[u8]) {
    let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let Ok(name) = Name::with_rules(text, Rules::Minimal2002) else { return };
    let reader = Reader::strict().rules(Rules::Minimal2002);
    for form in Form::ALL {
        let Some(written) = name.written_as(form) else { continue };
        let written = written.to_string();
        let exact = match form {
            Form::Uri
            | Form::Uri202411
            | Form::Urn
            | Form::Url
            | Form::UrlMinimal
            | Form::UrlFull
            | Form::Info => true,
            Form::Eidr => true,
            Form::Uri2003 => false,
            // For display, or ambiguous under the most permissive rule set.
            _ => continue,
        };
        if text.starts_with("api/handles/") {
            continue;
        }
        let Ok(reading) = reader.read(&written) else { panic!("{text:?} as {written:?}") };
        if let Some(read) = reading.name() {
            assert!(if exact { read.eq_exact(name) } else { read == name }, "{text:?} as {written:?}");
        }
    }
    let mut key = Vec::new();
    name.write_key(&mut key);
    assert_eq!(key, text.to_ascii_uppercase().as_bytes());
}
