//! Handle values on the command line: `INDEX[,ttl=SECONDS][,permissions=BITS]:TYPE:DATA`, or a JSON file.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use tendot_proto::record::{
    Admin, AdminPermissions, PublicKey, Site, Ttl, ValuePermissions, validate_indexes, values_from_json,
};
use tendot_proto::{HandleValue, ValueReference, limits};

use super::batch_language::{parse_admin, parse_permissions, parse_value_list, read_data_file};
use crate::CliError;
use crate::terminal::{is_stdio, quote_input};

/// Maximum size of a JSON file of values.
const MAX_JSON_BYTES: u64 = 64 << 20;

/// Values of a write.
#[derive(Args, Clone, Debug)]
pub(super) struct ValueArguments {
    /// Value: `INDEX:TYPE:DATA`, also `INDEX,ttl=SECONDS,permissions=1110:TYPE:DATA`; `@FILE` as data reads a file; data of
    /// HS_ADMIN is `INDEX:HANDLE` or `INDEX:PERMISSIONS:HANDLE`, of HS_VLIST `INDEX:HANDLE;INDEX:HANDLE`
    #[arg(value_name = "VALUE")]
    pub(super) values: Vec<String>,

    /// Read values from this JSON file, as in `tendot handle show --json`; `-` is standard input
    #[arg(long = "values", value_name = "FILE")]
    pub(super) file: Option<PathBuf>,

    /// TTL of the values without their own, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
    pub(super) ttl: u32,

    /// Permissions of the values without their own: admin read, admin write, public read, public write
    #[arg(long, value_name = "BITS", default_value = "1110")]
    pub(super) permissions: String,
}

impl ValueArguments {
    /// All values, from the arguments and the file.
    pub(super) fn parse(&self) -> Result<Vec<HandleValue<'static>>, CliError> {
        let permissions = parse_permissions(&self.permissions)
            .map_err(|reason| CliError::new(format!("invalid `--permissions`: {reason}")))?;
        let mut values = Vec::new();
        for text in &self.values {
            let value =
                parse_value_argument(text, Ttl::Relative(self.ttl), permissions).map_err(|reason| {
                    CliError::new(format!("invalid value `{}`: {reason}", quote_input(text.as_bytes())))
                        .with_hint("expected INDEX:TYPE:DATA, such as `1:URL:https://example.org/`")
                })?;
            values.push(value);
        }
        if let Some(file) = &self.file {
            values.extend(read_json_values(file)?);
        }
        validate_indexes(values.iter().map(|value| value.index), limits::MAX_VALUES)
            .map_err(|error| CliError::new(error.to_string()))?;
        Ok(values)
    }
}

fn read_json_values(file: &Path) -> Result<Vec<HandleValue<'static>>, CliError> {
    let failed = |error| CliError::io(format!("cannot read `{}`", file.display()), &error);
    let reader: Box<dyn Read> =
        if is_stdio(file) { Box::new(io::stdin()) } else { Box::new(File::open(file).map_err(failed)?) };
    let mut json = Vec::new();
    reader.take(MAX_JSON_BYTES + 1).read_to_end(&mut json).map_err(failed)?;
    let invalid = |reason: String| CliError::new(format!("invalid values in `{}`: {reason}", file.display()));
    if json.len() as u64 > MAX_JSON_BYTES {
        return Err(invalid(format!("more than {MAX_JSON_BYTES} bytes")));
    }
    let json = serde_json::from_slice(&json).map_err(|error| invalid(error.to_string()))?;
    let values = values_from_json(&json).map_err(|error| invalid(error.to_string()))?;
    Ok(values.into_iter().map(HandleValue::into_owned).collect())
}

/// Parses `INDEX[,ttl=SECONDS][,permissions=BITS]:TYPE:DATA`.
fn parse_value_argument(
    text: &str,
    mut ttl: Ttl,
    mut permissions: ValuePermissions,
) -> Result<HandleValue<'static>, String> {
    let mut parts = text.splitn(3, ':');
    let (Some(head), Some(value_type), Some(data)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("missing `:`".into());
    };
    let mut options = head.split(',');
    let index = options.next().unwrap_or_default().trim();
    let index: u32 =
        index.parse().map_err(|_| format!("invalid index `{}`", quote_input(index.as_bytes())))?;
    for option in options {
        match option.split_once('=') {
            Some(("ttl", seconds)) => {
                let seconds = seconds.parse().map_err(|_| "invalid `ttl`: not a number of seconds")?;
                ttl = Ttl::Relative(seconds);
            }
            Some(("permissions", bits)) => permissions = parse_permissions(bits)?,
            _ => {
                let option = quote_input(option.as_bytes());
                return Err(format!("unknown option `{option}`; expected `ttl=` or `permissions=`"));
            }
        }
    }
    if value_type.is_empty() {
        return Err("missing type".into());
    }
    let data = parse_data(value_type, data)?;
    Ok(HandleValue { ttl, permissions, ..HandleValue::with_data(index, value_type.to_owned(), data) })
}

