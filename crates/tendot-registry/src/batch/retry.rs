//! Retries refused lines of a batch that is sent again.

use core::net::IpAddr;
use std::slice;

use bytes::Bytes;

use super::BatchGroup;
use super::chunk::JournalChunk;
use super::group::LineJournal;
use super::journal::{BatchJournal, ResultRenderer};
use super::line::{BatchLine, BatchLineOutcome};
use crate::{Caller, Registry, RegistryError};

/// Journal of retried lines: replaces their results in a chunk.
#[derive(Clone, Copy)]
pub(super) struct RetryJournal<'a> {
    journal: &'a BatchJournal,
    chunk: &'a JournalChunk,
    render: ResultRenderer<'a>,
}

impl RetryJournal<'_> {
    /// Edits that replace the results, provided that this run still owns the batch.
    pub(super) fn edits(&self, outcomes: &[BatchLineOutcome]) -> Vec<tendot_store::Edit> {
        let chunk = self.chunk.with_outcomes(outcomes, self.render);
        // A replay writes nothing if every line is refused as before.
        if chunk == *self.chunk { Vec::new() } else { self.journal.put_chunk(&chunk, Some(self.chunk)) }
    }
}

impl Registry {
    /// Retries the refused lines of a chunk, except those whose names were changed since the batch began, and journals their new
    /// results. Returns the results of the chunk.
    pub(super) async fn retry_refused(
        &self,
        journal: &BatchJournal,
        mut chunk: JournalChunk,
        refused: Vec<BatchLine>,
        (caller, client, now_ms): (&Caller, Option<IpAddr>, u64),
        render: ResultRenderer<'_>,
    ) -> Result<Bytes, RegistryError> {
        let mut lines = Vec::with_capacity(refused.len());
        for line in refused {
            if !self.was_changed_since(journal, &line).await? {
                lines.push(line);
            }
        }
        if lines.is_empty() {
            return Ok(chunk.results);
        }
        let retry = RetryJournal { journal, chunk: &chunk, render };
        let group = BatchGroup { lines: &lines, caller, client, now_ms, journal: None };
        if let Some(outcomes) = self.commit_together(group, Some(LineJournal::Retry(retry))).await? {
            return Ok(chunk.with_outcomes(&outcomes, render).results);
        }
        for line in &lines {
            let retry = RetryJournal { journal, chunk: &chunk, render };
            let group = BatchGroup { lines: slice::from_ref(line), ..group };
            let outcomes = self.execute_line(group, Some(LineJournal::Retry(retry))).await?;
            chunk = chunk.with_outcomes(&outcomes, render);
        }
        Ok(chunk.results)
    }
}
