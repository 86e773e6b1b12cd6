//! Signed records: valid chains are trusted, and every defect is reported.

use data_encoding::BASE64URL_NOPAD;
use tendot_proto::auth::{AuthContext, AuthPolicy};
use tendot_proto::crypto::{AwsLcProvider, SigningKey};
use tendot_proto::record::{
    CertificatePermission, CertificateScope, HandleRecord, HandleValue, PublicKey, ValueReference,
};
use tendot_proto::trust::{
    IssuerClaims, RecordSet, RecordSigner, RecordVerification, TrustAnchors, TrustError, ValidSignature,
    VerificationReport, VerificationStep, is_signature, sign_certificate, sign_record, verify_record,
};
use tendot_proto::{Budget, Handle, Ttl, ValuePermissions};
use tendot_testing::handle_keys::{handle_net_file, private_key, public_key};

const NOW: u64 = 1_700_000_000;
const HANDLE: &str = "10.5555/ONE";
const SIGNER: &str = "300:0.NA/10.5555";
const ROOT: &str = "300:0.0/0.0";

/// Public and private key.
struct TestKeyPair {
    public: PublicKey<'static>,
    private: Box<dyn SigningKey>,
}

fn key_pair(file: &str) -> TestKeyPair {
    let private = private_key(file);
    TestKeyPair {
        public: private.public_key().unwrap(),
        private: private.signing_key(&AwsLcProvider).unwrap(),
    }
}

/// Valid record, signer and root.
struct TrustFixture {
    root: TestKeyPair,
    signer: TestKeyPair,
    values: Vec<HandleValue<'static>>,
    records: RecordSet,
    anchors: TrustAnchors,
    now: u64,
    budget: Budget,
}

fn statement(issuer: &str) -> IssuerClaims<'_> {
    IssuerClaims {
        issuer: ValueReference::parse(issuer),
        issued_at: NOW - 10,
        expires_at: NOW + 10,
        chain: Vec::new(),
    }
}

fn permission(scope: CertificateScope, handle: &str) -> CertificatePermission {
    CertificatePermission { handle: handle.into(), scope }
}

fn certificate(index: u32, data: Vec<u8>) -> HandleValue<'static> {
    HandleValue::with_data(index, "HS_CERT", data)
}

impl TrustFixture {
    fn new() -> Self {
        let (root, signer) = (key_pair("privkey.bin"), key_pair("admpriv.bin"));
        let anchors = TrustAnchors::new(vec![root.public.clone()]);
        let values = vec![
            HandleValue::new(1, "URL", "https://example.org/one"),
            HandleValue::new(2, "EMAIL", "a@example.org"),
            HandleValue { permissions: ValuePermissions(0x0c), ..HandleValue::new(3, "NOTE", "private") },
        ];
        let mut fixture = Self {
            root,
            signer,
            values,
            records: RecordSet::default(),
            anchors,
            now: NOW,
            budget: Budget::new(1_000_000),
        };
        fixture.certify_root(&statement(ROOT), CertificateScope::EVERYTHING);
        fixture
            .certify_signer(&statement(ROOT), &[permission(CertificateScope::THIS_HANDLE, "0.NA/10.5555")]);
        fixture.sign(&statement(SIGNER), 3);
        fixture
    }

    fn certify_root(&mut self, statement: &IssuerClaims<'_>, scope: CertificateScope) {
        let subject = ValueReference::parse(ROOT);
        let permissions = [permission(scope, "")];
        let data =
            sign_certificate(&subject, &self.root.public, &permissions, statement, &*self.root.private)
                .unwrap();
        self.records.insert(Handle::from("0.0/0.0"), vec![certificate(400, data)]);
    }

    fn certify_signer(&mut self, statement: &IssuerClaims<'_>, permissions: &[CertificatePermission]) {
        let data = self.signer_certificate(statement, permissions);
        self.records.insert(Handle::from("0.NA/10.5555"), vec![certificate(400, data)]);
    }

