//! Writes a DOI in every output form.
//!
//! ```console
//! $ cargo run -p tendot-names --example format -- 10.1000/456#789
//! name         10.1000/456#789
//! canonical    10.1000/456#789
//! uri          doi:10.1000/456%23789
//! …
//! ```

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use std::fmt::Write as _;

use tendot_names::{DoiBuf, OutputForm};

fn main() -> Result<(), Box<dyn Error>> {
    let input = std::env::args().nth(1).ok_or("usage: format DOI")?;
    print!("{}", format_all(&input)?);
    Ok(())
}

/// One line per output form; a form that the DOI does not have is left out.
pub(crate) fn format_all(input: &str) -> Result<String, Box<dyn Error>> {
    let doi: DoiBuf = input.parse()?;
    let mut lines = String::new();
    for form in OutputForm::ALL {
        // Formatting itself does not allocate: it writes to any `fmt::Write`.
        if let Some(formatted) = doi.format(form) {
            writeln!(lines, "{:<12} {formatted}", form.as_str())?;
        }
    }
    Ok(lines)
}
