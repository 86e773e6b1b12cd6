//! Names in request paths, in all forms that DOI proxies accept.

use std::borrow::Cow;

/// Prefixes of written forms, in lower case, and whether a colon may stand for the slash of the name.
const NAME_PREFIXES: [(&str, bool); 11] = [
    ("info:doi/", false),
    ("info:hdl/", false),
    ("hdl:", false),
    ("doi:", false),
    ("urn:hdl:", true),
    ("urn:doi:", true),
    ("urn:eidr:", true),
    ("https://doi.org/", false),
    ("http://doi.org/", false),
    ("https://dx.doi.org/", false),
    ("http://dx.doi.org/", false),
];

/// Name in a decoded path, without leading slashes.
pub(crate) fn parse(path: &str) -> Cow<'_, str> {
    let path = path.trim_start_matches('/');
    let stripped = NAME_PREFIXES.iter().find_map(|(prefix, is_urn)| {
        let (start, rest) = path.split_at_checked(prefix.len())?;
        start.eq_ignore_ascii_case(prefix).then_some((rest, *is_urn))
    });
    match stripped {
        None => Cow::Borrowed(path),
        Some((name, false)) => Cow::Borrowed(name.trim_start()),
        Some((name, true)) => match name.find([':', '/']) {
            Some(offset) if name.as_bytes().get(offset) == Some(&b':') => {
                let mut slashed = name.to_owned();
                slashed.replace_range(offset..=offset, "/");
                Cow::Owned(slashed)
            }
            _ => Cow::Borrowed(name),
        },
    }
}

/// Name to redirect; one without slash and dot is a shortDOI, `10/abcde`.
pub(crate) fn parse_or_short_doi(path: &str) -> Cow<'_, str> {
    let name = parse(path);
    if name.is_empty() || name.contains(['/', '.']) {
        return name;
    }
    Cow::Owned(format!("10/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_forms() {
        check("/10.1000/182", "10.1000/182");
        check("//10.1000/182", "10.1000/182");
        check("/10.1000//182", "10.1000//182");
        check("/10.1000/182/", "10.1000/182/");
        check("/doi:10.1000/182", "10.1000/182");
        check("/DOI:10.1000/182", "10.1000/182");
        check("/doi: 10.1000/182", "10.1000/182");
        check("/hdl:20.500/x", "20.500/x");
        check("/info:doi/10.1000/182", "10.1000/182");
        check("/info:hdl/20.500/x", "20.500/x");
        check("/urn:doi:10.1000/182", "10.1000/182");
        check("/urn:doi:10.1000:182", "10.1000/182");
        check("/urn:doi:10.1000:1:8/2", "10.1000/1:8/2");
        check("/urn:doi:10.1000/1:82", "10.1000/1:82");
        check("/urn:eidr:10.5240:7791-8534-2C23-9030-8610-5", "10.5240/7791-8534-2C23-9030-8610-5");
        check("/urn:hdl:20.500:x", "20.500/x");
        check("/https://doi.org/10.1000/182", "10.1000/182");
        check("/doi.org/10.1000/182", "doi.org/10.1000/182");
        check("/abc", "abc");
        check("/10.1000", "10.1000");
        check("/", "");
        check("/é:x/y", "é:x/y");
    }

    #[track_caller]
    fn check(path: &str, expected: &str) {
        assert_eq!(parse(path), expected, "{path}");
    }

    #[test]
    fn short_dois() {
        assert_eq!(parse_or_short_doi("/abcde"), "10/abcde");
        assert_eq!(parse_or_short_doi("/10/abcde"), "10/abcde");
        assert_eq!(parse_or_short_doi("/doi:abcde"), "10/abcde");
        assert_eq!(parse_or_short_doi("/10.1000"), "10.1000");
        assert_eq!(parse_or_short_doi("/"), "");
    }
}
