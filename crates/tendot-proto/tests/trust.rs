//! Signed records: what is believed, and every way in which it is not.

use std::path::Path;

use tendot_proto::auth::{Policy, PrivateKey};
use tendot_proto::crypto::{AwsLc, SigningKey};
use tendot_proto::record::{CertificatePermission, CertificateScope, PublicKey, Reference, Value};
use tendot_proto::trust::{
    Known, Roots, Statement, TrustError, Verdict, sign_certificate, sign_record, verify,
};
use tendot_proto::{Handle, Permissions, Work};

const NOW: u64 = 1_700_000_000;
const HANDLE: &str = "10.5555/ONE";
const SIGNER: &str = "300:0.NA/10.5555";
const ROOT: &str = "300:0.0/0.0";

struct Key {
    public: PublicKey<'static>,
    private: Box<dyn SigningKey>,
}

fn key(file: &str) -> Key {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors/handle-net").join(file);
    let bytes = std::fs::read(path).unwrap();
    let private = PrivateKey::from_file(&bytes, None, &AwsLc, &mut { Work::REQUEST }).unwrap();
    Key { public: private.public_key().unwrap(), private: private.signing_key(&AwsLc).unwrap() }
}

/// A record, a signer and a root, before anything is wrong with them.
struct World {
    root: Key,
    signer: Key,
    values: Vec<Value<'static>>,
    known: Known,
    roots: Roots,
    now: u64,
    work: Work,
}

fn statement(issuer: &str) -> Statement<'_> {
    Statement { issuer: Reference::parse(issuer), issued_at: NOW - 10, expires: NOW + 10, chain: Vec::new() }
}

fn permission(scope: CertificateScope, handle: &str) -> CertificatePermission {
    CertificatePermission { handle: handle.into(), scope }
}

fn certificate(index: u32, data: Vec<u8>) -> Value<'static> {
    Value::with_data(index, "HS_CERT", data)
}

impl World {
    fn new() -> Self {
        let (root, signer) = (key("privkey.bin"), key("admpriv.bin"));
        let roots = Roots::new(vec![root.public.clone()]);
        let values = vec![
            Value::new(1, "URL", "https://example.org/one"),
            Value::new(2, "EMAIL", "a@example.org"),
            Value { permissions: Permissions(0x0c), ..Value::new(3, "NOTE", "not for everybody") },
        ];
        let mut world = Self {
            root,
            signer,
            values,
            known: Known::default(),
            roots,
            now: NOW,
            work: Work::new(1_000_000),
        };
        world.certify_root(&statement(ROOT), CertificateScope::EVERYTHING);
        world.certify_signer(&statement(ROOT), &[permission(CertificateScope::THIS_HANDLE, "0.NA/10.5555")]);
        world.sign(&statement(SIGNER), 3);
        world
    }

    fn certify_root(&mut self, statement: &Statement<'_>, scope: CertificateScope) {
        let subject = Reference::parse(ROOT);
        let permissions = [permission(scope, "")];
        let data =
            sign_certificate(&subject, &self.root.public, &permissions, statement, &*self.root.private)
                .unwrap();
        self.known.insert(Handle::from("0.0/0.0"), vec![certificate(400, data)]);
    }

    fn certify_signer(&mut self, statement: &Statement<'_>, permissions: &[CertificatePermission]) {
        let data = self.signer_certificate(statement, permissions);
        self.known.insert(Handle::from("0.NA/10.5555"), vec![certificate(400, data)]);
    }

    fn signer_certificate(
        &self,
        statement: &Statement<'_>,
        permissions: &[CertificatePermission],
    ) -> Vec<u8> {
        let subject = Reference::parse(SIGNER);
        sign_certificate(&subject, &self.signer.public, permissions, statement, &*self.root.private).unwrap()
    }

    /// Signs the first `count` values.
    fn sign(&mut self, statement: &Statement<'_>, count: usize) {
        self.values.retain(|value| &*value.value_type != b"HS_SIGNATURE");
        let signed = &self.values[..count];
        let data =
            sign_record(Handle::from(HANDLE), signed, statement, &*self.signer.private, &AwsLc).unwrap();
        self.values.push(Value::with_data(400, "HS_SIGNATURE", data));
    }

