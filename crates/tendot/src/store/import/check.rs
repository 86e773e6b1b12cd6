//! Checks of imported records: refusals and warnings.

use tendot_names::{Doi, SyntaxRules};
use tendot_proto::record::{HandleRecord, validate_indexes};
use tendot_proto::{Handle, HandleValue, limits};
use tendot_registry::party::is_reserved_prefix;
use tendot_registry::{Error, MAX_NAME_LEN, is_blocked_scheme, key_warning, looks_percent_encoded};

/// Strictness of the checks of a record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CheckOptions {
    /// Refuse invalid DOIs.
    pub(crate) is_strict: bool,
    /// The name was decoded from a written form.
    pub(crate) is_decoded: bool,
}

/// Checks a record; returns warnings, or the reason why it is refused because it could break a response.
pub(crate) fn check_record(record: &HandleRecord<'_>, options: CheckOptions) -> Result<Vec<String>, String> {
    let handle = Handle::new(&record.handle);
    handle.validate_for_create_up_to(MAX_NAME_LEN).map_err(|error| error.to_string())?;
    if is_reserved_prefix(handle.prefix()) {
        return Err(Error::ReservedPrefix.to_string());
    }
    validate_indexes(record.values.iter().map(|value| value.index), limits::MAX_VALUES)
        .map_err(|error| error.to_string())?;
    let mut warnings = Vec::new();
    if handle.as_bytes().len() > limits::MAX_HANDLE_LEN {
        let (length, limit) = (handle.as_bytes().len(), limits::MAX_HANDLE_LEN);
        warnings.push(format!(
            "name of {length} bytes: the native protocol resolves up to {limit}, HTTP up to `registry.max_name_bytes`"
        ));
    }
    if handle.as_bytes().starts_with(b"10.")
        && let Ok(name) = handle.to_str()
    {
        check_doi(name, options, &mut warnings)?;
    }
    for value in &record.values {
        let index = value.index;
        let length = value.data.len().max(value.value_type.len());
        if length > limits::MAX_FIELD_LEN {
            return Err(format!("value {index} has {length} bytes; the limit is {}", limits::MAX_FIELD_LEN));
        }
        if value.has_type("URL") {
            if let Some(byte) = value.data.iter().find(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
                return Err(format!("URL at index {index} contains the control character {byte:#04x}"));
            }
            warnings.extend(url_warning(value).map(|warning| format!("URL at index {index} {warning}")));
        }
        warnings.extend(key_warning(value));
    }
    if looks_like_url(handle.as_bytes()) {
        warnings.push("name looks like a URL; imported as written, and its prefix is not homed".into());
    }
    Ok(warnings)
}

/// True if a text begins with the scheme of a web address or of a written form of a name.
pub(super) fn looks_like_url(text: &[u8]) -> bool {
    ["doi:", "hdl:", "http:", "https:", "urn:", "info:"].iter().any(|scheme| {
        text.split_at_checked(scheme.len())
            .is_some_and(|(beginning, _)| beginning.eq_ignore_ascii_case(scheme.as_bytes()))
    })
}

/// Checks a name under a DOI prefix: the grammar, and what is rarely meant.
fn check_doi(name: &str, options: CheckOptions, warnings: &mut Vec<String>) -> Result<(), String> {
    match Doi::with_rules(name, SyntaxRules::Minimal2002) {
        Err(error) if options.is_strict => return Err(format!("invalid DOI: {error}")),
        Err(error) => warnings.push(format!("invalid DOI: {error}; imported as written")),
        Ok(doi) if doi.has_reserved_suffix() => {
            warnings.push("reserved suffix: one character and `/` (ANSI/NISO Z39.84, section 4.3)".into());
        }
        Ok(_) => {}
    }
    if !options.is_decoded && looks_percent_encoded(name) {
        warnings.push("name looks percent-encoded; imported as written".into());
    }
    Ok(())
}

