//! Mapping of messages to operations.

use tendot_proto::auth::Challenge;
use tendot_proto::endpoint::{IncomingRequest, Transport};
use tendot_proto::message::SessionSetup;
use tendot_proto::{Handle, MessageHeader, OpFlags, Opcode, Request};
use tendot_registry::{HandleOperation, HandleWrite, ResolveQuery};

use crate::native::status::is_status;
use crate::random::random_bytes;

/// Operation that a message requests.
#[derive(Debug)]
pub(crate) enum NativeOperation<'a> {
    /// Operation on records, by the registry.
    Registry(HandleOperation<'a>),
    /// Status of the server.
    Status(ResolveQuery<'a>),
    /// Site record of the server.
    SiteInfo,
    /// Verification of the response to another server's challenge, against a secret key that is stored here.
    VerifyChallenge {
        key_handle: Handle<'a>,
        key_index: u32,
        challenge: Challenge<'a>,
        answer: &'a [u8],
    },
    SetUpSession(SessionSetup<'a>),
    TerminateSession,
}

impl<'a> NativeOperation<'a> {
    /// Operation of a request; `None` if it is not supported. `scratch` holds names that have to be built.
    pub(crate) fn from_request(incoming: &IncomingRequest<'a>, scratch: &'a mut Vec<u8>) -> Option<Self> {
        let (header, request) = (&incoming.parts.header, incoming.request);
        Some(match (header.opcode, request) {
            (_, Request::Resolve { handle, indexes, types }) => {
                let flags = header.flags;
                let query = ResolveQuery {
                    handle,
                    indexes: indexes.iter().collect(),
                    types: types.iter().collect(),
                    public_only: flags.contains(OpFlags::PUBLIC_ONLY),
                    in_session: incoming.parts.envelope.session_id != 0,
                    // Responses with secrets are encrypted by the session; never over HTTP, whatever is tunnelled in it.
                    with_secrets: incoming.session_id != 0 && incoming.transport != Transport::Http,
                    allow_referral: !flags.contains(OpFlags::DO_NOT_REFER),
                };
                if is_status(handle) {
                    Self::Status(query)
                } else {
                    Self::Registry(HandleOperation::Resolve(query))
                }
            }
            (Opcode::GET_SITE_INFO, Request::NoOperand { .. }) => Self::SiteInfo,
            (_, Request::VerifyChallenge { key_handle, key_index, nonce, digest, response }) => {
                let challenge = Challenge { nonce, digest: digest.bytes };
                Self::VerifyChallenge { key_handle, key_index, challenge, answer: response }
            }
            (_, Request::SessionSetup(setup)) => Self::SetUpSession(setup),
            (Opcode::SESSION_TERMINATE, Request::NoOperand { .. }) => Self::TerminateSession,
            _ => Self::Registry(registry_operation(header, request, scratch)?),
        })
    }

    /// Operation of the registry that has the same requirements; `None` if none needs authentication.
    pub(crate) const fn authorized_as(&self) -> Option<&HandleOperation<'a>> {
        match self {
            Self::Registry(operation) => Some(operation),
            // The server status is for administrators.
            Self::Status(_) => Some(&HandleOperation::ListHomed),
            Self::SiteInfo
            | Self::VerifyChallenge { .. }
            | Self::SetUpSession(_)
            | Self::TerminateSession => None,
        }
    }
}

/// Write or list operation of a request; `None` if it is not supported.
fn registry_operation<'a>(
    header: &MessageHeader,
    request: Request<'a>,
    scratch: &'a mut Vec<u8>,
) -> Option<HandleOperation<'a>> {
    let flags = header.flags;
    Some(match (header.opcode, request) {
        (opcode, Request::WriteValues { handle: name, values }) => {
            let values = values.iter().collect();
            let overwrite = flags.contains(OpFlags::OVERWRITE);
            HandleOperation::Write(match opcode {
                Opcode::CREATE_HANDLE => {
                    let mint = flags.contains(OpFlags::MINT_NEW_SUFFIX).then(random_bytes);
                    HandleWrite::Create {
                        name,
                        values,
                        overwrite,
                        keep_secrets: false,
                        uuid_bytes: mint,
                        force: false,
                    }
                }
                Opcode::ADD_VALUE => HandleWrite::AddValues { name, values, overwrite, force: false },
                _ => HandleWrite::ModifyValues { name, values, force: false },
            })
        }
        (_, Request::RemoveValues { handle: name, indexes }) => {
            HandleOperation::Write(HandleWrite::RemoveValues {
                name,
                indexes: indexes.iter().collect(),
                force: false,
            })
        }
        (Opcode::DELETE_HANDLE, Request::HandleOnly { handle: name }) => {
            HandleOperation::Write(HandleWrite::Delete { name, permanent: false })
        }
        (Opcode::HOME_PREFIX, Request::HandleOnly { handle: prefix }) => {
            HandleOperation::Write(HandleWrite::Home { prefix })
        }
        (Opcode::UNHOME_PREFIX, Request::HandleOnly { handle: prefix }) => {
            HandleOperation::Write(HandleWrite::Unhome { prefix })
        }
        (Opcode::LIST_HANDLES, Request::HandleOnly { handle }) => HandleOperation::List(handle),
        (Opcode::LIST_DERIVED_PREFIXES, Request::HandleOnly { handle }) => {
            let full = handle.qualified();
            let suffix = Handle::new(&full).suffix().unwrap_or_default();
            *scratch = [b"0.NA/0.NA/", suffix].concat();
            HandleOperation::List(Handle::new(scratch))
        }
        (Opcode::LIST_HOMED_PREFIXES, _) => HandleOperation::ListHomed,
        _ => return None,
    })
}
