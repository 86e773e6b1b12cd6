//! Property tests: parsing, formatting, comparison, extraction.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use proptest::collection::vec;
use proptest::prelude::*;
use tendot_names::{
    Doi, DoiBuf, DoiOrShortDoi, ExtractStep, ExtractionFlag, Extractor, OutputForm, Parser, SyntaxRules,
    find_iter, repair,
};

/// Characters that a DOI may have; awkward ones are frequent.
fn character() -> impl Strategy<Value = char> {
    prop_oneof![
        6 => prop::char::range('a', 'z'),
        3 => prop::char::range('A', 'Z'),
        4 => prop::char::range('0', '9'),
        8 => prop::char::range(' ', '~'),
        2 => prop::sample::select(vec!['é', 'É', '\u{301}', '日', '\u{3000}', '\u{212A}', '🐔', 'Ａ', '–', '’']),
        1 => any::<char>().prop_filter("graphic", |&c| Doi::new(&format!("10.1/{c}")).is_ok()),
    ]
}

fn prefix() -> impl Strategy<Value = String> {
    prop_oneof![4 => "10\\.[0-9]{4,6}", 1 => "10\\.[0-9]{1,3}(\\.[0-9]{1,7}){0,2}"]
}

fn doi() -> impl Strategy<Value = DoiBuf> {
    (prefix(), vec(character(), 1..40)).prop_map(|(prefix, suffix)| {
        let suffix: String = suffix.into_iter().collect();
        DoiBuf::with_rules(format!("{prefix}/{suffix}"), SyntaxRules::Current).unwrap()
    })
}

/// The same DOI with the case of some ASCII letters flipped.
fn with_case_flipped(doi: &Doi, flips: u64) -> DoiBuf {
    let flip = |(index, c): (usize, char)| {
        if flips >> (index % 64) & 1 == 0 {
            c
        } else if c.is_ascii_lowercase() {
            c.to_ascii_uppercase()
        } else {
            c.to_ascii_lowercase()
        }
    };
    DoiBuf::with_rules(doi.as_str().chars().enumerate().map(flip).collect::<String>(), SyntaxRules::Current)
        .unwrap()
}

fn hash(doi: &Doi) -> u64 {
    let mut hasher = DefaultHasher::new();
    doi.hash(&mut hasher);
    hasher.finish()
}

fn key(doi: &Doi) -> Vec<u8> {
    let mut key = Vec::new();
    doi.append_comparison_key(&mut key);
    key
}

