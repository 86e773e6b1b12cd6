//! Extracts the DOIs in a file of any size, which need not be UTF-8.
//!
//! ```console
//! $ cargo run -p tendot-names --example extract_file -- paper.txt
//! 1204  10.1130/2013.2502(04)
//! 5310  10.1002/asi.20001
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};

use tendot_names::{ExtractStep, Extractor};

/// Size of a chunk read from the file.
const CHUNK_BYTES: u64 = 1 << 16;

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: extract_file FILE")?;
    let mut output = BufWriter::new(io::stdout().lock());
    extract(File::open(file)?, &mut output)?;
    Ok(output.flush()?)
}

/// Writes the byte offset and the DOI of each hit; memory does not grow with the input.
pub(crate) fn extract(mut input: impl Read, output: &mut impl Write) -> io::Result<()> {
    let mut extractor = Extractor::new().join_lines(true).incremental();
    let (mut text, mut text_offset, mut is_last) = (Vec::new(), 0, false);
    loop {
        match extractor.next_doi(&text, is_last) {
            ExtractStep::Found(found) => {
                writeln!(output, "{}\t{}", text_offset + found.span.start, found.doi)?;
            }
            ExtractStep::NeedMoreInput { keep_from } => {
                text.drain(..keep_from);
                extractor.consume(keep_from);
                text_offset += keep_from;
                is_last = input.by_ref().take(CHUNK_BYTES).read_to_end(&mut text)? == 0;
            }
            ExtractStep::End => return Ok(()),
        }
    }
}
