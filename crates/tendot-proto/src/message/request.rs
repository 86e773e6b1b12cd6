//! Request bodies, by opcode.

use super::{HashPartition, Opcode, ProtocolVersion, RequestDigest};
use crate::error::DecodeError;
use crate::handle::Handle;
use crate::record::HandleValue;
use crate::wire::{WireList, WireReader, WireWriter};

/// Request body, by opcode.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Request<'a> {
    /// Opcode 1: values with one of the indexes or types; all values if neither is given.
    Resolve {
        /// Handle of the record.
        handle: Handle<'a>,
        /// Value indexes.
        indexes: WireList<'a, u32>,
        /// Value types; a trailing dot matches all subtypes.
        types: WireList<'a, &'a [u8]>,
    },
    /// Opcodes 2, 302, 401, 1000 and 1003: no operand. The body has a placeholder handle, usually `/`, or is empty.
    NoOperand {
        /// The placeholder.
        handle: Option<Handle<'a>>,
    },
    /// Opcodes 101, 105, 106, 300 and 301: a handle.
    HandleOnly {
        /// Handle of the record or prefix.
        handle: Handle<'a>,
    },
    /// Opcodes 100, 102 and 104: values to create, add or replace.
    WriteValues {
        /// Handle of the record.
        handle: Handle<'a>,
        /// The values.
        values: WireList<'a, HandleValue<'a>>,
    },
    /// Opcode 103: values to remove.
    RemoveValues {
        /// Handle of the record.
        handle: Handle<'a>,
        /// Indexes of the values.
        indexes: WireList<'a, u32>,
    },
    /// Opcode 200: challenge response.
    ChallengeResponse(ChallengeResponse<'a>),
    /// Opcode 201: verification of a secret-key challenge response.
    VerifyChallenge {
        /// Handle of the record with the key.
        key_handle: Handle<'a>,
        /// Index of the key; 0 for any.
        key_index: u32,
        /// Nonce of the challenge.
        nonce: &'a [u8],
        /// Digest of the challenged request.
        digest: RequestDigest<'a>,
        /// Proof to verify.
        response: &'a [u8],
    },
    /// Opcode 400: session setup.
    SessionSetup(SessionSetup<'a>),
    /// Opcode 402: new session key, encrypted.
    ExchangeSessionKey {
        /// The encrypted key.
        key: &'a [u8],
    },
    /// Opcode 1001: transactions since a position.
    RetrieveTransactions {
        /// Start position.
        start: ReplicationStart<'a>,
        /// Hash partition of the receiver.
        receiver: HashPartition,
    },
    /// Opcode 1002: dump of all records.
    Dump {
        /// Hash partition of the receiver.
        receiver: HashPartition,
        /// Position after which to resume.
        cursor: Option<DumpCursor<'a>>,
    },
    /// Unknown opcode: undecoded body.
    Unknown(&'a [u8]),
}

/// Challenge response (opcode 200): authentication type, key reference and proof.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ChallengeResponse<'a> {
    /// `HS_SECKEY` or `HS_PUBKEY`.
    pub auth_type: &'a [u8],
    /// Handle of the record with the key.
    pub key_handle: Handle<'a>,
    /// Index of the key; 0 for any.
    pub key_index: u32,
    /// Proof, in the format of the authentication type.
    pub proof: &'a [u8],
}

impl<'a> ChallengeResponse<'a> {
    /// Challenge response of a request, if it is one.
    pub const fn from_request(request: &Request<'a>) -> Option<Self> {
        match request {
            Request::ChallengeResponse(response) => Some(*response),
            _ => None,
        }
    }
}

/// Session setup request (opcode 400).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SessionSetup<'a> {
    /// Key exchange mode.
    pub mode: KeyExchangeMode,
    /// Idle timeout of the session, in seconds.
    pub timeout: u32,
    /// Handle of the identity of the session; empty for an anonymous session.
    pub identity_handle: Handle<'a>,
    /// Index of the identity; [`SessionSetup::ANONYMOUS_INDEX`] for an anonymous session.
    pub identity_index: u32,
    /// Key material of the client.
    pub key: SessionKeyMaterial<'a>,
}

impl SessionSetup<'_> {
    /// Index of an anonymous session, −1.
    pub const ANONYMOUS_INDEX: u32 = u32::MAX;
}

/// Session key exchange mode. Unknown codes are preserved.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct KeyExchangeMode(pub u16);

impl KeyExchangeMode {
    /// The server creates the key and encrypts it with an RSA key of the client; never worked in Handle.Net 9.
    pub const CLIENT_RSA: Self = Self(1);
    /// The client encrypts the key with an RSA key of the server; never worked in Handle.Net 9.
    pub const SERVER_RSA: Self = Self(2);
    /// As [`CLIENT_RSA`](Self::CLIENT_RSA), with a key from a record; never worked in Handle.Net 9.
    pub const HANDLE_RSA: Self = Self(3);
    /// Diffie-Hellman.
    pub const DIFFIE_HELLMAN: Self = Self(4);
}

