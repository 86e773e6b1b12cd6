//! Default crypto provider: aws-lc-rs.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU32;

use aws_lc_rs::cipher::{
    AES_128, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey,
    UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::{RsaParameters, RsaPublicKeyComponents, RsaSignatureEncoding};
use aws_lc_rs::{digest, hmac, pbkdf2, rand, signature};
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use dsa::signature::hazmat::PrehashVerifier;
use zeroize::Zeroize;

use super::{CryptoError, CryptoProvider, Digest, HashAlgorithm, SecureRandom, SigningKey};
use crate::record::{KeyComponents, PublicKey};

/// Default [`CryptoProvider`]: aws-lc-rs, with crypto-bigint and dsa for algorithms that it lacks.
///
/// MD5, SHA-1 other than in HMAC and PBKDF2, and RSA keys below 2048 bits need the feature `legacy-crypto`.
///
/// ```
/// use tendot_proto::crypto::{AwsLcProvider, CryptoProvider, CryptoError, HashAlgorithm};
///
/// let digest = AwsLcProvider.hash(HashAlgorithm::Sha256, &[b"Handle", b"!"])?;
/// assert_eq!(digest[..4], [0xeb, 0xb9, 0xd8, 0x42]);
/// assert_eq!(AwsLcProvider.hmac(HashAlgorithm::Md5, b"key", &[]), Err(CryptoError::Unsupported));
/// # Ok::<(), CryptoError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct AwsLcProvider;

/// Random bytes of the operating system, by aws-lc-rs.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl SecureRandom for SystemRandom {
    fn fill(&mut self, out: &mut [u8]) {
        // AWS-LC aborts if the system has no random bytes; if it ever returned an error instead, waiting is right,
        // since predictable bytes must not be used.
        while rand::fill(out).is_err() {}
    }
}

/// Maximum modulus size in bits, for RSA keys and Diffie-Hellman groups.
const MAX_MODULUS_BITS: usize = 8192;

impl CryptoProvider for AwsLcProvider {
    fn hash(&self, hash: HashAlgorithm, parts: &[&[u8]]) -> Result<Digest, CryptoError> {
        let algorithm = match hash {
            #[cfg(feature = "legacy-crypto")]
            HashAlgorithm::Md5 => return Ok(md5(parts)),
            #[cfg(feature = "legacy-crypto")]
            HashAlgorithm::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            #[cfg(not(feature = "legacy-crypto"))]
            HashAlgorithm::Md5 | HashAlgorithm::Sha1 => return Err(CryptoError::Unsupported),
            HashAlgorithm::Sha256 => &digest::SHA256,
            HashAlgorithm::Sha384 => &digest::SHA384,
            HashAlgorithm::Sha512 => &digest::SHA512,
        };
        let mut context = digest::Context::new(algorithm);
        for part in parts {
            context.update(part);
        }
        Ok(Digest::new(context.finish().as_ref()))
    }

    fn hmac(&self, hash: HashAlgorithm, key: &[u8], parts: &[&[u8]]) -> Result<Digest, CryptoError> {
        let algorithm = match hash {
            HashAlgorithm::Md5 => return Err(CryptoError::Unsupported),
            HashAlgorithm::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            HashAlgorithm::Sha256 => hmac::HMAC_SHA256,
            HashAlgorithm::Sha384 => hmac::HMAC_SHA384,
            HashAlgorithm::Sha512 => hmac::HMAC_SHA512,
        };
        let mut context = hmac::Context::with_key(&hmac::Key::new(algorithm, key));
        for part in parts {
            context.update(part);
        }
        Ok(Digest::new(context.sign().as_ref()))
    }

