//! Cost of each kind of step, charged to the [`Budget`](tendot_proto::Budget) of a request.

/// Lookup of a record or a homed prefix in the store.
pub(crate) const LOOKUP: u32 = 20;

/// Member of an admin group, or element of a template.
pub(crate) const STEP: u32 = 1;

/// Compilation of a regular expression of maximum size.
pub(crate) const REGEX_COMPILE: u32 = 1_000;

/// Cost of writing or comparing `length` bytes.
pub(crate) fn bytes(length: usize) -> u32 {
    u32::try_from(length / 1_024).unwrap_or(u32::MAX).saturating_add(1)
}

/// Cost of matching a record of `length` bytes against `patterns`.
pub(crate) fn reverse_lookup(length: usize, patterns: usize) -> u32 {
    bytes(length.saturating_mul(patterns))
}

/// Cost of listing `count` names.
pub(crate) fn list(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Cost of seeking `count` names in one call of the store.
pub(crate) fn seek(count: usize) -> u32 {
    list(count).saturating_mul(4)
}

/// Cost of counting `count` names without reading their records.
pub(crate) fn count(count: usize) -> u32 {
    list(count / 32).saturating_add(1)
}

/// Cost of selecting among `values` by `filters` indexes and types; each comparison takes a few nanoseconds.
pub(crate) fn selection(values: usize, filters: usize) -> u32 {
    u32::try_from(values.saturating_mul(filters) / 32).unwrap_or(u32::MAX)
}