    fn signer_certificate(
        &self,
        statement: &IssuerClaims<'_>,
        permissions: &[CertificatePermission],
    ) -> Vec<u8> {
        let subject = ValueReference::parse(SIGNER);
        sign_certificate(&subject, &self.signer.public, permissions, statement, &*self.root.private).unwrap()
    }

    /// Signs the first `count` values.
    fn sign(&mut self, statement: &IssuerClaims<'_>, count: usize) {
        self.values.retain(|value| &*value.value_type != b"HS_SIGNATURE");
        let signed = &self.values[..count];
        let data =
            sign_record(Handle::from(HANDLE), signed, statement, &*self.signer.private, &AwsLcProvider)
                .unwrap();
        self.values.push(HandleValue::with_data(400, "HS_SIGNATURE", data));
    }

    fn verify_as(&self, handle: &str, policy: &AuthPolicy) -> Result<VerificationReport, TrustError> {
        let mut budget = self.budget.clone();
        let handle = Handle::from(handle);
        let context = &mut AuthContext::new(&AwsLcProvider, *policy, &mut budget);
        verify_record(handle, &self.values, &self.records, &self.anchors, self.now, context)
    }

    fn verify(&self) -> Result<VerificationReport, TrustError> {
        self.verify_as(HANDLE, &AuthPolicy::default())
    }

    /// Error of the only signature.
    #[track_caller]
    fn rejection(&self) -> String {
        let report = self.verify().unwrap();
        assert!(!report.is_trusted());
        assert_eq!(report.unsigned, [1, 2, 3]);
        let [rejected] = &report.rejected[..] else { panic!("{report:?}") };
        assert_eq!(rejected.index, 400);
        rejected.error.to_string()
    }
}

#[test]
fn valid_chain_is_trusted() {
    let fixture = TrustFixture::new();
    let report = fixture.verify().unwrap();
    assert!(report.is_trusted(), "{report:?}");
    let chain = vec![ValueReference::parse(SIGNER), ValueReference::parse(ROOT)];
    assert_eq!(report.signatures, [ValidSignature { index: 400, chain, expires_at: Some(NOW + 10) }]);
    assert_eq!(report.faults(), [""; 0]);
    assert_eq!(report.rejected, []);
    // Handles are compared without case.
    assert!(fixture.verify_as("10.5555/one", &AuthPolicy::default()).unwrap().is_trusted());
}

#[test]
fn reports_unsigned_values() {
    let mut fixture = TrustFixture::new();
    fixture.sign(&statement(SIGNER), 1);
    assert_eq!(fixture.verify().unwrap().unsigned, [2, 3], "private values must be signed, too");
    assert!(!fixture.verify().unwrap().is_trusted());
    // A timestamp is not signed; data and permissions are.
    let mut fixture = TrustFixture::new();
    fixture.values[0].timestamp = 7;
    assert!(fixture.verify().unwrap().is_trusted());
    fixture.values[0].data = b"https://evil.example/".into();
    let report = fixture.verify().unwrap();
    assert_eq!((report.unsigned.as_slice(), report.changed.as_slice()), (&[1][..], &[1][..]));
    assert_eq!(report.faults(), ["value 1: changed after it was signed"]);
    fixture.values[1].permissions = ValuePermissions(0x0f);
    assert_eq!(fixture.verify().unwrap().unsigned, [1, 2]);
    // A record without signatures is not trusted, even if it is empty.
    fixture.values.clear();
    assert!(!fixture.verify().unwrap().is_trusted());
}

/// A forged value beside a signed one of the same index, in either order, and a private one.
#[test]
fn reports_forged_values() {
    for position in [0, 1] {
        let mut fixture = TrustFixture::new();
        fixture.values.insert(position, HandleValue::new(1, "URL", "https://evil.example/"));
        let report = fixture.verify().unwrap();
        assert!(!report.is_trusted());
        assert_eq!(report.unsigned, [1, 1]);
    }
    let mut fixture = TrustFixture::new();
    fixture.values.push(HandleValue {
        permissions: ValuePermissions(0x0c),
        ..HandleValue::new(9, "URL", "https://evil.example/")
    });
    assert_eq!(fixture.verify().unwrap().unsigned, [9]);
}

