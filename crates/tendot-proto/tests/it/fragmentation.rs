//! Messages over UDP and TCP: fragmentation, reassembly and framing are inverse, and untrusted input is bounded.

use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;
use tendot_proto::{
    Envelope, FragmentError, Fragments, Framer, Handle, Message, MessageParts, Now, Opcode, ProtocolVersion,
    Reassembly, limits,
};
use tendot_testing::recordings::recordings;
use tendot_testing::repetitions;

fn now(milliseconds: u64) -> Now {
    Now { elapsed: Duration::from_millis(milliseconds), unix: 1_700_000_000 }
}

fn source(number: u32) -> SocketAddr {
    SocketAddr::new(std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into(), 2641)
}

fn message(request_id: u32, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    let envelope = Envelope { request_id, length, ..Envelope::new(ProtocolVersion::LATEST) };
    [&envelope.to_bytes()[..], payload].concat()
}

fn datagrams(message: &[u8]) -> Vec<Vec<u8>> {
    Fragments::new(message).unwrap().map(|datagram| datagram.to_vec()).collect()
}

proptest! {
    #[test]
    fn reassembles_fragments_in_any_order(
        payload in proptest::collection::vec(any::<u8>(), 0..6000),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let original = message(9, &payload);
        let datagrams = datagrams(&original);
        // Some in any order, with duplicates, then all.
        let mut sent: Vec<usize> = order.iter().map(|index| index.index(datagrams.len())).collect();
        sent.extend((0..datagrams.len()).rev());
        let mut reassembly = Reassembly::new();
        let mut seen = std::collections::BTreeSet::new();
        for number in sent {
            let complete = reassembly.insert(now(0), source(1), &datagrams[number]).unwrap();
            seen.insert(number);
            prop_assert_eq!(complete.is_some(), seen.len() == datagrams.len());
            if let Some(complete) = complete {
                prop_assert_eq!(&*complete, &original);
                prop_assert_eq!(matches!(complete, std::borrow::Cow::Borrowed(_)), datagrams.len() == 1);
                break;
            }
        }
        prop_assert_eq!((reassembly.used_bytes(), reassembly.pending_messages()), (0, 0));
    }

    #[test]
    fn arbitrary_datagrams_stay_within_the_budget(
        many in proptest::collection::vec(
            (0..3_u32, 0..2_u32, 0..5_u32, 480..1500_u32, prop_oneof![Just(492_usize), 0..520_usize]), 0..60),
    ) {
        let mut reassembly = Reassembly::with_budget(6000);
        for (step, (from, request_id, sequence, length, size)) in many.into_iter().enumerate() {
            let envelope = Envelope { request_id, sequence, length, ..Envelope::new(ProtocolVersion::LATEST) };
            let datagram = [&envelope.to_bytes()[..], &vec![7; size]].concat();
            let _ = reassembly.insert(now(step as u64 * 100), source(from), &datagram);
            prop_assert!(reassembly.used_bytes() <= 6000);
            prop_assert_eq!(reassembly.used_bytes() == 0, reassembly.pending_messages() == 0);
        }
        reassembly.purge_expired(now(100_000));
        prop_assert_eq!((reassembly.used_bytes(), reassembly.pending_messages()), (0, 0));
    }

    #[test]
    fn frames_any_chunking(
        payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..8),
        cuts in proptest::collection::vec(1..200_usize, 1..20),
    ) {
        let stream: Vec<u8> = payloads.iter().flat_map(|payload| message(1, payload)).collect();
        let mut framer = Framer::new();
        let (mut seen, mut rest, mut cuts) = (Vec::new(), &stream[..], cuts.into_iter().cycle());
        while !rest.is_empty() {
            let (now, after) = rest.split_at(cuts.next().unwrap().min(rest.len()));
            framer.push(now);
            rest = after;
            while let Some(message) = framer.next_message().unwrap() {
                seen.push(message[limits::ENVELOPE_LEN..].to_vec());
            }
        }
        prop_assert_eq!(seen, payloads);
        prop_assert!(!framer.has_partial_message());
    }
}

/// Handle.Net fragments its messages like this crate.
#[test]
fn recorded_fragments() {
    let mut complete_messages = 0;
    let mut reassembly = Reassembly::new();
    for recording in recordings() {
        if recording.transport != "udp" || !recording.note.contains("| fragment: ") {
            continue;
        }
        if let Some(message) = reassembly.insert(now(0), source(1), &recording.bytes).unwrap() {
            complete_messages += 1;
            Message::from_bytes(&message).unwrap();
            assert_eq!(datagrams(&message).last(), Some(&recording.bytes), "{}", recording.name);
        }
    }
    assert!(complete_messages > 0);
    assert_eq!(reassembly.pending_messages(), 0);
}

