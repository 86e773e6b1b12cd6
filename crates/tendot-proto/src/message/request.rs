use super::{Opcode, ProtocolVersion, RequestDigest};
use crate::error::DecodeError;
use crate::handle::Handle;
use crate::record::{HandleValue, HashOption};
use crate::wire::{WireList, WireReader, WireWriter};

/// Request body, by opcode.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Request<'a> {
    /// Opcode 1: the values that have one of the indexes or one of the types; all when neither is given.
    Resolve {
        /// The record.
        handle: Handle<'a>,
        /// Indexes of values.
        indexes: WireList<'a, u32>,
        /// Types of values; a dot at the end takes in all below.
        types: WireList<'a, &'a [u8]>,
    },
    /// Opcodes 2, 302, 401, 1000 and 1003: nothing more is said. A handle without a meaning stands in the body, `/`
    /// as a rule, or nothing.
    Plain {
        /// What stands there.
        handle: Option<Handle<'a>>,
    },
    /// Opcodes 101, 105, 106, 300 and 301: a handle is all that is needed.
    Named {
        /// The record or prefix.
        handle: Handle<'a>,
    },
    /// Opcodes 100, 102 and 104: values to be created, added or changed.
    Values {
        /// The record.
        handle: Handle<'a>,
        /// Its values.
        values: WireList<'a, HandleValue<'a>>,
    },
    /// Opcode 103: values to be removed.
    RemoveValues {
        /// The record.
        handle: Handle<'a>,
        /// Their indexes.
        indexes: WireList<'a, u32>,
    },
    /// Opcode 200: the answer to a challenge.
    ChallengeAnswer {
        /// `HS_SECKEY` or `HS_PUBKEY`.
        auth_type: &'a [u8],
        /// The record where the key is.
        key_handle: Handle<'a>,
        /// The key's index; 0 is any.
        key_index: u32,
        /// The answer, whose form is that of the type.
        answer: &'a [u8],
    },
    /// Opcode 201: does an answer fit a secret key?
    VerifyChallenge {
        /// The record where the key is.
        key_handle: Handle<'a>,
        /// The key's index; 0 is any.
        key_index: u32,
        /// The challenge.
        nonce: &'a [u8],
        /// The digest of the request that was challenged.
        digest: RequestDigest<'a>,
        /// The answer.
        answer: &'a [u8],
    },
    /// Opcode 400: a new session.
    SessionSetup(SessionSetup<'a>),
    /// Opcode 402: a new key, encrypted.
    ExchangeKey {
        /// The key.
        key: &'a [u8],
    },
    /// Opcode 1001: the transactions since the last time.
    RetrieveTransactions {
        /// Where to begin.
        since: ReplicationStart<'a>,
        /// Which of them.
        receiver: HashPartition,
    },
    /// Opcode 1002: everything.
    Dump {
        /// Which of it.
        receiver: HashPartition,
        /// Where to go on after a break.
        resume: Option<DumpCursor<'a>>,
    },
    /// Any other opcode: the body as it came.
    Unknown(&'a [u8]),
}

/// Session setup request (opcode 400).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SessionSetup<'a> {
    /// How the key is agreed upon.
    pub mode: KeyExchangeMode,
    /// Seconds without a message after which the session ends.
    pub timeout: u32,
    /// Who will authenticate in the session; empty if nobody.
    pub identity_handle: Handle<'a>,
    /// The index of the identity; [`SessionSetup::ANONYMOUS`] if nobody.
    pub identity_index: u32,
    /// The client's part of the key.
    pub key: SessionKeyMaterial<'a>,
}

impl SessionSetup<'_> {
    /// The index of nobody, −1.
    pub const ANONYMOUS_INDEX: u32 = u32::MAX;
}

/// Session key exchange mode. Unknown codes are preserved.
///
/// Unknown numbers are kept.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct KeyExchangeMode(pub u16);

impl KeyExchangeMode {
    /// The server makes the key and encrypts it with an RSA key of the client; never worked in Handle.Net 9.
    pub const CLIENT_RSA: Self = Self(1);
    /// The client encrypts a key with an RSA key of the server; never worked in Handle.Net 9.
    pub const SERVER_RSA: Self = Self(2);
    /// As the first, with a key that stands in a record; never worked in Handle.Net 9.
    pub const HANDLE_RSA: Self = Self(3);
    /// By Diffie and Hellman.
    pub const DIFFIE_HELLMAN: Self = Self(4);
}

/// Client key material of a session setup.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SessionKeyMaterial<'a> {
    /// A public key, as in [`PublicKey`](crate::record::PublicKey): modes 1 and 4.
    PublicKey(&'a [u8]),
    /// Where the key is: mode 3.
    Reference {
        /// Its record.
        handle: Handle<'a>,
        /// Its index.
        index: u32,
    },
    /// None: mode 2, and modes that nobody knows.
    None,
}

/// Start position of a transaction request (opcode 1001).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReplicationStart<'a> {
    /// After a transaction; all there was before 2.9.
    Transaction {
        /// Its number.
        id: u64,
        /// When the transactions were last asked for, in milliseconds since 1970.
        queried: u64,
    },
    /// After the states of several sources, in JSON.
    States(&'a [u8]),
    /// A kind that nobody knows.
    Other(u8),
}

/// Hash partition: the handles that one server of a site stores (RFC 3652, 3.1.3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HashPartition {
    /// What is hashed.
    pub hash_option: HashOption,
    /// The number of servers.
    pub servers: u32,
    /// Which of them it is.
    pub index: u32,
}

/// Position after which an interrupted dump (opcode 1002) resumes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DumpCursor<'a> {
    /// The last name that arrived.
    pub after: &'a [u8],
    /// What was being sent: 0 dates of handles, 1 dates of prefixes, 2 handles, 3 prefixes.
    pub kind: u32,
}

