//! Lines of a batch and their outcomes.

use bytes::Bytes;
use tendot_names::InputForm;

use crate::registration::RegistrationRequest;
use crate::{RegistryError, WriteWarning};

/// Line as received: number and text, or why the line is unusable.
#[derive(Clone, Debug)]
pub struct RawLine {
    /// Line number, starting with 1.
    pub number: u64,
    /// Text, or the reason.
    pub text: Result<Bytes, String>,
}

impl RawLine {
    /// Number of bytes of the text; 0 if the line is unusable.
    pub fn byte_len(&self) -> usize {
        self.text.as_ref().map_or(0, Bytes::len)
    }
}

/// Lines that are parsed and committed together.
#[derive(Debug)]
pub struct LineGroup<E> {
    /// Lines; empty at the end of the input.
    pub lines: Vec<RawLine>,
    /// Error that ended the input early.
    pub error: Option<E>,
}

/// Line of a batch.
#[derive(Debug)]
pub struct BatchLine {
    /// Line number, starting with 1.
    pub number: u64,
    /// Parsed request, or the error.
    pub request: Result<RegistrationRequest, RegistryError>,
    /// Name of an invalid line, if it can be read.
    pub name: Option<Box<str>>,
    /// Random bytes for a minted suffix, if there is no name.
    pub random_bytes: [u8; 16],
}

impl BatchLine {
    pub(super) fn rejected(&self, rejection: &RegistryError) -> BatchLineOutcome {
        let name = self.request.as_ref().map_or(&self.name, |request| &request.name).clone();
        BatchLineOutcome::rejected(self.number, name, rejection.clone_without_source())
    }
}

/// Outcome of a batch line.
#[derive(Debug)]
pub struct BatchLineOutcome {
    /// Line number.
    pub number: u64,
    /// Name in its original spelling, if known.
    pub name: Option<Box<str>>,
    /// Status, or the error.
    pub result: Result<BatchLineStatus, RegistryError>,
    /// Warnings for the caller.
    pub warnings: Vec<WriteWarning>,
    /// Form in which the name was written, if it was not bare.
    pub input_form: Option<InputForm>,
}

impl BatchLineOutcome {
    pub(super) const fn rejected(number: u64, name: Option<Box<str>>, rejection: RegistryError) -> Self {
        Self { number, name, result: Err(rejection), warnings: Vec::new(), input_form: None }
    }
}

/// Success status of a batch line.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum BatchLineStatus {
    /// Name created.
    Created,
    /// Name updated.
    Updated,
    /// Nothing changed.
    Unchanged,
}

impl BatchLineStatus {
    /// Name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
        }
    }
}
