//! Own program, because it replaces the global allocator. Plain DOIs are parsed, formatted and extracted without allocating.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::{self, Write as _};

use tendot_names::{OutputForm, Parser, find_iter};

/// Global allocator that counts allocations per thread.
struct CountingAllocator;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

#[allow(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]
// SAFETY: all calls are forwarded to the system allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn allocations(work: impl FnOnce()) -> usize {
    let before = COUNT.with(Cell::get);
    work();
    COUNT.with(Cell::get) - before
}

/// Discards all text.
struct DiscardWriter;

impl fmt::Write for DiscardWriter {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}

#[test]
fn parses_plain_dois_without_allocating() {
    for text in [
        "10.1000/182",
        "doi:10.1000/182",
        "https://doi.org/10.1000/182",
        "DOI: 10.1000/182 ",
        "http://dx.doi.org/10.1000/456#789",
        "10.1000/日本語",
        "10/abc",
        "not a DOI",
    ] {
        for parser in [Parser::strict(), Parser::lenient()] {
            assert_eq!(allocations(|| drop(parser.parse(text))), 0, "{text}");
        }
    }
}

#[test]
fn allocator_counts_allocations() {
    assert!(allocations(|| drop(Parser::strict().parse("doi:10.1000/a%20b"))) > 0);
}

#[test]
fn formats_dois_without_allocating() {
    let parsed =
        Parser::strict().parse("10.1002/(SICI)1097-4571(199806)49:8<693::AID-ASI4>3.0.CO;2-0").unwrap();
    let doi = parsed.doi().unwrap();
    for form in OutputForm::ALL {
        if let Some(formatted) = doi.format(form) {
            assert_eq!(allocations(|| write!(DiscardWriter, "{formatted}").unwrap()), 0, "{form:?}");
        }
    }
}

#[test]
fn extracts_plain_dois_without_allocating() {
    let text = b"see 10.1000/182, (10.1016/S0378-4754(00)00270-6) and https://doi.org/10.1000/183.";
    let mut count = 0;
    assert_eq!(allocations(|| count = find_iter(text).count()), 0);
    assert_eq!(count, 3);
}