impl<'a> Request<'a> {
    /// The handle that the request is about, if it is about one.
    pub fn handle(&self) -> Option<Handle<'a>> {
        match *self {
            Self::Resolve { handle, .. }
            | Self::Named { handle }
            | Self::Values { handle, .. }
            | Self::RemoveValues { handle, .. } => Some(handle),
            _ => None,
        }
    }

    /// Reads the body of a request; what follows its last field stays in the reader.
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
            | Opcode::BACKUP_SERVER => {
                Self::Plain { handle: if reader.is_empty() { None } else { Some(decode_handle(reader)?) } }
            }
            Opcode::DELETE_HANDLE
            | Opcode::LIST_HANDLES
            | Opcode::LIST_DERIVED_PREFIXES
            | Opcode::HOME_PREFIX
            | Opcode::UNHOME_PREFIX => Self::Named { handle: decode_handle(reader)? },
            Opcode::CREATE_HANDLE | Opcode::ADD_VALUE | Opcode::MODIFY_VALUE => {
                Self::Values { handle: decode_handle(reader)?, values: WireList::decode(reader, "values")? }
            }
            Opcode::REMOVE_VALUE => Self::RemoveValues {
                handle: decode_handle(reader)?,
                indexes: WireList::decode(reader, "indexes")?,
            },
            Opcode::CHALLENGE_RESPONSE => Self::ChallengeAnswer {
                auth_type: reader.bytes("authentication type")?,
                key_handle: Handle::new(reader.bytes("key handle")?),
                key_index: reader.u32("key index")?,
                answer: reader.bytes("answer")?,
            },
            Opcode::VERIFY_CHALLENGE => Self::VerifyChallenge {
                key_handle: Handle::new(reader.bytes("key handle")?),
                key_index: reader.u32("key index")?,
                nonce: reader.bytes("nonce")?,
                digest: RequestDigest::decode(reader)?,
                answer: reader.bytes("answer")?,
            },
            Opcode::SESSION_SETUP => Self::SessionSetup(SessionSetup::decode(reader)?),
            Opcode::SESSION_EXCHANGE_KEY => Self::ExchangeKey { key: reader.bytes("session key")? },
            Opcode::RETRIEVE_TRANSACTION_LOG => Self::RetrieveTransactions {
                since: ReplicationStart::decode(version, reader)?,
                receiver: HashPartition::decode(reader)?,
            },
            Opcode::DUMP_HANDLES => {
                let receiver = HashPartition::decode(reader)?;
                Self::Dump { receiver, resume: DumpCursor::decode(reader)? }
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
            Self::Plain { handle } => {
                if let Some(handle) = handle {
                    writer.bytes(handle.as_bytes());
                }
            }
            Self::Named { handle } => writer.bytes(handle.as_bytes()),
            Self::Values { handle, values } => {
                writer.bytes(handle.as_bytes());
                values.encode(writer);
            }
            Self::RemoveValues { handle, indexes } => {
                writer.bytes(handle.as_bytes());
                indexes.encode(writer);
            }
            Self::ChallengeAnswer { auth_type, key_handle, key_index, answer } => {
                writer.bytes(auth_type);
                writer.bytes(key_handle.as_bytes());
                writer.u32(*key_index);
                writer.bytes(answer);
            }
            Self::VerifyChallenge { key_handle, key_index, nonce, digest, answer } => {
                writer.bytes(key_handle.as_bytes());
                writer.u32(*key_index);
                writer.bytes(nonce);
                digest.encode(writer);
                writer.bytes(answer);
            }
            Self::SessionSetup(setup) => setup.encode(writer),
            Self::ExchangeKey { key } => writer.bytes(key),
            Self::RetrieveTransactions { since, receiver } => {
                since.encode(version, writer);
                receiver.encode(writer);
            }
            Self::Dump { receiver, resume } => {
                receiver.encode(writer);
                if let Some(resume) = resume {
                    writer.bytes(resume.after);
                    writer.u32(resume.kind);
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
            0 => Self::Transaction {
                id: reader.u64("last transaction id")?,
                queried: reader.u64("last query time")?,
            },
            1 => Self::States(reader.bytes("replication states")?),
            other => Self::Other(other),
        })
    }

    fn encode(&self, version: ProtocolVersion, writer: &mut WireWriter<'_>) {
        let kind = match self {
            Self::Transaction { .. } => 0,
            Self::States(_) => 1,
            Self::Other(kind) => *kind,
        };
        if version >= ProtocolVersion::REPLICATION_KINDS {
            writer.u8(kind);
        }
        match self {
            Self::Transaction { id, queried } => {
                writer.u64(*id);
                writer.u64(*queried);
            }
            Self::States(states) => writer.bytes(states),
            Self::Other(_) => {}
        }
    }
}

impl HashPartition {
    fn decode(reader: &mut WireReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            hash_option: HashOption(reader.u8("receiver hash option")?),
            servers: reader.u32("receiver servers")?,
            index: reader.u32("receiver index")?,
        })
    }

    fn encode(&self, writer: &mut WireWriter<'_>) {
        writer.u8(self.hash_option.0);
        writer.u32(self.servers);
        writer.u32(self.index);
    }
}

impl<'a> DumpCursor<'a> {
    fn decode(reader: &mut WireReader<'a>) -> Result<Option<Self>, DecodeError> {
        if reader.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { after: reader.bytes("resume handle")?, kind: reader.u32("resume kind")? }))
    }
}

fn decode_handle<'a>(reader: &mut WireReader<'a>) -> Result<Handle<'a>, DecodeError> {
    Ok(Handle::new(reader.bytes("handle")?))
}
