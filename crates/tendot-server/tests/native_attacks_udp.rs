//! Rows U of the list of attacks: datagrams whose sender nobody has proved.

mod native;

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use native::*;
use tendot_proto::endpoint::Transport;
use tendot_proto::wire::List;
use tendot_proto::{Fragments, Handle, Message, OpFlags, Opcode, Request, Value};
use tendot_server::http::Rate;
use tendot_server::native::Rates;

/// Ten datagrams a second and address; this machine is held back, too.
fn strict() -> Setting {
    let rates = Rates {
        datagrams: Rate { per_second: 10, burst: 20 },
        work: Duration::from_millis(20),
        loopback: true,
        spared: Vec::new(),
    };
    Setting { rates: Some(rates), ..Setting::default() }
}

/// What comes within a moment: datagrams and bytes.
fn drain(socket: &UdpSocket) -> (usize, usize) {
    socket.set_read_timeout(Some(SHORT)).unwrap();
    let (mut count, mut bytes, mut room) = (0, 0, [0; 1024]);
    while let Ok(length) = socket.recv(&mut room) {
        count += 1;
        bytes += length;
    }
    (count, bytes)
}

#[test]
fn attack_u1_large_answers_to_many_questions() {
    let service = start(strict());
    let large = (1..=50).map(|index| Value::new(index, "DESC", "x".repeat(1_000))).collect();
    service.put("10.5555/LARGE", large);
    let question = resolution("10.5555/LARGE").to_bytes().unwrap();
    let socket = service.udp();
    // Whoever has rested has one answer, however long it is.
    socket.send(&question).unwrap();
    let (count, bytes) = drain(&socket);
    assert!(count > 100 && bytes > 50_000, "{count} {bytes}");
    for _ in 0..500 {
        socket.send(&question).unwrap();
    }
    assert_eq!(drain(&socket), (0, 0));
    // Answers that are no larger than three times the question go on.
    let question = resolution("10.5555/NONE").to_bytes().unwrap();
    for _ in 0..100 {
        socket.send(&question).unwrap();
        assert!(
            receive(&socket, Duration::from_secs(5)).is_some_and(|answer| answer.len() <= 3 * question.len())
        );
    }
    assert!(service.metric("tendot_native_dropped_total{reason=\"rate\"}") >= 500);
    // Connections prove where they come from.
    assert_eq!(service.code(Transport::Tcp, &resolution("10.5555/LARGE")), 1);
}

