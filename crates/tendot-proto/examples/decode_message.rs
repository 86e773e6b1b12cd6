//! Decodes a message in hexadecimal, for example from a packet capture, and describes it.
//!
//! ```console
//! $ cargo run -p tendot-proto --example encode_request -- 10.1000/182 \
//!     | xargs cargo run -p tendot-proto --example decode_message --
//! OC_RESOLUTION request 7, version 2.11: 10.1000/182
//! ```

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;

use data_encoding::HEXLOWER_PERMISSIVE;
use tendot_proto::{Message, MessageBody, Response, ResponseData};

fn main() -> Result<(), Box<dyn Error>> {
    for hex in std::env::args().skip(1) {
        println!("{}", describe(&HEXLOWER_PERMISSIVE.decode(hex.as_bytes())?)?);
    }
    Ok(())
}

/// Description of a complete message. Errors name the field and its offset.
pub(crate) fn describe(bytes: &[u8]) -> Result<String, Box<dyn Error>> {
    // Decoding borrows from `bytes` and does not allocate.
    let message = Message::from_bytes(bytes)?;
    let (id, version) = (message.envelope.request_id, message.envelope.version);
    Ok(match message.body {
        MessageBody::Request(request) => {
            let handle = request.handle().map_or("no handle".into(), |handle| handle.to_string());
            format!("{} request {id}, version {version}: {handle}", message.header.opcode)
        }
        MessageBody::Response(Response { data: ResponseData::Resolved { handle, values }, .. }) => {
            let mut text = format!("response {id}, version {version}: {handle}, {} values", values.len());
            for value in values {
                text += &format!("\n{:>5} {} {}", value.index, value.type_name(), value.data.escape_ascii());
            }
            text
        }
        MessageBody::Response(_) => {
            format!("response {id}, version {version}: {}", message.header.response_code)
        }
    })
}
