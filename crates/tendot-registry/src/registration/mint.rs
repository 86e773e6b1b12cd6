//! Generated suffixes: short, without similar letters, with check digits.

use tendot_proto::{Budget, Handle};

use crate::party::BASE32_ALPHABET;
use crate::prefix::is_numeric_prefix;
use crate::rules::SiteReader;
use crate::{RegistryError, codes, cost};

/// Characters before the check digits.
const SUFFIX_LEN: usize = 8;

/// Maximum number of suffixes tried.
const MAX_MINT_ATTEMPTS: u64 = 32;

impl SiteReader {
    /// Mints a name that neither exists nor is planned in the same batch.
    pub(super) async fn mint_name(
        &self,
        prefix: &str,
        random_bytes: &[u8; 16],
        is_planned: impl Fn(&str) -> bool + Send + Sync,
        budget: &mut Budget,
    ) -> Result<Box<str>, RegistryError> {
        if !is_numeric_prefix(prefix) || !self.settings.is_doi_prefix(prefix) {
            let detail = format!("invalid DOI prefix `{prefix}`");
            return Err(RegistryError::invalid(codes::INVALID_PREFIX, "/prefix", detail));
        }
        let random = u128::from_be_bytes(*random_bytes);
        for number in 0..MAX_MINT_ATTEMPTS {
            let bits = (random >> 64) as u64 ^ (random as u64).wrapping_mul(number);
            let name = format!("{prefix}/{}", generate(bits));
            budget.charge(cost::LOOKUP).map_err(crate::Error::from)?;
            if self.owns(Handle::from(&*name))
                && !is_planned(&name)
                && self.get_record(&name, budget).await?.is_none()
            {
                return Ok(name.into());
            }
        }
        Err(RegistryError::new(
            codes::MINTING_FAILED,
            format!("no unused suffix found in {MAX_MINT_ATTEMPTS} attempts; retry"),
        ))
    }
}

/// Generates a suffix such as `k3v9d7x2-47`. The last two digits are an ISO 7064 MOD 97-10 checksum, which detects single
/// wrong characters and transpositions.
pub(crate) fn generate(random: u64) -> String {
    let number = random % (1 << (5 * SUFFIX_LEN));
    let digit = |position: usize| {
        let value = number >> (5 * (SUFFIX_LEN - 1 - position)) & 31;
        usize::try_from(value)
            .ok()
            .and_then(|value| BASE32_ALPHABET.get(value))
            .map_or('0', |digit| char::from(*digit))
    };
    let digits: String = (0..SUFFIX_LEN).map(digit).collect();
    format!("{digits}-{:02}", check_digits(number))
}

/// Whether a suffix has the minted form and valid check digits.
///
/// ```
/// use tendot_registry::registration::is_minted;
///
/// assert!(is_minted("00000001-95") && is_minted("00000001-95".to_uppercase().as_str()));
/// assert!(!is_minted("00000010-95") && !is_minted("00000001-96"));
/// ```
pub fn is_minted(suffix: &str) -> bool {
    let Some((digits, end)) = suffix.split_once('-') else { return false };
    let mut number = 0_u64;
    for byte in digits.bytes() {
        let Some(value) = BASE32_ALPHABET.iter().position(|digit| digit.eq_ignore_ascii_case(&byte)) else {
            return false;
        };
        number = number << 5 | value as u64;
    }
    digits.len() == SUFFIX_LEN && end.len() == 2 && end.parse() == Ok(check_digits(number))
}

const fn check_digits(number: u64) -> u64 {
    98 - number * 100 % 97
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_digits_detect_typos() {
        for random in [0, 1, 12_345, u64::MAX, 0x5a5a_5a5a_5a5a_5a5a] {
            let minted = generate(random);
            assert!(is_minted(&minted) && is_minted(&minted.to_ascii_uppercase()), "{minted}");
            for position in 0..SUFFIX_LEN {
                for other in BASE32_ALPHABET.iter().filter(|other| **other != minted.as_bytes()[position]) {
                    let mut mistyped = minted.clone().into_bytes();
                    mistyped[position] = *other;
                    assert!(!is_minted(std::str::from_utf8(&mistyped).unwrap()), "{minted} at {position}");
                }
                let mut swapped = minted.clone().into_bytes();
                if position + 1 < SUFFIX_LEN && swapped[position] != swapped[position + 1] {
                    swapped.swap(position, position + 1);
                    assert!(!is_minted(std::str::from_utf8(&swapped).unwrap()), "{minted} at {position}");
                }
            }
        }
        assert!(!is_minted("") && !is_minted("-01") && !is_minted("k3v9d7x2") && !is_minted("k3v9d7xé-47"));
    }
}