    fn pbkdf2_sha1(
        &self,
        password: &[u8],
        salt: &[u8],
        iterations: NonZeroU32,
        out: &mut [u8],
    ) -> Result<(), CryptoError> {
        // aws-lc-rs panics on an output longer than PBKDF2 allows, which is far above this limit.
        if out.is_empty() || out.len() > 1 << 20 {
            return Err(CryptoError::Unsupported);
        }
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA1, iterations, salt, password, out);
        Ok(())
    }

    fn verify_signature(
        &self,
        key: &PublicKey<'_>,
        hash: HashAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), CryptoError> {
        match key.components() {
            KeyComponents::Rsa { exponent, modulus } => {
                let parameters = rsa_verification_params(hash, modulus.len())?;
                RsaPublicKeyComponents { n: modulus, e: exponent }
                    .verify(parameters, message, signature)
                    .map_err(|_| CryptoError::Signature)
            }
            KeyComponents::Dsa { q, p, g, y } => {
                let key = dsa_verifying_key(q, p, g, y)?;
                // r and s have at most 33 bytes each in DER; longer signatures are rejected.
                if signature.len() > 80 {
                    return Err(CryptoError::Signature);
                }
                // Rejects r = 0 and s = 0; the verification rejects values above q.
                let signature = dsa::Signature::try_from(signature).map_err(|_| CryptoError::Signature)?;
                let digest = self.hash(hash, &[message])?;
                key.verify_prehash(&digest, &signature).map_err(|_| CryptoError::Signature)
            }
            KeyComponents::DiffieHellman { .. } => Err(CryptoError::Key),
        }
    }

    fn load_signing_key(&self, der: &[u8]) -> Result<Box<dyn SigningKey>, CryptoError> {
        match KeyPair::from_der(der) {
            Ok(key) => Ok(Box::new(RsaSigningKey(key))),
            Err(_) => Err(CryptoError::Key),
        }
    }

    fn aes128_cbc_encrypt(
        &self,
        key: &[u8; 16],
        iv: &[u8; 16],
        plain: &[u8],
    ) -> Result<Vec<u8>, CryptoError> {
        let key = UnboundCipherKey::new(&AES_128, key).map_err(|_| CryptoError::Key)?;
        let key = PaddedBlockEncryptingKey::cbc_pkcs7(key).map_err(|_| CryptoError::Key)?;
        let mut bytes = Vec::with_capacity(plain.len() + 16);
        bytes.extend_from_slice(plain);
        key.less_safe_encrypt(&mut bytes, EncryptionContext::Iv128(FixedLength::from(iv)))
            .map_err(|_| CryptoError::Ciphertext)?;
        Ok(bytes)
    }

    fn aes128_cbc_decrypt(
        &self,
        key: &[u8; 16],
        iv: &[u8; 16],
        cipher: &[u8],
    ) -> Result<Vec<u8>, CryptoError> {
        if cipher.is_empty() || !cipher.len().is_multiple_of(16) {
            return Err(CryptoError::Ciphertext);
        }
        let key = UnboundCipherKey::new(&AES_128, key).map_err(|_| CryptoError::Key)?;
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).map_err(|_| CryptoError::Key)?;
        let mut bytes = cipher.to_vec();
        let length = key
            .decrypt(&mut bytes, DecryptionContext::Iv128(FixedLength::from(iv)))
            .map_err(|_| CryptoError::Ciphertext)?
            .len();
        bytes.truncate(length);
        Ok(bytes)
    }

    fn mod_exp(&self, base: &[u8], exponent: &[u8], modulus: &[u8]) -> Result<Vec<u8>, CryptoError> {
        if modulus.len() * 8 > MAX_MODULUS_BITS || exponent.len() > modulus.len() {
            return Err(CryptoError::Key);
        }
        let bits = |bytes: &[u8]| u32::try_from(bytes.len() * 8).unwrap_or(u32::MAX);
        let read =
            |bytes: &[u8], bits: u32| BoxedUint::from_be_slice(bytes, bits).map_err(|_| CryptoError::Key);
        let precision = bits(modulus);
        let odd_modulus: Odd<BoxedUint> =
            Odd::new(read(modulus, precision)?).into_option().ok_or(CryptoError::Key)?;
        let base = read(base, precision)?;
        if base >= *odd_modulus {
            return Err(CryptoError::Key);
        }
        let mut exponent = read(exponent, bits(exponent))?;
        let parameters = BoxedMontyParams::new_vartime(odd_modulus);
        let power = BoxedMontyForm::new(base, &parameters).pow(&exponent).retrieve();
        exponent.zeroize();
        let bytes = power.to_be_bytes();
        // Rounded up to words; the bytes before the modulus' length are zero.
        Ok(bytes.get(bytes.len() - modulus.len()..).unwrap_or_default().to_vec())
    }
}

