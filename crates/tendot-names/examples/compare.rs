//! Removes duplicates from a list of DOIs: comparison ignores ASCII case and the input form.
//!
//! ```console
//! $ cargo run -p tendot-names --example compare -- 10.1000/ABC https://doi.org/10.1000/abc 10.1000/182
//! 10.1000/182
//! 10.1000/ABC
//! ```

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::collections::BTreeSet;

use tendot_names::{DoiBuf, Error};

fn main() -> Result<(), Error> {
    let inputs: Vec<String> = std::env::args().skip(1).collect();
    for doi in unique(inputs.iter().map(String::as_str))? {
        println!("{doi}");
    }
    Ok(())
}

/// The DOIs without duplicates, in order; of equal ones the first is kept, in its spelling.
pub(crate) fn unique<'a>(inputs: impl IntoIterator<Item = &'a str>) -> Result<BTreeSet<DoiBuf>, Error> {
    // `DoiBuf` implements `Eq`, `Ord` and `Hash` by the comparison key, so a `HashSet` works as well.
    let mut unique = BTreeSet::new();
    for input in inputs {
        unique.insert(input.parse()?);
    }
    Ok(unique)
}
