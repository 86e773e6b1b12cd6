//! Targets of a `Link` header field (RFC 8288).

/// Targets of the links in the value of a `Link` field; `None` if it is malformed, because clients may parse it differently.
///
/// ```
/// use tendot_registry::link_targets;
///
/// let field = r#"<https://a.example/>; rel="item"; title="a, <b>", <https://c.example/>; rel=next"#;
/// assert_eq!(link_targets(field).unwrap(), ["https://a.example/", "https://c.example/"]);
/// assert_eq!(link_targets("https://a.example/; rel=item"), None);
/// ```
pub fn link_targets(field: &str) -> Option<Vec<&str>> {
    let mut targets = Vec::new();
    let mut rest = skip_separators(field);
    while !rest.is_empty() {
        let (target, parameters) = rest.strip_prefix('<')?.split_once('>')?;
        targets.push(target.trim());
        rest = skip_separators(skip_parameters(parameters)?);
    }
    Some(targets)
}

/// Skips white space and the commas between links.
fn skip_separators(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', ','])
}

/// Skips the parameters of a link, up to a comma outside of quotes; `None` if they are malformed.
fn skip_parameters(text: &str) -> Option<&str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (offset, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => return text.get(offset..),
            // Another link without a comma before it.
            '<' | '>' if !is_quoted => return None,
            _ => {}
        }
    }
    (!is_quoted).then_some("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        check("", Some(&[]));
        check(" , ,", Some(&[]));
        check("<a>", Some(&["a"]));
        check("< a >;rel=b", Some(&["a"]));
        check("<a>; rel=\"x\", <b>; rel=y,<c>", Some(&["a", "b", "c"]));
        check("<a>; title=\"x, <no>; \\\", <no>\", <b>", Some(&["a", "b"]));
        check("<a,b>; rel=c", Some(&["a,b"]));
        check("a; rel=b", None);
        check("<a", None);
        check("<a>; title=\"x, <b>", None);
        check("<a>; title=\"x\\\", <b>", None);
        check("<a> <b>", None);
        check("<a>; rel=x; <b>", None);
        check("<a>>, <b>", None);
    }

    #[track_caller]
    fn check(field: &str, expected: Option<&[&str]>) {
        assert_eq!(link_targets(field).as_deref(), expected, "{field}");
    }
}
