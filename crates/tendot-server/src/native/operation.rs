//! Mapping of messages to registry operations.

use tendot_proto::crypto::{SecureRandom as _, SystemRandom};
use tendot_proto::{Handle, MessageParts, OpFlags, Opcode, Request};
use tendot_registry::{HandleOperation, HandleWrite, ResolveQuery};

use crate::native::status::is_status;

/// Operation of a request; `None` if it does not concern records. `scratch` holds names that have to be built.
pub(crate) fn to_operation<'a>(
    parts: &MessageParts<'_>,
    request: Request<'a>,
    scratch: &'a mut Vec<u8>,
) -> Option<HandleOperation<'a>> {
    let flags = parts.header.flags;
    Some(match (parts.header.opcode, request) {
        // The server status is for administrators.
        (_, Request::Resolve { handle, .. }) if is_status(handle) => HandleOperation::ListHomed,
        (_, Request::Resolve { handle, indexes, types }) => HandleOperation::Resolve(ResolveQuery {
            handle,
            indexes: indexes.iter().collect(),
            types: types.iter().collect(),
            public_only: flags.contains(OpFlags::PUBLIC_ONLY),
            in_session: parts.envelope.session_id != 0,
            allow_referral: !flags.contains(OpFlags::DO_NOT_REFER),
        }),
        (opcode, Request::WriteValues { handle: name, values }) => {
            let values = values.iter().collect();
            let overwrite = flags.contains(OpFlags::OVERWRITE);
            HandleOperation::Write(match opcode {
                Opcode::CREATE_HANDLE => {
                    let mint = flags.contains(OpFlags::MINT_NEW_SUFFIX).then(random_bytes);
                    HandleWrite::Create { name, values, overwrite, uuid_bytes: mint, force: false }
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

fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    SystemRandom.fill(&mut bytes);
    bytes
}
