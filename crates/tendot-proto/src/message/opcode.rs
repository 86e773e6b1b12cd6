//! Operation codes.

use super::code_points::code_points;

/// Operation code (RFC 3652, 2.2.2). Unknown codes are preserved.
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
    /// Reserved; used in responses to messages that could not be decoded.
    RESERVED = 0, "OC_RESERVED";
    /// Resolves a handle (RFC 3652, 3.2).
    RESOLUTION = 1, "OC_RESOLUTION";
    /// Returns the site of the server (RFC 3652, 3.3).
    GET_SITE_INFO = 2, "OC_GET_SITE_INFO";
    /// Creates a record.
    CREATE_HANDLE = 100, "OC_CREATE_HANDLE";
    /// Deletes a record.
    DELETE_HANDLE = 101, "OC_DELETE_HANDLE";
    /// Adds values to a record.
    ADD_VALUE = 102, "OC_ADD_VALUE";
    /// Removes values from a record.
    REMOVE_VALUE = 103, "OC_REMOVE_VALUE";
    /// Replaces values with the same indexes.
    MODIFY_VALUE = 104, "OC_MODIFY_VALUE";
    /// Lists the handles of a prefix.
    LIST_HANDLES = 105, "OC_LIST_HANDLES";
    /// Lists the derived prefixes of a prefix; RFC 3652 and DO-IRP only.
    LIST_DERIVED_PREFIXES = 106, "OC_LIST_NAS";
    /// Responds to a challenge.
    CHALLENGE_RESPONSE = 200, "OC_RESPONSE_TO_CHALLENGE";
    /// Verifies a challenge response against a secret key stored on this server.
    VERIFY_CHALLENGE = 201, "OC_VERIFY_CHALLENGE";
    /// Homes a prefix on this server.
    HOME_PREFIX = 300, "OC_HOME_NA";
    /// Unhomes a prefix.
    UNHOME_PREFIX = 301, "OC_UNHOME_NA";
    /// Lists the prefixes homed on this server.
    LIST_HOMED_PREFIXES = 302, "OC_LIST_HOMED_NAS";
    /// Sets up a session.
    SESSION_SETUP = 400, "OC_SESSION_SETUP";
    /// Terminates a session.
    SESSION_TERMINATE = 401, "OC_SESSION_TERMINATE";
    /// Exchanges the key of a session; RFC 3652 only.
    SESSION_EXCHANGE_KEY = 402, "OC_SESSION_EXCHANGEKEY";
    /// Returns the next transaction id; obsolete.
    GET_NEXT_TRANSACTION_ID = 1000, "OC_GET_NEXT_TXN_ID";
    /// Retrieves the transactions after a transaction id.
    RETRIEVE_TRANSACTION_LOG = 1001, "OC_RETRIEVE_TXN_LOG";
    /// Dumps all records of a server.
    DUMP_HANDLES = 1002, "OC_DUMP_HANDLES";
    /// Creates a checkpoint of the database.
    BACKUP_SERVER = 1003, "OC_BACKUP_SERVER";
}

impl Opcode {
    /// Whether only admin interfaces accept it.
    pub const fn is_admin(self) -> bool {
        matches!(self.0, 100..=106 | 300..=302 | 1000..=1003)
    }

    /// Whether only query interfaces accept it.
    pub const fn is_query(self) -> bool {
        self.0 == 1
    }
}
