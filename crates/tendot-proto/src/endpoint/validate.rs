//! Request validation that needs no record.

use alloc::vec::Vec;

use super::InvalidRequest;
use crate::handle::Handle;
use crate::limits;
use crate::message::{Opcode, Request, ResponseCode};
use crate::record::HandleValue;
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
    let invalid = |message| Err(InvalidRequest::new(ResponseCode::INVALID_VALUE, message));
    if values.len() > limits::MAX_VALUES {
        let message = alloc::format!("{} values exceed the limit of {}", values.len(), limits::MAX_VALUES);
        return invalid(message);
    }
    if values.is_empty() && opcode != Opcode::CREATE_HANDLE {
        return invalid("no values given".into());
    }
    let mut indexes: Vec<u32> = values.iter().map(|value| value.index).collect();
    // Peers read indexes as signed.
    if let Some(index) = indexes.iter().find(|index| **index == 0 || **index > i32::MAX as u32) {
        return invalid(alloc::format!("invalid value index {index}"));
    }
    indexes.sort_unstable();
    if let Some([index, _]) = indexes.windows(2).find(|pair| pair.first() == pair.last()) {
        let message = alloc::format!("duplicate value index {index}");
        return Err(InvalidRequest::new(ResponseCode::VALUE_ALREADY_EXISTS, message));
    }
    Ok(())
}
