//! Trims endings that are trimmed in a field but not in text: the year of publication, a trailing `#`.

/// Trims the year of publication or a trailing `#` from a DOI that fills a field.
pub(super) fn trim_field_tail(doi: &str) -> &str {
    let is_year = |text: &str| {
        text.len() == 4
            && (text.starts_with("19") || text.starts_with("20"))
            && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if let Some((rest, last)) = doi.rsplit_once('(')
        // ASCE page ranges (10.1061), `128:12(1987)`, have the same shape.
        && !doi.starts_with("10.1061/")
        && rest.split_once('/').is_some_and(|(_, suffix)| !suffix.is_empty())
        && is_year(last.strip_suffix(')').unwrap_or(last))
    {
        return rest;
    }
    match doi.strip_suffix('#') {
        Some(rest) if !rest.ends_with(['-', '/']) => rest,
        _ => doi,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trims_field_tails() {
        check("10.1207/s1_1(2006)", "10.1207/s1_1");
        check("10.1207/s1_1(2006", "10.1207/s1_1");
        check("10.1000/a#", "10.1000/a");
        for doi in
            ["10.1000/(2006)", "10.1061/a:12(1987)", "10.1000/a(1806)", "10.1000/a(20067)", "10.1000/a-#"]
        {
            check(doi, doi);
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(trim_field_tail(text), expected);
    }
}
