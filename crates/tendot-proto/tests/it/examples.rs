//! The examples of this crate and their output.

#![allow(dead_code, reason = "`cargo run` calls `main`")]

use std::time::Duration;

use tendot_proto::Now;

#[path = "../../examples/decode_message.rs"]
mod decode_message;
#[path = "../../examples/encode_request.rs"]
mod encode_request;
#[cfg(feature = "crypto")]
#[path = "../../examples/resolve_sans_io.rs"]
mod resolve_sans_io;

const NOW: Now = Now { elapsed: Duration::ZERO, unix: 1_700_000_000 };

#[test]
fn encoded_requests_are_described() {
    let datagrams = encode_request::encode("10.1000/182", &[b"URL"], NOW).unwrap();
    let [datagram] = &datagrams[..] else { panic!("{} datagrams", datagrams.len()) };
    assert_eq!(
        decode_message::describe(datagram).unwrap(),
        "OC_RESOLUTION request 7, version 2.11: 10.1000/182"
    );
    let error = decode_message::describe(&datagram[..50]).unwrap_err().to_string();
    assert!(error.starts_with("message at byte 20: needs "), "{error}");
    let long = encode_request::encode(&format!("10.1000/{}", "x".repeat(1_000)), &[], NOW).unwrap();
    assert_eq!(long.len(), 3);
    let error = encode_request::encode("10.1000", &[], NOW).unwrap_err();
    assert_eq!(error.to_string(), "invalid handle: missing `/`");
}

#[cfg(feature = "crypto")]
#[test]
fn handles_are_resolved() {
    assert_eq!(resolve_sans_io::resolve("10.1000/182").unwrap(), "https://www.doi.org/");
    let error = resolve_sans_io::resolve("10.1000/none").unwrap_err();
    assert_eq!(error.to_string(), "RC_HANDLE_NOT_FOUND");
}
