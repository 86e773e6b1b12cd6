//! Private keys in Handle.Net's file format.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU32;

use zeroize::Zeroizing;

use super::error::AuthError;
use super::{der, pbkdf2};
use crate::budget::{Budget, BudgetExceeded};
use crate::crypto::{CryptoError, CryptoProvider, SecureRandom, SigningKey};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::record::PublicKey;
use crate::wire::{WireReader, WireWriter};

/// Private key in Handle.Net's file format (`admpriv.bin`, `privkey.bin`). Zeroed on drop, redacted in `Debug`.
///
/// ```
/// use tendot_proto::Budget;
/// use tendot_proto::auth::{KeyFileError, PrivateKey};
/// use tendot_proto::crypto::AwsLcProvider;
///
/// let error = PrivateKey::from_file_bytes(&[0, 0, 0, 2, 1, 2, 3], None, &AwsLcProvider, &mut Budget::new(0)).unwrap_err();
/// assert_eq!(error, KeyFileError::DesUnsupported { encryption: 2 });
/// ```
pub struct PrivateKey {
    kind: PrivateKeyType,
    /// Key as in an unencrypted file, without the encryption type; validated.
    bytes: Zeroizing<Vec<u8>>,
}

/// RSA with CRT primes, RSA, or DSA.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum PrivateKeyType {
    RsaCrt,
    Rsa,
    Dsa,
}

const RSA_CRT_KEY_TYPE: &[u8] = b"RSA_PRIVCRT_KEY";
const RSA_KEY_TYPE: &[u8] = b"RSA_PRIV_KEY";
const DSA_KEY_TYPE: &[u8] = b"DSA_PRIV_KEY";

/// Number of integers of an RSA key with primes.
pub(super) const RSA_CRT_INTEGERS: usize = 8;

const ENCRYPTION_NONE: u32 = 1;
const ENCRYPTION_AES: u32 = 4;

/// Maximum number of PBKDF2 iterations in a file; a hundred times the default.
const MAX_PBKDF2_ITERATIONS: u32 = 1_000_000;

/// Error of reading or using a private key file.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// Malformed file.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// Encrypted with DES or triple DES, which is not supported.
    #[error(
        "key file uses DES encryption (type {encryption}), which is not supported; re-encrypt it with `hdl-keyutil` of \
         Handle.Net 8 or later"
    )]
    DesUnsupported {
        /// Encryption type: 0, 2 or 3.
        encryption: u32,
    },
    /// The file is encrypted and no passphrase was given.
    #[error("passphrase required")]
    PassphraseRequired,
    /// Wrong passphrase or corrupt file.
    #[error("wrong passphrase or corrupt key file")]
    WrongPassphrase,
    /// Unsupported encryption parameter.
    #[error("unsupported PBKDF2 {field}: {found}")]
    Pbkdf2OutOfRange {
        /// Name of the parameter.
        field: &'static str,
        /// Value of the parameter.
        found: u32,
    },
    /// The key cannot sign: RSA without primes, or DSA.
    #[error("signing with this key type is not supported")]
    SigningUnsupported,
    /// The crypto provider rejects the key.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    /// Work budget exceeded.
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
}

impl PrivateKey {
    /// Decodes a key file. The passphrase is ignored if the file is not encrypted.
    pub fn from_file_bytes(
        file: &[u8],
        passphrase: Option<&[u8]>,
        crypto: &dyn CryptoProvider,
        budget: &mut Budget,
    ) -> Result<Self, KeyFileError> {
        let mut reader = WireReader::new(file);
        let start = reader;
        match reader.u32("encryption type")? {
            ENCRYPTION_NONE => Ok(Self::decode(reader)?),
            ENCRYPTION_AES => Self::decrypt(reader, passphrase, crypto, budget),
            encryption @ (0 | 2 | 3) => Err(KeyFileError::DesUnsupported { encryption }),
            code => Err(start.error("encryption type", DecodeErrorKind::InvalidCode { code }).into()),
        }
    }

