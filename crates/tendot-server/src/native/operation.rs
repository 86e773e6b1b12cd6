//! What a message asks of the registry.

use tendot_proto::crypto::{Random as _, SystemRandom};
use tendot_proto::{Body, Handle, Message, OpFlags, Opcode, Request};
use tendot_registry::{Operation, ResolveQuery, Write};

use super::status::is_status;

/// The operation of a message; none if it is not about records. `scratch` is for names that have to be made.
pub(super) fn operation<'a>(message: &Message<'a>, scratch: &'a mut Vec<u8>) -> Option<Operation<'a>> {
    let flags = message.header.flags;
    let Body::Request(request) = message.body else { return None };
    Some(match (message.header.opcode, request) {
        // How the server is, is for those who administer it.
        (_, Request::Resolve { handle, .. }) if is_status(handle) => Operation::ListHomed,
        (_, Request::Resolve { handle, indexes, types }) => Operation::Resolve(ResolveQuery {
            name: handle,
            indexes: indexes.iter().collect(),
            types: types.iter().collect(),
            public_only: flags.has(OpFlags::PUBLIC_ONLY),
            in_session: message.envelope.session_id != 0,
            refer: !flags.has(OpFlags::DO_NOT_REFER),
        }),
        (opcode, Request::Values { handle: name, values }) => {
            let values = values.iter().collect();
            let overwrite = flags.has(OpFlags::OVERWRITE);
            Operation::Write(match opcode {
                Opcode::CREATE_HANDLE => {
                    let mint = flags.has(OpFlags::MINT_NEW_SUFFIX).then(random);
                    Write::Create { name, values, overwrite, mint, force: false }
                }
                Opcode::ADD_VALUE => Write::Add { name, values, overwrite, force: false },
                _ => Write::Modify { name, values, force: false },
            })
        }
        (_, Request::RemoveValues { handle: name, indexes }) => {
            Operation::Write(Write::Remove { name, indexes: indexes.iter().collect(), force: false })
        }
        (Opcode::DELETE_HANDLE, Request::Named { handle: name }) => {
            Operation::Write(Write::Delete { name, for_ever: false })
        }
        (Opcode::HOME_PREFIX, Request::Named { handle: prefix }) => Operation::Write(Write::Home { prefix }),
        (Opcode::UNHOME_PREFIX, Request::Named { handle: prefix }) => {
            Operation::Write(Write::Unhome { prefix })
        }
        (Opcode::LIST_HANDLES, Request::Named { handle }) => Operation::List(handle),
        (Opcode::LIST_DERIVED_PREFIXES, Request::Named { handle }) => {
            let full = handle.qualified();
            let suffix = Handle::new(&full).suffix().unwrap_or_default();
            *scratch = [b"0.NA/0.NA/", suffix].concat();
            Operation::List(Handle::new(scratch))
        }
        (Opcode::LIST_HOMED_PREFIXES, _) => Operation::ListHomed,
        _ => return None,
    })
}

fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    SystemRandom.fill(&mut bytes);
    bytes
}