#[test]
fn reports_missing_values() {
    let mut fixture = TrustFixture::new();
    fixture.values.remove(1);
    let report = fixture.verify().unwrap();
    assert_eq!((&report.unsigned[..], &report.missing[..]), (&[][..], &[2][..]));
    assert!(!report.is_trusted());
}

#[test]
fn reports_required_records() {
    let mut fixture = TrustFixture::new();
    fixture.records = RecordSet::default();
    assert_eq!(fixture.verify(), Err(TrustError::RecordRequired(b"0.NA/10.5555".to_vec())));
    fixture.certify_signer(&statement(ROOT), &[permission(CertificateScope::EVERYTHING, "")]);
    assert_eq!(fixture.verify(), Err(TrustError::RecordRequired(b"0.0/0.0".to_vec())));
    fixture.certify_root(&statement(ROOT), CertificateScope::EVERYTHING);
    assert!(fixture.verify().unwrap().is_trusted());
    // A handle that does not exist is an empty record.
    fixture.records.insert(Handle::from("0.NA/10.5555"), Vec::new());
    assert_eq!(fixture.rejection(), "no certificate for 300:0.NA/10.5555");
}

#[test]
fn certificates_in_other_records() {
    let mut fixture = TrustFixture::new();
    let data = fixture.signer_certificate(&statement(ROOT), &[permission(CertificateScope::EVERYTHING, "")]);
    fixture.records.insert(Handle::from("0.NA/10.5555"), Vec::new());
    fixture.records.insert(Handle::from("10.5555/CERTS"), vec![certificate(7, data)]);
    fixture.sign(
        &IssuerClaims { chain: vec![ValueReference::parse("7:10.5555/CERTS")], ..statement(SIGNER) },
        3,
    );
    assert!(fixture.verify().unwrap().is_trusted());
    fixture
        .sign(&IssuerClaims { chain: vec![ValueReference::parse("10.5555/CERTS")], ..statement(SIGNER) }, 3);
    assert!(fixture.verify().unwrap().is_trusted());
    fixture.sign(
        &IssuerClaims { chain: vec![ValueReference::parse("8:10.5555/CERTS")], ..statement(SIGNER) },
        3,
    );
    assert_eq!(fixture.rejection(), "no certificate for 300:0.NA/10.5555");
}

/// The chain in a signature takes precedence over that in a certificate.
#[test]
fn signature_chain_takes_precedence() {
    let mut fixture = TrustFixture::new();
    let other_chain = IssuerClaims { chain: vec![ValueReference::parse("1:99/NOWHERE")], ..statement(ROOT) };
    fixture.certify_signer(&other_chain, &[permission(CertificateScope::EVERYTHING, "")]);
    assert_eq!(fixture.verify(), Err(TrustError::RecordRequired(b"99/NOWHERE".to_vec())));
    let chain = vec![ValueReference::parse("400:0.NA/10.5555"), ValueReference::parse("400:0.0/0.0")];
    fixture.sign(&IssuerClaims { chain, ..statement(SIGNER) }, 3);
    assert!(fixture.verify().unwrap().is_trusted());
}

/// Parsing of unneeded certificates is charged by their length.
#[test]
fn many_certificates_exhaust_the_budget() {
    let mut fixture = TrustFixture::new();
    let data = fixture.signer_certificate(&statement("1:0.0/0.0"), &[]);
    let many = (1..200).map(|index| certificate(index, [&data[..], &b"A".repeat(3_000)].concat())).collect();
    fixture.records.insert(Handle::from("0.NA/10.5555"), many);
    fixture.budget = Budget::new(300);
    assert!(matches!(fixture.verify(), Err(TrustError::Budget(_))));
}

