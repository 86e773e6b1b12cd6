//! Statements about names, by `tendot name`, `same` and `extract`.

use serde_json::Value as Json;

use crate::support::{output_with_input, tendot, text_output};

/// The name in an output form.
#[track_caller]
fn format(form: &str, name: &str) -> String {
    let (code, stdout, stderr) = text_output(tendot().args(["name", "--as", form, "--", name]));
    assert_eq!(code, Some(0), "{name}: {stderr}");
    stdout.trim_end_matches('\n').to_owned()
}

/// Details of an input under these rules.
fn details(rules: &str, input: &str) -> Json {
    let (_, stdout, _) = text_output(tendot().args(["name", "--json", "--rules", rules, "--", input]));
    serde_json::from_str(&stdout).unwrap()
}

/// Whether two inputs are the same name; both have to be names.
#[track_caller]
fn is_same(rules: &str, one: &str, other: &str) -> bool {
    let (code, _, stderr) = text_output(tendot().args(["same", "--rules", rules, "--", one, other]));
    assert!(matches!(code, Some(0 | 1)), "{one} and {other}: {stderr}");
    code == Some(0)
}

/// Names found in a text.
fn extract(text: &str) -> Vec<String> {
    let output = output_with_input(tendot().arg("extract"), text.as_bytes());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Prefix and suffix under these rules.
fn parts(rules: &str, input: &str) -> [String; 2] {
    let details = details(rules, input);
    ["prefix", "suffix"].map(|part| details[part].as_str().unwrap_or_default().to_owned())
}

/// Code of the error under these rules; empty if the name is valid.
fn fault(rules: &str, input: &str) -> String {
    details(rules, input)["error"]["code"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn statement_008_uri_of_a_name() {
    assert_eq!(format("uri", "10.1103/PhysRevLett.59.381"), "doi:10.1103/PhysRevLett.59.381");
    assert_eq!(format("name", "doi:10.1103/PhysRevLett.59.381"), "10.1103/PhysRevLett.59.381");
}

#[test]
fn statement_012_no_normalization() {
    assert_eq!(format("uri", "10.1000/\u{c1}"), "doi:10.1000/%C3%81");
    assert_eq!(format("uri", "10.1000/A\u{301}"), "doi:10.1000/A%CC%81");
    assert_eq!(format("name", "10.1000/A\u{301}\u{c1}"), "10.1000/A\u{301}\u{c1}");
}

#[test]
fn statement_013_bytes_that_are_encoded() {
    let ascii: String = (' '..='~').filter(|c| *c != '/').collect();
    let encoded = |c: char| match c {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '-' | '.' | '_' | '~' => c.to_string(),
        other => format!("%{:02X}", u32::from(other)),
    };
    let expected: String = ascii.chars().map(encoded).collect();
    assert_eq!(format("uri", &format!("10.1000/{ascii}")), format!("doi:10.1000/{expected}"));
    assert_eq!(format("uri", "10.1000/é日"), "doi:10.1000/%C3%A9%E6%97%A5");
}

#[test]
fn statement_014_percent_slashes_dots_tilde() {
    let (name, uri) = ("10.1000/a%2Fb//./../~c/", "doi:10.1000/a%252Fb//./../~c/");
    assert_eq!(format("uri", name), uri);
    assert_eq!(format("name", uri), name);
}

#[test]
fn statement_015_neither_query_nor_fragment() {
    assert_eq!(format("uri", "10.1000/a?b#c"), "doi:10.1000/a%3Fb%23c");
    assert_eq!(format("name", "doi:10.1000/a?b#c"), "10.1000/a?b#c");
}

#[test]
fn statement_016_example_1() {
    let name = "10.5594/SMPTE.ST2067-21.2020";
    assert_eq!(format("uri", name), "doi:10.5594/SMPTE.ST2067-21.2020");
}

#[test]
fn statement_017_example_2() {
    let (name, uri) = (
        "10.26321/\u{c1}.GUTI\u{c9}RREZ.ZARZA.02.2018.03",
        "doi:10.26321/%C3%81.GUTI%C3%89RREZ.ZARZA.02.2018.03",
    );
    assert_eq!(format("uri", name), uri);
    assert_eq!(format("name", uri), name);
}

#[test]
fn statement_018_composed_and_decomposed_differ() {
    assert!(!is_same("current", "10.26321/\u{c1}", "10.26321/A\u{301}"));
    assert!(!is_same("current", "doi:10.26321/%C3%81", "doi:10.26321/A%CC%81"));
}

#[test]
fn statement_021_uri_form_tells_hyphens_apart() {
    let uris = ["10.1000/c-d", "10.1000/c\u{2212}d", "10.1000/c\u{2013}d"].map(|name| format("uri", name));
    assert_eq!(uris, ["doi:10.1000/c-d", "doi:10.1000/c%E2%88%92d", "doi:10.1000/c%E2%80%93d"]);
    assert!(!is_same("current", "10.1000/c-d", "10.1000/c\u{2013}d"));
}

#[test]
fn statement_023_case_matters_only_in_comparison() {
    assert!(is_same("current", "10.1000/AbC", "10.1000/aBc"));
    assert_eq!(format("name", "10.1000/AbC"), "10.1000/AbC");
    assert_eq!(format("uri", "10.1000/AbC"), "doi:10.1000/AbC");
}

#[test]
fn statement_024_only_basic_latin_is_folded() {
    for (one, other) in [("á", "Á"), ("K", "\u{212a}"), ("s", "ſ"), ("ß", "SS"), ("ａ", "Ａ"), ("а", "А")]
    {
        assert!(!is_same("current", &format!("10.1000/{one}"), &format!("10.1000/{other}")), "{one} {other}");
    }
}

#[test]
fn statement_042_pure_name_without_a_service() {
    // No server runs, no network is used.
    assert_eq!(details("current", "doi:10.1000/182")["name"], "10.1000/182");
}

#[test]
fn statement_049_syntax_of_z3984() {
    assert_eq!(fault("z3984", "doi:10.1000/182"), "");
    assert_eq!(fault("z3984", "doi:alpha-beta/182.342-24"), "bad-directory-indicator");
}

#[test]
fn statement_050_first_slash_divides() {
    assert_eq!(parts("current", "doi:10.1000/ab/cd//ef"), ["10.1000", "ab/cd//ef"]);
}

#[test]
fn statement_051_scheme_in_any_case() {
    for input in ["doi:10.1000/182", "DOI:10.1000/182", "Doi:10.1000/182"] {
        assert_eq!(details("current", input)["form"], "doi");
        assert_eq!(format("uri", input), "doi:10.1000/182");
    }
}

#[test]
fn statement_052_characters_of_the_2002_draft() {
    // The ABNF has bytes 00 to FF, its comment characters from U+00A0; both agree on these.
    assert_eq!(fault("minimal2002", "doi:10.1000/\u{a1}~ z"), "");
    // Z39.84, which the draft follows, excludes control characters.
    assert_eq!(fault("minimal2002", "10.1000/a\u{1}"), "control-character");
    assert_eq!(fault("minimal2002", "10.1000/a\u{85}b"), "control-character");
}

#[test]
fn statement_053_prefix_of_any_characters() {
    assert_eq!(parts("minimal2002", "doi:a b%3Fé/x"), ["a b?é", "x"]);
}

#[test]
fn statement_054_prefix_and_suffix_not_empty() {
    for (input, code) in [("doi:/x", "empty-prefix"), ("doi:x/", "empty-suffix"), ("doi:x", "missing-slash")]
    {
        assert_eq!(fault("minimal2002", input), code, "{input}");
    }
}

#[test]
fn statement_060_reserved_and_excluded_characters_are_escaped() {
    let uri = format("uri-2003", "10.1000/?&=# <>\"{}|\\^[]`%");
    assert_eq!(uri, "doi:10.1000/%3F%26%3D%23%20%3C%3E%22%7B%7D%7C%5C%5E%5B%5D%60%25");
}

#[test]
fn statement_061_escaped_data_comes_back() {
    let name = "10.1000/?&=# <>\"{}|\\^[]`%é";
    for form in ["uri", "uri-2003", "uri-2024-11", "urn", "url", "url-minimal", "url-full", "info"] {
        assert_eq!(format("name", &format(form, name)), name, "{form}");
    }
}

#[test]
fn statement_062_to_064_examples_of_the_2002_draft() {
    assert_eq!(parts("minimal2002", "doi:alpha-beta/182.342-24"), ["alpha-beta", "182.342-24"]);
    assert_eq!(parts("minimal2002", "doi:10.abc/ab/cd/ef"), ["10.abc", "ab/cd/ef"]);
    // The draft prints "january/21/4690", against its own grammar.
    assert_eq!(parts("minimal2002", "doi:1.23/2002/january/21/4690"), ["1.23", "2002/january/21/4690"]);
}

#[test]
fn statement_067_namespace_name_in_xml() {
    let uri = "doi:1.23/2002/january/21/4690";
    assert_eq!(details("minimal2002", uri)["form"], "doi");
    assert!(is_same("minimal2002", uri, "1.23/2002/january/21/4690"));
    let name = format("uri", "10.1000/a<\"&'>b");
    assert!(!name.contains(['<', '"', '&', '\'', '>']), "needs no escaping in an attribute: {name}");
}

#[test]
fn statement_077_urns_in_full_text() {
    let text = "See <urn:doi:10.1000/456%23789>, URN:DOI:10.1000/182 and (urn:eidr:10.5240:7791-8534).";
    assert_eq!(extract(text), ["10.1000/456#789", "10.1000/182", "10.5240/7791-8534"]);
}

#[test]
fn statement_078_components_have_no_meaning_yet() {
    for urn in ["urn:doi:10.1000/182?+r", "urn:doi:10.1000/182?=q", "urn:doi:10.1000/182#f"] {
        assert_eq!(format("name", urn), "10.1000/182", "{urn}");
    }
}

#[test]
fn statement_079_printable_characters() {
    let name = "10.1000/Aé日本語العربية→½ \u{3000}😀";
    assert_eq!(format("name", name), name);
}

#[test]
fn statement_080_dot_extends_the_prefix() {
    assert_eq!(parts("current", "10.1000.10/123456"), ["10.1000.10", "123456"]);
    assert_eq!(fault("current", "10..1000/x"), "bad-registrant");
}

#[test]
fn statement_081_proxy_address_is_not_part_of_the_name() {
    assert_eq!(format("url", "10.1000/182"), "https://doi.org/10.1000/182");
    assert_eq!(format("name", "https://doi.org/10.1000/182"), "10.1000/182");
}

#[test]
fn statement_082_to_086_characters_encoded_in_url_and_urn() {
    let reserved = ":?#[]@!$&'()*+,;=";
    let encoded: String = reserved.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let name = format!("10.1000/{reserved}é");
    assert_eq!(format("urn", &name), format!("urn:doi:10.1000/{encoded}%C3%A9"));
    assert_eq!(format("url-full", &name), format!("https://doi.org/10.1000/{encoded}%C3%A9"));
    assert_eq!(format("url", "10.1000/456#789"), "https://doi.org/10.1000/456%23789");
    assert_eq!(format("urn", "10.1000/456#789"), "urn:doi:10.1000/456%23789");
}

#[test]
fn statement_087_to_092_prefix_slash_suffix() {
    assert_eq!(parts("current", "urn:doi:10.1000/182"), ["10.1000", "182"]);
    // Directory indicator 10 and a registrant code.
    assert_eq!(fault("current", "10/x.y"), "missing-registrant");
    assert_eq!(fault("current", "11.1000/182"), "bad-directory-indicator");
    // The revised syntax: another directory indicator, no registrant code.
    assert_eq!(parts("minimal2002", "urn:doi:20.500.12345/x"), ["20.500.12345", "x"]);
    assert_eq!(parts("minimal2002", "urn:doi:2013/x"), ["2013", "x"]);
}

#[test]
fn statement_096_suffixes_from_other_identifiers() {
    for suffix in [
        "ISAN.0000-0000-D07A-0090-Q",
        "978-0-306-40615-7",
        "USPR37300012",
        "issn.1476-4687",
        "0000000121032683",
    ] {
        assert_eq!(parts("current", &format!("10.1000/{suffix}")), ["10.1000", suffix]);
    }
}

#[test]
fn statement_098_abnf_of_urn_doi() {
    let (code, ..) = text_output(tendot().args(["name", "--strict", "urn:doi:10.1000/a-b_~.;()"]));
    assert_eq!(code, Some(0));
    for urn in ["urn:doi:10.1000/", "urn:doi:/x", "urn:doi:10.1000", "urn:doi:10.1000/é"] {
        assert_eq!(text_output(tendot().args(["name", "--strict", urn])).0, Some(1), "{urn}");
    }
}

#[test]
fn statement_099_registrant_codes_of_digits_and_dots() {
    assert_eq!(fault("current", "10.1000.1/x"), "");
    assert_eq!(fault("current", "10.abc/x"), "bad-registrant");
    assert_eq!(fault("z3984", "10.abc/x"), "");
}

#[test]
fn statement_100_to_103_lexical_equivalence() {
    assert!(is_same("current", "urn:doi:10.1000/AbC", "URN:DOI:10.1000/aBc"));
    assert!(is_same("current", "urn:doi:10.1000/182?+r?=q#f", "urn:doi:10.1000/182"));
    assert_eq!(format("display", "DOI:10.1000/182"), "doi:10.1000/182");
    assert!(is_same("current", "doi:10.1000/182", "10.1000/182"));
    assert!(is_same("current", "DOI:10.1000/182", "urn:doi:10.1000/182"));
}

#[test]
fn statement_104_label_before_a_percent_sign() {
    assert!(is_same("current", "doi:10.1000/a%25b", "10.1000/a%b"));
    assert!(is_same("current", "doi:10.1000/100%", "10.1000/100%"));
}

#[test]
fn statement_105_to_107_representations_of_one_name() {
    let forms = [
        "urn:doi:10.1000/456%23789",
        "https://doi.org/10.1000/456%23789",
        "doi:10.1000/456#789",
        "10.1000/456#789",
    ];
    for one in forms {
        for other in forms {
            assert!(is_same("current", one, other), "{one} {other}");
        }
    }
    // A departure: `%` in a bare name is data (Z39.84, appendix E).
    assert!(!is_same("current", "10.1000/456%23789", "10.1000/456#789"));
}

#[test]
fn statement_108_eidr() {
    let (eidr, doi) =
        ("urn:eidr:10.5240:7791-8534-2C23-9030-8610-5", "urn:doi:10.5240/7791-8534-2C23-9030-8610-5");
    assert!(is_same("current", eidr, doi));
    assert_eq!(format("eidr", doi), eidr);
}

#[test]
fn statement_109_only_names_of_eidr() {
    let (code, ..) = text_output(tendot().args(["name", "--as", "eidr", "10.1000/182"]));
    assert_eq!(code, Some(1), "written only for prefixes of EIDR");
    let (code, ..) = text_output(tendot().args(["name", "--strict", "urn:eidr:10.5240/7791"]));
    assert_eq!(code, Some(1), "only with a colon");
}

#[test]
fn statement_133_dir_reg_dss() {
    assert_eq!(parts("z3984", "10.123/ABC"), ["10.123", "ABC"]);
    for (input, code) in [
        ("10.123", "missing-slash"),
        ("10./ABC", "missing-registrant"),
        ("10.123/", "empty-suffix"),
        ("11.123/ABC", "bad-directory-indicator"),
        ("x.123/ABC", "bad-directory-indicator"),
    ] {
        assert_eq!(fault("z3984", input), code, "{input}");
    }
}

#[test]
fn statement_135_case_insensitive() {
    assert!(is_same("z3984", "10.123/ABC", "10.123/AbC"));
}

#[test]
fn statement_139_comparison_by_octets() {
    assert!(is_same("z3984", "10.123/abc-é", "10.123/ABC-é"));
    assert!(!is_same("z3984", "10.123/abc-é", "10.123/ABC-É"));
    assert_eq!(format("canonical", "10.123/abc-é"), "10.123/ABC-é");
}

#[test]
fn statement_141_control_characters() {
    for control in (1..=0x1f).chain(0x80..=0x9f).filter_map(char::from_u32) {
        assert_eq!(fault("z3984", &format!("10.123/a{control}b")), "control-character", "{control:?}");
    }
}

#[test]
fn statement_146_any_character_in_the_prefix() {
    assert_eq!(parts("z3984", "10.a b-é/x"), ["10.a b-é", "x"]);
}

#[test]
fn statement_149_reserved_suffixes() {
    assert_eq!(fault("z3984", "10.123/a/b"), "reserved-suffix");
    assert_eq!(fault("z3984", "10.123/é/b"), "reserved-suffix");
    assert_eq!(fault("z3984", "10.123/ab/c"), "");
}

#[test]
fn statement_151_suffix_is_case_insensitive() {
    assert!(is_same("current", "10.123/journal", "10.123/JOURNAL"));
}

#[test]
fn statement_156_to_159_examples_of_appendix_c() {
    for name in [
        "10.1002/(SICI)1097-4571(199806)49:8<693::AID-ASI4>3.0.CO:2-0",
        "10.1001/PUBS.JAMA(278)3,JOC7055-ABSY:",
        "10.1006/rwei.1999.0001",
    ] {
        assert_eq!(format("name", name), name);
        assert_eq!(format("name", &format("url-minimal", name)), name);
        assert_eq!(fault("z3984", name), "");
    }
}

#[test]
fn statement_160_encoding_belongs_to_the_context() {
    let name = "10.1000/456#789";
    assert_eq!(format("name", name), name);
    assert_eq!(format("url", name), "https://doi.org/10.1000/456%23789");
    assert_eq!(
        format("html", "10.1000/a&b"),
        r#"<a href="https://doi.org/10.1000/a&amp;b">doi:10.1000/a&amp;b</a>"#
    );
}

#[test]
fn statement_162_nihongo() {
    assert_eq!(format("uri", "10.1000/\u{65e5}\u{672c}\u{8a9e}"), "doi:10.1000/%E6%97%A5%E6%9C%AC%E8%AA%9E");
}

#[test]
fn statement_163_proxy_url() {
    assert!(is_same("current", "doi:10.123/456", "http://dx.doi.org/10.123/456"));
}

#[test]
fn statement_164_link_in_a_page() {
    let link = r#"<A HREF="http://dx.doi.org/10.1006/rwei.1999%22.0001">10.1006/rwei.1999%22.0001</A>"#;
    let name = "10.1006/rwei.1999\".0001";
    assert_eq!(extract(link), [name, name]);
    // A departure: the link text is the name as it is, behind `doi:` (ISO 26324).
    let expected =
        r#"<a href="https://doi.org/10.1006/rwei.1999%22.0001">doi:10.1006/rwei.1999&quot;.0001</a>"#;
    assert_eq!(format("html", name), expected);
}

#[test]
fn statement_166_number_sign() {
    assert_eq!(format("url", "10.1000/456#789"), "https://doi.org/10.1000/456%23789");
    assert_eq!(format("name", "http://dx.doi.org/10.1000/456%23789"), "10.1000/456#789");
}

#[test]
fn statement_167_name_does_not_change() {
    let url = format("url", "10.1006/rwei.1999\".0001");
    assert!(is_same("current", &url, "10.1006/rwei.1999\".0001"));
}

#[test]
fn statement_172_percent_sign() {
    for form in ["url", "url-minimal", "url-full", "urn", "uri"] {
        assert!(format(form, "10.1000/100%").ends_with("10.1000/100%25"), "{form}");
    }
}

#[test]
fn statement_174_mandatory_encoding() {
    assert_eq!(format("url-minimal", "10.1000/%\"# x"), "https://doi.org/10.1000/%25%22%23%20x");
}

#[test]
fn statement_175_recommended_encoding() {
    let (raw, encoded) = ("<>{}^[]|\\`", "%3C%3E%7B%7D%5E%5B%5D%7C%5C%60");
    assert_eq!(format("url", &format!("10.1000/{raw}")), format!("https://doi.org/10.1000/{encoded}"));
    assert_eq!(format("url-minimal", &format!("10.1000/{raw}")), format!("https://doi.org/10.1000/{raw}"));
}

#[test]
fn statement_176_lower_case_hexadecimal() {
    assert_eq!(format("name", "https://doi.org/10.1000/%3c%3e%7b%7d%5e%5b%5d%7c%5c"), "10.1000/<>{}^[]|\\");
}

#[test]
fn statement_178_names_in_the_text_of_the_standard() {
    let text = "incorporating a SICI, published by John Wiley & Sons:\n\
        10.1002/(SICI)1097-4571(199806)49:8<693::AID-ASI4>3.0.CO:2-0\n\
        published by Academic Press:\n10.1006/rwei.1999.0001\n\
        DOI Handbook: DOI 10.1000/182, http://www.doi.org/hb.html\n\
        \"doi:10.123/456\" would be written as http://dx.doi.org/10.123/456.\n\
        The DOI 10.1006/rwei.1999\".0001 as a link in an HTML page would be:\n\
        http://dx.doi.org/10.1000/456#789 is encoded as http://dx.doi.org/10.1000/456%23789.\n\
        is in the DOI Registry as \"10.1000/456#789\" and not \"10.1000/456%23789\".\n";
    let expected = [
        "10.1002/(SICI)1097-4571(199806)49:8<693::AID-ASI4>3.0.CO:2-0",
        "10.1006/rwei.1999.0001",
        "10.1000/182",
        "10.123/456",
        "10.123/456",
        "10.1006/rwei.1999\".0001",
        // `#` in a URL starts the fragment, as the standard says there.
        "10.1000/456",
        "10.1000/456#789",
        "10.1000/456#789",
        "10.1000/456#789",
    ];
    assert_eq!(extract(text), expected);
}

/// The canonical form of the 2003 draft.
const CANONICAL: &str = "doi:DK/P%C3%A6DAGOGI%2037(2),%20562";

const FORMS: [&str; 5] = [
    "DOI:dk/P%C3%A6dagogi%2037(2),%20562",
    "doi:DK/P%C3%A6dagogi%2037(2),%20562",
    "doi:dk/P%c3%a6dagogi%2037(2),%20562",
    "doi:dk/p%c3%a6dagogi%2037(2),%20562",
    "doi:dk%2FP%C3%A6dagogi%2037%282%29%2C%20562",
];

fn canonical(input: &str) -> String {
    details("minimal2002", input)["uri_2003"].as_str().unwrap().to_owned()
}

#[test]
fn statement_180_to_183_steps_of_normalization() {
    // 1: the scheme in lower case; 2: unreserved characters unescaped, others kept; 3: the rest in upper case.
    assert_eq!(canonical("DOI:dk/%41%7E%2D%3f%23%26%3d%C3%A6b"), "doi:DK/A~-%3F%23%26%3D%C3%A6B");
}

#[test]
fn statement_184_to_188_forms_of_one_name() {
    for form in FORMS {
        assert_eq!(canonical(form), CANONICAL, "{form}");
    }
}

#[test]
fn statement_189_forms_are_equal() {
    for one in FORMS.iter().chain(&[CANONICAL]) {
        for other in FORMS.iter().chain(&[CANONICAL]) {
            assert!(is_same("minimal2002", one, other), "{one} {other}");
        }
    }
}

#[test]
fn statement_190_forms_with_default_rules() {
    for form in FORMS {
        assert!(is_same("current", form, CANONICAL), "{form}");
    }
}