/// Warning about a suspicious URL.
fn url_warning(value: &HandleValue<'_>) -> Option<&'static str> {
    let Ok(url) = str::from_utf8(&value.data) else { return Some("is not valid UTF-8") };
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    };
    match url.split_once(':') {
        // Fast path: most URLs are plain ASCII.
        _ if !url.bytes().all(|byte| byte.is_ascii_graphic())
            && url.contains(|c: char| c.is_whitespace() || c.is_control()) =>
        {
            Some("contains spaces or control characters")
        }
        Some((scheme, _)) if is_scheme(scheme) => {
            is_blocked_scheme(scheme).then_some("uses a scheme that will not be followed")
        }
        _ => Some("has no scheme"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_and_refuses_records() {
        let url = |data: &'static str| vec![HandleValue::new(1, "URL", data)];
        check_one("10.1000/1", url("https://example.org/"), Ok(0));
        check_one("10.1000/1", vec![], Ok(0));
        check_one("10.1000/1", url("example.org"), Ok(1));
        check_one("10.1000/1", url("JavaScript:alert(1)"), Ok(1));
        check_one("10.1000/1", url("file:///etc/passwd"), Ok(1));
        check_one("10.1000/1", url("https://example.org/a b"), Ok(1));
        check_one("doi:10.1000/1", url("https://example.org/"), Ok(1));
        check_one("0.NA/10.1000", vec![], Ok(0));
        let reserved = "prefix `0.TENDOT` is reserved for the registry";
        check_one("0.TENDOT/agency/a", vec![], Err(reserved));
        check_one("0.tendot/x", vec![], Err(reserved));
        check_one("0.NA/0.TENDOT", vec![], Ok(0));
        check_one("10.1000", vec![], Err("invalid handle: missing `/`"));
        check_one("/1", vec![], Err("invalid handle: empty prefix"));
        check_one(
            "10.1000/1",
            url("https://a/\r\nX: y"),
            Err("URL at index 1 contains the control character 0x0d"),
        );
        check_one("10.1000/1", vec![HandleValue::new(1, "DESC", "a\nb")], Ok(0));
        check_one("10.1000/1", vec![HandleValue::new(0, "URL", "a:b")], Err("invalid value index 0"));
        // Other implementations read it as negative.
        check_one(
            "10.1000/1",
            vec![HandleValue::new(1 << 31, "URL", "a:b")],
            Err("invalid value index 2147483648"),
        );
        let duplicate = vec![HandleValue::new(2, "DESC", "a"), HandleValue::new(2, "DESC", "b")];
        check_one("10.1000/1", duplicate, Err("duplicate value index 2"));
        let many = (1..=2_049).map(|index| HandleValue::new(index, "DESC", "")).collect();
        check_one("10.1000/1", many, Err("2049 values exceed the limit of 2048"));
        for invalid in ["10.1000/", "10.1000/a\u{7f}", "10.1000/a\u{e000}", "10.1000/a\u{fdd0}"] {
            check_one(invalid, vec![], Ok(1));
            let record = HandleRecord { handle: invalid.as_bytes().into(), values: vec![] };
            let strict = CheckOptions { is_strict: true, ..CheckOptions::default() };
            let reason = check_record(&record, strict).unwrap_err();
            assert!(reason.starts_with("invalid DOI: "), "{reason}");
        }
        check_one("20.1000/", vec![], Ok(0));
        check_one("10.1000/a/b", vec![], Ok(1));
        check_one("10.1000/a%23b", vec![], Ok(1));
        check_one("10.1000/100%", vec![], Ok(0));
        check_one(&format!("10.1000/{}", "x".repeat(2_041)), vec![], Ok(1));
        let too_long = format!("10.1000/{}", "x".repeat(4_089));
        check_one(&too_long, vec![], Err("handle of 4097 bytes exceeds the limit of 4096"));
        let large = vec![HandleValue::with_data(7, "DESC", vec![0; limits::MAX_FIELD_LEN + 1])];
        check_one("10.1000/1", large, Err("value 7 has 1048577 bytes; the limit is 1048576"));
    }

    #[track_caller]
    fn check_one(name: &str, values: Vec<HandleValue<'_>>, expected: Result<usize, &str>) {
        let record = HandleRecord { handle: name.as_bytes().into(), values };
        let found = check_record(&record, CheckOptions::default()).map(|warnings| warnings.len());
        assert_eq!(
            found.as_ref().map_err(|reason| &**reason),
            expected.as_ref().map_err(|reason| *reason),
            "{name}"
        );
    }
}