#[test]
fn newest_certificate_is_used() {
    let mut fixture = TrustFixture::new();
    let allowed = [permission(CertificateScope::EVERYTHING, "")];
    let denied = [permission(CertificateScope::THIS_HANDLE, "0.NA/10.1")];
    let old = fixture.signer_certificate(&IssuerClaims { issued_at: NOW - 100, ..statement(ROOT) }, &allowed);
    let new = fixture.signer_certificate(&statement(ROOT), &denied);
    fixture.records.insert(Handle::from("0.NA/10.5555"), vec![certificate(400, old), certificate(401, new)]);
    assert_eq!(fixture.rejection(), "300:0.NA/10.5555 is not authorized to sign this record");
}

#[test]
fn validity_periods() {
    for (now, is_trusted) in [(NOW - 611, false), (NOW - 610, true), (NOW + 10, true), (NOW + 11, false)] {
        let mut fixture = TrustFixture::new();
        fixture.now = now;
        assert_eq!(fixture.verify().unwrap().is_trusted(), is_trusted, "{now}");
    }
    let mut fixture = TrustFixture::new();
    let expired = IssuerClaims { expires_at: NOW - 1, ..statement(ROOT) };
    fixture.certify_signer(&expired, &[permission(CertificateScope::EVERYTHING, "")]);
    assert_eq!(fixture.rejection(), "statement of 300:0.0/0.0 expired at 2023-11-14T22:13:19Z");
    let mut fixture = TrustFixture::new();
    fixture.certify_root(&expired, CertificateScope::EVERYTHING);
    assert_eq!(fixture.rejection(), "statement of 300:0.0/0.0 expired at 2023-11-14T22:13:19Z");
}

#[test]
fn chain_permissions() {
    let mut fixture = TrustFixture::new();
    fixture
        .certify_signer(&statement(ROOT), &[permission(CertificateScope::DERIVED_PREFIXES, "0.NA/10.5555")]);
    assert_eq!(fixture.rejection(), "300:0.NA/10.5555 is not authorized to sign this record");
    fixture.certify_signer(&statement(ROOT), &[permission(CertificateScope::DERIVED_PREFIXES, "0.NA/10")]);
    assert!(fixture.verify().unwrap().is_trusted(), "10.5555 is derived from 10");
    fixture.certify_signer(&statement(ROOT), &[]);
    assert_eq!(fixture.rejection(), "300:0.NA/10.5555 is not authorized to sign this record");
    let mut fixture = TrustFixture::new();
    fixture.certify_root(&statement(ROOT), CertificateScope("nothing".into()));
    assert_eq!(fixture.rejection(), "300:0.0/0.0 is not authorized to sign this record");
}

#[test]
fn trust_anchors_are_keys() {
    let mut fixture = TrustFixture::new();
    fixture.anchors = TrustAnchors::new(vec![fixture.signer.public.clone()]);
    assert_eq!(fixture.rejection(), "300:0.0/0.0 is self-signed but not a trust anchor");
    fixture.anchors =
        TrustAnchors { handle: Some(b"0.0/1.1".into()), keys: vec![fixture.root.public.clone()] };
    assert_eq!(fixture.rejection(), "300:0.0/0.0 is self-signed but not a trust anchor");
    fixture.anchors = TrustAnchors { handle: None, keys: vec![fixture.root.public.clone()] };
    assert!(fixture.verify().unwrap().is_trusted(), "the key alone");
    fixture.anchors = TrustAnchors::new(Vec::new());
    assert_eq!(fixture.rejection(), "300:0.0/0.0 is self-signed but not a trust anchor");
}

#[test]
fn signatures_of_other_records_and_keys() {
    let fixture = TrustFixture::new();
    let report = fixture.verify_as("10.5555/TWO", &AuthPolicy::default()).unwrap();
    assert_eq!(report.rejected[0].to_string(), "signature 400: subject mismatch: 10.5555/ONE");
    // Signed with the root's key in the name of the signer.
    let mut fixture = TrustFixture::new();
    std::mem::swap(&mut fixture.root.private, &mut fixture.signer.private);
    fixture.sign(&statement(SIGNER), 3);
    assert_eq!(fixture.rejection(), "signature of 300:0.NA/10.5555 does not match");
    // A changed payload.
    let mut fixture = TrustFixture::new();
    let data = fixture.values.last_mut().unwrap().data.to_mut();
    let middle = data.iter().position(|byte| *byte == b'.').unwrap() + 20;
    data[middle] = if data[middle] == b'A' { b'B' } else { b'A' };
    assert!(!fixture.verify().unwrap().is_trusted());
    fixture.values.last_mut().unwrap().data = b"no signature".into();
    assert_eq!(fixture.rejection(), "invalid signature value 400");
}

