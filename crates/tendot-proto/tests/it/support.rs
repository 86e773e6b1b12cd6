//! Helpers of several test modules.

use tendot_proto::Budget;
use tendot_testing::is_full_run;

/// New budget of one request.
pub(crate) fn budget() -> Budget {
    Budget::PER_REQUEST
}

/// Values of a four-byte code point: all assigned ones with their neighbours, a sample of the others below 65,536 (in a full
/// run all of them), and the extremes.
pub(crate) fn code_points() -> impl Iterator<Item = u32> {
    let stride = if is_full_run() { 1 } else { 67 };
    (0..=1100).chain((1101..=0xffff).step_by(stride)).chain([0x7fff_ffff, 0x8000_0000, 0xffff_ffff])
}
