//! Lookups that require signed responses: wrong, missing and old signatures are rejected.

use std::sync::Arc;

use tendot_proto::auth::{AuthError, AuthPolicy, CredentialError};
use tendot_proto::crypto::{AwsLcProvider, SigningKey};
use tendot_proto::lookup::{AttemptError, Lookup, LookupConfig, LookupErrorKind, LookupRequest};
use tendot_proto::record::Site;
use tendot_proto::{Handle, HandleValue, OpFlags, ProtocolVersion, ResponseCode};
use tendot_testing::handle_keys::private_key;

use super::simulated_network::*;

/// Small network in which all servers sign with the key of the recorded server; it is in their site records.
fn signed_network() -> (SimulatedNetwork, Arc<LookupConfig>) {
    let private = private_key("privkey.bin");
    let key: Arc<dyn SigningKey> = Arc::from(private.signing_key(&AwsLcProvider).unwrap());
    let public = private.public_key().unwrap().to_bytes();
    let signed_site = |address: &str| {
        let mut site = site(&[address]);
        site.servers[0].public_key = public.clone().into();
        site
    };
    let (mut network, config) = small_network();
    for server in network.servers.values_mut() {
        server.key = Some(Arc::clone(&key));
    }
    let sites = ["192.0.2.11", "192.0.2.12"]
        .map(|address| HandleValue::with_data(1, "HS_SITE", signed_site(address).to_bytes()));
    network.server("192.0.2.1").records.insert("0.NA/10.1".into(), sites.to_vec());
    let root_sites = vec![Arc::new(signed_site("192.0.2.1"))];
    let config = LookupConfig {
        root_sites,
        require_signatures: true,
        crypto: Some(Arc::new(AwsLcProvider)),
        ..(*config).clone()
    };
    (network, Arc::new(config))
}

#[test]
fn signed_responses() {
    let (mut network, config) = signed_network();
    assert_eq!(values(&network.resolve(&config, "10.1/X").unwrap()), urls(2));

    // One server does not sign, or its response is tampered with.
    for faulty in ["192.0.2.11", "192.0.2.12"] {
        for fault in [Fault::None, Fault::Tampered] {
            let (mut network, config) = signed_network();
            if let Fault::None = fault {
                network.server(faulty).key = None;
            }
            network.server(faulty).fault = fault;
            let response = network.resolve(&config, "10.1/X").unwrap();
            assert_eq!(values(&response), urls(2));
            assert_ne!(response.from.ip().to_string(), faulty);
        }
    }
    check_signature_error(Fault::Tampered, true, AttemptError::Signature(CredentialError::Mismatch));
    check_signature_error(Fault::None, false, AttemptError::Signature(CredentialError::Missing));

    // Without a crypto provider no signature can be verified.
    let (mut network, config) = signed_network();
    let config = Arc::new(LookupConfig { crypto: None, ..(*config).clone() });
    let error = network.resolve(&config, "10.1/X").unwrap_err();
    assert_eq!(&error.handle[..], b"0.NA/10.1");
    assert!(error.attempts.iter().all(|attempt| attempt.error == AttemptError::NoCryptoProvider), "{error}");
}

#[track_caller]
fn check_signature_error(fault: Fault, is_signing: bool, expected: AttemptError) {
    let (mut network, config) = signed_network();
    for address in ["192.0.2.11", "192.0.2.12"] {
        let server = network.server(address);
        server.fault = fault.clone();
        server.key = server.key.take().filter(|_| is_signing);
    }
    let error = network.resolve(&config, "10.1/X").unwrap_err();
    assert_eq!((error.kind, &error.handle[..]), (LookupErrorKind::NoUsableResponse, &b"10.1/X"[..]));
    assert!(error.attempts.iter().all(|attempt| attempt.error == expected), "{error}");
}

