//! Answers that are kept are those that would be given without them.

mod native;

use native::*;
use tendot_proto::endpoint::Transport;
use tendot_proto::wire::List;
use tendot_proto::{Body, Message, OpFlags, Request, Version};
use tendot_store::{Edit, Expect};

/// A question of its own: with this number, and an end that nobody else has.
fn bytes(question: &Message<'_>, number: u32) -> Vec<u8> {
    let mut question = *question;
    question.envelope.request_id = number;
    question.header.expiration += number;
    question.to_bytes().unwrap()
}

/// What an answer says, whoever asked.
fn told(answer: &[u8]) -> (Vec<u8>, u32, bool) {
    let message = Message::from_bytes(answer).unwrap();
    let ends_later = u64::from(message.header.expiration) > now().unix;
    let mut same = answer.to_vec();
    same[8..12].fill(0);
    same[36..40].fill(0);
    (same, message.envelope.request_id, ends_later)
}

#[test]
fn a_second_answer_is_as_the_first() {
    let service = start(Setting::default());
    let mut number = 0;
    let mut check = |question: &Message<'_>| {
        for transport in [Transport::Udp, Transport::Tcp, Transport::Http] {
            let answers = [1, 2].map(|_| {
                number += 1;
                let answer = service.ask(transport, &bytes(question, number)).remove(0);
                let (told, answered, ends_later) = told(&answer);
                assert_eq!((answered, ends_later), (number, true), "{question:?}");
                told
            });
            assert_eq!(answers[0], answers[1], "{question:?}");
        }
    };
    for name in ["10.5555/1", "10.5555/MULTI", "10.5555/multi", "10.5555/NONE", "10.9999/1", "0.NA/10.5555"] {
        check(&resolution(name));
        let Body::Request(Request::Resolve { handle, .. }) = resolution(name).body else { unreachable!() };
        for (indexes, types) in [(&[1][..], &[][..]), (&[], &[&b"URL"[..]]), (&[100], &[&b"EMAIL"[..]])] {
            let mut some = resolution(name);
            some.body = Body::Request(Request::Resolve {
                handle,
                indexes: List::from(indexes),
                types: List::from(types),
            });
            check(&some);
        }
        for flags in [OpFlags::AUTHORITATIVE, OpFlags::KEEP_CONNECTION, OpFlags::RECURSIVE] {
            let mut other = resolution(name);
            other.header.flags = other.header.flags.with(flags);
            check(&other);
        }
        let mut old = resolution(name);
        old.envelope.suggestion = Version::new(2, 1);
        check(&old);
    }
}

/// Each asker's own digest is in the answer.
#[test]
fn digests_are_of_what_was_asked() {
    let service = start(Setting::default());
    let mut question = resolution("10.5555/MULTI");
    question.header.flags = question.header.flags.with(OpFlags::REQUEST_DIGEST);
    let answers = [1, 2, 3].map(|number| told(&service.ask_udp(&bytes(&question, number), SHORT).unwrap()).0);
    assert!(answers[0] != answers[1] && answers[1] != answers[2], "{answers:?}");
}

#[test]
fn a_change_is_seen_at_once() {
    let service = start(Setting::default());
    let ask = |name: &str| {
        let answer = service.ask(Transport::Udp, &resolution(name).to_bytes().unwrap()).remove(0);
        String::from_utf8_lossy(&answer).into_owned()
    };
    const PLACES: [&str; 3] = ["https://example.org/a", "https://example.org/b", "https://example.org/c"];
    for place in PLACES.into_iter().cycle().take(30) {
        service.put("10.5555/CHANGED", vec![url(1, place)]);
        for name in ["10.5555/CHANGED", "10.5555/changed", "10.5555/CHANGED"] {
            assert!(ask(name).contains(place), "{place}");
        }
    }
    let code = |name| service.code(Transport::Udp, &resolution(name));
    service.commit(Edit::Unhome { prefix: "10.5555".into() });
    assert_eq!(code("10.5555/CHANGED"), 301);
    service.commit(Edit::Home { prefix: "10.5555".into() });
    assert_eq!(code("10.5555/CHANGED"), 1);
    service.commit(Edit::Remove { name: "10.5555/CHANGED".into(), expect: Expect::Any });
    assert_eq!(code("10.5555/CHANGED"), 100);
}

/// What is made of another record is made anew.
#[test]
fn templates_are_not_kept() {
    let service = start(Setting::default());
    let namespace = r#"<namespace><template delimiter="@"><foreach><if value="type" test="equals" expression="URL"><value data="${data}/${extension}"/></if></foreach></template></namespace>"#;
    let mut values = service.values("0.NA/10.5556").unwrap();
    values.push(tendot_proto::Value::new(9, "HS_NAMESPACE", namespace));
    service.put("0.NA/10.5556", values);
    for place in ["https://example.org/a", "https://example.org/b"] {
        service.put("10.5556/BASE", vec![url(1, place)]);
        for _ in 0..2 {
            let answer =
                service.ask(Transport::Udp, &resolution("10.5556/BASE@p7").to_bytes().unwrap()).remove(0);
            assert!(String::from_utf8_lossy(&answer).contains(place), "{}", words(&answer));
        }
    }
}