/// Number of inputs per property; four times as many in a full run (`TENDOT_TEST_FULL`).
fn cases() -> u32 {
    let is_full_run = std::env::var_os("TENDOT_TEST_FULL").is_some_and(|value| value != "0");
    if is_full_run { 4000 } else { 1000 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn formatted_dois_parse_back(doi in doi()) {
        for form in [OutputForm::Uri, OutputForm::Uri202411, OutputForm::Urn, OutputForm::Url, OutputForm::UrlMinimal, OutputForm::UrlFull, OutputForm::Info] {
            let formatted = doi.format(form).unwrap().to_string();
            for parser in [Parser::strict(), Parser::lenient()] {
                let parsed = parser.parse(&formatted).unwrap();
                prop_assert!(parsed.doi().unwrap().eq_exact(&doi), "{}", formatted);
            }
        }
        for form in [OutputForm::Canonical, OutputForm::Uri2003] {
            let formatted = doi.format(form).unwrap().to_string();
            let parsed = Parser::strict().parse(&formatted).unwrap();
            prop_assert_eq!(parsed.doi().unwrap(), &*doi);
            // Canonical forms do not depend on the spelling, and formatting them again changes nothing.
            let again = parsed.doi().unwrap().format(form).unwrap().to_string();
            prop_assert_eq!(again, formatted);
        }
        let bare = Parser::strict().parse(doi.as_str()).unwrap();
        prop_assert!(bare.doi().unwrap().eq_exact(&doi));
    }

    #[test]
    fn urls_have_no_dot_segments(doi in doi()) {
        for form in [OutputForm::Url, OutputForm::UrlFull] {
            let formatted = doi.format(form).unwrap().to_string();
            let path = formatted.strip_prefix("https://doi.org/").unwrap();
            prop_assert!(path.split('/').all(|segment| !matches!(segment, "." | "..")), "{}", formatted);
            prop_assert!(path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#\"<>".contains(&byte)), "{}", formatted);
        }
    }

    #[test]
    fn equality_is_an_equivalence(doi in doi(), other in doi(), flips: u64, more: u64) {
        let (second, third) = (with_case_flipped(&doi, flips), with_case_flipped(&doi, more));
        prop_assert_eq!(&doi, &doi);
        prop_assert_eq!(&doi, &second);
        prop_assert_eq!(&second, &doi);
        prop_assert_eq!(&second, &third);
        prop_assert_eq!(hash(&doi), hash(&second));
        prop_assert_eq!(key(&doi), key(&third));
        prop_assert_eq!(doi.cmp(&second), std::cmp::Ordering::Equal);
        prop_assert_eq!(doi == other, key(&doi) == key(&other));
        prop_assert_eq!(doi.cmp(&other), key(&doi).cmp(&key(&other)));
    }

    #[test]
    fn strict_and_lenient_agree_without_adjustments(text in input_form_text()) {
        // Only strict parsing keeps white space at the end.
        prop_assume!(!text.ends_with(char::is_whitespace));
        if let Ok(strict) = Parser::strict().parse(&text) {
            let lenient = Parser::lenient().parse(&text);
            prop_assert!(lenient.is_ok(), "{:?}", text);
            let lenient = lenient.unwrap();
            if lenient.adjustments().is_empty() {
                prop_assert_eq!(strict.identifier().as_str(), lenient.identifier().as_str());
                prop_assert_eq!(strict.input_form(), lenient.input_form());
            }
        }
    }

    #[test]
    fn lenient_parsing_ignores_surrounding_space(text in input_form_text()) {
        // The space also bypasses the fast path for plain input.
        let spaced = format!(" {text} ");
        match (Parser::lenient().parse(&text), Parser::lenient().parse(&spaced)) {
            (Ok(plain), Ok(spaced)) => {
                prop_assert_eq!(plain.identifier().as_str(), spaced.identifier().as_str());
                prop_assert_eq!(plain.input_form(), spaced.input_form());
            }
            (Err(plain), Err(spaced)) => {
                prop_assert_eq!(plain.kind(), spaced.kind(), "{:?}", text);
            }
            (plain, spaced) => prop_assert!(false, "{:?}: {:?}, {:?}", text, plain, spaced),
        }
    }

    #[test]
    fn error_offsets_are_in_bounds(text in input_form_text()) {
        for parser in [Parser::strict(), Parser::lenient(), Parser::lenient().rules(SyntaxRules::Z3984)] {
            if let Err(error) = parser.parse(&text) {
                prop_assert!(error.offset() <= text.len(), "{:?} {}", text, error);
                prop_assert!(text.is_char_boundary(error.offset()), "{:?} {}", text, error);
            }
        }
    }

    #[test]
    fn extracts_in_any_context(prefix in "10\\.[0-9]{4,6}", suffix in unambiguous_suffix(), context in 0..CONTEXTS.len()) {
        let doi = format!("{prefix}/{suffix}");
        let (before, after) = CONTEXTS[context];
        let text = format!("{before}{doi}{after}");
        check_extracts(&text, &doi)?;
    }

    #[test]
    fn extracts_escaped_dois(prefix in "10\\.[0-9]{4,6}", suffix in unambiguous_suffix(), page in 1..999u32) {
        let doi = format!("{prefix}/(SICI){suffix}:8<{page}::AID-X{page}>3.0.CO;2-{suffix}");
        let entities = doi.replace('<', "&lt;").replace('>', "&gt;");
        check_extracts(&format!("<pub-id pub-id-type=\"doi\">{entities}</pub-id>"), &doi)?;
        let unicode = doi.replace('<', "\\u003c").replace('>', "\\u003e").replace('/', "\\/");
        check_extracts(&format!("{{\"DOI\":\"{unicode}\",\"volume\":1}}"), &doi)?;
        let tex = doi.replace('_', "\\_").replace('<', "{\\textless}").replace('>', "{\\textgreater}");
        check_extracts(&format!("  doi = {{{tex}}},\n"), &doi)?;
        let parsed = Doi::new(&doi).unwrap();
        for form in [OutputForm::Url, OutputForm::UrlFull, OutputForm::Uri, OutputForm::Urn] {
            check_extracts(&format!("see {}, or not.", parsed.format(form).unwrap()), &doi)?;
        }
        let nested = parsed.format(OutputForm::UrlFull).unwrap().to_string().replace(':', "%3A").replace('/', "%2F");
        prop_assume!(!nested.contains("%25"));
        let nested = nested.replace("%28", "(").replace("%29", ")");
        check_extracts(&format!("https://login.example.edu/login?url={nested}&x=1"), &doi)?;
    }

    /// In the forms that the standards define, `extract` and `name` agree.
    #[test]
    fn extraction_agrees_with_parsing_in_standard_forms(prefix in prefix(), suffix in vec(character(), 1..40), tail in 0..TAILS.len()) {
        let suffix: String = suffix.into_iter().collect();
        let suffix = format!("{suffix}{}", TAILS[tail]);
        // Punctuation that the forms do not encode, and encoded white space at the end.
        prop_assume!(!suffix.ends_with(['.', '/']) && !suffix.ends_with(char::is_whitespace));
        let doi = DoiBuf::with_rules(format!("{prefix}/{suffix}"), SyntaxRules::Current).unwrap();
        for form in [OutputForm::Uri, OutputForm::Urn, OutputForm::UrlFull, OutputForm::Info] {
            let formatted = doi.format(form).unwrap().to_string();
            check_extracts(&format!("see {formatted}"), doi.as_str())?;
            check_extracts(&format!("<a href=\"{formatted}\">x</a>"), doi.as_str())?;
            let layer = |text: &str| text.replace('%', "%25").replace(':', "%3A").replace('/', "%2F");
            let nested = layer(&formatted);
            check_extracts(&format!("https://x.example/login?url={nested}&y=1"), doi.as_str())?;
            let nested = layer(&nested);
            check_extracts(&format!("https://x.example/login?url={nested}&y=1"), doi.as_str())?;
        }
    }

    /// A DOI is never a shortDOI, under any rules.
    #[test]
    fn short_dois_are_not_dois(code in "[a-zA-Z0-9]{1,8}", form in 0..3usize) {
        let text = format!("{}10/{code}", ["", "doi:", "https://doi.org/"][form]);
        for rules in SyntaxRules::ALL {
            for parser in [Parser::strict().rules(rules), Parser::lenient().rules(rules)] {
                prop_assert!(parser.parse(&text).unwrap().doi().is_none());
                prop_assert!(parser.parse_doi(&text).is_err());
                let repaired = parser.repair(&text).unwrap();
                prop_assert!(matches!(repaired.identifier, DoiOrShortDoi::ShortDoi(_)));
            }
        }
    }

    #[test]
    fn extraction_is_ordered_and_valid(text in adversarial_text(), join_lines in any::<bool>(), keep_tails in any::<bool>()) {
        let text = text.as_bytes();
        let extractor = Extractor::new().join_lines(join_lines).keep_publisher_tails(keep_tails);
        let mut last_end = 0;
        for found in extractor.find_iter(text) {
            prop_assert!(found.span.start >= last_end && found.span.end <= text.len());
            prop_assert!(text[found.span.clone()].starts_with(b"10."));
            let result = Doi::new(found.doi.as_str());
            prop_assert!(result.is_ok() || result.unwrap_err().kind().code() == "unassigned-character");
            if !found.flags.iter().any(|flag| matches!(flag, ExtractionFlag::Decoded | ExtractionFlag::Joined)) {
                let raw = String::from_utf8(text[found.span.clone()].to_vec()).unwrap();
                prop_assert_eq!(raw.replace(['\u{200B}', '\u{AD}'], ""), found.doi.as_str());
            }
            last_end = found.span.end;
        }
    }

    #[test]
    fn incremental_extraction_matches_whole(text in adversarial_text(), cuts in vec(0..400usize, 0..12), join_lines in any::<bool>()) {
        let text = text.as_bytes();
        let extractor = Extractor::new().join_lines(join_lines);
        let whole: Vec<_> = extractor.find_iter(text).map(|found| (found.doi.to_string(), found.span)).collect();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.push(text.len());
        cuts.sort_unstable();

        let mut incremental = extractor.incremental();
        let (mut buffer, mut base, mut previous_cut) = (Vec::new(), 0, 0);
        let mut chunks = Vec::new();
        for (index, cut) in cuts.iter().enumerate() {
            buffer.extend_from_slice(&text[previous_cut..*cut]);
            previous_cut = *cut;
            loop {
                match incremental.next_doi(&buffer, index + 1 == cuts.len()) {
                    ExtractStep::Found(found) => {
                        let span = found.span.start + base..found.span.end + base;
                        chunks.push((found.doi.to_string(), span));
                    }
                    ExtractStep::NeedMoreInput { keep_from } => {
                        buffer.drain(..keep_from);
                        incremental.consume(keep_from);
                        base += keep_from;
                        break;
                    }
                    ExtractStep::End => break,
                }
            }
        }
        prop_assert_eq!(chunks, whole);
    }

    #[test]
    fn repair_keeps_valid_dois(prefix in "10\\.[0-9]{1,6}", suffix in "[a-z]{1,8}[0-9]{2,6}") {
        let doi = format!("{prefix}/{suffix}");
        let repaired = repair(&doi).unwrap();
        prop_assert_eq!(repaired.identifier.as_str(), &doi);
        prop_assert_eq!((&*repaired.text_before, &*repaired.text_after), ("", ""));
    }

    #[test]
    fn repair_reports_parts_of_the_field(field in adversarial_text()) {
        if let Some(repaired) = repair(&field) {
            let (before, after) = (&*repaired.text_before, &*repaired.text_after);
            prop_assert!(before.len() + after.len() <= field.len());
            prop_assert!(field.starts_with(before) && field.ends_with(after), "{:?}", repaired);
        }
    }
}

/// Endings of a suffix that are publisher tails in other contexts.
const TAILS: [&str; 5] = ["", "/full", ".pdf", "/-/dcsupplemental", ".v2"];

/// A suffix without characters that could be punctuation of the surrounding text.
fn unambiguous_suffix() -> impl Strategy<Value = String> {
    "[a-zé]{1,6}[0-9]{1,4}(\\([0-9]{2}\\))?([.:_-][A-Z]{1,3}[0-9]{1,5}){0,3}".prop_filter(
        "no label or annotation",
        |suffix| {
            let lower = suffix.to_lowercase();
            !["pub", "eco", "doi", "www", "http", "pmid"].iter().any(|word| lower.contains(word))
        },
    )
}

const CONTEXTS: [(&str, &str); 34] = [
    ("", ""),
    ("see ", ". Next"),
    ("(", ")."),
    ("(This is a name: ", ")"),
    ("[", "]"),
    ("\"", "\","),
    ("'", "', "),
    ("“", "” said"),
    ("«", "»"),
    ("doi:", ";"),
    ("DOI: ", ","),
    ("DOI", " x"),
    ("urn:doi:", " "),
    ("info:doi/", " "),
    ("hdl:", " "),
    ("https://doi.org/", "."),
    ("http://dx.doi.org/", "?x=1#y"),
    ("https://www.example.org/doi/full/", "?src=recsys&y=1"),
    ("https://example.org/doi/", "/full"),
    ("https://example.org/doi/pdf/", ".pdf"),
    ("https://example.org/find?id=", "&x=1"),
    ("<a href=\"https://doi.org/", "\">x</a>"),
    ("<pub-id pub-id-type=\"doi\">", "</pub-id><year>2010</year>"),
    ("[paper](https://doi.org/", ")."),
    ("**", "** and"),
    ("`", "`"),
    ("  doi = {", "},\n  year = {2010}"),
    ("DO  - ", "\nER  - "),
    ("{\"DOI\":\"", "\",\"x\":[1]}"),
    ("{{cite journal |doi=", "|pmid=1}}"),
    ("请参阅", "的文章"),
    ("「", "」を参照。"),
    ("DOI：", "。"),
    ("see ", "[CrossRef] and"),
];

fn check_extracts(text: &str, doi: &str) -> Result<(), TestCaseError> {
    let found: Vec<_> = find_iter(text.as_bytes()).map(|found| found.doi.to_string()).collect();
    prop_assert_eq!(found, [doi], "{}", text);
    Ok(())
}

/// Text made of parts of input forms.
fn input_form_text() -> impl Strategy<Value = String> {
    let parts = prop::sample::select(vec![
        "10.1000/182",
        "10.1000",
        "10/abc",
        "10.",
        "/",
        "doi:",
        "DOI ",
        "urn:doi:",
        "urn:eidr:10.5240:",
        "urn:",
        "https://doi.org/",
        "http://dx.doi.org",
        "doi.org/",
        "info:doi/",
        "hdl:",
        "https://hdl.handle.net/",
        "https://example.org/",
        "api/handles/",
        "%2F",
        "%23",
        "%E6%97%A5",
        "%zz",
        "%",
        "?",
        "#",
        "?+x",
        "?=y",
        " ",
        "\n",
        "\u{200B}",
        "\u{378}",
        "é",
        "日",
        "<",
        ">",
        "\"",
        ":",
        ":443",
        "a",
        "(1)",
        "\u{202E}",
        "\u{3000}",
        ".",
        "..",
    ]);
    vec(parts, 0..6).prop_map(|parts| parts.concat())
}

/// Parts of DOIs, white space, punctuation and brackets.
const NAMES_AND_PUNCTUATION: &[&str] = &[
    "10.1000/182",
    "10.1000/",
    "10.",
    "10.12/x",
    "10.10.10.10/24",
    "10.0.16299.0/x",
    ".10.1000/",
    "1",
    "/",
    "a",
    "b2",
    " ",
    "\n",
    "\r\n",
    ".",
    ",",
    ";",
    ":",
    "?",
    "!",
    "*",
    "'",
    "\"",
    "`",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
];

/// Markup, escapes and percent-encoding.
const ESCAPES: &[&str] = &[
    "<br/>",
    "<wbr>",
    "</p>",
    "<1::A>2.0",
    "&lt;",
    "&gt;",
    "&amp;",
    "&quot;",
    "&#60;",
    "&",
    "\\",
    "\\/",
    "\\_",
    "\\n",
    "\\u003c",
    "\\ud83d\\udc14",
    "\\ud83d",
    "&Eacute;",
    "&sol;",
    "{\\_}",
    "$<$",
    "%2F",
    "%252F",
    "%3A",
    "%2523",
    "%3C",
    "%",
    "%C3%A9",
    "#",
    "#sthash",
    "|",
];

/// Labels, URLs and publisher tails.
const LABELS_AND_TAILS: &[&str] = &[
    "doi:",
    "DOI",
    "https://doi.org/",
    "http://x.org/?doi=",
    "www.",
    "urn:doi:",
    "urn:eidr:10.5240:",
    "?url=https%3A%2F%2Fdoi.org%2F",
    "$a",
    "$2doi",
    "‡a",
    "pmid:",
    ".pdf",
    "/full",
    "[CrossRef]",
    "(epubaheadofprint)",
    ".....",
];

/// Characters outside ASCII, and the rest of what a suffix may have.
const OTHER_CHARACTERS: &[&str] = &[
    "é", "的", "。", "—", "–", "…", "’", "\u{200B}", "\u{AD}", "\u{202E}", "\u{A0}", "\u{FFFD}", "\u{378}",
    "🐔", "-", "_", "~", "=", "+", "CO;2-#", ".CO;", "2-V", "v2", "\t",
];

/// Text made of everything that extraction handles specially.
fn adversarial_text() -> impl Strategy<Value = String> {
    let parts = [NAMES_AND_PUNCTUATION, ESCAPES, LABELS_AND_TAILS, OTHER_CHARACTERS].concat();
    vec(prop::sample::select(parts), 0..40).prop_map(|parts| parts.concat())
}