#[test]
fn attack_u1_amplification_over_ten_seconds() {
    let service = start(strict());
    let question = resolution("10.5555/MULTI").to_bytes().unwrap();
    let socket = service.udp();
    let (mut asked, mut answered, begun) = (0, 0, Instant::now());
    socket.set_nonblocking(true).unwrap();
    let mut room = [0; 1024];
    // As 2,000 questions a second would be; what was saved up is used up soon.
    while begun.elapsed() < Duration::from_secs(3) {
        for _ in 0..2 {
            asked += socket.send(&question).unwrap();
        }
        while let Ok(length) = socket.recv(&mut room) {
            answered += length;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(asked > 100_000 && answered > 1_000, "{asked} {answered}");
    assert!(answered < 3 * asked, "{answered} bytes for {asked}");
}

#[test]
fn attack_u3_first_fragments() {
    let service = start(Setting::default());
    let types: Vec<&[u8]> = vec![b"0123456789"; 10_000];
    let request = Request::Resolve {
        handle: Handle::from("10.5555/ONE"),
        indexes: List::EMPTY,
        types: List::from(&types[..]),
    };
    let mut long = Message::request(Opcode::RESOLUTION, request, 7, now()).to_bytes().unwrap();
    let socket = service.udp();
    for number in 0..100_000_u32 {
        long[8..12].copy_from_slice(&number.to_be_bytes());
        let first = Fragments::new(&long).unwrap().next().unwrap();
        let _ = socket.send(&first);
    }
    // As clients do, again and again: the system may have had no room.
    let ask = |request: &Message<'_>| {
        let request = request.to_bytes().unwrap();
        (0..20)
            .find_map(|_| service.ask_udp(&request, Duration::from_millis(500)))
            .map(|answer| code(&answer))
    };
    assert_eq!(ask(&resolution("10.5555/ONE")), Some(1));
    // Others are still put together.
    let request = Request::Resolve {
        handle: Handle::from("10.5555/ONE"),
        indexes: List::EMPTY,
        types: List::from(&types[..90]),
    };
    assert_eq!(ask(&Message::request(Opcode::RESOLUTION, request, 7, now())), Some(200));
}

#[test]
fn attack_u4_u5_fragments_that_do_not_fit() {
    let service = start(Setting::default());
    let types: Vec<&[u8]> = vec![b"URL"; 200];
    let request = Request::Resolve {
        handle: Handle::from("10.5555/ONE"),
        indexes: List::EMPTY,
        types: List::from(&types[..]),
    };
    let message = Message::request(Opcode::RESOLUTION, request, 7, now()).to_bytes().unwrap();
    let datagrams: Vec<Vec<u8>> =
        Fragments::new(&message).unwrap().map(|datagram| datagram.to_vec()).collect();
    let [one, two, three] = &datagrams[..] else { panic!("{}", datagrams.len()) };
    let changed = |datagram: &[u8], at: usize, bytes: &[u8]| {
        let mut datagram = datagram.to_vec();
        datagram[at..at + bytes.len()].copy_from_slice(bytes);
        datagram
    };
    let send = |datagrams: &[&[u8]]| {
        let socket = service.udp();
        datagrams.iter().for_each(|datagram| assert!(socket.send(datagram).is_ok()));
        receive(&socket, SHORT).map(|answer| code(&answer))
    };
    assert_eq!(send(&[three, one, two]), Some(1));
    assert_eq!(send(&[one, one, two, two, three]), Some(1));
    assert_eq!(send(&[one, two]), None);
    let beyond = changed(three, 12, &3_u32.to_be_bytes());
    assert_eq!(send(&[one, two, &beyond, three]), None);
    let far = changed(three, 12, &u32::MAX.to_be_bytes());
    assert_eq!(send(&[one, two, &far]), None);
    let longer = changed(two, 16, &5_000_u32.to_be_bytes());
    assert_eq!(send(&[one, &longer, three]), None);
    assert_eq!(send(&[&one[..400], two, three]), None);
    assert_eq!(send(&[one, &changed(two, 0, &[2, 10]), three]), None, "another version");
    // From two sources under the same number.
    let (first, second) = (service.udp(), service.udp());
    first.send(one).unwrap();
    second.send(two).unwrap();
    first.send(three).unwrap();
    assert_eq!((receive(&first, SHORT), receive(&second, SHORT)), (None, None));
    first.send(two).unwrap();
    assert_eq!(receive(&first, SHORT).map(|answer| code(&answer)), Some(1));
    assert!(service.metric("tendot_native_dropped_total{reason=\"malformed\"}") >= 3);
}

#[test]
fn attack_u6_answers_are_not_answered() {
    let service = start(Setting::default());
    let question = resolution("10.5555/ONE").to_bytes().unwrap();
    let answer = service.ask_udp(&question, SHORT).unwrap();
    assert_eq!(service.ask_udp(&answer, SHORT), None);
    // From the port of another server, where answers would be answered.
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let other = UdpSocket::bind((Ipv4Addr::new(127, high, low, 77), 2641)).unwrap();
    other.connect(service.native).unwrap();
    other.send(&question).unwrap();
    assert_eq!(receive(&other, SHORT), None);
    assert_eq!(service.metric("tendot_native_dropped_total{reason=\"port\"}"), 1);
    assert_eq!(service.metric("tendot_native_dropped_total{reason=\"not-answered\"}"), 1);
}

#[test]
fn attack_u7_administration_over_udp() {
    let service = start(Setting::default());
    let before = service.changes();
    let values = [url(1, "https://example.org/")];
    let named = Request::Named { handle: Handle::from("10.5555/ONE") };
    let written = Request::Values { handle: Handle::from("10.5555/U7"), values: List::from(&values[..]) };
    for (opcode, request) in [
        (Opcode::CREATE_HANDLE, written),
        (Opcode::ADD_VALUE, written),
        (Opcode::MODIFY_VALUE, written),
        (Opcode::DELETE_HANDLE, named),
        (Opcode::LIST_HANDLES, named),
        (Opcode::HOME_PREFIX, Request::Named { handle: Handle::from("0.NA/10.5560") }),
        (Opcode::UNHOME_PREFIX, Request::Named { handle: Handle::from("0.NA/10.5555") }),
        (Opcode::LIST_HOMED_PREFIXES, Request::Plain { handle: None }),
    ] {
        let question = Message::request(opcode, request, 7, now()).to_bytes().unwrap();
        let answer = service.ask_udp(&question, SHORT).unwrap();
        assert_eq!((code(&answer), &*words(&answer)), (4, "administration is not taken over UDP"));
        assert!(answer.len() <= 3 * question.len());
    }
    // A challenge is small.
    let mut question = resolution("10.5555/SECRET");
    question.header.flags = question.header.flags.without(OpFlags::PUBLIC_ONLY);
    let question = question.to_bytes().unwrap();
    let answer = service.ask_udp(&question, SHORT).unwrap();
    assert_eq!(code(&answer), 402);
    assert!(answer.len() <= 3 * question.len());
    assert_eq!(service.changes(), before);
}

#[test]
fn attack_u8_a_flood_of_challenges() {
    let service = start(Setting::default());
    let named = Request::Named { handle: Handle::from("10.5555/ONE") };
    let request = Message::request(Opcode::DELETE_HANDLE, named, 7, now()).to_bytes().unwrap();
    let challenge = service.ask(Transport::Tcp, &request).remove(0);
    let socket = service.udp();
    for number in 0..12_000_u32 {
        let mut question = resolution("10.5555/SECRET");
        question.header.flags = question.header.flags.without(OpFlags::PUBLIC_ONLY);
        question.envelope.request_id = number;
        let _ = socket.send(&question.to_bytes().unwrap());
        // Not faster than they can be made.
        if number % 64 == 63 {
            (0..64).all(|_| receive(&socket, SHORT).is_some());
        }
    }
    let made =
        service.metric("tendot_native_requests_total{transport=\"udp\",operation=\"resolve\",code=\"402\"}");
    assert!(made > 10_000, "more than there is room for: {made}");
    // The challenge of somebody who has proved an address is still there.
    let key = private_key("admpriv.bin").signing_key(&tendot_proto::crypto::AwsLc).unwrap();
    let credentials = tendot_proto::auth::Credentials::PrivateKey(&*key);
    let answer = answer_to(&request, &challenge, "300:0.NA/10.5555", credentials, 8);
    assert_eq!(service.code_of(Transport::Tcp, &answer), 1);
}

/// Nobody can have all places, also not over connections.
#[test]
fn attack_u8_challenges_of_one_client() {
    let service = start(strict());
    let named = Request::Named { handle: Handle::from("10.5555/ONE") };
    let request = Message::request(Opcode::DELETE_HANDLE, named, 7, now()).to_bytes().unwrap();
    let codes: Vec<u32> = (0..200).map(|_| service.code_of(Transport::Tcp, &request)).collect();
    let challenges = codes.iter().filter(|code| **code == 402).count();
    assert!((20..150).contains(&challenges), "{challenges}");
    assert!(codes.iter().all(|code| matches!(code, 402 | 3)) && codes.ends_with(&[3]), "{codes:?}");
}

#[test]
fn attack_u9_signatures() {
    let service = start(strict());
    let mut question = resolution("10.5555/ONE");
    question.header.flags = question.header.flags.with(OpFlags::CERTIFY);
    let question = question.to_bytes().unwrap();
    let socket = service.udp();
    for _ in 0..2_000 {
        let _ = socket.send(&question);
    }
    let _ = drain(&socket);
    let name = "tendot_native_requests_total{transport=\"udp\",operation=\"resolve\",code=\"1\"}";
    // 600 steps each: two seconds of a share of 20 milliseconds, and what came before it was known that it is too much.
    let signed = service.metric(name);
    assert!((20..600).contains(&signed), "{signed}");
    assert_eq!(service.code_of(Transport::Tcp, &question), 3, "who has proved an address is told");
    let dropped = |why| service.metric(&format!("tendot_native_dropped_total{{reason=\"{why}\"}}"));
    assert!(dropped("work") > 0 && dropped("work") + dropped("busy") > 1_000);
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(service.code_of(Transport::Tcp, &question), 1);
}
