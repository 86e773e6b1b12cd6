//! How large things may be, as the deployed software has it; larger is malformed.

/// Bytes of a message after its envelope.
pub const MAX_MESSAGE_LEN: usize = 262_144;

/// Bytes of a UDP datagram, the envelope included.
pub const MAX_DATAGRAM_LEN: usize = 512;

/// Bytes of a datagram after its envelope.
pub const MAX_DATAGRAM_PAYLOAD_LEN: usize = MAX_DATAGRAM_LEN - ENVELOPE_LEN;

/// Bytes of an envelope.
pub const ENVELOPE_LEN: usize = 20;

/// Bytes of a header.
pub const HEADER_LEN: usize = 24;

/// Bytes of one length-prefixed field, and items of one list.
pub const FIELD: usize = 1_048_576;

/// Values of one record in a message.
pub const MAX_VALUES: usize = 2_048;

/// Bytes of a handle.
pub const MAX_HANDLE_LEN: usize = 2_048;

/// Handles in one message of a list; more come in further messages.
pub const LIST_BATCH_HANDLES: usize = 50;

/// Times a question may be passed on from server to server.
pub const MAX_RECURSION_COUNT: u8 = 10;
