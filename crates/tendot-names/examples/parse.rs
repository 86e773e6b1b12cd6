//! Parses DOIs in any input form.
//!
//! ```console
//! $ cargo run -p tendot-names --example parse -- 'DOI: https://dx.doi.org/10.1000%2F182' 10/gf4gqc 10.10O0/1
//! 10.1000/182 (DOI, proxy-url; whitespace-trimmed, label-removed)
//! 10/gf4gqc (shortDOI, name)
//! 10.10O0/1: invalid registrant code: expected digits, in groups separated by dots (at byte 5)
//! ```

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use tendot_names::{Adjustment, DoiOrShortDoi, Error, Parser};

fn main() {
    for input in std::env::args().skip(1) {
        match describe(&input) {
            Ok(description) => println!("{description}"),
            Err(error) => println!("{input}: {error}"),
        }
    }
}

/// The DOI or shortDOI in an input, its input form, and what lenient parsing changed.
pub(crate) fn describe(input: &str) -> Result<String, Error> {
    let parsed = Parser::lenient().max_len(4_096).parse(input)?;
    let kind = match parsed.identifier() {
        DoiOrShortDoi::Doi(_) => "DOI",
        DoiOrShortDoi::ShortDoi(_) => "shortDOI",
    };
    let mut description =
        format!("{} ({kind}, {}", parsed.identifier().as_str(), parsed.input_form().as_str());
    if !parsed.adjustments().is_empty() {
        let codes: Vec<_> = parsed.adjustments().iter().map(Adjustment::code).collect();
        description += &format!("; {}", codes.join(", "));
    }
    Ok(description + ")")
}
