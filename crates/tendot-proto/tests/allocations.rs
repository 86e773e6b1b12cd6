//! Own program, because it replaces the global allocator. Messages are decoded and encoded without allocating.

use std::hint::black_box;

use tendot_proto::{Message, MessageBody, Request, Response, ResponseData};
use tendot_testing::recordings::{encoding, recordings};
use tendot_testing::{CountingAllocator, count_allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn allocations(operation: impl FnOnce()) -> usize {
    count_allocations(operation).count
}

#[test]
fn decodes_and_encodes_messages_without_allocating() {
    let mut out = Vec::with_capacity(4096);
    let mut seen = 0;
    for recording in recordings() {
        let Ok(message) = Message::from_bytes(&recording.bytes) else { continue };
        seen += 1;
        assert_eq!(
            allocations(|| _ = black_box(Message::from_bytes(&recording.bytes))),
            0,
            "{}",
            recording.name
        );
        assert_eq!(allocations(|| message.encode(&mut out).unwrap()), 0, "{}", recording.name);
        assert_eq!(out, recording.bytes);
        out.clear();
    }
    assert!(seen > 200, "{seen}");
}

#[test]
fn iterates_lists_without_allocating() {
    let bytes = encoding("req_res_sel");
    let MessageBody::Request(Request::Resolve { indexes, types, .. }) =
        Message::from_bytes(&bytes).unwrap().body
    else {
        panic!()
    };
    let mut counted = 0;
    assert_eq!(allocations(|| counted = indexes.iter().count() + types.iter().count()), 0);
    assert_eq!(counted, 4);
    let bytes = encoding("resp_res");
    let MessageBody::Response(Response { data: ResponseData::Resolved { values, .. }, .. }) =
        Message::from_bytes(&bytes).unwrap().body
    else {
        panic!()
    };
    assert_eq!(allocations(|| counted = values.iter().map(|value| value.data.len()).sum()), 0);
    assert_eq!(counted, 20);
}

#[test]
fn allocator_counts() {
    assert!(allocations(|| drop(black_box(vec![1]))) > 0);
}
