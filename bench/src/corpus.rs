//! Generated text with names: papers, BibTeX, JATS, JSON, CSV; one name per 500 to 5,000 bytes.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use tendot_testing::SeededRng;

use crate::names::name;

/// Generates a text with one DOI name.
type TextGenerator = fn(&mut SeededRng) -> String;

/// Writes about `megabytes` of text into files of about ten megabytes each.
pub fn write(folder: &Path, megabytes: u64) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut random = SeededRng::new(2641);
    let kinds: [(&str, TextGenerator); 5] =
        [("txt", paper), ("bib", bibtex), ("xml", jats), ("json", json), ("csv", csv)];
    for file in 0..megabytes / 10 {
        let (extension, write) = kinds[(file % 5) as usize];
        let mut out = BufWriter::new(fs::File::create(folder.join(format!("part-{file:02}.{extension}")))?);
        let mut written = 0;
        while written < 10_000_000 {
            let text = write(&mut random);
            written += text.len();
            out.write_all(text.as_bytes())?;
        }
        out.flush()?;
    }
    Ok(())
}

/// Words of scientific prose, approximately by frequency.
const WORDS: [&str; 60] = [
    "the",
    "of",
    "and",
    "in",
    "to",
    "a",
    "with",
    "was",
    "for",
    "that",
    "were",
    "by",
    "is",
    "as",
    "on",
    "from",
    "at",
    "this",
    "are",
    "be",
    "which",
    "an",
    "or",
    "these",
    "between",
    "results",
    "data",
    "model",
    "cells",
    "analysis",
    "using",
    "study",
    "observed",
    "significant",
    "temperature",
    "samples",
    "measured",
    "function",
    "distribution",
    "however",
    "respectively",
    "concentration",
    "response",
    "protein",
    "expression",
    "surface",
    "parameters",
    "energy",
    "method",
    "patients",
    "increase",
    "values",
    "structure",
    "population",
    "structures",
    "Moreover",
    "Furthermore",
    "résumé",
    "naïve",
    "Ångström",
];

fn prose(random: &mut SeededRng, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 32);
    let mut line = 0;
    while text.len() < bytes {
        match random.below(300) {
            0..6 => text.push_str(&format!("{}.{} ", random.below(30), random.below(100))),
            6..13 => text.push_str(&format!("({}, {}) ", random.pick(&WORDS), random.in_range(1980, 2026))),
            13..20 => text.push_str(&format!("[{}] ", random.below(80))),
            20 => text.push_str(&format!("10.{} % ", random.below(100))),
            _ => {
                let word: &&str = random.pick(&WORDS);
                text.push_str(word);
                text.push_str(if random.percent(8) { ". " } else { " " });
            }
        }
        if text.len() - line > 90 {
            text.push('\n');
            line = text.len();
        }
    }
    text
}

fn paper(random: &mut SeededRng) -> String {
    let name = name(random);
    let cited = match random.below(4) {
        0 => format!("(doi: {name})."),
        1 => format!("https://doi.org/{}.", name.replace('<', "%3C").replace('>', "%3E")),
        2 => format!("doi:{name}; see also the appendix."),
        _ => format!("{name}, and others."),
    };
    let bytes = random.in_range(500, 5000);
    format!("{}\n[{}] {}\n", prose(random, bytes), random.below(90), cited)
}

fn bibtex(random: &mut SeededRng) -> String {
    let (title, note) = (random.in_range(60, 200), random.in_range(400, 2500));
    format!(
        "@article{{key{},\n  title = {{{}}},\n  author = {{Doe, Jane and Roe, Richard}},\n  abstract = {{{}}},\n  volume = {{{}}},\n  year = {{{}}},\n  doi = {{{}}},\n}}\n\n",
        random.below(1_000_000),
        prose(random, title).replace('\n', " "),
        prose(random, note),
        random.below(100),
        random.in_range(1980, 2026),
        name(random).replace('_', "\\_"),
    )
}

fn jats(random: &mut SeededRng) -> String {
    let bytes = random.in_range(400, 4000);
    format!(
        "<p>{}</p>\n<ref id=\"R{}\"><element-citation publication-type=\"journal\"><article-title>{}</article-title><year>{}</year><volume>{}</volume><pub-id pub-id-type=\"doi\">{}</pub-id></element-citation></ref>\n",
        prose(random, bytes),
        random.below(90),
        prose(random, 60).replace('\n', " "),
        random.in_range(1980, 2026),
        random.below(100),
        name(random).replace('<', "&lt;").replace('>', "&gt;"),
    )
}

fn json(random: &mut SeededRng) -> String {
    let bytes = random.in_range(500, 3000);
    format!(
        "{{\"type\":\"journal-article\",\"title\":[\"{}\"],\"volume\":\"{}\",\"abstract\":\"{}\",\"DOI\":\"{}\",\"is-referenced-by-count\":{}}}\n",
        prose(random, 80).replace('\n', " "),
        random.below(100),
        prose(random, bytes).replace('\n', "\\n"),
        name(random).replace('/', "\\/"),
        random.below(1000),
    )
}

fn csv(random: &mut SeededRng) -> String {
    let bytes = random.in_range(400, 1500);
    format!(
        "{},{},\"{}\",{},{}.{}\n",
        random.below(1_000_000),
        name(random).replace(',', ""),
        prose(random, bytes).replace(['\n', '"'], " "),
        random.in_range(1980, 2026),
        random.below(100),
        random.below(100),
    )
}
