//! Cost of signed records: `signing DIR`.
//!
//! Prints the time of one signature and of one verification, and writes per second to a registry over an embedded store in DIR,
//! without and with a signature each, by 1 and by 16 concurrent writers.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use crate::measure::{median, seconds};
use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use tendot_proto::auth::PrivateKey;
use tendot_proto::crypto::AwsLcProvider;
use tendot_proto::record::{CertificatePermission, CertificateScope, ValueReference};
use tendot_proto::trust::{
    IssuerClaims, RecordSigner, RecordVerification, TrustAnchors, VerificationStep, sign_certificate,
};
use tendot_proto::{Budget, Handle, HandleValue};
use tendot_registry::{CallContext, Caller, HandleWrite, Registry, RegistrySettings, SigningSettings};
use tendot_store::EmbeddedStore;
use tokio::runtime::Runtime;

/// Writes of one measurement.
const WRITES: u64 = 4_000;

/// Rounds; the median counts.
const ROUNDS: usize = 5;

const NOW: u64 = 1_700_000_000;
const SIGNER: &str = "300:0.NA/10.5555";

pub(crate) fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let [directory] = arguments else { return Err("usage: signing DIR".into()) };
    let pair = KeyPair::generate(KeySize::Rsa2048)?;
    let der: Pkcs8V1Der<'_> = pair.as_der()?;
    let key = PrivateKey::from_pkcs8_der(der.as_ref())?;
    let signer =
        RecordSigner::new(ValueReference::parse(SIGNER), key.signing_key(&AwsLcProvider)?.into(), 86_400);
    measure_operations(&key, &signer)?;
    let runtime = Runtime::new()?;
    let signing = SigningSettings { signer: Arc::new(signer), prefixes: vec!["10.5555".into()] };
    for writers in [1, 16] {
        let (mut plain, mut signed) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let folder = |kind| Path::new(directory).join(format!("{kind}-{writers}-{round}"));
            plain.push(write_rate(&runtime, &folder("plain"), None, writers)?);
            signed.push(write_rate(&runtime, &folder("signed"), Some(signing.clone()), writers)?);
        }
        let (plain, signed) = (median(plain), median(signed));
        println!("writes_per_second_{writers} {plain:.0}");
        println!("signed_writes_per_second_{writers} {signed:.0}");
        println!("ratio_{writers} {:.2}", signed / plain);
    }
    Ok(())
}

/// Prints microseconds of signing and of verifying one record of two values.
fn measure_operations(key: &PrivateKey, signer: &RecordSigner) -> Result<(), Box<dyn Error>> {
    let public = key.public_key().ok_or("no public key")?;
    let claims = IssuerClaims {
        issuer: ValueReference::parse(SIGNER),
        issued_at: NOW,
        expires_at: NOW + 86_400,
        chain: Vec::new(),
    };
    let everything = [CertificatePermission { handle: String::new(), scope: CertificateScope::EVERYTHING }];
    let signing_key = key.signing_key(&AwsLcProvider)?;
    let certificate = sign_certificate(&claims.issuer, &public, &everything, &claims, &*signing_key)?;
    let certificate = vec![HandleValue::with_data(400, "HS_CERT", certificate)];
    let anchors = TrustAnchors { handle: None, keys: vec![public] };
    let (mut sign, mut verify) = (Vec::new(), Vec::new());
    for number in 0..200 {
        let mut values = record(number);
        let (time, signed) =
            seconds(|| signer.sign(Handle::from("10.5555/1"), &mut values, NOW, &AwsLcProvider));
        signed?;
        sign.push(time * 1e6);
        let (time, report) = seconds(|| {
            let budget = Budget::PER_REQUEST;
            let mut verification = RecordVerification::new("10.5555/1", &values, &anchors, NOW, budget);
            verification.add_record("0.NA/10.5555", certificate.clone());
            verification.step(&AwsLcProvider)
        });
        assert!(matches!(report?, VerificationStep::Finished(report) if report.is_trusted()));
        verify.push(time * 1e6);
    }
    println!("sign_microseconds {:.0}", median(sign));
    println!("verify_microseconds {:.0}", median(verify));
    Ok(())
}

fn record(number: u64) -> Vec<HandleValue<'static>> {
    vec![
        HandleValue::new(1, "URL", format!("https://example.org/articles/{number}")),
        HandleValue::new(2, "EMAIL", "editor@example.org"),
    ]
}

/// Writes per second to a new registry.
fn write_rate(
    runtime: &Runtime,
    folder: &Path,
    signing: Option<SigningSettings>,
    writers: u64,
) -> Result<f64, Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let store = EmbeddedStore::open(folder)?;
    let registry =
        Arc::new(Registry::new(store, RegistrySettings { signing, ..RegistrySettings::default() }));
    runtime.block_on(write(&registry, &HandleWrite::Home { prefix: Handle::from("10.5555") }));
    let (time, ()) = seconds(|| {
        runtime.block_on(async {
            let tasks: Vec<_> = (0..writers)
                .map(|writer| {
                    let registry = Arc::clone(&registry);
                    tokio::spawn(async move {
                        for number in (writer..WRITES).step_by(writers as usize) {
                            let name = format!("10.5555/{number}");
                            let create = HandleWrite::Create {
                                name: Handle::from(&*name),
                                values: record(number),
                                overwrite: false,
                                keep_secrets: false,
                                uuid_bytes: None,
                                force: true,
                            };
                            write(&registry, &create).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("no panic");
            }
        });
    });
    Ok(WRITES as f64 / time)
}

async fn write(registry: &Registry, write: &HandleWrite<'_>) {
    let mut budget = Budget::new(100_000);
    registry
        .write(write, CallContext::new(&Caller::Operator, NOW * 1_000, &mut budget))
        .await
        .expect("written");
}
