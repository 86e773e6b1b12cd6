//! Encodes a resolution request and prints the datagrams that carry it.
//!
//! ```console
//! $ cargo run -p tendot-proto --example encode_request -- 10.1000/182 URL
//! 020b020b000000000000000700000000000000370000000100000000190000…
//! ```

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use tendot_proto::wire::WireList;
use tendot_proto::{Fragments, Handle, Message, Now, Opcode, Request};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (handle, types) = arguments.split_first().ok_or("usage: encode_request HANDLE [TYPE ...]")?;
    let types: Vec<&[u8]> = types.iter().map(|value_type| value_type.as_bytes()).collect();
    // The crate reads no clock: the current time is an argument.
    let unix = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    for datagram in encode(handle, &types, Now { elapsed: Duration::ZERO, unix })? {
        println!("{}", HEXLOWER.encode(&datagram));
    }
    Ok(())
}

/// Datagrams of a request for the values of these types; for all values without a type.
pub(crate) fn encode(handle: &str, types: &[&[u8]], now: Now) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let handle = Handle::from(handle);
    handle.validate_for_create()?;
    let request = Request::Resolve { handle, indexes: WireList::EMPTY, types: WireList::from(types) };
    // A client chooses an unpredictable id: see `tendot_proto::crypto::random_id`.
    let message = Message::request(Opcode::RESOLUTION, request, 7, now).to_bytes()?;
    Ok(Fragments::new(&message)?.map(|datagram| datagram.to_vec()).collect())
}