    /// Decodes an RSAPrivateKey in DER (RFC 8017, A.1.2).
    pub fn from_der(der: &[u8]) -> Result<Self, DecodeError> {
        const FIELD: &str = "RSAPrivateKey";
        let mut outer = WireReader::new(der);
        let sequence = der::read_element(&mut outer, der::SEQUENCE, FIELD)?;
        outer.expect_end(FIELD)?;
        let mut reader = WireReader::at_offset(sequence, der.len() - sequence.len());
        let start = reader;
        if der::read_element(&mut reader, der::INTEGER, FIELD)? != [0] {
            return Err(start.error("RSAPrivateKey version", DecodeErrorKind::Invalid));
        }
        let mut integers = [&[][..]; RSA_CRT_INTEGERS];
        for integer in &mut integers {
            *integer = der::read_element(&mut reader, der::INTEGER, FIELD)?;
        }
        reader.expect_end(FIELD)?;
        Ok(Self::from_rsa_integers(integers))
    }

    /// RSA key with primes from its integers, signed and big-endian, in the order of RSAPrivateKey.
    pub(super) fn from_rsa_integers(integers: [&[u8]; RSA_CRT_INTEGERS]) -> Self {
        // No buffer may grow here: the old allocation would not be zeroed.
        let length: usize = integers.iter().map(|integer| integer.len() + 4).sum();
        let mut bytes = Zeroizing::new(Vec::with_capacity(length + 64));
        let mut writer = WireWriter::new(&mut bytes);
        writer.bytes(RSA_CRT_KEY_TYPE);
        for integer in integers {
            writer.bytes(integer);
        }
        Self { kind: PrivateKeyType::RsaCrt, bytes }
    }

    /// Integers of an RSA key with primes, signed and big-endian, in the order of RSAPrivateKey.
    pub(super) fn rsa_integers(&self) -> Option<[&[u8]; RSA_CRT_INTEGERS]> {
        let mut integers = [&[][..]; RSA_CRT_INTEGERS];
        let mut decoded = self.integers();
        for integer in &mut integers {
            *integer = decoded.next()?;
        }
        (self.kind == PrivateKeyType::RsaCrt).then_some(integers)
    }

    fn decrypt(
        mut reader: WireReader<'_>,
        passphrase: Option<&[u8]>,
        crypto: &dyn CryptoProvider,
        budget: &mut Budget,
    ) -> Result<Self, KeyFileError> {
        let salt = reader.bytes("salt")?;
        let iterations = reader.u32("iterations")?;
        let bits = reader.u32("key bits")?;
        let start = reader;
        let Ok(iv) = <[u8; 16]>::try_from(reader.bytes("initialization vector")?) else {
            return Err(start.error("initialization vector", DecodeErrorKind::Invalid).into());
        };
        let cipher = reader.bytes("encrypted key")?;
        reader.expect_end("key file")?;
        let Some(iteration_count) =
            NonZeroU32::new(iterations).filter(|count| count.get() <= MAX_PBKDF2_ITERATIONS)
        else {
            return Err(KeyFileError::Pbkdf2OutOfRange { field: "iterations", found: iterations });
        };
        if bits != 128 {
            return Err(KeyFileError::Pbkdf2OutOfRange { field: "key bits", found: bits });
        }
        let passphrase = passphrase.ok_or(KeyFileError::PassphraseRequired)?;
        let mut key = Zeroizing::new([0; 16]);
        pbkdf2::derive(crypto, passphrase, salt, iteration_count, &mut *key, budget)
            .map_err(map_derivation_error)?;
        let plain =
            crypto.aes128_cbc_decrypt(&key, &iv, cipher).map_err(|_| KeyFileError::WrongPassphrase)?;
        let plain = Zeroizing::new(plain);
        Self::decode(WireReader::new(&plain)).map_err(|_| KeyFileError::WrongPassphrase)
    }

    fn decode(mut reader: WireReader<'_>) -> Result<Self, DecodeError> {
        let bytes = Zeroizing::new(reader.remaining().to_vec());
        let start = reader;
        let kind = match reader.bytes("key type")? {
            RSA_CRT_KEY_TYPE => PrivateKeyType::RsaCrt,
            RSA_KEY_TYPE => PrivateKeyType::Rsa,
            DSA_KEY_TYPE => PrivateKeyType::Dsa,
            _ => return Err(start.error("key type", DecodeErrorKind::Invalid)),
        };
        for field in kind.field_names() {
            reader.bytes(field)?;
        }
        reader.expect_end("private key")?;
        Ok(Self { kind, bytes })
    }

