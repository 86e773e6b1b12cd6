//! Request validation that needs no record.

use super::InvalidRequest;
use crate::handle::Handle;
use crate::limits;
use crate::message::{Opcode, Request, ResponseCode};
use crate::record::{HandleValue, IndexError, validate_indexes};
use crate::wire::WireList;

/// Validates handles and values of a request.
pub(super) fn validate_request(opcode: Opcode, request: &Request<'_>) -> Result<(), InvalidRequest> {
    if let Some(handle) = request.handle() {
        validate_handle(opcode, handle)?;
    }
    match request {
        Request::WriteValues { values, .. } => validate_values(opcode, values),
        _ => Ok(()),
    }
}

/// Validates a handle: length and UTF-8; for a new record also slash and prefix.
fn validate_handle(opcode: Opcode, handle: Handle<'_>) -> Result<(), InvalidRequest> {
    let validated = match opcode {
        Opcode::CREATE_HANDLE => handle.validate_for_create(),
        _ => handle.validate(),
    };
    validated.map_err(|error| InvalidRequest::new(ResponseCode::INVALID_HANDLE, alloc::format!("{error}")))
}

fn validate_values(opcode: Opcode, values: &WireList<'_, HandleValue<'_>>) -> Result<(), InvalidRequest> {
    if values.is_empty() && opcode != Opcode::CREATE_HANDLE {
        return Err(InvalidRequest::new(ResponseCode::INVALID_VALUE, "no values given".into()));
    }
    validate_indexes(values.iter().map(|value| value.index), limits::MAX_VALUES).map_err(|error| {
        let code = match error {
            IndexError::Duplicate { .. } => ResponseCode::VALUE_ALREADY_EXISTS,
            _ => ResponseCode::INVALID_VALUE,
        };
        InvalidRequest::new(code, alloc::format!("{error}"))
    })
}