/// Client key material of a session setup.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SessionKeyMaterial<'a> {
    /// Public key, encoded as [`PublicKey`](crate::record::PublicKey): modes 1 and 4.
    PublicKey(&'a [u8]),
    /// Reference to a key: mode 3.
    Reference {
        /// Handle of the record with the key.
        handle: Handle<'a>,
        /// Index of the key.
        index: u32,
    },
    /// None: mode 2 and unknown modes.
    None,
}

/// Start position of a transaction request (opcode 1001).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReplicationStart<'a> {
    /// After a transaction; the only form before 2.9.
    AfterTransaction {
        /// Transaction id.
        id: u64,
        /// Time of the last query, as Unix time in milliseconds.
        last_query_millis: u64,
    },
    /// After the replication states of several sources, in JSON.
    States(&'a [u8]),
    /// Unknown kind.
    Unknown(u8),
}

/// Position after which an interrupted dump (opcode 1002) resumes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DumpCursor<'a> {
    /// Last handle that was received.
    pub after_handle: &'a [u8],
    /// Interrupted section: 0 handle stamps, 1 prefix stamps, 2 handles, 3 prefixes.
    pub section: u32,
}

impl<'a> Request<'a> {
    /// Handle that the request concerns, if there is one.
    pub fn handle(&self) -> Option<Handle<'a>> {
        match *self {
            Self::Resolve { handle, .. }
            | Self::HandleOnly { handle }
            | Self::WriteValues { handle, .. }
            | Self::RemoveValues { handle, .. } => Some(handle),
            _ => None,
        }
    }

    /// Decodes the body of a request; trailing bytes stay in the reader.
    #[inline]
    pub(crate) fn decode(
        opcode: Opcode,
        version: ProtocolVersion,
        reader: &mut WireReader<'a>,
    ) -> Result<Self, DecodeError> {
        let request = match opcode {
            Opcode::RESOLUTION => Self::Resolve {
                handle: decode_handle(reader)?,
                indexes: WireList::decode(reader, "indexes")?,
                types: WireList::decode(reader, "types")?,
            },
            Opcode::GET_SITE_INFO
            | Opcode::LIST_HOMED_PREFIXES
            | Opcode::SESSION_TERMINATE
            | Opcode::GET_NEXT_TRANSACTION_ID
            | Opcode::BACKUP_SERVER => Self::NoOperand {
                handle: if reader.is_empty() { None } else { Some(decode_handle(reader)?) },
            },
            Opcode::DELETE_HANDLE
            | Opcode::LIST_HANDLES
            | Opcode::LIST_DERIVED_PREFIXES
            | Opcode::HOME_PREFIX
            | Opcode::UNHOME_PREFIX => Self::HandleOnly { handle: decode_handle(reader)? },
            Opcode::CREATE_HANDLE | Opcode::ADD_VALUE | Opcode::MODIFY_VALUE => Self::WriteValues {
                handle: decode_handle(reader)?,
                values: WireList::decode(reader, "values")?,
            },
            Opcode::REMOVE_VALUE => Self::RemoveValues {
                handle: decode_handle(reader)?,
                indexes: WireList::decode(reader, "indexes")?,
            },
            Opcode::CHALLENGE_RESPONSE => Self::ChallengeResponse(ChallengeResponse {
                auth_type: reader.bytes("authentication type")?,
                key_handle: Handle::new(reader.bytes("key handle")?),
                key_index: reader.u32("key index")?,
                proof: reader.bytes("challenge response")?,
            }),
            Opcode::VERIFY_CHALLENGE => Self::VerifyChallenge {
                key_handle: Handle::new(reader.bytes("key handle")?),
                key_index: reader.u32("key index")?,
                nonce: reader.bytes("nonce")?,
                digest: RequestDigest::decode(reader)?,
                response: reader.bytes("challenge response")?,
            },
            Opcode::SESSION_SETUP => Self::SessionSetup(SessionSetup::decode(reader)?),
            Opcode::SESSION_EXCHANGE_KEY => Self::ExchangeSessionKey { key: reader.bytes("session key")? },
            Opcode::RETRIEVE_TRANSACTION_LOG => Self::RetrieveTransactions {
                start: ReplicationStart::decode(version, reader)?,
                receiver: HashPartition::decode(reader)?,
            },
            Opcode::DUMP_HANDLES => {
                let receiver = HashPartition::decode(reader)?;
                Self::Dump { receiver, cursor: DumpCursor::decode(reader)? }
            }
            _ => Self::Unknown(reader.take("body", reader.remaining().len())?),
        };
        Ok(request)
    }

    pub(crate) fn encode(&self, version: ProtocolVersion, writer: &mut WireWriter<'_>) {
        match self {
            Self::Resolve { handle, indexes, types } => {
                writer.bytes(handle.as_bytes());
                indexes.encode(writer);
                types.encode(writer);
            }
            Self::NoOperand { handle } => {
                if let Some(handle) = handle {
                    writer.bytes(handle.as_bytes());
                }
            }
            Self::HandleOnly { handle } => writer.bytes(handle.as_bytes()),
            Self::WriteValues { handle, values } => {
                writer.bytes(handle.as_bytes());
                values.encode(writer);
            }
            Self::RemoveValues { handle, indexes } => {
                writer.bytes(handle.as_bytes());
                indexes.encode(writer);
            }
            Self::ChallengeResponse(response) => {
                writer.bytes(response.auth_type);
                writer.bytes(response.key_handle.as_bytes());
                writer.u32(response.key_index);
                writer.bytes(response.proof);
            }
            Self::VerifyChallenge { key_handle, key_index, nonce, digest, response } => {
                writer.bytes(key_handle.as_bytes());
                writer.u32(*key_index);
                writer.bytes(nonce);
                digest.encode(writer);
                writer.bytes(response);
            }
            Self::SessionSetup(setup) => setup.encode(writer),
            Self::ExchangeSessionKey { key } => writer.bytes(key),
            Self::RetrieveTransactions { start, receiver } => {
                start.encode(version, writer);
                receiver.encode(writer);
            }
            Self::Dump { receiver, cursor } => {
                receiver.encode(writer);
                if let Some(cursor) = cursor {
                    writer.bytes(cursor.after_handle);
                    writer.u32(cursor.section);
                }
            }
            Self::Unknown(body) => writer.raw(body),
        }
    }
}

