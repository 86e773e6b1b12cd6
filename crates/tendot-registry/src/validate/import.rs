use tendot_proto::{Handle, HandleValue};

use super::url;
use super::value::{InvalidValue, ValueFault, check_encoding, check_indexes};
use crate::party::is_reserved_prefix;
use crate::{Error, RecordLimits};

/// What is wrong with a record that is brought in from elsewhere, or what is only odd.
///
/// Such records have been resolved for years, so any name is taken that can be kept, and of the addresses in `URL` values
/// only those are refused that could break an answer. The others come back as a warning each.
///
/// ```
/// use tendot_proto::{Handle, HandleValue};
/// use tendot_registry::{RecordLimits, check_import};
///
/// let record = |url: &'static str| [HandleValue::new(1, "URL", url)];
/// let check = |url| check_import(Handle::from("10.1000/1"), &record(url), &RecordLimits::default());
/// assert!(check("https://example.org/").unwrap().is_empty());
/// assert_eq!(
///     check("javascript:x").unwrap()[0].to_string(),
///     "the value at index 1 is a URL that has the scheme `javascript`, which is not taken",
/// );
/// assert!(check("https://example.org/\r\nSet-Cookie: a=1").is_err());
/// assert!(check_import(Handle::from("0.TENDOT/agency/a"), &[], &RecordLimits::default()).is_err());
/// ```
pub fn check_import(
    name: Handle<'_>,
    values: &[HandleValue<'_>],
    limits: &RecordLimits,
) -> Result<Vec<InvalidValue>, Error> {
    name.validate_for_create()?;
    if is_reserved_prefix(name.prefix()) {
        return Err(Error::Reserved);
    }
    check_indexes(values, limits)?;
    let mut warnings = Vec::new();
    for value in values {
        check_encoding(value, limits)?;
        if !value.has_type("URL") {
            continue;
        }
        if let Err(odd) = url::check(&value.data, limits.url_bytes) {
            let breaks = odd.is_header_injection();
            let invalid = InvalidValue { index: Some(value.index), fault: ValueFault::Url(odd) };
            if breaks {
                return Err(invalid.into());
            }
            warnings.push(invalid);
        }
    }
    Ok(warnings)
}
