//! Parsing and normalization of a million written forms: Tendot and the `regex` crate with Crossref's pattern, on the same lines
//! in alternating rounds. Prints names per second. `read write FILE` generates the lines, `read pattern` prints the pattern.

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::io::Write as _;

use crate::measure::{CROSSREF_PATTERN, median, seconds};
use crate::names::input_line;
use regex::RegexBuilder;
use tendot_names::Parser;
use tendot_testing::SeededRng;

pub(crate) fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    match *arguments {
        ["write", path] => write_lines(path),
        ["run", path] => compare(path),
        ["pattern"] => {
            println!("{CROSSREF_PATTERN}");
            Ok(())
        }
        _ => Err("usage: read write|run FILE, or read pattern".into()),
    }
}

fn write_lines(path: &str) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::BufWriter::new(fs::File::create(path)?);
    let mut random = SeededRng::new(182);
    for _ in 0..1_000_000 {
        writeln!(out, "{}", input_line(&mut random))?;
    }
    Ok(())
}

fn compare(path: &str) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(path)?;
    let lines: Vec<&str> = text.lines().collect();
    let pattern = RegexBuilder::new(CROSSREF_PATTERN).case_insensitive(true).build()?;
    let parser = Parser::lenient();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut accepted = (0, 0);
    // Neither side allocates per name, so the allocator is not measured.
    let mut upper = String::new();
    let mut key = Vec::new();
    for _ in 0..7 {
        let (time, count) = seconds(|| {
            let accept = |line: &&&str| {
                let Some(found) = pattern.find(line) else { return false };
                upper.clear();
                upper.push_str(found.as_str());
                upper.make_ascii_uppercase();
                black_box(&upper);
                true
            };
            lines.iter().filter(accept).count()
        });
        theirs.push(time);
        accepted.0 = count;
        let (time, count) = seconds(|| {
            let accept = |line: &&&str| {
                let Ok(parsed) = parser.parse(line) else { return false };
                key.clear();
                parsed.identifier().append_comparison_key(&mut key);
                black_box(&key);
                true
            };
            lines.iter().filter(accept).count()
        });
        ours.push(time);
        accepted.1 = count;
    }
    let rate = |times: Vec<f64>| lines.len() as f64 / median(times);
    println!("regex {:.0} {}", rate(theirs), accepted.0);
    println!("tendot {:.0} {}", rate(ours), accepted.1);
    Ok(())
}
