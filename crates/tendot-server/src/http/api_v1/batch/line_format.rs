//! Syntax of the lines of a batch: JSON or CSV.

use std::sync::Arc;

use bytes::Bytes;
use tendot_registry::batch::{BatchFormat, BatchLineOutcome};
use tendot_registry::registration::RegistrationRequest;
use tendot_registry::{RegistryError, codes};

use crate::http::api_v1::batch::csv::CsvColumns;
use crate::http::api_v1::batch::outcomes::render_results;

/// Line format: JSON or CSV.
#[derive(Clone)]
pub(super) enum LineFormat {
    Json,
    Csv(Arc<CsvColumns>),
}

impl BatchFormat for LineFormat {
    fn parse(&self, text: &[u8]) -> Result<RegistrationRequest, RegistryError> {
        let text = str::from_utf8(text).map_err(|error| {
            let detail = format!("invalid UTF-8 at byte {} of the line", error.valid_up_to());
            RegistryError::new(codes::MALFORMED, detail)
        })?;
        match self {
            Self::Json => RegistrationRequest::from_json(text.as_bytes()),
            Self::Csv(columns) => columns.parse_row(text),
        }
    }

    fn peek_name(&self, text: &[u8]) -> Option<Box<str>> {
        match self {
            Self::Json => RegistrationRequest::peek_name(text),
            Self::Csv(columns) => columns.name_in_row(str::from_utf8(text).ok()?),
        }
    }

    fn render(&self, outcomes: &[BatchLineOutcome]) -> Bytes {
        render_results(outcomes)
    }
}
