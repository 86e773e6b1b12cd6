//! PEM (RFC 7468): one block of text around DER.

use data_encoding::BASE64;

/// Columns of a line.
const LINE_LEN: usize = 64;

/// Label and content of the first block; `None` if there is no valid one.
pub(super) fn decode(text: &str) -> Option<(&str, Vec<u8>)> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, rest) = rest.split_once("-----END ")?;
    rest.starts_with(label).then_some(())?;
    // Header fields (RFC 1421), as in encrypted PKCS #1 keys, contain a colon.
    let digits: Vec<u8> = body.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    Some((label, BASE64.decode(&digits).ok()?))
}

/// Block with this label.
pub(super) fn encode(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    let digits = BASE64.encode(der);
    let mut rest = digits.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE_LEN));
        text += line;
        text.push('\n');
        rest = after;
    }
    text + &format!("-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        for length in [0, 1, 47, 48, 49, 300] {
            let der: Vec<u8> = (0..length).map(|byte| (byte % 251) as u8).collect();
            let text = encode("PUBLIC KEY", &der);
            assert!(text.lines().all(|line| line.len() <= LINE_LEN), "{text}");
            assert_eq!(decode(&format!("comment\n{text}")), Some(("PUBLIC KEY", der)));
        }
        for wrong in [
            "",
            "-----BEGIN X-----",
            "-----BEGIN X-----\n!\n-----END X-----",
            "-----BEGIN X-----\nAAAA\n-----END Y-----",
        ] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
