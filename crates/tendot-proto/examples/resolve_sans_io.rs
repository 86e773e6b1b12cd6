//! Resolves a handle without a network: the client's state machine and a server, connected by a function call.
//!
//! ```console
//! $ cargo run -p tendot-proto --example resolve_sans_io
//! 10.1000/182: https://www.doi.org/
//! ```

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tendot_proto::crypto::SystemRandom;
use tendot_proto::endpoint::{Endpoint, Transport};
use tendot_proto::lookup::{Lookup, LookupConfig, LookupEvent, LookupRequest};
use tendot_proto::record::{InterfaceKind, InterfaceProtocol, ServerInterface, Site, SiteServer};
use tendot_proto::wire::WireList;
use tendot_proto::{Handle, HandleValue, MessageBody, Now, Request, Response, ResponseCode, ResponseData};

fn main() -> Result<(), Box<dyn Error>> {
    println!("10.1000/182: {}", resolve("10.1000/182")?);
    Ok(())
}

/// URL of a handle.
pub(crate) fn resolve(handle: &str) -> Result<String, Box<dyn Error>> {
    let now = Now { elapsed: Duration::ZERO, unix: 1_700_000_000 };
    // A service that stores all handles of the prefix 10.1000; so the root need not be queried.
    let udp = ServerInterface { kind: InterfaceKind::QUERY, protocol: InterfaceProtocol::UDP, port: 2641 };
    let address = SiteServer::encode_address([192, 0, 2, 1].into());
    let server = SiteServer { address, interfaces: vec![udp], ..SiteServer::default() };
    let site = Arc::new(Site { servers: vec![server], ..Site::default() });
    let mut config = LookupConfig::new(Vec::new());
    config.prefix_overrides.insert(b"10.1000".to_vec(), vec![site]);

    let request = LookupRequest::resolve(Handle::from(handle), &[], &[b"URL"]);
    let mut lookup = Lookup::new(Arc::new(config), request, now);
    loop {
        // A real client sends these bytes to `transmit.to`, and waits until `lookup.poll_timeout()` for a response.
        while let Some(transmit) = lookup.poll_transmit(now, &mut SystemRandom) {
            lookup.handle_datagram(now, transmit.to, &respond(&transmit.bytes, now)?);
        }
        match lookup.poll().ok_or("the lookup waits for input")? {
            LookupEvent::Finished(response) => {
                let MessageBody::Response(Response { data, .. }) = response.message()?.body else {
                    return Err("not a response".into());
                };
                return match data {
                    ResponseData::Resolved { values, .. } => {
                        let url = values.iter().next().ok_or("no URL")?;
                        Ok(String::from_utf8(url.data.into_owned())?)
                    }
                    _ => Err(response.message()?.header.response_code.to_string().into()),
                };
            }
            LookupEvent::Failed(error) => return Err(error.into()),
            _ => {}
        }
    }
}

/// The server: decodes a request and encodes the response.
fn respond(request: &[u8], now: Now) -> Result<Vec<u8>, Box<dyn Error>> {
    let endpoint = Endpoint { site_serial: 1, is_primary: true };
    let incoming = match endpoint.decode_request(request, Transport::Udp, now) {
        Ok(incoming) => incoming,
        Err(rejection) => return Ok(rejection.response().unwrap_or_default().to_vec()),
    };
    let values = [HandleValue::new(1, "URL", "https://www.doi.org/")];
    let (code, data) = match incoming.request {
        Request::Resolve { handle, .. } if handle.eq_ignore_case(Handle::from("10.1000/182")) => {
            (ResponseCode::SUCCESS, ResponseData::Resolved { handle, values: WireList::from(&values[..]) })
        }
        _ => (ResponseCode::HANDLE_NOT_FOUND, ResponseData::Error { message: None }),
    };
    Ok(incoming.respond(code, data).to_bytes()?)
}
