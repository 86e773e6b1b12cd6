//! The asking side against servers that say anything: it ends within its bounds, whatever comes.

#![no_main]

use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tendot_proto::crypto::Random;
use tendot_proto::lookup::{Config, ConnectionError, Event, Lookup, Question};
use tendot_proto::record::{Interface, InterfaceKind, Server, Site, Transport};
use tendot_proto::{Envelope, Handle, Now};

struct Counter(u8);

impl Random for Counter {
    fn fill(&mut self, out: &mut [u8]) {
        for byte in out {
            self.0 = self.0.wrapping_mul(5).wrapping_add(1);
            *byte = self.0;
        }
    }
}

fn site(last: u8) -> Arc<Site<'static>> {
    let interface = |transport| Interface { kind: InterfaceKind::BOTH, transport, port: 2641 };
    let interfaces = vec![interface(Transport::UDP), interface(Transport::TCP), interface(Transport::HTTP)];
    let address = Server::address_of([192, 0, 2, last].into());
    Arc::new(Site { servers: vec![Server { address, interfaces, ..Server::default() }], ..Site::default() })
}

fuzz_target!(|bytes: &[u8]| {
    let config = Arc::new(Config::new(vec![site(1), site(2)]));
    let mut now = Now { elapsed: Duration::ZERO, unix: 1_700_000_000 };
    let question = Question::resolve(Handle::from("10.1000/1"), &[], &[]);
    let mut lookup = Lookup::new(config, question, now);
    let mut random = Counter(1);
    let (mut rest, mut sent, mut over) = (bytes, Vec::new(), false);
    for _ in 0..2_000 {
        while let Some(transmit) = lookup.poll_transmit(now, &mut random) {
            assert!(!over, "nothing is sent after the end");
            sent.push(transmit);
        }
        while let Some(event) = lookup.poll() {
            match event {
                Event::Finished(_) | Event::Failed(_) => over = true,
                Event::Resolve { domain } => lookup.handle_addresses(&domain, &[[192, 0, 2, 3].into()]),
                _ => {}
            }
        }
        if over {
            break;
        }
        let Some(([what, which, length], after)) = rest.split_first_chunk() else {
            now.elapsed = lookup.poll_timeout().expect("it waits for something").max(now.elapsed);
            lookup.handle_timeout(now);
            continue;
        };
        let (said, after) = after.split_at((usize::from(*length) * 2).min(after.len()));
        rest = after;
        let Some(to) = sent.get(usize::from(*which) % sent.len().max(1)) else { continue };
        // An answer with the right number, or bytes as they are.
        let mut answer = said.to_vec();
        if what & 1 == 0
            && let (Ok(asked), Some(start)) =
                (Envelope::from_bytes(&to.bytes), answer.first_chunk_mut::<20>())
        {
            let length = (said.len() - 20) as u32;
            *start = Envelope { length, sequence: 0, ..asked }.to_bytes();
        }
        now.elapsed += Duration::from_millis(u64::from(what >> 4) * 20);
        match what >> 1 & 3 {
            0 | 1 if to.transport == Transport::UDP => lookup.handle_datagram(now, to.to, &answer),
            3 => lookup.handle_failure(now, to.attempt, ConnectionError::Unreachable),
            _ => lookup.handle_stream(now, to.attempt, &answer),
        }
    }
    assert!(over, "it ends");
    assert!(sent.len() <= 64);
});