/// RSA signing key.
struct RsaSigningKey(KeyPair);

impl SigningKey for RsaSigningKey {
    fn sign(&self, hash: HashAlgorithm, message: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let encoding: &'static RsaSignatureEncoding = match hash {
            HashAlgorithm::Md5 | HashAlgorithm::Sha1 => return Err(CryptoError::Unsupported),
            HashAlgorithm::Sha256 => &signature::RSA_PKCS1_SHA256,
            HashAlgorithm::Sha384 => &signature::RSA_PKCS1_SHA384,
            HashAlgorithm::Sha512 => &signature::RSA_PKCS1_SHA512,
        };
        let mut signature = vec![0; self.0.public_modulus_len()];
        self.0
            .sign(encoding, &rand::SystemRandom::new(), message, &mut signature)
            .map_err(|_| CryptoError::Key)?;
        Ok(signature)
    }

    fn signature_len(&self) -> usize {
        self.0.public_modulus_len()
    }
}

impl fmt::Debug for RsaSigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RsaSigningKey({} bits)", self.0.public_modulus_len() * 8)
    }
}

#[cfg(feature = "legacy-crypto")]
fn md5(parts: &[&[u8]]) -> Digest {
    use md5::{Digest as _, Md5};

    let mut hash = Md5::new();
    for part in parts {
        hash.update(part);
    }
    let digest: [u8; 16] = hash.finalize().into();
    Digest::new(&digest)
}

/// Verification parameters for a modulus of this length.
fn rsa_verification_params(
    hash: HashAlgorithm,
    modulus: usize,
) -> Result<&'static RsaParameters, CryptoError> {
    if modulus * 8 > MAX_MODULUS_BITS {
        return Err(CryptoError::Key);
    }
    #[cfg(feature = "legacy-crypto")]
    match hash {
        HashAlgorithm::Sha1 => return Ok(&signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY),
        HashAlgorithm::Sha256 => return Ok(&signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY),
        _ => {}
    }
    match hash {
        HashAlgorithm::Md5 | HashAlgorithm::Sha1 => Err(CryptoError::Unsupported),
        HashAlgorithm::Sha256 => Ok(&signature::RSA_PKCS1_2048_8192_SHA256),
        HashAlgorithm::Sha384 => Ok(&signature::RSA_PKCS1_2048_8192_SHA384),
        HashAlgorithm::Sha512 => Ok(&signature::RSA_PKCS1_2048_8192_SHA512),
    }
}

