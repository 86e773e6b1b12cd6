//! Handle from a name in any written form.

use std::borrow::Cow;

use tendot_names::ErrorKind;

use crate::CliError;
use crate::terminal::quote_input;

/// Handle of a name in any written form, percent-decoded where the form is.
pub(crate) fn parse_handle_input(text: &str) -> Result<Cow<'_, str>, CliError> {
    tendot_names::parse_handle(text).map(tendot_names::ParsedHandle::into_name).map_err(|error| {
        let failure = CliError::new(format!("invalid name `{}`: {error}", quote_input(text.as_bytes())));
        match error.kind() {
            ErrorKind::UnknownForm => {
                failure.with_hint("use `tendot extract` to find names inside other URLs")
            }
            _ => failure,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_handle_input() {
        let check = |text: &str, name: &str| assert_eq!(parse_handle_input(text).unwrap(), name, "{text}");
        check("10.1000/182", "10.1000/182");
        check("https://doi.org/10.1000%2F182", "10.1000/182");
        check("doi:10.1000/ABC", "10.1000/ABC");
        check("doi:alpha-beta/msws", "alpha-beta/msws");
        check("hdl:20.500.1/x", "20.500.1/x");
        check("https://hdl.handle.net/20.500.1/x", "20.500.1/x");
        check("0.NA/10.1000", "0.NA/10.1000");
        check("0.NA/0.NA", "0.NA/0.NA");
        check("20.500.1/a%20b", "20.500.1/a%20b");
        assert!(parse_handle_input("doi:alpha-beta/caf%E9").is_err());
    }
}
