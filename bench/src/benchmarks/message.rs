//! Message codec: decoding a resolution request and encoding a response of two values, against one SHA-256 over the same bytes.
//! Prints nanoseconds.

use std::error::Error;
use std::hint::black_box;

use crate::measure::{median, seconds};
use aws_lc_rs::digest::{SHA256, digest};
use tendot_proto::wire::WireList;
use tendot_proto::{
    CredentialSection, Handle, HandleValue, Message, MessageBody, Now, OpFlags, Request, Response,
    ResponseCode, ResponseData,
};

const ITERATIONS: u32 = 200_000;

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let now = Now { elapsed: std::time::Duration::ZERO, unix: 1_794_808_993 };
    let mut administrator = b"\x0f\xff\0\0\0\x0c0.NA/10.5555".to_vec();
    administrator.extend(300_u32.to_be_bytes());
    let values = [
        HandleValue { timestamp: 1_704_164_645, ..HandleValue::new(1, "URL", "https://example.org/one") },
        HandleValue { timestamp: 1_704_164_645, ..HandleValue::with_data(100, "HS_ADMIN", administrator) },
    ];
    let request = Message::resolution(Handle::from("10.5555/ONE"), 7, now).to_bytes()?;
    let mut response = Vec::with_capacity(4096);
    answer(&request, &values, now, &mut response)?;
    let both = [&*request, &*response].concat();

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..15 {
        let (time, ()) = seconds(|| {
            for _ in 0..ITERATIONS {
                response.clear();
                answer(black_box(&request), black_box(&values), now, &mut response).expect("it did before");
                black_box(&response);
            }
        });
        ours.push(time);
        let (time, ()) = seconds(|| {
            for _ in 0..ITERATIONS {
                black_box(digest(&SHA256, black_box(&both)));
            }
        });
        theirs.push(time);
    }
    let nanoseconds = |times: Vec<f64>| median(times) / f64::from(ITERATIONS) * 1e9;
    println!("sha256 {:.0} {}", nanoseconds(theirs), both.len());
    println!("tendot {:.0} {}", nanoseconds(ours), both.len());
    Ok(())
}

fn answer(
    request: &[u8],
    values: &[HandleValue<'_>],
    now: Now,
    out: &mut Vec<u8>,
) -> Result<(), Box<dyn Error>> {
    let request = Message::from_bytes(request)?;
    let MessageBody::Request(Request::Resolve { handle, .. }) = request.body else {
        return Err("not a resolution".into());
    };
    let mut header = request.header.for_response(ResponseCode::SUCCESS, 1, now);
    header.flags |= OpFlags::AUTHORITATIVE;
    let mut envelope = request.envelope;
    envelope.version = request.envelope.response_version();
    let response = Message {
        envelope,
        header,
        body: MessageBody::Response(Response::new(ResponseData::Resolved {
            handle,
            values: WireList::from(values),
        })),
        trailing_body: &[],
        credential_section: CredentialSection::Empty,
    };
    Ok(response.encode(out)?)
}
