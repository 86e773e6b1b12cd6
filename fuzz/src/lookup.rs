//! Lookup state machine against arbitrary responses: terminates within its limits.

use std::sync::Arc;
use std::time::Duration;

use tendot_proto::lookup::{ConnectionError, Lookup, LookupConfig, LookupEvent, LookupRequest};
use tendot_proto::record::{InterfaceKind, InterfaceProtocol, ServerInterface, Site, SiteServer};
use tendot_proto::{Envelope, Handle, Now};

use crate::seeded_random::SeededRandom;

fn site(last: u8) -> Arc<Site<'static>> {
    let interface = |protocol| ServerInterface { kind: InterfaceKind::BOTH, protocol, port: 2641 };
    let interfaces = vec![
        interface(InterfaceProtocol::UDP),
        interface(InterfaceProtocol::TCP),
        interface(InterfaceProtocol::HTTP),
    ];
    let address = SiteServer::encode_address([192, 0, 2, last].into());
    Arc::new(Site {
        servers: vec![SiteServer { address, interfaces, ..SiteServer::default() }],
        ..Site::default()
    })
}

pub(crate) fn check(bytes: &[u8]) {
    let config = Arc::new(LookupConfig::new(vec![site(1), site(2)]));
    let mut now = Now { elapsed: Duration::ZERO, unix: 1_700_000_000 };
    let lookup_request = LookupRequest::resolve(Handle::from("10.1000/1"), &[], &[]);
    let mut lookup = Lookup::new(config, lookup_request, now);
    let mut random = SeededRandom(1);
    let (mut rest, mut sent, mut is_finished) = (bytes, Vec::new(), false);
    for _ in 0..2_000 {
        while let Some(transmit) = lookup.poll_transmit(now, &mut random) {
            assert!(!is_finished, "no message after the end");
            sent.push(transmit);
        }
        while let Some(event) = lookup.poll() {
            match event {
                LookupEvent::Finished(_) | LookupEvent::Failed(_) => is_finished = true,
                LookupEvent::ResolveDomain { domain } => {
                    lookup.handle_addresses(&domain, &[[192, 0, 2, 3].into()])
                }
                _ => {}
            }
        }
        if is_finished {
            break;
        }
        let Some(([action, operand, length], after)) = rest.split_first_chunk() else {
            now.elapsed = lookup.poll_timeout().expect("a timeout is pending").max(now.elapsed);
            lookup.handle_timeout(now);
            continue;
        };
        let (payload, after) = after.split_at((usize::from(*length) * 2).min(after.len()));
        rest = after;
        let Some(to) = sent.get(usize::from(*operand) % sent.len().max(1)) else { continue };
        // A response with the correct request id, or raw bytes.
        let mut response = payload.to_vec();
        if action & 1 == 0
            && let (Ok(request_envelope), Some(start)) =
                (Envelope::from_bytes(&to.bytes), response.first_chunk_mut::<20>())
        {
            let length = (payload.len() - 20) as u32;
            *start = Envelope { length, sequence: 0, ..request_envelope }.to_bytes();
        }
        now.elapsed += Duration::from_millis(u64::from(action >> 4) * 20);
        match action >> 1 & 3 {
            0 | 1 if to.transport == InterfaceProtocol::UDP => lookup.handle_datagram(now, to.to, &response),
            3 => lookup.handle_failure(now, to.attempt, ConnectionError::Unreachable),
            _ => lookup.handle_stream(now, to.attempt, &response),
        }
    }
    assert!(is_finished, "the lookup terminates");
    assert!(sent.len() <= 64);
}
