//! Messages: no input panics, error offsets are in bounds, decoded messages encode to the same bytes, and the endpoint's responses
//! decode.

use tendot_proto::endpoint::{Endpoint, Transport};
use tendot_proto::{Body, Message, Now, Outcome, Parts, Request, Response, ResponseCode};

pub(crate) fn check(bytes: &[u8]) {
    match Message::from_bytes(bytes) {
        Ok(message) => {
            assert_eq!(message.to_bytes().expect("decoded message re-encodes"), bytes);
            iterate_lists(&message);
        }
        Err(error) => assert!(error.at() <= bytes.len()),
    }
    if let Ok(parts) = Parts::split(bytes) {
        assert_eq!(20 + parts.header_and_body.len() + parts.tail.len(), bytes.len());
    }
    let now = Now { elapsed: core::time::Duration::ZERO, unix: 1_700_000_000 };
    let endpoint = Endpoint { site_serial: 5, primary: true };
    for transport in [Transport::Udp, Transport::Tcp] {
        match endpoint.read(bytes, transport, now) {
            Ok(incoming) => {
                let response = incoming.respond(ResponseCode::ERROR, Outcome::Failed { message: Some(b"") });
                let response = response.to_bytes().expect("short response");
                Message::from_bytes(&response).expect("own response decodes");
            }
            Err(refusal) => {
                if let Some(response) = refusal.response() {
                    Message::from_bytes(response).expect("own response decodes");
                }
            }
        }
    }
}

/// Decodes every item of every list.
fn iterate_lists(message: &Message<'_>) {
    match message.body {
        Body::Request(Request::Resolve { indexes, types, .. }) => {
            assert_eq!(indexes.iter().count(), indexes.len());
            assert_eq!(types.iter().count(), types.len());
        }
        Body::Request(Request::Values { values, .. })
        | Body::Response(Response { outcome: Outcome::Resolved { values, .. }, .. })
        | Body::Response(Response { outcome: Outcome::Referral { values: Some(values), .. }, .. }) => {
            assert_eq!(values.iter().count(), values.len());
        }
        Body::Response(Response { outcome: Outcome::Handles(handles), .. }) => {
            assert_eq!(handles.iter().count(), handles.len());
        }
        _ => {}
    }
}