    /// Encodes an unencrypted file.
    pub fn to_file_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut file = Zeroizing::new(Vec::with_capacity(4 + self.bytes.len()));
        let mut writer = WireWriter::new(&mut file);
        writer.u32(ENCRYPTION_NONE);
        writer.raw(&self.bytes);
        file
    }

    /// Encodes a file encrypted with AES, as Handle.Net 8 and later do.
    pub fn to_encrypted_file_bytes(
        &self,
        passphrase: &[u8],
        crypto: &dyn CryptoProvider,
        random: &mut dyn SecureRandom,
        budget: &mut Budget,
    ) -> Result<Vec<u8>, KeyFileError> {
        let (mut salt, mut iv, mut key) = ([0; 16], [0; 16], Zeroizing::new([0; 16]));
        random.fill(&mut salt);
        random.fill(&mut iv);
        let iterations = NonZeroU32::new(pbkdf2::DEFAULT_ITERATIONS).unwrap_or(NonZeroU32::MAX);
        pbkdf2::derive(crypto, passphrase, &salt, iterations, &mut *key, budget)
            .map_err(map_derivation_error)?;
        let cipher = crypto.aes128_cbc_encrypt(&key, &iv, &self.bytes)?;
        let mut file = Vec::new();
        let mut writer = WireWriter::new(&mut file);
        writer.u32(ENCRYPTION_AES);
        writer.bytes(&salt);
        writer.u32(iterations.get());
        writer.u32(128);
        writer.bytes(&iv);
        writer.bytes(&cipher);
        Ok(file)
    }

    /// Public key of this key. Only for RSA keys with primes.
    pub fn public_key(&self) -> Option<PublicKey<'static>> {
        let mut integers = self.integers();
        let modulus = integers.next()?;
        let exponent = integers.next()?;
        (self.kind == PrivateKeyType::RsaCrt).then(|| PublicKey::rsa(modulus, exponent))
    }

    /// Loads the key for signing.
    pub fn signing_key(&self, crypto: &dyn CryptoProvider) -> Result<Box<dyn SigningKey>, KeyFileError> {
        let der = self.to_der().ok_or(KeyFileError::SigningUnsupported)?;
        Ok(crypto.load_signing_key(&der)?)
    }

    /// Encodes an RSAPrivateKey in DER (RFC 8017, A.1.2), if it is an RSA key with primes.
    pub fn to_der(&self) -> Option<Zeroizing<Vec<u8>>> {
        if self.kind != PrivateKeyType::RsaCrt {
            return None;
        }
        // No buffer may grow here: the old allocation would not be zeroed.
        let mut fields = Zeroizing::new(Vec::with_capacity(self.bytes.len() + 64));
        der::write_element(&mut fields, der::INTEGER, &[0]);
        for integer in self.integers() {
            der::write_element(&mut fields, der::INTEGER, integer);
        }
        let mut key = Zeroizing::new(Vec::with_capacity(fields.len() + 8));
        der::write_element(&mut key, der::SEQUENCE, &fields);
        Some(key)
    }

    /// Integers, signed and big-endian.
    fn integers(&self) -> impl Iterator<Item = &[u8]> {
        let mut reader = WireReader::new(&self.bytes);
        let has_type = reader.bytes("key type").is_ok();
        self.kind
            .field_names()
            .iter()
            .filter(move |_| has_type)
            .map_while(move |field| reader.bytes(field).ok())
    }
}

impl PrivateKeyType {
    const fn field_names(self) -> &'static [&'static str] {
        match self {
            Self::RsaCrt => &["n", "e", "d", "p", "q", "d mod p-1", "d mod q-1", "1/q mod p"],
            Self::Rsa => &["n", "d"],
            Self::Dsa => &["x", "p", "q", "g"],
        }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({:?})", self.kind)
    }
}

fn map_derivation_error(error: AuthError) -> KeyFileError {
    match error {
        AuthError::Budget(exceeded) => exceeded.into(),
        _ => KeyFileError::Crypto(CryptoError::Unsupported),
    }
}

#[cfg(all(test, feature = "crypto"))]
mod tests {
    use std::format;
    use std::string::ToString;

    use super::*;
    use crate::crypto::{AwsLcProvider, HashAlgorithm, SystemRandom};

    const ADMIN_KEY: &[u8] = include_bytes!("../../../../conformance/vectors/handle-net/admpriv.bin");

    fn read(file: &[u8], passphrase: Option<&[u8]>) -> Result<PrivateKey, KeyFileError> {
        PrivateKey::from_file_bytes(file, passphrase, &AwsLcProvider, &mut { Budget::PER_REQUEST })
    }

