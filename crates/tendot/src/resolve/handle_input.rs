//! Handle from a name in any written form.

use std::borrow::Cow;

use tendot_names::Parser;

/// Handle of a DOI name in any written form, or of a handle with or without `hdl:`.
pub(crate) fn parse_handle_input(text: &str) -> Cow<'_, str> {
    if let Ok(parsed) = Parser::lenient().parse(text) {
        return Cow::Owned(parsed.into_identifier().as_str().to_owned());
    }
    let forms = ["hdl:", "info:hdl/", "https://hdl.handle.net/", "http://hdl.handle.net/"];
    let text = text.trim();
    let without = |form: &&str| {
        let (start, rest) = text.split_at_checked(form.len())?;
        start.eq_ignore_ascii_case(form).then_some(rest)
    };
    Cow::Borrowed(forms.iter().find_map(without).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_handle_input() {
        let check = |text: &str, name: &str| assert_eq!(parse_handle_input(text), name, "{text}");
        check("10.1000/182", "10.1000/182");
        check("https://doi.org/10.1000%2F182", "10.1000/182");
        check("doi:10.1000/ABC", "10.1000/ABC");
        check("hdl:20.500.1/x", "20.500.1/x");
        check("https://hdl.handle.net/20.500.1/x", "20.500.1/x");
        check("0.NA/10.1000", "0.NA/10.1000");
        check("0.NA/0.NA", "0.NA/0.NA");
        check("20.500.1/a%20b", "20.500.1/a%20b");
    }
}
