use super::code_points::code_points;

/// Operation code (RFC 3652, 2.2.2). Unknown codes are preserved.
///
/// Unknown numbers are kept.
///
/// ```
/// use tendot_proto::Opcode;
///
/// assert_eq!(Opcode::RESOLUTION.to_string(), "OC_RESOLUTION");
/// assert_eq!(Opcode(999).to_string(), "999");
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Opcode(pub u32);

code_points! {
    Opcode:
    /// Nothing; in errors about messages that were not understood.
    RESERVED = 0, "OC_RESERVED";
    /// The values of a record (RFC 3652, 3.2).
    RESOLUTION = 1, "OC_RESOLUTION";
    /// The server's own site (RFC 3652, 3.3).
    GET_SITE_INFO = 2, "OC_GET_SITE_INFO";
    /// A new record.
    CREATE_HANDLE = 100, "OC_CREATE_HANDLE";
    /// A record to be removed.
    DELETE_HANDLE = 101, "OC_DELETE_HANDLE";
    /// Further values of a record.
    ADD_VALUE = 102, "OC_ADD_VALUE";
    /// Values to be removed from a record.
    REMOVE_VALUE = 103, "OC_REMOVE_VALUE";
    /// Other values in the place of those with the same index.
    MODIFY_VALUE = 104, "OC_MODIFY_VALUE";
    /// The handles of a prefix.
    LIST_HANDLES = 105, "OC_LIST_HANDLES";
    /// The prefixes derived from a prefix; RFC 3652 and DO-IRP only.
    LIST_DERIVED_PREFIXES = 106, "OC_LIST_NAS";
    /// The answer to a challenge.
    CHALLENGE_RESPONSE = 200, "OC_RESPONSE_TO_CHALLENGE";
    /// Whether an answer to a challenge fits a secret key that is kept here.
    VERIFY_CHALLENGE = 201, "OC_VERIFY_CHALLENGE";
    /// This server is to serve a prefix.
    HOME_PREFIX = 300, "OC_HOME_NA";
    /// This server is no longer to serve a prefix.
    UNHOME_PREFIX = 301, "OC_UNHOME_NA";
    /// The prefixes that this server serves.
    LIST_HOMED_PREFIXES = 302, "OC_LIST_HOMED_NAS";
    /// A new session.
    SESSION_SETUP = 400, "OC_SESSION_SETUP";
    /// The end of a session.
    SESSION_TERMINATE = 401, "OC_SESSION_TERMINATE";
    /// A new key for a session; RFC 3652 only.
    SESSION_EXCHANGE_KEY = 402, "OC_SESSION_EXCHANGEKEY";
    /// The number that the next transaction will have; no longer answered.
    GET_NEXT_TRANSACTION_ID = 1000, "OC_GET_NEXT_TXN_ID";
    /// The transactions since a number.
    RETRIEVE_TRANSACTION_LOG = 1001, "OC_RETRIEVE_TXN_LOG";
    /// Everything that a server keeps.
    DUMP_HANDLES = 1002, "OC_DUMP_HANDLES";
    /// A checkpoint of the store.
    BACKUP_SERVER = 1003, "OC_BACKUP_SERVER";
}

impl Opcode {
    /// Whether it is taken only where administration is (interfaces of type admin).
    pub const fn is_admin(self) -> bool {
        matches!(self.0, 100..=106 | 300..=302 | 1000..=1003)
    }

    /// Whether it is taken only where resolution is (interfaces of type query).
    pub const fn is_query(self) -> bool {
        self.0 == 1
    }
}