    fn verify_as(&self, handle: &str, policy: &Policy) -> Result<Verdict, TrustError> {
        let mut work = self.work.clone();
        let handle = Handle::from(handle);
        verify(handle, &self.values, &self.known, &self.roots, self.now, policy, &AwsLc, &mut work)
    }

    fn verify(&self) -> Result<Verdict, TrustError> {
        self.verify_as(HANDLE, &Policy::default())
    }

    /// Why its only signature is not believed.
    #[track_caller]
    fn refused(&self) -> String {
        let verdict = self.verify().unwrap();
        assert!(!verdict.is_trusted());
        assert_eq!(verdict.unsigned, [1, 2, 3]);
        let [error] = &verdict.refused[..] else { panic!("{verdict:?}") };
        error.to_string()
    }
}

#[test]
fn a_record_signed_along_the_chain_is_believed() {
    let world = World::new();
    let verdict = world.verify().unwrap();
    assert!(verdict.is_trusted(), "{verdict:?}");
    assert_eq!(verdict.signers, [[Reference::parse(SIGNER), Reference::parse(ROOT)]]);
    assert_eq!(verdict.refused, []);
    // Case does not matter in names.
    assert!(world.verify_as("10.5555/one", &Policy::default()).unwrap().is_trusted());
}

#[test]
fn what_is_not_signed_is_told() {
    let mut world = World::new();
    world.sign(&statement(SIGNER), 1);
    assert_eq!(world.verify().unwrap().unsigned, [2, 3], "also what not everybody may read");
    assert!(!world.verify().unwrap().is_trusted());
    // A change of what was signed; of a timestamp it is none.
    let mut world = World::new();
    world.values[0].timestamp = 7;
    assert!(world.verify().unwrap().is_trusted());
    world.values[0].data = b"https://evil.example/".into();
    assert_eq!(world.verify().unwrap().unsigned, [1]);
    world.values[1].permissions = Permissions(0x0f);
    assert_eq!(world.verify().unwrap().unsigned, [1, 2]);
    // A record without signatures is not trusted, even if it is empty.
    world.values.clear();
    assert!(!world.verify().unwrap().is_trusted());
}

/// A forged value beside a signed one of the same index, whatever the order, and one that seems not to be public.
#[test]
fn forged_values_are_not_covered_by_others() {
    for at in [0, 1] {
        let mut world = World::new();
        world.values.insert(at, Value::new(1, "URL", "https://evil.example/"));
        let verdict = world.verify().unwrap();
        assert!(!verdict.is_trusted());
        assert_eq!(verdict.unsigned, [1, 1]);
    }
    let mut world = World::new();
    world
        .values
        .push(Value { permissions: Permissions(0x0c), ..Value::new(9, "URL", "https://evil.example/") });
    assert_eq!(world.verify().unwrap().unsigned, [9]);
}

#[test]
fn what_was_taken_away_is_told() {
    let mut world = World::new();
    world.values.remove(1);
    let verdict = world.verify().unwrap();
    assert_eq!((&verdict.unsigned[..], &verdict.missing[..]), (&[][..], &[2][..]));
    assert!(!verdict.is_trusted());
}

#[test]
fn records_that_are_needed_are_named() {
    let mut world = World::new();
    world.known = Known::default();
    assert_eq!(world.verify(), Err(TrustError::Needs(b"0.NA/10.5555".to_vec())));
    world.certify_signer(&statement(ROOT), &[permission(CertificateScope::EVERYTHING, "")]);
    assert_eq!(world.verify(), Err(TrustError::Needs(b"0.0/0.0".to_vec())));
    world.certify_root(&statement(ROOT), CertificateScope::EVERYTHING);
    assert!(world.verify().unwrap().is_trusted());
    // One that does not exist is known to be empty.
    world.known.insert(Handle::from("0.NA/10.5555"), Vec::new());
    assert_eq!(world.refused(), "there is no certificate of 300:0.NA/10.5555");
}