/// Data of a value: a file, or text in the form of its type.
fn parse_data(value_type: &str, data: &str) -> Result<Vec<u8>, String> {
    if let Some(file) = data.strip_prefix('@') {
        let data = read_data_file(value_type, Path::new(file))?;
        if value_type.eq_ignore_ascii_case("HS_PUBKEY") {
            PublicKey::from_bytes(&data).map_err(|error| format!("`{file}` is not a public key: {error}"))?;
        }
        return Ok(data);
    }
    match value_type.to_ascii_uppercase().as_str() {
        "HS_ADMIN" if data.matches(':').count() >= 2 && has_permission_bits(data) => parse_admin(data),
        "HS_ADMIN" => {
            let reference = ValueReference::parse(data).into_owned();
            if reference.index == 0 || reference.handle.is_empty() {
                return Err("expected INDEX:HANDLE or INDEX:PERMISSIONS:HANDLE".into());
            }
            let permissions = AdminPermissions(DEFAULT_ADMIN_PERMISSIONS);
            Ok(Admin { permissions, reference, legacy_byte_length: false }.to_bytes())
        }
        "HS_VLIST" => parse_value_list(data),
        "HS_SITE" => {
            Site::from_json(data.as_bytes()).map(|site| site.to_bytes()).map_err(|error| error.to_string())
        }
        "HS_PUBKEY" => Err("a public key is read from a file: `INDEX:HS_PUBKEY:@pubkey.bin`".into()),
        _ => Ok(data.as_bytes().to_vec()),
    }
}

/// All permissions except those for derived prefixes, as Handle.Net's tools set them.
const DEFAULT_ADMIN_PERMISSIONS: u16 = 0x0ff3;

/// Whether the second part of `INDEX:PERMISSIONS:HANDLE` consists of binary digits.
fn has_permission_bits(data: &str) -> bool {
    let bits = data.split(':').nth(1).unwrap_or_default();
    bits.len() == 12 && bits.bytes().all(|byte| matches!(byte, b'0' | b'1'))
}

#[cfg(test)]
mod tests {
    use tendot_proto::record::ValueList;

    use super::*;

    fn parse(text: &str) -> Result<HandleValue<'static>, String> {
        parse_value_argument(text, Ttl::DEFAULT, ValuePermissions::DEFAULT)
    }

    #[test]
    fn parses_value_arguments() {
        let url = parse("1:URL:https://example.org/a:b,c").unwrap();
        assert_eq!(url, HandleValue::new(1, "URL", "https://example.org/a:b,c"));
        let email = parse("2,ttl=60,permissions=1100:EMAIL:x@example.org").unwrap();
        let expected = HandleValue::new(2, "EMAIL", "x@example.org");
        let permissions = ValuePermissions(0b1100);
        assert_eq!(email, HandleValue { ttl: Ttl::Relative(60), permissions, ..expected });
        for text in ["100:HS_ADMIN:300:0.NA/10.5555", "100:HS_ADMIN:300:110011111111:0.NA/10.5555"] {
            let admin = parse(text).unwrap();
            let admin = Admin::from_bytes(&admin.data).unwrap();
            assert_eq!(admin.permissions, AdminPermissions(0x0ff3), "{text}");
            assert_eq!(admin.reference, ValueReference::parse("300:0.NA/10.5555"), "{text}");
        }
        let list = parse("200:HS_VLIST:300:10.1/a;301:10.1/b").unwrap();
        assert_eq!(ValueList::from_bytes(&list.data).unwrap().members.len(), 2);
        assert!(parse("3:DESC:").unwrap().data.is_empty());
    }

    #[test]
    fn rejects_invalid_value_arguments() {
        let check = |text: &str, reason: &str| assert_eq!(parse(text).unwrap_err(), reason, "{text}");
        check("URL", "missing `:`");
        check("1:URL", "missing `:`");
        check("x:URL:a", "invalid index `x`");
        check("1::a", "missing type");
        check("1,ttl=x:URL:a", "invalid `ttl`: not a number of seconds");
        check("1,perm=1110:URL:a", "unknown option `perm=1110`; expected `ttl=` or `permissions=`");
        check("1,permissions=11:URL:a", "permissions must be 4 binary digits");
        check("1:HS_ADMIN:x", "expected INDEX:HANDLE or INDEX:PERMISSIONS:HANDLE");
        check("1:HS_PUBKEY:x", "a public key is read from a file: `INDEX:HS_PUBKEY:@pubkey.bin`");
        assert!(parse("1:DESC:@/no/such/file").unwrap_err().starts_with("cannot read `/no/such/file`"));
    }
}