impl<'a> SessionSetup<'a> {
    fn decode(reader: &mut WireReader<'a>) -> Result<Self, DecodeError> {
        let mode = KeyExchangeMode(reader.u16("key exchange mode")?);
        let timeout = reader.u32("session timeout")?;
        let identity_handle = Handle::new(reader.bytes("identity handle")?);
        let identity_index = reader.u32("identity index")?;
        let key = match mode {
            KeyExchangeMode::CLIENT_RSA | KeyExchangeMode::DIFFIE_HELLMAN => {
                SessionKeyMaterial::PublicKey(reader.bytes("session public key")?)
            }
            KeyExchangeMode::HANDLE_RSA => SessionKeyMaterial::Reference {
                handle: Handle::new(reader.bytes("session key handle")?),
                index: reader.u32("session key index")?,
            },
            _ => SessionKeyMaterial::None,
        };
        Ok(Self { mode, timeout, identity_handle, identity_index, key })
    }

    fn encode(&self, writer: &mut WireWriter<'_>) {
        writer.u16(self.mode.0);
        writer.u32(self.timeout);
        writer.bytes(self.identity_handle.as_bytes());
        writer.u32(self.identity_index);
        match self.key {
            SessionKeyMaterial::PublicKey(key) => writer.bytes(key),
            SessionKeyMaterial::Reference { handle, index } => {
                writer.bytes(handle.as_bytes());
                writer.u32(index);
            }
            SessionKeyMaterial::None => {}
        }
    }
}

impl<'a> ReplicationStart<'a> {
    fn decode(version: ProtocolVersion, reader: &mut WireReader<'a>) -> Result<Self, DecodeError> {
        let kind = if version >= ProtocolVersion::REPLICATION_KINDS {
            reader.u8("transaction request kind")?
        } else {
            0
        };
        Ok(match kind {
            0 => Self::AfterTransaction {
                id: reader.u64("last transaction id")?,
                last_query_millis: reader.u64("last query time")?,
            },
            1 => Self::States(reader.bytes("replication states")?),
            other => Self::Unknown(other),
        })
    }

    fn encode(&self, version: ProtocolVersion, writer: &mut WireWriter<'_>) {
        let kind = match self {
            Self::AfterTransaction { .. } => 0,
            Self::States(_) => 1,
            Self::Unknown(kind) => *kind,
        };
        if version >= ProtocolVersion::REPLICATION_KINDS {
            writer.u8(kind);
        }
        match self {
            Self::AfterTransaction { id, last_query_millis } => {
                writer.u64(*id);
                writer.u64(*last_query_millis);
            }
            Self::States(states) => writer.bytes(states),
            Self::Unknown(_) => {}
        }
    }
}

impl<'a> DumpCursor<'a> {
    fn decode(reader: &mut WireReader<'a>) -> Result<Option<Self>, DecodeError> {
        if reader.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { after_handle: reader.bytes("resume handle")?, section: reader.u32("resume kind")? }))
    }
}

fn decode_handle<'a>(reader: &mut WireReader<'a>) -> Result<Handle<'a>, DecodeError> {
    Ok(Handle::new(reader.bytes("handle")?))
}
