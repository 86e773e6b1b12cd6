//! `security.txt` (RFC 9116): how to report vulnerabilities.

use std::path::Path;

use jiff::Timestamp;

use crate::CliError;
use crate::key::read_small_file;

/// Reads the file, which must have a contact and the time when it expires (RFC 9116, section 2.5).
pub(super) fn read(path: &Path) -> Result<String, CliError> {
    let invalid =
        |reason: &str| CliError::new(format!("invalid security.txt `{}`: {reason}", path.display()));
    let text = String::from_utf8(read_small_file(path)?).map_err(|_| invalid("it is not UTF-8"))?;
    let values = |wanted: &str| -> Vec<String> {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        let values = fields.filter(|(name, _)| name.trim().eq_ignore_ascii_case(wanted));
        values.map(|(_, value)| value.trim().to_owned()).collect()
    };
    if values("contact").is_empty() {
        return Err(invalid("add a line such as `Contact: mailto:security@example.org`"));
    }
    let is_time = |text: &String| text.parse::<Timestamp>().is_ok();
    match &*values("expires") {
        [expires] if is_time(expires) => Ok(text),
        _ => Err(invalid("add one line such as `Expires: 2027-12-31T00:00:00Z`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_fields() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("security.txt");
        for (text, expected) in [
            ("Contact: mailto:a@example.org\nExpires: 2027-12-31T00:00:00Z\n", true),
            ("# x\r\ncontact: https://example.org/\r\nEXPIRES: 2027-12-31T18:37:07+02:00\r\n", true),
            ("Contact: mailto:a@example.org\n", false),
            ("Expires: 2027-12-31T00:00:00Z\n", false),
            ("Contact: x\nExpires: next year\n", false),
            ("Contact: x\nExpires: 2027-12-31T00:00:00Z\nExpires: 2027-12-31T00:00:00Z\n", false),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read(&path).is_ok(), expected, "{text}");
        }
    }
}
