//! Generated DOI names as registrants form them, in the written forms that people use.

use tendot_testing::SeededRng;

/// Generates a DOI name.
pub fn name(random: &mut SeededRng) -> String {
    let year = random.in_range(1990, 2026);
    let n = random.in_range(1, 9_999_999);
    match random.below(12) {
        0 => format!("10.1016/j.{}.{year}.{:02}.{:03}", letters(random, 6), random.in_range(1, 12), n % 1000),
        1 => format!(
            "10.1016/S{:04}-{:04}({:02})00{:03}-{}",
            n % 10000,
            n / 7 % 10000,
            year % 100,
            n % 1000,
            n % 10
        ),
        2 => format!("10.1007/s{:05}-{:03}-{:04}-{}", n % 100_000, year % 1000, n % 10000, n % 10),
        3 => format!("10.1007/978-3-{:03}-{:05}-{}_{}", n % 1000, n % 100_000, n % 10, n % 40),
        4 => format!("10.1371/journal.pone.{n:07}"),
        5 => format!("10.1103/PhysRev{}.{}.{n}", ["Lett", "B", "D"][n % 3], n % 120),
        6 => format!("10.{}/zenodo.{n}", random.in_range(1000, 99_999)),
        7 => format!("10.1038/s41586-0{}-{:05}-{}", year % 100, n % 100_000, n % 10),
        8 => format!("10.3390/{}{:08}", letters(random, 4), n),
        9 => format!("10.1093/{}/{}{:03}", letters(random, 7), letters(random, 3), n % 1000),
        10 => format!("10.48550/arXiv.{:02}{:02}.{:05}", year % 100, random.in_range(1, 12), n % 100_000),
        _ if n.is_multiple_of(3) => {
            format!(
                "10.1002/(SICI)1097-{:04}({year}06){}:{}<{}::AID-{}{}>3.0.CO;2-{}",
                n % 10000,
                n % 90,
                n % 12,
                n % 900,
                letters(random, 3).to_uppercase(),
                n % 40,
                n % 10
            )
        }
        _ => format!("10.1111/j.{:04}-{:04}.{year}.{:05}.x", n % 10000, n / 3 % 10000, n % 100_000),
    }
}

/// Generates a line of a name list: 40 % bare names, 35 % URLs, 13 % labelled, 3 % URNs, 4 % upper case, 2 % with surrounding
/// punctuation, 3 % no names.
pub fn input_line(random: &mut SeededRng) -> String {
    let name = name(random);
    match random.below(100) {
        0..40 => name,
        40..60 => format!("https://doi.org/{}", encoded(&name)),
        60..70 => format!("http://dx.doi.org/{}", encoded(&name)),
        70..75 => format!("https://www.doi.org/{}", encoded(&name)),
        75..88 => format!("doi:{name}"),
        88..91 => format!("urn:doi:{}", encoded(&name)),
        91..95 => name.to_uppercase(),
        95..97 => format!(" DOI: {name} "),
        97 => name.replace('/', " "),
        98 => format!("https://example.org/{name}"),
        _ => name.replacen("10.", "11.", 1),
    }
}

fn encoded(name: &str) -> String {
    name.replace('<', "%3C").replace('>', "%3E")
}

fn letters(random: &mut SeededRng, count: usize) -> String {
    (0..count).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
}