/// First fragments of many long messages, never completed: memory stays within the budget, no network exceeds its share, and an
/// honest message is still reassembled.
#[test]
fn attack_u3_incomplete_messages() {
    let mut reassembly = Reassembly::new();
    let first = &mut datagrams(&message(0, &vec![1; 200_000]))[0];
    let mut max_used = 0;
    // Enough to fill the budget, within a second.
    let count = repetitions("TENDOT_TEST_FRAGMENTS", 20_000, 100_000) as u32;
    for number in 0..count {
        first[8..12].copy_from_slice(&number.to_be_bytes());
        let elapsed = u64::from(number) * 1000 / u64::from(count);
        assert_eq!(reassembly.insert(now(elapsed), source(number * 256), first), Ok(None));
        max_used = max_used.max(reassembly.used_bytes());
    }
    assert!(max_used <= Reassembly::DEFAULT_BUDGET_BYTES, "{max_used}");
    assert!(max_used > Reassembly::DEFAULT_BUDGET_BYTES / 2, "the budget is used");

    let honest = message(7, &[2; 1000]);
    let arrived = datagrams(&honest)
        .iter()
        .filter_map(|datagram| Some(reassembly.insert(now(1000), source(5), datagram).unwrap()?.into_owned()))
        .next();
    assert_eq!(arrived.as_deref(), Some(&honest[..]));

    let mut reassembly = Reassembly::new();
    for number in 0..count / 10 {
        first[8..12].copy_from_slice(&number.to_be_bytes());
        assert_eq!(reassembly.insert(now(0), source(number % 256), first), Ok(None));
        assert!(reassembly.pending_messages() <= Reassembly::MAX_MESSAGES_PER_NETWORK);
    }
    reassembly.purge_expired(now(5_000));
    assert_eq!(reassembly.used_bytes(), 0);
}

/// The last fragment of a message of 256 KiB, alone, costs only its own size.
#[test]
fn attack_u3_last_fragment_first() {
    let mut reassembly = Reassembly::new();
    let last = datagrams(&message(0, &vec![1; limits::MAX_MESSAGE_LEN])).pop().unwrap();
    assert_eq!(reassembly.insert(now(0), source(1), &last), Ok(None));
    assert!(reassembly.used_bytes() < 2048);
}

#[test]
fn attack_u4_contradictory_fragments() {
    let fragments = datagrams(&message(1, &[3; 1000]));
    let change = |index: usize, offset: usize, byte: u8| {
        let mut changed = fragments[index].clone();
        changed[offset] = byte;
        changed
    };
    let mut beyond = fragments[2].clone();
    beyond[12..16].copy_from_slice(&3_u32.to_be_bytes());
    let mut far_beyond = fragments[2].clone();
    far_beyond[12..16].copy_from_slice(&u32::MAX.to_be_bytes());
    check_rejected_fragment(&fragments, &beyond, FragmentError::InvalidSequence { sequence: 3, count: 3 });
    check_rejected_fragment(
        &fragments,
        &far_beyond,
        FragmentError::InvalidSequence { sequence: u32::MAX, count: 3 },
    );
    check_rejected_fragment(
        &fragments,
        &fragments[1][..511],
        FragmentError::WrongSize { sequence: 1, expected: 492, actual: 491 },
    );
    let padded = [&fragments[2][..], b"more"].concat();
    check_rejected_fragment(
        &fragments,
        &padded,
        FragmentError::WrongSize { sequence: 2, expected: 16, actual: 20 },
    );
    // Another version (N11), suggested version or session, or other bytes at the same offset.
    for other in [change(1, 1, 3), change(1, 3, 3), change(1, 7, 9), change(0, 511, 9)] {
        // A contradiction starts a new message; the first one is dropped, and the two are not mixed.
        let mut reassembly = Reassembly::new();
        assert_eq!(reassembly.insert(now(0), source(1), &fragments[0]), Ok(None));
        let used = reassembly.used_bytes();
        assert_eq!(reassembly.insert(now(0), source(1), &other), Ok(None));
        assert_eq!((reassembly.used_bytes(), reassembly.pending_messages()), (used, 1));
    }
}

/// A fragment is lost, and the response is sent again with another expiration in its first fragment.
#[test]
fn retransmitted_response_is_reassembled() {
    let (first, retransmitted) =
        (datagrams(&message(1, &[3; 1000])), message(1, &[&[4; 492][..], &[3; 508]].concat()));
    let mut reassembly = Reassembly::new();
    for datagram in [&first[0], &first[2]] {
        assert_eq!(reassembly.insert(now(0), source(1), datagram), Ok(None));
    }
    let arrived: Vec<_> = datagrams(&retransmitted)
        .iter()
        .filter_map(|datagram| Some(reassembly.insert(now(0), source(1), datagram).unwrap()?.into_owned()))
        .collect();
    assert_eq!(arrived, [retransmitted]);
}