/// DSA key in one of the sizes of FIPS 186. Other sizes are rejected before any computation: a hostile key costs
/// nothing, and the computation relies on consistent sizes.
fn dsa_verifying_key(q: &[u8], p: &[u8], g: &[u8], y: &[u8]) -> Result<dsa::VerifyingKey, CryptoError> {
    let bits = |integer: &[u8]| {
        integer.first().map_or(0, |first| integer.len() * 8 - first.leading_zeros() as usize)
    };
    let is_odd = |integer: &[u8]| integer.last().is_some_and(|last| last % 2 == 1);
    if !matches!((bits(p), bits(q)), (1024, 160) | (2048, 224 | 256) | (3072, 256))
        || !is_odd(p)
        || !is_odd(q)
    {
        return Err(CryptoError::Key);
    }
    let precision = u32::try_from(bits(p)).unwrap_or(u32::MAX);
    let read = |integer: &[u8]| BoxedUint::from_be_slice(integer, precision).map_err(|_| CryptoError::Key);
    let (prime, base, power) = (read(p)?, read(g)?, read(y)?);
    if power >= prime || base <= BoxedUint::one() {
        return Err(CryptoError::Key);
    }
    let components = dsa::Components::from_components(prime, BoxedUint::from_be_slice_vartime(q), base)
        .map_err(|_| CryptoError::Key)?;
    dsa::VerifyingKey::from_components(components, power).map_err(|_| CryptoError::Key)
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use data_encoding::HEXLOWER;

    use super::*;

    #[test]
    fn hashes() {
        let check = |hash, expected: &str| {
            let digest = AwsLcProvider.hash(hash, &[b"a", b"", b"bc"]).map(|digest| HEXLOWER.encode(&digest));
            assert_eq!(digest.as_deref().map(|digest| &digest[..16]), Ok(expected), "{hash:?}");
        };
        check(HashAlgorithm::Sha256, "ba7816bf8f01cfea");
        check(HashAlgorithm::Sha384, "cb00753f45a35e8b");
        check(HashAlgorithm::Sha512, "ddaf35a193617aba");
        #[cfg(feature = "legacy-crypto")]
        {
            check(HashAlgorithm::Sha1, "a9993e364706816a");
            check(HashAlgorithm::Md5, "900150983cd24fb0");
        }
        #[cfg(not(feature = "legacy-crypto"))]
        {
            assert_eq!(AwsLcProvider.hash(HashAlgorithm::Sha1, &[]), Err(CryptoError::Unsupported));
            assert_eq!(AwsLcProvider.hash(HashAlgorithm::Md5, &[]), Err(CryptoError::Unsupported));
        }
    }

    #[test]
    fn macs() {
        // RFC 2202 and RFC 4231, test case 2.
        let check = |hash, expected: &str| {
            let mac = AwsLcProvider.hmac(hash, b"Jefe", &[b"what do ya want ", b"for nothing?"]).unwrap();
            assert!(HEXLOWER.encode(&mac).starts_with(expected), "{hash:?}");
        };
        check(HashAlgorithm::Sha1, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
        check(HashAlgorithm::Sha256, "5bdcc146bf60754e6a042426089575c75a003f08");
        check(HashAlgorithm::Sha384, "af45d2e376484031617f78d2b58a6b1b9c7ef464");
        check(HashAlgorithm::Sha512, "164b7a7bfcf819e2e395fbe73b56e0a387bd6422");
    }

    #[test]
    fn pbkdf2() {
        // RFC 6070.
        let mut out = [0; 20];
        let iterations = NonZeroU32::new(4096).unwrap();
        AwsLcProvider.pbkdf2_sha1(b"password", b"salt", iterations, &mut out).unwrap();
        assert_eq!(HEXLOWER.encode(&out), "4b007901b765489abead49d926f721d065a429c1");
        assert_eq!(AwsLcProvider.pbkdf2_sha1(b"", b"", iterations, &mut []), Err(CryptoError::Unsupported));
    }

    #[test]
    fn ciphers() {
        let key: [u8; 16] = core::array::from_fn(|n| n as u8);
        let cipher = AwsLcProvider.aes128_cbc_encrypt(&key, &[0x11; 16], b"Handle!").unwrap();
        assert_eq!(HEXLOWER.encode(&cipher), "c23f3f1607b62c02748290a6f17fc14b");
        assert_eq!(AwsLcProvider.aes128_cbc_decrypt(&key, &[0x11; 16], &cipher).unwrap(), b"Handle!");
        for invalid in [&cipher[..15], &[][..], &[0; 16]] {
            assert_eq!(
                AwsLcProvider.aes128_cbc_decrypt(&key, &[0x11; 16], invalid),
                Err(CryptoError::Ciphertext)
            );
        }
    }

    #[test]
    fn mod_exp() {
        let power =
            |base: &[u8], exponent: &[u8], modulus: &[u8]| AwsLcProvider.mod_exp(base, exponent, modulus);
        assert_eq!(power(&[2], &[10], &[3, 0xe9]), Ok(std::vec![0, 23]), "2^10 mod 1001");
        assert_eq!(power(&[2], &[], &[3, 0xe9]), Ok(std::vec![0, 1]));
        assert_eq!(power(&[0, 2], &[0, 10], &[0, 0, 3, 0xe9]), Ok(std::vec![0, 0, 0, 23]));
        assert_eq!(power(&[2], &[10], &[3, 0xe8]), Err(CryptoError::Key), "even");
        assert_eq!(power(&[3, 0xe9], &[1], &[3, 0xe9]), Err(CryptoError::Key), "not below the modulus");
        assert_eq!(power(&[2], &[1], &[0xff; 1025]), Err(CryptoError::Key), "too large");
        assert_eq!(power(&[2], &[1], &[]), Err(CryptoError::Key), "empty");
    }

    fn vector(name: &str) -> Vec<u8> {
        let file = include_str!("../../../../conformance/vectors/signatures.txt");
        let hex = file.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        HEXLOWER.decode(hex.expect(name).as_bytes()).unwrap()
    }

    #[test]
    fn verifies_foreign_signatures() {
        #[track_caller]
        fn check(key: &str, hash: HashAlgorithm, name: &str, expected: Result<(), CryptoError>) {
            let (key, message, signature) = (vector(key), vector("message"), vector(name));
            let key = PublicKey::from_bytes(&key).unwrap();
            assert_eq!(AwsLcProvider.verify_signature(&key, hash, &message, &signature), expected, "{name}");
            let other = AwsLcProvider.verify_signature(&key, hash, b"something else", &signature);
            assert_eq!(other, expected.and(Err(CryptoError::Signature)), "{name}");
        }
        let legacy = |error| if cfg!(feature = "legacy-crypto") { Ok(()) } else { Err(error) };
        check("dsa_1024_key", HashAlgorithm::Sha256, "dsa_1024_sha256", Ok(()));
        check("dsa_2048_key", HashAlgorithm::Sha256, "dsa_2048_sha256", Ok(()));
        check("rsa_2048_key", HashAlgorithm::Sha256, "rsa_2048_sha256", Ok(()));
        check("dsa_1024_key", HashAlgorithm::Sha1, "dsa_1024_sha1", legacy(CryptoError::Unsupported));
        check("dsa_2048_key", HashAlgorithm::Sha1, "dsa_2048_sha1", legacy(CryptoError::Unsupported));
        check("rsa_2048_key", HashAlgorithm::Sha1, "rsa_2048_sha1", legacy(CryptoError::Unsupported));
        check("rsa_1024_key", HashAlgorithm::Sha256, "rsa_1024_sha256", legacy(CryptoError::Signature));
        check("rsa_2048_key", HashAlgorithm::Sha256, "rsa_2048_sha1", Err(CryptoError::Signature));
        check("dsa_2048_key", HashAlgorithm::Sha256, "dsa_1024_sha256", Err(CryptoError::Signature));
        check("dsa_1024_key", HashAlgorithm::Sha256, "rsa_2048_sha256", Err(CryptoError::Signature));
    }

    #[test]
    fn rejects_invalid_keys() {
        let key = vector("dsa_1024_key");
        let key = PublicKey::from_bytes(&key).unwrap();
        let KeyComponents::Dsa { q, p, g, y } = key.components() else { unreachable!() };
        let (message, signature) = (vector("message"), vector("dsa_1024_sha256"));
        let check = |key: PublicKey<'_>| {
            assert_eq!(
                AwsLcProvider.verify_signature(&key, HashAlgorithm::Sha256, &message, &signature),
                Err(CryptoError::Key)
            );
        };
        check(PublicKey::dsa(&q[1..], p, g, y));
        check(PublicKey::dsa(q, &p[1..], g, y));
        check(PublicKey::dsa(q, p, &[1], y));
        check(PublicKey::dsa(q, p, g, &[1]));
        check(PublicKey::dsa(q, p, g, p));
        check(PublicKey::dsa(q, p, p, y));
        check(PublicKey::dsa(&[], &[], &[], &[]));
        check(PublicKey::dsa(&[0xff; 100_000], &[0xff; 100_000], g, y));
        check(PublicKey::diffie_hellman(y, p, g));
        check(PublicKey::rsa(&[0xff; 1025], &[1, 0, 1]));
    }
}
