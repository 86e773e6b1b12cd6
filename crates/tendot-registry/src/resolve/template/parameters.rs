//! Substitution of `${…}` in templates.

use std::collections::HashMap;

/// Template parameters: texts, with the capture groups of a regular expression.
#[derive(Clone, Debug, Default)]
pub(super) struct TemplateParameters(HashMap<String, Vec<String>>);

impl TemplateParameters {
    /// Sets a parameter: the whole text, then the capture groups.
    pub(super) fn set(&mut self, name: &str, texts: Vec<String>) {
        self.0.insert(name.to_owned(), texts);
    }

    /// Text of `name`, or of a capture group such as `name[2]`.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let (name, number) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            Some((name, number)) => (name, number.trim().parse().ok()?),
            None => (name, 0),
        };
        self.0.get(name.trim())?.get::<usize>(number).map(String::as_str)
    }

    /// Substitutes `${…}`. Unknown parameters are empty; `\` escapes the next character. `None` if the result exceeds `limit`
    /// bytes.
    pub(super) fn substitute(&self, text: &str, limit: usize) -> Option<String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(position) = rest.find(['\\', '$']) {
            let (before, from) = rest.split_at(position);
            out.push_str(before);
            let mut after = from.chars();
            let special = after.next();
            rest = after.as_str();
            match (special, rest.strip_prefix('{').and_then(|inside| inside.split_once('}'))) {
                (Some('$'), Some((name, behind))) => {
                    out.push_str(self.get(name).unwrap_or_default());
                    rest = behind;
                }
                (Some('\\'), _) => {
                    let mut escaped = rest.chars();
                    out.extend(escaped.next());
                    rest = escaped.as_str();
                }
                _ => out.push('$'),
            }
            if out.len() > limit {
                return None;
            }
        }
        out.push_str(rest);
        (out.len() <= limit).then_some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn substitution() {
        check("", Some(""));
        check("plain é", Some("plain é"));
        check("${a}", Some("one"));
        check("<${a}|${b}|${b[1]}|${b[2]}|${b[9]}>", Some("<one|all|first||>"));
        check("${none}${a[x]}", Some(""));
        check("\\${a} \\\\ \\é $a $ ${a", Some("${a} \\ é $a $ ${a"));
        check("\\", Some(""));
        check("${a}${a}${a}${a}${a}${a}${a}${a}${a}${a}${a}${a}${a}${a}", None);
    }

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let mut parameters = TemplateParameters::default();
        parameters.set("a", vec!["one".into()]);
        parameters.set("b", vec!["all".into(), "first".into(), String::new()]);
        assert_eq!(parameters.substitute(text, 40).as_deref(), expected, "{text}");
    }
}
