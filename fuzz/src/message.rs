//! Messages: no input panics, error offsets are in bounds, decoded messages encode to the same bytes, and the endpoint's responses
//! decode.

use tendot_proto::endpoint::{Endpoint, Transport};
use tendot_proto::{Message, MessageBody, MessageParts, Now, Request, Response, ResponseCode, ResponseData};

pub(crate) fn check(bytes: &[u8]) {
    match Message::from_bytes(bytes) {
        Ok(message) => {
            assert_eq!(message.to_bytes().expect("decoded message re-encodes"), bytes);
            iterate_lists(&message);
        }
        Err(error) => assert!(error.offset() <= bytes.len()),
    }
    if let Ok(parts) = MessageParts::split(bytes) {
        assert_eq!(20 + parts.header_and_body.len() + parts.credential_bytes.len(), bytes.len());
    }
    let now = Now { elapsed: core::time::Duration::ZERO, unix: 1_700_000_000 };
    let endpoint = Endpoint { site_serial: 5, is_primary: true };
    for transport in [Transport::Udp, Transport::Tcp] {
        match endpoint.decode_request(bytes, transport, now) {
            Ok(incoming) => {
                let response =
                    incoming.respond(ResponseCode::ERROR, ResponseData::Error { message: Some(b"") });
                let response = response.to_bytes().expect("short response");
                Message::from_bytes(&response).expect("own response decodes");
            }
            Err(rejection) => {
                if let Some(response) = rejection.response() {
                    Message::from_bytes(response).expect("own response decodes");
                }
            }
        }
    }
}

/// Decodes every item of every list.
fn iterate_lists(message: &Message<'_>) {
    match message.body {
        MessageBody::Request(Request::Resolve { indexes, types, .. }) => {
            assert_eq!(indexes.iter().count(), indexes.len());
            assert_eq!(types.iter().count(), types.len());
        }
        MessageBody::Request(Request::WriteValues { values, .. })
        | MessageBody::Response(Response { data: ResponseData::Resolved { values, .. }, .. })
        | MessageBody::Response(Response {
            data: ResponseData::Referral { values: Some(values), .. }, ..
        }) => {
            assert_eq!(values.iter().count(), values.len());
        }
        MessageBody::Response(Response { data: ResponseData::Handles(handles), .. }) => {
            assert_eq!(handles.iter().count(), handles.len());
        }
        _ => {}
    }
}
