use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Global allocator that counts the allocations of each thread, for test programs of their own.
#[derive(Clone, Copy, Debug)]
pub struct CountingAllocator;

/// Number and bytes of allocations.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Allocations {
    /// Number of allocations.
    pub count: usize,
    /// Bytes of all allocations together.
    pub bytes: usize,
}

thread_local! {
    static TOTAL: Cell<Allocations> = const { Cell::new(Allocations { count: 0, bytes: 0 }) };
}

#[allow(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]
// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TOTAL.with(|total| {
            let Allocations { count, bytes } = total.get();
            total.set(Allocations { count: count + 1, bytes: bytes + layout.size() });
        });
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The allocations of an operation on this thread; the program must have set [`CountingAllocator`] as global allocator.
pub fn count_allocations(operation: impl FnOnce()) -> Allocations {
    let before = TOTAL.with(Cell::get);
    operation();
    let after = TOTAL.with(Cell::get);
    Allocations { count: after.count - before.count, bytes: after.bytes - before.bytes }
}
