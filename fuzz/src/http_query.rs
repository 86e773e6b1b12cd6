//! Paths, queries and forms of the main endpoints: every request has a response, which is no internal error.
//!
//! The first byte selects the endpoint, the rest is the end of the request target or the body.

use crate::http_service::{TOKEN, exchange, first_status};

/// Beginning of the target, and whether the caller is the operator.
const ENDPOINTS: [(&str, bool); 12] = [
    ("/", false),
    ("/10.5555/ONE?", false),
    ("/10.5555/MANY?", false),
    ("/10.5555/ALIAS?", false),
    ("/api/handles/10.5555/TEXT?", false),
    ("/api/handles?", true),
    ("/openurl?", false),
    ("/doiRA/", false),
    ("/api/v1/agencies?", true),
    ("/api/v1/dois?", true),
    ("/api/v1/history/10.5555/ONE?", true),
    ("/api/v1/metadata/10.5555/ONE?", true),
];

pub(crate) fn check(bytes: &[u8]) {
    let Some((selection, rest)) = bytes.split_first() else { return };
    let request = match ENDPOINTS.get(usize::from(*selection)) {
        Some((start, is_operator)) => {
            let authorization =
                if *is_operator { format!("Authorization: Bearer {TOKEN}\r\n") } else { String::new() };
            let end = format!(" HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{authorization}\r\n");
            // Characters that would end the request line.
            let target: Vec<u8> =
                rest.iter().copied().filter(|byte| !matches!(byte, b' ' | b'\r' | b'\n')).collect();
            [b"GET ", start.as_bytes(), &target, end.as_bytes()].concat()
        }
        None => {
            let head = format!(
                "POST / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nContent-Length: {}\r\n\
                 Content-Type: application/x-www-form-urlencoded\r\n\r\n",
                rest.len()
            );
            [head.as_bytes(), rest].concat()
        }
    };
    let received = exchange(&[&request]);
    assert!(first_status(&received).is_some(), "no response");
}