#[test]
fn certificates_elsewhere() {
    let mut world = World::new();
    let data = world.signer_certificate(&statement(ROOT), &[permission(CertificateScope::EVERYTHING, "")]);
    world.known.insert(Handle::from("0.NA/10.5555"), Vec::new());
    world.known.insert(Handle::from("10.5555/CERTS"), vec![certificate(7, data)]);
    world.sign(&Statement { chain: vec![Reference::parse("7:10.5555/CERTS")], ..statement(SIGNER) }, 3);
    assert!(world.verify().unwrap().is_trusted());
    world.sign(&Statement { chain: vec![Reference::parse("10.5555/CERTS")], ..statement(SIGNER) }, 3);
    assert!(world.verify().unwrap().is_trusted());
    world.sign(&Statement { chain: vec![Reference::parse("8:10.5555/CERTS")], ..statement(SIGNER) }, 3);
    assert_eq!(world.refused(), "there is no certificate of 300:0.NA/10.5555");
}

/// The list of a signature is followed to its end, before that of a certificate on the way.
#[test]
fn the_list_of_the_signature_goes_first() {
    let mut world = World::new();
    let elsewhere = Statement { chain: vec![Reference::parse("1:99/NOWHERE")], ..statement(ROOT) };
    world.certify_signer(&elsewhere, &[permission(CertificateScope::EVERYTHING, "")]);
    assert_eq!(world.verify(), Err(TrustError::Needs(b"99/NOWHERE".to_vec())));
    let chain = vec![Reference::parse("400:0.NA/10.5555"), Reference::parse("400:0.0/0.0")];
    world.sign(&Statement { chain, ..statement(SIGNER) }, 3);
    assert!(world.verify().unwrap().is_trusted());
}

/// Certificates that nobody needs cost what they are long.
#[test]
fn many_certificates_use_up_the_work() {
    let mut world = World::new();
    let data = world.signer_certificate(&statement("1:0.0/0.0"), &[]);
    let many = (1..200).map(|index| certificate(index, [&data[..], &b"A".repeat(3_000)].concat())).collect();
    world.known.insert(Handle::from("0.NA/10.5555"), many);
    world.work = Work::new(300);
    assert!(matches!(world.verify(), Err(TrustError::Exhausted(_))));
}

#[test]
fn the_newest_certificate_counts() {
    let mut world = World::new();
    let allowed = [permission(CertificateScope::EVERYTHING, "")];
    let denied = [permission(CertificateScope::THIS_HANDLE, "0.NA/10.1")];
    let old = world.signer_certificate(&Statement { issued_at: NOW - 100, ..statement(ROOT) }, &allowed);
    let new = world.signer_certificate(&statement(ROOT), &denied);
    world.known.insert(Handle::from("0.NA/10.5555"), vec![certificate(400, old), certificate(401, new)]);
    assert_eq!(world.refused(), "300:0.NA/10.5555 may not sign for this record");
}

#[test]
fn dates() {
    for (now, trusted) in [(NOW - 11, false), (NOW - 10, true), (NOW + 10, true), (NOW + 11, false)] {
        let mut world = World::new();
        world.now = now;
        assert_eq!(world.verify().unwrap().is_trusted(), trusted, "{now}");
    }
    let mut world = World::new();
    let expired = Statement { expires: NOW - 1, ..statement(ROOT) };
    world.certify_signer(&expired, &[permission(CertificateScope::EVERYTHING, "")]);
    assert_eq!(world.refused(), "what 300:0.0/0.0 says does not hold now");
    let mut world = World::new();
    world.certify_root(&expired, CertificateScope::EVERYTHING);
    assert_eq!(world.refused(), "what 300:0.0/0.0 says does not hold now");
}

#[test]
fn permissions_along_the_chain() {
    let mut world = World::new();
    world.certify_signer(&statement(ROOT), &[permission(CertificateScope::DERIVED_PREFIXES, "0.NA/10.5555")]);
    assert_eq!(world.refused(), "300:0.NA/10.5555 may not sign for this record");
    world.certify_signer(&statement(ROOT), &[permission(CertificateScope::DERIVED_PREFIXES, "0.NA/10")]);
    assert!(world.verify().unwrap().is_trusted(), "10.5555 is derived from 10");
    world.certify_signer(&statement(ROOT), &[]);
    assert_eq!(world.refused(), "300:0.NA/10.5555 may not sign for this record");
    let mut world = World::new();
    world.certify_root(&statement(ROOT), CertificateScope("nothing".into()));
    assert_eq!(world.refused(), "300:0.0/0.0 may not sign for this record");
}

