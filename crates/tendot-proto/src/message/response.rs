//! Response bodies, by response code and opcode.

use super::{KeyExchangeMode, MessageHeader, OpFlags, Opcode, ProtocolVersion, RequestDigest, ResponseCode};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::handle::Handle;
use crate::limits;
use crate::record::HandleValue;
use crate::wire::{WireList, WireReader, WireWriter};

/// Response body: optional request digest and response data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Response<'a> {
    /// Digest of the request, present if `REQUEST_DIGEST` is set.
    pub digest: Option<RequestDigest<'a>>,
    /// Response data, by response code and opcode.
    pub data: ResponseData<'a>,
}

/// Response data, by response code and opcode.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ResponseData<'a> {
    /// Opcode 1: resolved record.
    Resolved {
        /// Handle, as in the request.
        handle: Handle<'a>,
        /// Requested values.
        values: WireList<'a, HandleValue<'a>>,
    },
    /// Opcode 2: site of the server, encoded as `HS_SITE`.
    SiteInfo(&'a [u8]),
    /// Opcode 100: record created. Older servers do not return the handle.
    Created {
        /// Handle of the new record.
        handle: Option<Handle<'a>>,
    },
    /// Opcodes 105, 106 and 302: list of handles.
    Handles(WireList<'a, &'a [u8]>),
    /// Opcode 201: 1 if the proof matches the key.
    ChallengeVerified(u8),
    /// Opcode 400: key material of the server.
    SessionSetup {
        /// Key exchange mode.
        mode: KeyExchangeMode,
        /// Key material, by mode.
        data: &'a [u8],
    },
    /// Opcode 1000: next transaction id.
    NextTransactionId(u64),
    /// Opcode 1001: a transaction stream follows.
    TransactionStream {
        /// Bit 0: the connection stays open.
        flags: u8,
    },
    /// Success without data.
    Empty,
    /// Codes 302 and 303: referral to another service.
    Referral {
        /// Handle with the sites of that service; may be empty.
        handle: Handle<'a>,
        /// Values with the sites of that service.
        values: Option<WireList<'a, HandleValue<'a>>>,
    },
    /// Code 402: authentication challenge.
    Challenge {
        /// Nonce, to be signed with the digest of the request.
        nonce: &'a [u8],
        /// Digest in the position of versions before 2.1.
        legacy_digest: Option<&'a [u8]>,
    },
    /// All other error codes: message for people.
    Error {
        /// The message; some servers omit even its length.
        message: Option<&'a [u8]>,
    },
    /// Success with any other opcode: undecoded body.
    Unknown(&'a [u8]),
}

impl<'a> Response<'a> {
    /// Response without a request digest.
    pub const fn new(data: ResponseData<'a>) -> Self {
        Self { digest: None, data }
    }

    /// Decodes the body of a response; trailing bytes stay in the reader.
    pub(crate) fn decode(
        header: &MessageHeader,
        version: ProtocolVersion,
        reader: &mut WireReader<'a>,
    ) -> Result<Self, DecodeError> {
        let digest = if header.flags.contains(OpFlags::REQUEST_DIGEST) {
            Some(RequestDigest::decode(reader)?)
        } else {
            None
        };
        // Before 2.5 code 303 was used instead of 7, with a message; see `ResponseCode::for_peer_version`.
        let has_prefix_referrals = version >= ProtocolVersion::SESSION_COUNTERS;
        let data = match header.response_code {
            ResponseCode::SUCCESS => ResponseData::decode_success(header.opcode, reader)?,
            code if code == ResponseCode::SERVICE_REFERRAL
                || code == ResponseCode::PREFIX_REFERRAL && has_prefix_referrals =>
            {
                ResponseData::Referral {
                    handle: Handle::new(reader.bytes("referral handle")?),
                    values: if reader.is_empty() { None } else { Some(decode_values(reader)?) },
                }
            }
            ResponseCode::AUTHENTICATION_NEEDED => ResponseData::Challenge {
                nonce: reader.bytes("nonce")?,
                legacy_digest: if digest.is_some() { None } else { Some(reader.bytes("request digest")?) },
            },
            _ => ResponseData::Error {
                message: if reader.is_empty() { None } else { Some(reader.bytes("error message")?) },
            },
        };
        Ok(Self { digest, data })
    }

    #[inline]
    pub(crate) fn encode(&self, writer: &mut WireWriter<'_>) {
        if let Some(digest) = &self.digest {
            digest.encode(writer);
        }
        match &self.data {
            ResponseData::Resolved { handle, values } => {
                writer.bytes(handle.as_bytes());
                values.encode(writer);
            }
            ResponseData::SiteInfo(site) => writer.raw(site),
            ResponseData::Created { handle } => {
                if let Some(handle) = handle {
                    writer.bytes(handle.as_bytes());
                }
            }
            ResponseData::Handles(handles) => handles.encode(writer),
            ResponseData::ChallengeVerified(valid) => writer.u8(*valid),
            ResponseData::SessionSetup { mode, data } => {
                writer.u16(mode.0);
                writer.bytes(data);
            }
            ResponseData::NextTransactionId(id) => writer.u64(*id),
            ResponseData::TransactionStream { flags } => writer.u8(*flags),
            ResponseData::Empty => {}
            ResponseData::Referral { handle, values } => {
                writer.bytes(handle.as_bytes());
                if let Some(values) = values {
                    values.encode(writer);
                }
            }
            ResponseData::Challenge { nonce, legacy_digest } => {
                writer.bytes(nonce);
                if let Some(digest) = legacy_digest {
                    writer.bytes(digest);
                }
            }
            ResponseData::Error { message } => {
                if let Some(message) = message {
                    writer.bytes(message);
                }
            }
            ResponseData::Unknown(body) => writer.raw(body),
        }
    }
}

impl<'a> ResponseData<'a> {
    fn decode_success(opcode: Opcode, reader: &mut WireReader<'a>) -> Result<Self, DecodeError> {
        Ok(match opcode {
            Opcode::RESOLUTION => {
                let handle = reader.bytes_up_to("handle", limits::MAX_HANDLE_LEN)?;
                Self::Resolved { handle: Handle::new(handle), values: decode_values(reader)? }
            }
            Opcode::GET_SITE_INFO => Self::SiteInfo(reader.take("site", reader.remaining().len())?),
            Opcode::CREATE_HANDLE => Self::Created {
                handle: if reader.is_empty() { None } else { Some(Handle::new(reader.bytes("handle")?)) },
            },
            Opcode::DELETE_HANDLE
            | Opcode::ADD_VALUE
            | Opcode::REMOVE_VALUE
            | Opcode::MODIFY_VALUE
            | Opcode::HOME_PREFIX
            | Opcode::UNHOME_PREFIX
            | Opcode::SESSION_TERMINATE
            | Opcode::SESSION_EXCHANGE_KEY
            | Opcode::DUMP_HANDLES
            | Opcode::BACKUP_SERVER => Self::Empty,
            Opcode::LIST_HANDLES | Opcode::LIST_DERIVED_PREFIXES | Opcode::LIST_HOMED_PREFIXES => {
                Self::Handles(WireList::decode(reader, "handles")?)
            }
            Opcode::VERIFY_CHALLENGE => Self::ChallengeVerified(reader.u8("verification")?),
            Opcode::SESSION_SETUP => Self::SessionSetup {
                mode: KeyExchangeMode(reader.u16("key exchange mode")?),
                data: reader.bytes("session key data")?,
            },
            Opcode::GET_NEXT_TRANSACTION_ID => Self::NextTransactionId(reader.u64("next transaction id")?),
            Opcode::RETRIEVE_TRANSACTION_LOG => {
                Self::TransactionStream { flags: reader.u8("transaction flags")? }
            }
            _ => Self::Unknown(reader.take("body", reader.remaining().len())?),
        })
    }
}

/// Decodes values of a response, at most [`limits::MAX_VALUES`].
fn decode_values<'a>(reader: &mut WireReader<'a>) -> Result<WireList<'a, HandleValue<'a>>, DecodeError> {
    let start = *reader;
    let values: WireList<'_, HandleValue<'_>> = WireList::decode(reader, "values")?;
    match values.len() {
        count if count > limits::MAX_VALUES => {
            Err(start.error("values", DecodeErrorKind::TooManyItems { count, max: limits::MAX_VALUES }))
        }
        _ => Ok(values),
    }
}
