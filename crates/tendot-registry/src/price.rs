//! What the rules cost, in steps of [`Budget`](tendot_proto::Budget).

/// A record or a prefix looked up in the store.
pub(crate) const LOOKUP: u32 = 20;

/// A member of a group, or an element of a template.
pub(crate) const STEP: u32 = 1;

/// An expression compiled, at most as large as templates may have them.
pub(crate) const REGEX_COMPILE: u32 = 1_000;

/// So many bytes written or compared.
pub(crate) fn bytes(length: usize) -> u32 {
    u32::try_from(length / 1_024).unwrap_or(u32::MAX).saturating_add(1)
}

/// A record of so many bytes held against so many patterns.
pub(crate) fn reverse_lookup(length: usize, patterns: usize) -> u32 {
    bytes(length.saturating_mul(patterns))
}

/// So many names listed.
pub(crate) fn list(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// So many names counted, which are not looked at.
pub(crate) fn count(count: usize) -> u32 {
    list(count / 32).saturating_add(1)
}

/// So many values held against so many indexes and types: each pair takes some nanoseconds.
pub(crate) fn selection(values: usize, asked: usize) -> u32 {
    u32::try_from(values.saturating_mul(asked) / 32).unwrap_or(u32::MAX)
}
