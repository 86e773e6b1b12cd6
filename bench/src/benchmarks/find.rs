//! Extraction of names from text. `find write FOLDER MEGABYTES` generates the corpus; `find worst` measures nanoseconds per byte
//! on adversarial inputs.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;

use crate::corpus;
use crate::measure::{median, seconds};
use tendot_names::{Extractor, find_iter};

pub(crate) fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    match arguments {
        ["write", folder, megabytes] => corpus::write(Path::new(folder), megabytes.parse()?)?,
        ["worst"] => worst(""),
        ["worst", only] => worst(only),
        _ => return Err("usage: find write FOLDER MEGABYTES | find worst [ONLY]".into()),
    }
    Ok(())
}

/// Measures the library on 8 MB of each adversarial input whose name contains `only`.
fn worst(only: &str) {
    let inputs: &[(&str, &str, &str)] = &[
        ("10.10.10.…", "", "10."),
        ("1010.1010.", "", "1010."),
        ("10.1000 without slash", "", "10.1000 "),
        ("10.1000/ without suffix", "", "10.1000/ "),
        ("one-letter names", "", "10.1000/a "),
        ("one-letter names, commas", "", "10.1000/a,"),
        ("labelled short names", "", "doi:10.1/a "),
        ("addresses", "", "https://doi.org/10.1000/a "),
        ("encoded names", "", "10.1000%2Fa "),
        ("names with entities", "", "10.1000/&lt;a "),
        ("SICI parts", "10.1000/", "<1:A>2.0"),
        ("SICI parts, escaped", "10.1000/", "&lt;1:A&gt;2.0"),
        ("prefixes in a row", "", "10.1000/"),
        ("nested brackets", "10.1000/", "([{("),
        ("nested and closed", "", "10.1000/((((a))))) "),
        ("closers after each name", "", "(10.1000/a)b "),
        ("closers, opened long before", "", "( . . . . . . . . . . . . . . . . 10.1000/a)b "),
        ("quotes", "", "\"10.1000/a\"b "),
        ("punctuation", "10.1000/a", ".,;:!?"),
        ("punctuation names", "", "10.1000/a.,;:!?'\" "),
        ("percent signs", "10.1000/", "%"),
        ("percent names", "", "10.1000/%41%41%4 "),
        ("backslashes", "10.1000/", "\\"),
        ("ampersands", "10.1000/", "&"),
        ("tags", "", "10.1000/a<b>c "),
        ("tails", "", "10.1000/a/full/pdf/full/pdf "),
        ("notes", "", "10.1000/a.epub.epub#page[doi] "),
        ("line ends", "", "10.1000/a-\n"),
        ("zero width", "10.1000/", "a\u{200B}"),
        ("combining marks", "", "10.1000/e\u{301}\u{301}\u{301} "),
        ("emoji", "", "10.1000/\u{1F414}\u{1F414} "),
        ("CJK", "", "的10.1000/a文"),
        ("no UTF-8", "", "10.1000/a"),
        ("brackets turned round", "10.1000/a", ")("),
        ("notes without end", "10.1000/a", "[a]"),
        ("invisible numbers", "10.1000/a", "\u{200B}10.1."),
        ("suffixes of punctuation", "", "10.1000/!"),
        ("escaped ampersands", "10.1000/a", "\\&"),
        ("percent at the end", "", "10.1000/a% "),
    ];
    let mut slowest = 0.0f64;
    for (what, lead, repeated) in inputs.iter().filter(|(what, ..)| what.contains(only)) {
        // With a lead, each line is a candidate of almost the maximum length.
        let line_end: &[u8] = if lead.is_empty() { b"" } else { b"\n" };
        let line_len = if lead.is_empty() { 8 << 20 } else { 2000 };
        let mut text = Vec::new();
        while text.len() < 8 << 20 {
            let end = text.len() + line_len;
            text.extend_from_slice(lead.as_bytes());
            while text.len() < end {
                text.extend_from_slice(repeated.as_bytes());
                if *what == "no UTF-8" {
                    text.push(0xE6);
                }
            }
            text.extend_from_slice(line_end);
        }
        for (mode, extractor) in
            [("", Extractor::new()), (", lines joined", Extractor::new().join_lines(true))]
        {
            let times = (0..5).map(|_| seconds(|| black_box(extractor.find_iter(&text).count())).0).collect();
            let nanoseconds = median(times) * 1e9 / text.len() as f64;
            slowest = slowest.max(nanoseconds);
            if mode.is_empty() || nanoseconds > 2.0 {
                println!("{nanoseconds:6.2} ns/byte  {what}{mode}  ({} names)", find_iter(&text).count());
            }
        }
    }
    println!("slowest {slowest:.2} ns/byte");
}
