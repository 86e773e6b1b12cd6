//! Commands in a terminal: progress of an import, and confirmation of what cannot be undone.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use super::TestRegistry;
use crate::support::{StoreKind, Terminal, TestDir};

/// Rates that a terminal has shown, such as `1,234/s` and `12 MiB/s`.
fn rates(shown: &str) -> Vec<&str> {
    let parts: Vec<&str> = shown.split("/s ").collect();
    let before = &parts[..parts.len() - 1];
    before.iter().map(|text| text.rsplit("  ").next().unwrap()).collect()
}

#[track_caller]
fn assert_whole_rates(shown: &str) {
    let rates = rates(shown);
    assert!(!rates.is_empty(), "{shown}");
    for rate in rates {
        let number = rate.split(' ').next().unwrap();
        let is_whole = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == ',');
        assert!(is_whole, "`{rate}/s` in {shown}");
    }
}

/// A server that answers the first three of ten lines, and the others after a message. Returns its URL.
fn start_slow_batch_server(go_on: Receiver<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut is_dry_run = true;
        while is_dry_run {
            let (stream, _) = listener.accept().unwrap();
            is_dry_run = read_request(&stream).contains("dry-run=true");
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n";
            (&stream).write_all(head.as_bytes()).unwrap();
            if !is_dry_run {
                (&stream).write_all(line_results(1..=3).as_bytes()).unwrap();
                go_on.recv().unwrap();
                (&stream).write_all(line_results(4..=10).as_bytes()).unwrap();
            }
        }
    });
    url
}

fn line_results(lines: std::ops::RangeInclusive<u32>) -> String {
    let line = |line| format!("{{\"line\":{line},\"name\":\"10.70000/n{line}\",\"status\":\"created\"}}\n");
    lines.map(line).collect()
}

/// Reads a request with a chunked body to its end; returns the head.
fn read_request(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    assert!(head.to_lowercase().contains("transfer-encoding: chunked"), "{head}");
    loop {
        let mut size = String::new();
        reader.read_line(&mut size).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        // The data, and the end of the line.
        reader.read_exact(&mut vec![0; size + 2]).unwrap();
        if size == 0 {
            return head;
        }
    }
}

/// The progress of a batch is the lines that were answered, not the lines that were sent.
#[test]
fn batch_progress_counts_answered_lines() {
    let dir = TestDir::new();
    let lines: String =
        (1..=10).map(|line| format!("10.70000/n{line},https://example.org/{line}\n")).collect();
    dir.write("names.csv", format!("name,url\n{lines}"));
    let (answer, go_on) = channel();
    let url = start_slow_batch_server(go_on);
    let mut import = dir.tendot(&["doi", "import", "names.csv"]);
    import.env("TENDOT_SERVER", url).env("TENDOT_TOKEN", "t");
    let terminal = Terminal::start(&import);
    // The header row is a line of the file, too.
    terminal.wait_for("3/11 lines");
    let shown = terminal.output();
    assert!(!(4..=11).any(|line| shown.contains(&format!("{line}/11 lines"))), "{shown}");
    answer.send(()).unwrap();
    let (code, shown) = terminal.finish();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("10/11 lines") && shown.contains("10 created, 0 updated"), "{shown}");
    assert_whole_rates(&shown);
}

/// Progress in bytes has whole rates, too; that of a backup is the same bar.
#[test]
fn byte_progress_has_whole_rates() {
    let dir = TestDir::new();
    let record = |number: u32| format!("10.5555/n{number},https://example.org/{number}\n");
    dir.write("names.csv", (0..20_000).map(record).collect::<String>());
    let (code, shown) = Terminal::start(&dir.tendot(&["import", "names.csv", "--data", "data"])).finish();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains(" KiB/"), "{shown}");
    assert_whole_rates(&shown);
}

/// In a terminal, a command that cannot be undone asks; anything but yes cancels it.
#[test]
fn irreversible_commands_ask_in_a_terminal() {
    let registry = TestRegistry::start(StoreKind::Embedded);
    registry.run_ok(&["doi", "create", "10.70000/a", "--url", "https://example.org/a"]);
    let retire = registry.command(&["doi", "retire", "10.70000/a"]);
    let answer = |text: &str| {
        let mut terminal = Terminal::start(&retire);
        terminal.wait_for("Continue? [y/N] ");
        terminal.type_text(text);
        terminal.finish()
    };
    // The last one is the end of the input.
    for text in ["n\n", "\n", "no\n", "yess\n", "\u{4}"] {
        let (code, shown) = answer(text);
        assert_eq!(code, Some(1), "{text:?}: {shown}");
        assert!(shown.contains("`10.70000/a` will become a tombstone"), "{shown}");
        assert!(shown.ends_with("cancelled; nothing was written\r\n"), "{shown}");
        assert!(registry.run_ok(&["doi", "show", "10.70000/a"]).contains("registered"));
    }
    let (code, shown) = answer("Y\n");
    assert!(code == Some(0) && shown.contains("retired; the name will not be"), "{shown}");
    assert!(registry.run_ok(&["doi", "show", "10.70000/a"]).contains("\n  state       tombstone\n"));
}