    #[test]
    fn handle_net_keys() {
        let check = |private: &[u8], public: &[u8]| {
            let key = read(private, None).unwrap();
            assert_eq!(key.public_key().unwrap().to_bytes(), public);
            assert_eq!(*key.to_file_bytes(), private);
            let signature =
                key.signing_key(&AwsLcProvider).unwrap().sign(HashAlgorithm::Sha256, b"message").unwrap();
            let public = PublicKey::from_bytes(public).unwrap();
            assert_eq!(
                AwsLcProvider.verify_signature(&public, HashAlgorithm::Sha256, b"message", &signature),
                Ok(())
            );
            assert_eq!(*PrivateKey::from_der(&key.to_der().unwrap()).unwrap().to_file_bytes(), private);
            assert_eq!(format!("{key:?}"), "PrivateKey(RsaCrt)");
        };
        check(ADMIN_KEY, include_bytes!("../../../../conformance/vectors/handle-net/admpub.bin"));
        check(
            include_bytes!("../../../../conformance/vectors/handle-net/privkey.bin"),
            include_bytes!("../../../../conformance/vectors/handle-net/pubkey.bin"),
        );
    }

    #[test]
    fn encrypted_files() {
        let key = read(ADMIN_KEY, None).unwrap();
        let file = key
            .to_encrypted_file_bytes(b"caf\xe9", &AwsLcProvider, &mut SystemRandom, &mut {
                Budget::PER_REQUEST
            })
            .unwrap();
        assert_eq!(*read(&file, Some(b"caf\xe9")).unwrap().to_file_bytes(), ADMIN_KEY);
        let check = |file: &[u8], passphrase: Option<&[u8]>, expected: &str| {
            assert_eq!(read(file, passphrase).unwrap_err().to_string(), expected);
        };
        check(&file, Some(b"cafe"), "wrong passphrase or corrupt key file");
        check(&file, None, "passphrase required");
        let mut hostile = file.clone();
        hostile[24] = 0x7f;
        check(&hostile, Some(b""), "unsupported PBKDF2 iterations: 2130716432");
        hostile[24..28].fill(0);
        check(&hostile, Some(b""), "unsupported PBKDF2 iterations: 0");
        assert!(matches!(
            PrivateKey::from_file_bytes(&file, Some(b"caf\xe9"), &AwsLcProvider, &mut Budget::new(1_000)),
            Err(KeyFileError::Budget(_))
        ));
    }

    /// Created with OpenSSL in Handle.Net's layout, independently of this code: passphrase `é` as the byte 0xe9, which
    /// enters PBKDF2 as C3 A9.
    #[test]
    fn decrypts_openssl_encrypted_file() {
        let file = include_bytes!("../../../../conformance/vectors/admpriv-encrypted.bin");
        assert_eq!(*read(file, Some(b"\xe9")).unwrap().to_file_bytes(), ADMIN_KEY);
    }

    #[test]
    fn rejected_files() {
        let check = |file: &[u8], expected: &str| {
            let error = read(file, Some(b"x")).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        };
        check(&[], "encryption type at byte 0: needs 4 bytes, only 0 left");
        check(b"\0\0\0\x0bRSA_PUB_KEY", "encryption type at byte 0: invalid code 11");
        check(&[0, 0, 0, 0], "key file uses DES encryption (type 0)");
        check(&[0, 0, 0, 3], "key file uses DES encryption (type 3)");
        check(b"\0\0\0\x01\0\0\0\x03XYZ", "key type at byte 4: invalid value");
        check(&ADMIN_KEY[..1000], "d mod q-1 at byte 949: needs 128 bytes, only 47 left");
        check(&[ADMIN_KEY, &[0]].concat(), "private key at byte 1213: 1 trailing bytes");

        let dsa = read(
            b"\0\0\0\x01\0\0\0\x0cDSA_PRIV_KEY\0\0\0\x01\x01\0\0\0\x01\x02\0\0\0\x01\x03\0\0\0\x01\x04",
            None,
        )
        .unwrap();
        assert_eq!(dsa.public_key(), None);
        assert_eq!(dsa.signing_key(&AwsLcProvider).unwrap_err(), KeyFileError::SigningUnsupported);
        for der in [&[][..], &[0x30, 0x80], &[0x30, 3, 2, 1, 1], &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]] {
            assert!(PrivateKey::from_der(der).is_err());
        }
    }
}