/// An on-path attacker replaces the handle of our request, and forwards the signed response of an honest server. Covers
/// responses that do not contain the handle.
#[test]
fn attack_c7_signed_responses_to_other_requests() {
    let hostile_site = || vec![site_value(1, &["203.0.113.66"])];
    for (fault, name) in [
        (Fault::None, "0.NA/10.66.NOT.THERE"),
        (Fault::None, "0.NA/10.66"),
        (Fault::Referral(ResponseCode::SERVICE_REFERRAL, "", hostile_site()), "0.NA/10.66"),
        (Fault::Referral(ResponseCode::PREFIX_REFERRAL, "", hostile_site()), "0.NA/10.66"),
        (Fault::ResponseCode(ResponseCode::SERVER_NOT_RESPONSIBLE), "0.NA/10.66"),
    ] {
        let (mut network, config) = signed_network();
        let root = network.server("192.0.2.1");
        root.records.insert("0.NA/10.66".into(), urls(1));
        (root.fault, root.substituted_handle) = (fault, Some(name));
        let flags = OpFlags::DEFAULT | OpFlags::CERTIFY;
        let by_flag = LookupRequest::resolve(Handle::from("10.1/X"), &[], &[]).with_flags(flags);
        let only_flag = LookupConfig { require_signatures: false, ..(*config).clone() };
        for (config, lookup_request) in [
            ((*config).clone(), LookupRequest::resolve(Handle::from("10.1/X"), &[], &[])),
            ((*config).clone(), LookupRequest::resolve(Handle::from("0.NA/10.1"), &[], &[b"HS_SITE"])),
            (only_flag, by_flag),
        ] {
            network.messages.clear();
            let lookup = Lookup::new(Arc::new(config.clone()), lookup_request, network.now());
            let error = network.run(lookup, &config).0.unwrap_err();
            let other = AttemptError::Digest(AuthError::DigestMismatch);
            assert_eq!(
                (error.kind, &error.handle[..]),
                (LookupErrorKind::NoUsableResponse, &b"0.NA/10.1"[..])
            );
            assert!(error.attempts.iter().all(|attempt| attempt.error == other), "{error}");
        }
        assert!(!network.servers.contains_key(&"203.0.113.66".parse().unwrap()));
    }
}

/// A downgrade is rejected: a site that supports SHA-256 must sign with it, whatever the policy allows.
#[test]
fn signed_responses_of_old_versions() {
    let (old, new) = (ProtocolVersion::new(2, 4), ProtocolVersion::LATEST);
    let resolve = |site_version: ProtocolVersion, response_version: ProtocolVersion| {
        let (mut network, config) = signed_network();
        network.server("192.0.2.1").fault = Fault::Version(response_version);
        let root_site = Site { protocol_version: site_version, ..Site::clone(&config.root_sites[0]) };
        let policy = AuthPolicy { allow_sha1: true, allow_md5: true, ..AuthPolicy::default() };
        let config =
            Arc::new(LookupConfig { root_sites: vec![Arc::new(root_site)], policy, ..(*config).clone() });
        network.resolve(&config, "0.NA/10.1").map_err(|error| error.attempts[0].error)
    };
    assert!(resolve(new, ProtocolVersion::SHA256).is_ok());
    // The servers may support more than the site record says.
    assert!(resolve(old, new).is_ok());
    // Without the feature, the simulated servers cannot make SHA-1 digests.
    if cfg!(not(feature = "legacy-crypto")) {
        return;
    }
    assert_eq!(resolve(new, old).unwrap_err(), AttemptError::VersionDowngrade { found: old, site: new });
    let sha1 = AttemptError::Digest(AuthError::AlgorithmNotAllowed { algorithm: "SHA-1" });
    assert_eq!(resolve(old, old).unwrap_err(), sha1);
}

#[test]
fn request_digests() {
    for (fault, is_valid) in [(Fault::None, true), (Fault::Digest, false)] {
        let (mut network, config) = signed_network();
        for address in ["192.0.2.11", "192.0.2.12"] {
            network.server(address).fault = fault.clone();
        }
        let flags = OpFlags::DEFAULT | OpFlags::REQUEST_DIGEST;
        let lookup_request = LookupRequest::resolve(Handle::from("10.1/X"), &[], &[]).with_flags(flags);
        let lookup = Lookup::new(Arc::clone(&config), lookup_request, network.now());
        match network.run(lookup, &config).0 {
            Ok(response) => assert!(is_valid && values(&response) == urls(2)),
            Err(error) => {
                let other = AttemptError::Digest(AuthError::DigestMismatch);
                assert!(!is_valid && error.attempts.iter().all(|attempt| attempt.error == other), "{error}");
            }
        }
    }
}
