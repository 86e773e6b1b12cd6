//! Repairs the DOIs in a column of a table whose columns are separated by tabs.
//!
//! ```console
//! $ cargo run -p tendot-names --example repair_column -- 2 < works.tsv > repaired.tsv
//! 3 repaired, 1 without a DOI
//! ```

#![expect(clippy::print_stderr, reason = "an example reports its result")]

use std::error::Error;
use std::io::{self, BufRead, BufWriter, Write};

use tendot_names::{Adjustment, repair};

fn main() -> Result<(), Box<dyn Error>> {
    let column: usize = std::env::args().nth(1).ok_or("usage: repair_column NUMBER")?.parse()?;
    let mut output = BufWriter::new(io::stdout().lock());
    let RepairCounts { repaired, without_doi } = repair_column(io::stdin().lock(), column, &mut output)?;
    output.flush()?;
    eprintln!("{repaired} repaired, {without_doi} without a DOI");
    Ok(())
}

/// Number of fields that were changed, and that were left as they are.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct RepairCounts {
    pub(crate) repaired: usize,
    pub(crate) without_doi: usize,
}

/// Copies the rows; in the column with this number, from 1, each field is replaced by the DOI in it.
pub(crate) fn repair_column(
    rows: impl BufRead,
    column: usize,
    output: &mut impl Write,
) -> io::Result<RepairCounts> {
    let mut counts = RepairCounts::default();
    for row in rows.lines() {
        let row = row?;
        let mut fields: Vec<&str> = row.split('\t').collect();
        let repaired =
            column.checked_sub(1).and_then(|index| fields.get(index)).and_then(|field| repair(field));
        match &repaired {
            Some(repaired) => {
                // A guess: `/full` could be part of the DOI. A resolver can confirm it.
                counts.repaired += usize::from(repaired.adjustments.contains(Adjustment::Repaired));
                fields[column - 1] = repaired.identifier.as_str();
            }
            None => counts.without_doi += 1,
        }
        writeln!(output, "{}", fields.join("\t"))?;
    }
    Ok(counts)
}
