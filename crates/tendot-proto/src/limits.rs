//! Size limits of the protocol, as in Handle.Net. Larger input is malformed.

/// Maximum length of a message after its envelope, in bytes.
pub const MAX_MESSAGE_LEN: usize = 262_144;

/// Maximum length of a UDP datagram with its envelope, in bytes.
pub const MAX_DATAGRAM_LEN: usize = 512;

/// Maximum length of a datagram after its envelope, in bytes.
pub const MAX_DATAGRAM_PAYLOAD_LEN: usize = MAX_DATAGRAM_LEN - ENVELOPE_LEN;

/// Length of an envelope, in bytes.
pub const ENVELOPE_LEN: usize = 20;

/// Length of a header, in bytes.
pub const HEADER_LEN: usize = 24;

/// Maximum length of a length-prefixed field, in bytes.
pub const MAX_FIELD_LEN: usize = 1_048_576;

/// Maximum number of items of a list.
pub const MAX_LIST_ITEMS: usize = 1_048_576;

/// Maximum number of values of a record in a message.
pub const MAX_VALUES: usize = 2_048;

/// Maximum length of a handle, in bytes.
pub const MAX_HANDLE_LEN: usize = 2_048;

/// Number of handles in one message of a handle list; the rest follows in further messages.
pub const LIST_BATCH_HANDLES: usize = 50;

/// Maximum number of times a request is forwarded between servers.
pub const MAX_RECURSION_COUNT: u8 = 10;