#[test]
fn detects_chain_loop() {
    let mut fixture = TrustFixture::new();
    // The root is certified by the signer, which is certified by the root.
    let subject = ValueReference::parse(ROOT);
    let everything = [permission(CertificateScope::EVERYTHING, "")];
    let data = sign_certificate(
        &subject,
        &fixture.root.public,
        &everything,
        &statement(SIGNER),
        &*fixture.signer.private,
    )
    .unwrap();
    fixture.records.insert(Handle::from("0.0/0.0"), vec![certificate(400, data)]);
    assert_eq!(fixture.rejection(), "certificate chain loop at 300:0.NA/10.5555");
}

#[test]
fn attack_a4_algorithm_confusion() {
    // `none`, and HMAC with the public key as its secret: algorithms that belong to no key.
    let fixture = TrustFixture::new();
    let signature = fixture.values.last().unwrap().data.to_vec();
    let text = String::from_utf8(signature).unwrap();
    let (_, rest) = text.split_once('.').unwrap();
    let encode = |header: &str| BASE64URL_NOPAD.encode(header.as_bytes());
    assert_eq!(encode(r#"{"alg":"RS256"}"#), text.split_once('.').unwrap().0);
    for algorithm in ["none", "HS256", "DS256", "RS1", "ES256", "PS256"] {
        let mut fixture = TrustFixture::new();
        let header = encode(&format!(r#"{{"alg":"{algorithm}"}}"#));
        fixture.values.last_mut().unwrap().data = format!("{header}.{rest}").into_bytes().into();
        assert_eq!(fixture.rejection(), "signature of 300:0.NA/10.5555 does not match", "{algorithm}");
    }
    // SHA-1 needs a policy.
    let mut fixture = TrustFixture::new();
    fixture.values.last_mut().unwrap().data =
        format!("{}.{rest}", encode(r#"{"alg":"RS160"}"#)).into_bytes().into();
    assert_eq!(
        fixture.rejection(),
        "cannot verify the signature of 300:0.NA/10.5555: algorithm not allowed: SHA-1"
    );
}

#[test]
fn budget_is_limited() {
    let mut fixture = TrustFixture::new();
    fixture.budget = Budget::new(5);
    assert!(matches!(fixture.verify(), Err(TrustError::Budget(_))));
}

/// A signature that is not yet valid is distinguished from one that has expired.
#[test]
fn not_yet_valid() {
    let mut fixture = TrustFixture::new();
    // The clock of the verifier may be ten minutes behind.
    fixture.now = NOW - 611;
    let expected = "statement of 300:0.NA/10.5555 is not valid before 2023-11-14T22:03:10Z";
    assert_eq!(fixture.rejection(), expected);
}

/// A forged signature beside a valid one is reported, not ignored; an expired one is ignored.
#[test]
fn forged_signature_beside_valid_one() {
    let mut fixture = TrustFixture::new();
    let valid = fixture.values.last().unwrap().clone();
    let forged = {
        let mut other = TrustFixture::new();
        std::mem::swap(&mut other.root.private, &mut other.signer.private);
        other.sign(&statement(SIGNER), 3);
        other.values.last().unwrap().clone()
    };
    fixture.values.push(HandleValue { index: 401, ..forged });
    let report = fixture.verify().unwrap();
    assert!(!report.is_trusted());
    assert_eq!(report.faults(), ["signature 401: signature of 300:0.NA/10.5555 does not match"]);
    fixture.values.retain(|value| &*value.value_type != b"HS_SIGNATURE");
    fixture.sign(&IssuerClaims { expires_at: NOW - 1, ..statement(SIGNER) }, 3);
    let expired = fixture.values.pop().unwrap();
    fixture.values.extend([valid, HandleValue { index: 401, ..expired }]);
    assert!(fixture.verify().unwrap().is_trusted());
}

/// A signer covers the public values, replaces its own signature in place and keeps those of others.
#[test]
fn record_signer() {
    let mut fixture = TrustFixture::new();
    let key = private_key("admpriv.bin").signing_key(&AwsLcProvider).unwrap();
    let signer = RecordSigner::new(ValueReference::parse(SIGNER), key.into(), 20);
    let mut values = fixture.values.clone();
    let other = HandleValue { index: 7, ..HandleValue::new(7, "HS_SIGNATURE", "of another program") };
    values.insert(0, other.clone());
    signer.sign(Handle::from(HANDLE), &mut values, NOW, &AwsLcProvider).unwrap();
    let indexes: Vec<u32> = values.iter().map(|value| value.index).collect();
    assert_eq!(indexes, [7, 1, 2, 3, 400]);
    assert_eq!(values[0], other);
    // As a public resolution returns it: without the private value 3, which is not covered.
    fixture.values = values.into_iter().filter(|value| value.is_public()).skip(1).collect();
    let report = fixture.verify().unwrap();
    assert!(report.is_trusted(), "{report:?}");
    assert_eq!(report.signatures[0].expires_at, Some(NOW + 10), "that of the certificate is earlier");
    fixture.values.clear();
    fixture
        .values
        .extend([HandleValue::new(400, "URL", "https://example.org/"), HandleValue::new(500, "NOTE", "x")]);
    signer.sign(Handle::from(HANDLE), &mut fixture.values, NOW, &AwsLcProvider).unwrap();
    let indexes: Vec<u32> = fixture.values.iter().map(|value| value.index).collect();
    assert_eq!(indexes, [400, 401, 500], "at a free index, in order");
    assert!(fixture.verify().unwrap().is_trusted());
}

/// Records signed by Handle.Net 9.3.1 (`interop/java/client/SignedRecords.java`): signatures, certificates and digests of values
/// with TTLs, references and text that is not ASCII.
#[test]
fn records_signed_by_handle_net() {
    let lines = String::from_utf8(handle_net_file("signed-records.jsonl")).unwrap();
    let records: Vec<HandleRecord<'_>> =
        lines.lines().map(|line| HandleRecord::from_json(line.as_bytes()).unwrap().into_owned()).collect();
    let anchors = TrustAnchors::new(vec![public_key("pubkey.bin")]);
    let verify = |record: &HandleRecord<'static>, now: u64| {
        let name = str::from_utf8(&record.handle).unwrap();
        let mut verification =
            RecordVerification::new(name, &record.values, &anchors, now, Budget::new(100_000));
        loop {
            match verification.step(&AwsLcProvider).unwrap() {
                VerificationStep::Finished(report) => return report,
                VerificationStep::RecordRequired(handle) => {
                    let found = records.iter().find(|record| *record.handle == *handle.as_bytes()).unwrap();
                    verification.add_record(&handle, found.values.clone());
                }
            }
        }
    };
    let signed_at = 1_795_014_247;
    let mut count = 0;
    for record in records.iter().filter(|record| record.values.iter().any(is_signature)) {
        count += 1;
        let report = verify(record, signed_at);
        assert!(report.is_trusted(), "{report:?}");
        assert_eq!(report.signatures[0].chain, [ValueReference::parse(SIGNER), ValueReference::parse(ROOT)]);
        assert_eq!(report.signatures[0].expires_at, Some(1_795_878_246));
        assert!(!verify(record, signed_at + 11 * 86_400).is_trusted());
        let mut forged = record.clone();
        forged.values[1].ttl = Ttl::Relative(7);
        assert_eq!(verify(&forged, signed_at).changed, [forged.values[1].index]);
    }
    assert_eq!(count, 2);
}
