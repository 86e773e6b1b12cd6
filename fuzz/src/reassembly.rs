//! Reassembly and framing of arbitrary datagrams: memory stays within the budget, and messages have their announced length.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tendot_proto::{Envelope, Fragments, Framer, Now, ProtocolVersion, Reassembly};

const BUDGET_BYTES: usize = 20_000;

pub(crate) fn check(bytes: &[u8]) {
    let mut reassembly = Reassembly::with_budget(BUDGET_BYTES);
    let mut framer = Framer::new();
    let mut elapsed = Duration::ZERO;
    // Four messages that differ in every byte.
    let messages: Vec<Vec<u8>> = (0..4_u8)
        .map(|index| {
            let length = 400 + u32::from(index) * 500;
            let envelope =
                Envelope { request_id: index.into(), length, ..Envelope::new(ProtocolVersion::LATEST) };
            let mut message = envelope.to_bytes().to_vec();
            message.resize(20 + length as usize, index);
            message
        })
        .collect();
    let mut rest = bytes;
    while let Some(([action, operand, amount], after)) = rest.split_first_chunk() {
        rest = after;
        elapsed += Duration::from_millis(u64::from(*amount) * 8);
        let now = Now { elapsed, unix: 1_700_000_000 };
        let from = SocketAddr::from((Ipv4Addr::new(192, 0, 2, action >> 4), 2641));
        let datagrams: Vec<_> = Fragments::new(&messages[usize::from(operand % 4)])
            .expect("complete message")
            .map(|datagram| datagram.to_vec())
            .collect();
        let mut datagram = datagrams[usize::from(operand >> 2) % datagrams.len()].clone();
        match action % 8 {
            // One byte changed, or cut.
            0 => {
                let offset = usize::from(*amount) * 2 % datagram.len();
                datagram[offset] ^= operand;
            }
            1 => datagram.truncate(usize::from(*amount) * 2),
            // Raw bytes.
            2 => datagram = rest.iter().take(usize::from(*amount)).copied().collect(),
            _ => {}
        }
        if let Ok(Some(message)) = reassembly.insert(now, from, &datagram) {
            let envelope = Envelope::from_bytes(&message).expect("envelope decodes");
            let length = envelope.length as usize;
            if length > 492 {
                assert_eq!(message.len(), 20 + length);
            }
        }
        assert!(reassembly.used_bytes() <= BUDGET_BYTES);
        framer.push(&datagram);
        loop {
            match framer.next_message() {
                Ok(Some(message)) => {
                    let envelope = Envelope::from_bytes(message).expect("envelope decodes");
                    assert_eq!(message.len(), 20 + envelope.length as usize);
                }
                Ok(None) => break,
                Err(_) => {
                    framer = Framer::new();
                    break;
                }
            }
        }
    }
    let later = Now { elapsed: elapsed + Reassembly::TIMEOUT, unix: 1_700_000_000 };
    reassembly.purge_expired(later);
    assert_eq!((reassembly.used_bytes(), reassembly.pending_messages()), (0, 0));
}
