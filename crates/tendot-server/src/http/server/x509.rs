//! Expiry, subject and RSA key of X.509 certificates (RFC 5280, section 4.1).

use tendot_proto::record::{KeyComponents, PublicKey};

const TAG_SEQUENCE: u8 = 0x30;

/// Expiry of a certificate, in Unix seconds.
pub(crate) fn not_after(certificate: &[u8]) -> Option<u64> {
    let (_, _, rest) = read_tlv(sequence_content(skip_to_validity(certificate)?)?)?;
    let (tag, text, _) = read_tlv(rest)?;
    parse_time(tag, str::from_utf8(text).ok()?)
}

/// Content of the certificate from the validity on.
fn skip_to_validity(certificate: &[u8]) -> Option<&[u8]> {
    let mut rest = sequence_content(sequence_content(certificate)?)?;
    // The version is optional.
    if rest.first() == Some(&0xA0) {
        rest = read_tlv(rest)?.2;
    }
    // Serial number, algorithm, issuer.
    for _ in 0..3 {
        rest = read_tlv(rest)?.2;
    }
    Some(rest)
}

/// Subject name and RSA public key of an X.509 certificate (RFC 5280, section 4.1).
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct CertificateSubject<'c> {
    /// User id, or else common name: `300:0.NA/10.1000`.
    pub(crate) name: String,
    modulus: &'c [u8],
    exponent: &'c [u8],
}

impl<'c> CertificateSubject<'c> {
    pub(crate) fn parse(certificate: &'c [u8]) -> Option<Self> {
        const OID_RSA: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01];
        const OID_USER_ID: &[u8] = &[0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 0x01, 0x01];
        const OID_COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
        let (_, _, rest) = read_tlv(skip_to_validity(certificate)?)?;
        let (_, subject, rest) = read_tlv(rest)?;
        let name =
            name_attribute(subject, OID_USER_ID).or_else(|| name_attribute(subject, OID_COMMON_NAME))?;
        let (_, algorithm, key) = read_tlv(sequence_content(rest)?)?;
        if read_tlv(algorithm)?.1 != OID_RSA {
            return None;
        }
        // BIT STRING without unused bits.
        let key = sequence_content(read_tlv(key)?.1.strip_prefix(&[0])?)?;
        let (_, modulus, rest) = read_tlv(key)?;
        let (_, exponent, _) = read_tlv(rest)?;
        Some(Self { name, modulus: strip_leading_zeros(modulus), exponent: strip_leading_zeros(exponent) })
    }

    /// Whether the data of an `HS_PUBKEY` value is this key.
    pub(crate) fn matches_public_key(&self, data: &[u8]) -> bool {
        PublicKey::from_bytes(data).is_ok_and(|key| match key.components() {
            KeyComponents::Rsa { exponent, modulus } => {
                strip_leading_zeros(modulus) == self.modulus && strip_leading_zeros(exponent) == self.exponent
            }
            _ => false,
        })
    }
}

/// First attribute of this type in a distinguished name.
fn name_attribute(name: &[u8], wanted: &[u8]) -> Option<String> {
    let mut rest = name;
    while !rest.is_empty() {
        let (_, set, after) = read_tlv(rest)?;
        let (_, oid, value) = read_tlv(sequence_content(set)?)?;
        if oid == wanted {
            return String::from_utf8(read_tlv(value)?.1.to_vec()).ok();
        }
        rest = after;
    }
    None
}

/// Integer without leading zeros.
fn strip_leading_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

fn sequence_content(bytes: &[u8]) -> Option<&[u8]> {
    read_tlv(bytes).filter(|(tag, ..)| *tag == TAG_SEQUENCE).map(|(_, content, _)| content)
}

/// Reads one TLV: tag, content, and the rest.
fn read_tlv(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = if *first < 0x80 {
        (usize::from(*first), rest)
    } else {
        let (digits, rest) =
            rest.split_at_checked(usize::from(first & 0x7F)).filter(|(digits, _)| digits.len() <= 3)?;
        (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// Parses UTCTime (`YYMMDDHHMMSSZ`) or GeneralizedTime (`YYYYMMDDHHMMSSZ`).
fn parse_time(tag: u8, text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    let (year, text) = match (tag, text.len()) {
        (0x17, 12) => {
            let year: u64 = text[..2].parse().ok()?;
            (if year < 50 { 2_000 + year } else { 1_900 + year }, &text[2..])
        }
        (0x18, 14) => (text[..4].parse().ok()?, &text[4..]),
        _ => return None,
    };
    let number = |at: usize| text[at..at + 2].parse::<u64>().ok();
    let (month, day, hour, minute, second) = (number(0)?, number(2)?, number(4)?, number(6)?, number(8)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || year < 1_970 {
        return None;
    }
    // With years that begin in March, the leap day is the last day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    Some((days.checked_sub(719_468)?) * 86_400 + hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(parse_time(0x17, "700101000000Z"), Some(0));
        assert_eq!(parse_time(0x17, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(parse_time(0x18, "20240229120000Z"), Some(1_709_208_000));
        assert_eq!(parse_time(0x18, "99991231235959Z"), Some(253_402_300_799));
        for bad in ["", "Z", "20240229120000", "20241329120000Z", "2024022912000éZ", "19600101000000Z"] {
            assert_eq!(parse_time(0x18, bad), None, "{bad}");
        }
    }

    #[test]
    fn certificates() {
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(2031, 5, 6);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        assert_eq!(not_after(certificate.der()), Some(1_935_792_000));
        // A truncated certificate is rejected, without a panic.
        for end in 0..certificate.der().len() {
            assert_eq!(not_after(&certificate.der()[..end]), None);
        }
        assert_eq!(not_after(&[0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF]), None);
    }
}