/// An invalid fragment after the first drops the message, and the other fragments do not complete it.
#[track_caller]
fn check_rejected_fragment(fragments: &[Vec<u8>], bad: &[u8], error: FragmentError) {
    let mut reassembly = Reassembly::new();
    assert_eq!(reassembly.insert(now(0), source(1), &fragments[0]), Ok(None));
    assert_eq!(reassembly.insert(now(0), source(1), bad), Err(error));
    assert_eq!((reassembly.used_bytes(), reassembly.pending_messages()), (0, 0));
    assert_eq!(reassembly.insert(now(0), source(1), &fragments[1]), Ok(None));
    assert_eq!(reassembly.insert(now(0), source(1), &fragments[2]), Ok(None));
}

#[test]
fn attack_u4_duplicates_and_other_lengths() {
    let original = message(1, &[3; 1000]);
    let fragments = datagrams(&original);
    let mut reassembly = Reassembly::new();
    assert_eq!(reassembly.insert(now(0), source(1), &fragments[0]), Ok(None));
    let used = reassembly.used_bytes();
    for _ in 0..100 {
        assert_eq!(reassembly.insert(now(0), source(1), &fragments[0]), Ok(None));
    }
    assert_eq!(reassembly.used_bytes(), used, "not counted twice");
    // A fragment with another message length belongs to another message.
    assert_eq!(reassembly.insert(now(0), source(1), &datagrams(&message(1, &[4; 984]))[1]), Ok(None));
    assert_eq!(reassembly.insert(now(0), source(1), &fragments[1]), Ok(None));
    assert_eq!(reassembly.insert(now(0), source(1), &fragments[2]).unwrap().as_deref(), Some(&original[..]));
}

#[test]
fn attack_u5_two_sources_one_request_id() {
    let (first, second) = (message(1, &[1; 600]), message(1, &[2; 600]));
    let (first_fragments, second_fragments) = (datagrams(&first), datagrams(&second));
    let other_port = SocketAddr::new(source(1).ip(), 2642);
    let mut reassembly = Reassembly::new();
    assert_eq!(reassembly.insert(now(0), source(1), &first_fragments[0]), Ok(None));
    assert_eq!(reassembly.insert(now(0), source(2), &second_fragments[1]), Ok(None));
    assert_eq!(reassembly.insert(now(0), other_port, &second_fragments[1]), Ok(None));
    assert_eq!(
        reassembly.insert(now(0), source(2), &second_fragments[0]).unwrap().as_deref(),
        Some(&second[..])
    );
    assert_eq!(
        reassembly.insert(now(0), source(1), &first_fragments[1]).unwrap().as_deref(),
        Some(&first[..])
    );
    assert_eq!(reassembly.pending_messages(), 1);
}

/// TCP: an error with everything that an error response needs. UDP: dropped.
#[test]
fn attack_n1_oversized_length() {
    for length in [limits::MAX_MESSAGE_LEN as u32 + 1, 1 << 31, u32::MAX] {
        let request = Message::resolution(Handle::from("10.1000/1"), 77, now(0));
        let mut bytes = request.to_bytes().unwrap();
        bytes[16..20].copy_from_slice(&length.to_be_bytes());
        let mut framer = Framer::new();
        framer.push(&bytes);
        let error = framer.next_message().unwrap_err();
        assert_eq!((error.envelope.request_id, error.envelope.length), (77, length));
        assert_eq!(error.header.unwrap().opcode, Opcode::RESOLUTION);

        let mut reassembly = Reassembly::new();
        assert!(matches!(reassembly.insert(now(0), source(1), &bytes), Err(FragmentError::Envelope(_))));
        assert_eq!(reassembly.used_bytes(), 0);
    }
}

/// TCP: the remaining bytes are the next message. UDP: an error of the message.
#[test]
fn attack_n3_length_shorter_than_data() {
    let first = Message::resolution(Handle::from("10.1000/1"), 1, now(0)).to_bytes().unwrap();
    let second = Message::resolution(Handle::from("10.1000/2"), 2, now(0)).to_bytes().unwrap();
    let both = [first.clone(), second.clone()].concat();
    let mut framer = Framer::new();
    framer.push(&both);
    assert_eq!(framer.next_message().unwrap(), Some(&first[..]));
    assert_eq!(framer.next_message().unwrap(), Some(&second[..]));

    let mut reassembly = Reassembly::new();
    let passed = reassembly.insert(now(0), source(1), &both).unwrap().unwrap();
    let error = MessageParts::split(&passed).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("message at byte {}: {} trailing bytes", first.len(), second.len())
    );
}
