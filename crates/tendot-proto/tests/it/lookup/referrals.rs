//! Lookups that follow service handles and referrals, and detect loops.

use tendot_proto::lookup::LookupErrorKind;
use tendot_proto::{HandleValue, ResponseCode};

use super::simulated_network::*;

#[test]
fn service_handles_are_followed() {
    let (mut network, config) = small_network();
    let root = network.server("192.0.2.1");
    let service = |index, handle: &'static str| HandleValue::new(index, "HS_SERV", handle);
    root.records.insert("0.NA/10.3".into(), vec![service(1, "0.SERV/A"), service(2, "0.serv/b")]);
    root.records.insert("0.SERV/A".into(), vec![service(1, "0.SERV/B"), service(2, "0.SERV/A")]);
    root.records.insert("0.SERV/B".into(), vec![site_value(5, &["192.0.2.11"])]);
    root.records.insert("0.NA/10.4".into(), vec![service(1, "0.NA/0.NA")]);
    root.records.insert("10.4/X".into(), urls(4));
    root.records.insert("0.NA/10.5".into(), vec![service(1, "10.5/SERV")]);
    root.records.insert("0.NA/10.6".into(), vec![service(1, "10.1/SERV")]);
    network.server("192.0.2.11").records.insert("10.3/X".into(), urls(3));
    for address in ["192.0.2.11", "192.0.2.12"] {
        network.server(address).records.insert("10.1/SERV".into(), vec![site_value(7, &["192.0.2.11"])]);
        network.server(address).records.insert("10.6/X".into(), urls(6));
    }
    assert_eq!(values(&network.resolve(&config, "10.3/X").unwrap()), urls(3));
    assert_eq!(network.messages.len(), 4, "each record is requested once");
    network.messages.clear();
    assert_eq!(values(&network.resolve(&config, "10.4/X").unwrap()), urls(4));
    network.messages.clear();
    assert_eq!(values(&network.resolve(&config, "10.6/X").unwrap()), urls(6));
    network.messages.clear();
    let error = network.resolve(&config, "10.5/X").unwrap_err();
    assert_eq!(error.kind, LookupErrorKind::ServiceLoop);
    assert!(network.messages.len() < 4);
}

/// Each service handle leads to the next.
#[test]
fn service_chain_limit() {
    let (mut network, config) = small_network();
    let root = network.server("192.0.2.1");
    root.records.insert("0.NA/10.3".into(), vec![HandleValue::new(1, "HS_SERV", "0.SERV/0")]);
    for number in 0..50 {
        let next = HandleValue::new(1, "HS_SERV", format!("0.SERV/{}", number + 1));
        root.records.insert(format!("0.SERV/{number}"), vec![next]);
    }
    let error = network.resolve(&config, "10.3/X").unwrap_err();
    assert_eq!(error.kind, LookupErrorKind::ServiceDepth { max: 20 });
    assert_eq!(network.messages.len(), 20);
}

#[test]
fn referrals() {
    let refer = |to: &[&str]| Fault::Referral(ResponseCode::SERVICE_REFERRAL, "", vec![site_value(1, to)]);
    let (mut network, config) = small_network();
    network.server("192.0.2.11").fault = refer(&["192.0.2.21"]);
    network.server("192.0.2.12").fault = refer(&["192.0.2.21"]);
    network.server("192.0.2.21").records.insert("10.1/X".into(), urls(7));
    assert_eq!(values(&network.resolve(&config, "10.1/X").unwrap()), urls(7));

    // By a service handle, and to the root.
    let by_handle = |handle| Fault::Referral(ResponseCode::SERVICE_REFERRAL, handle, vec![]);
    for (handle, expected) in [("0.SERV/A", 7), ("0.NA/0.NA", 8)] {
        network.server("192.0.2.1").records.insert("0.SERV/A".into(), vec![site_value(1, &["192.0.2.21"])]);
        network.server("192.0.2.1").records.insert("10.1/X".into(), urls(8));
        network.server("192.0.2.11").fault = by_handle(handle);
        network.server("192.0.2.12").fault = by_handle(handle);
        network.messages.clear();
        assert_eq!(values(&network.resolve(&config, "10.1/X").unwrap()), urls(expected));
    }

    // In a loop.
    network.messages.clear();
    network.server("192.0.2.11").fault = refer(&["192.0.2.12"]);
    network.server("192.0.2.12").fault = refer(&["192.0.2.11"]);
    let error = network.resolve(&config, "10.1/X").unwrap_err();
    assert_eq!(error.kind, LookupErrorKind::ReferralLoop);
    assert_eq!(network.messages.len(), 3);

    // Without a target.
    network.server("192.0.2.11").fault = by_handle("");
    network.server("192.0.2.12").fault = by_handle("");
    network.messages.clear();
    assert_eq!(network.resolve(&config, "10.1/X").unwrap_err().kind, LookupErrorKind::ServiceNotFound);
}

#[test]
fn referral_limit() {
    let (mut network, config) = small_network();
    for number in 0..60_u8 {
        let next = format!("203.0.113.{}", number + 1);
        let values = vec![site_value(1, &[&next])];
        let server = network.server(&format!("203.0.113.{number}"));
        server.fault = Fault::Referral(ResponseCode::SERVICE_REFERRAL, "", values);
    }
    let root = network.server("192.0.2.1");
    root.records.insert("0.NA/10.3".into(), vec![site_value(1, &["203.0.113.0"])]);
    let error = network.resolve(&config, "10.3/X").unwrap_err();
    assert_eq!(error.kind, LookupErrorKind::ReferralLimit { max: 40 });
}

#[test]
fn prefix_referrals() {
    let (mut network, config) = small_network();
    let derived = HandleValue::with_data(1, "HS_SITE.PREFIX", site(&["192.0.2.21"]).to_bytes());
    let parent_values = vec![derived, site_value(2, &["192.0.2.1"])];
    network.server("192.0.2.1").fault = Fault::Referral(ResponseCode::PREFIX_REFERRAL, "", parent_values);
    let derived_sites = vec![site_value(1, &["192.0.2.11"])];
    network.server("192.0.2.21").records.insert("0.NA/10.1.9".into(), derived_sites.clone());
    network.server("192.0.2.11").records.insert("10.1.9/X".into(), urls(9));
    assert_eq!(values(&network.resolve(&config, "10.1.9/X").unwrap()), urls(9));
    network.messages.clear();
    assert_eq!(values(&network.resolve(&config, "0.NA/10.1.9").unwrap()), derived_sites);

    // Only prefix handles are referred like this; for another handle it is the result.
    let fault = Fault::Referral(ResponseCode::PREFIX_REFERRAL, "", vec![site_value(1, &["192.0.2.12"])]);
    network.server("192.0.2.11").fault = fault;
    network.messages.clear();
    let response = network.resolve(&config, "10.1.9/X").unwrap();
    assert_eq!(response.message().unwrap().header.response_code, ResponseCode::PREFIX_REFERRAL);
}