#[test]
fn roots_are_keys_not_names() {
    let mut world = World::new();
    world.roots = Roots::new(vec![world.signer.public.clone()]);
    assert_eq!(world.refused(), "300:0.0/0.0 certifies itself and is no root");
    world.roots = Roots { handle: b"0.0/1.1".into(), keys: vec![world.root.public.clone()] };
    assert_eq!(world.refused(), "300:0.0/0.0 certifies itself and is no root");
    world.roots = Roots::new(Vec::new());
    assert_eq!(world.refused(), "300:0.0/0.0 certifies itself and is no root");
}

#[test]
fn signatures_about_other_records_and_by_other_keys() {
    let world = World::new();
    let verdict = world.verify_as("10.5555/TWO", &Policy::default()).unwrap();
    assert_eq!(verdict.refused[0].to_string(), "the signature is about 10.5555/ONE");
    // Signed by the root's key in the signer's name.
    let mut world = World::new();
    std::mem::swap(&mut world.root.private, &mut world.signer.private);
    world.sign(&statement(SIGNER), 3);
    assert_eq!(world.refused(), "300:0.NA/10.5555 did not sign this");
    // A changed payload.
    let mut world = World::new();
    let data = world.values.last_mut().unwrap().data.to_mut();
    let middle = data.iter().position(|byte| *byte == b'.').unwrap() + 20;
    data[middle] = if data[middle] == b'A' { b'B' } else { b'A' };
    assert!(!world.verify().unwrap().is_trusted());
    world.values.last_mut().unwrap().data = b"no signature".into();
    assert_eq!(world.refused(), "value 400 is no signature");
}

#[test]
fn loops_end() {
    let mut world = World::new();
    // The root certifies itself by way of the signer.
    let subject = Reference::parse(ROOT);
    let everything = [permission(CertificateScope::EVERYTHING, "")];
    let data = sign_certificate(
        &subject,
        &world.root.public,
        &everything,
        &statement(SIGNER),
        &*world.signer.private,
    )
    .unwrap();
    world.known.insert(Handle::from("0.0/0.0"), vec![certificate(400, data)]);
    assert_eq!(world.refused(), "the chain of certificates comes back to 300:0.NA/10.5555");
}

#[test]
fn attack_a4_algorithms_are_those_of_the_key() {
    // `none`, and an HMAC with the public key as its secret: both are names that no key has.
    let world = World::new();
    let signature = world.values.last().unwrap().data.to_vec();
    let text = String::from_utf8(signature).unwrap();
    let (_, rest) = text.split_once('.').unwrap();
    let encode = |header: &str| {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut out = String::new();
        for chunk in header.as_bytes().chunks(3) {
            let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
                << (8 * (3 - chunk.len()));
            for at in 0..=chunk.len() {
                out.push(char::from(ALPHABET[(bits >> (18 - 6 * at) & 63) as usize]));
            }
        }
        out
    };
    assert_eq!(encode(r#"{"alg":"RS256"}"#), text.split_once('.').unwrap().0);
    for algorithm in ["none", "HS256", "DS256", "RS1", "ES256", "PS256"] {
        let mut world = World::new();
        let header = encode(&format!(r#"{{"alg":"{algorithm}"}}"#));
        world.values.last_mut().unwrap().data = format!("{header}.{rest}").into_bytes().into();
        assert_eq!(world.refused(), "300:0.NA/10.5555 did not sign this", "{algorithm}");
    }
    // SHA-1 only by policy.
    let mut world = World::new();
    world.values.last_mut().unwrap().data =
        format!("{}.{rest}", encode(r#"{"alg":"RS160"}"#)).into_bytes().into();
    assert_eq!(world.refused(), "the signature of 300:0.NA/10.5555 cannot be checked: SHA-1 is not allowed");
}

#[test]
fn work_is_bounded() {
    let mut world = World::new();
    world.work = Work::new(5);
    assert!(matches!(world.verify(), Err(TrustError::Exhausted(_))));
}
