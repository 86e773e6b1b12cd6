//! Migration progress, stored in the target.

use crate::NameKey;

/// Migration progress, stored in the target with each batch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Checkpoint {
    /// Log sequence number up to which the target has been caught up, once the initial copy is complete.
    pub(crate) copied_to: u64,
    /// Log sequence number up to which both have been compared; 0 before the first full comparison.
    pub(crate) compared_to: u64,
    pub(crate) stage: MigrationStage,
}

/// Phase of a migration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum MigrationStage {
    /// Copying records with histories in key order; the last copied key.
    Records(Option<NameKey>),
    /// Copying the histories of removed names in log order; the last processed sequence number.
    RemovedNames(u64),
    /// The initial copy is complete; catching up.
    CatchingUp,
    /// Compared without differences.
    Complete,
}

impl Checkpoint {
    /// Whether the store is complete and may be opened.
    pub(crate) fn is_complete(&self) -> bool {
        self.stage == MigrationStage::Complete
    }

    /// Encodes the checkpoint as words: version, log positions, stage, its sequence number and its name, which may contain any
    /// bytes and is last.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (stage, sequence, name) = match &self.stage {
            MigrationStage::Records(after) => {
                ("records", 0, after.as_ref().map(NameKey::as_bytes).unwrap_or_default())
            }
            MigrationStage::RemovedNames(sequence) => ("removed-names", *sequence, &b""[..]),
            MigrationStage::CatchingUp => ("catching-up", 0, &b""[..]),
            MigrationStage::Complete => ("complete", 0, &b""[..]),
        };
        let words = format!("1 {} {} {stage} {sequence} ", self.copied_to, self.compared_to);
        [words.as_bytes(), name].concat()
    }

    /// Decodes a checkpoint; `None` if it is invalid.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(bytes).ok()?.splitn(6, ' ');
        let mut word = || words.next();
        word().filter(|version| *version == "1")?;
        let (copied_to, compared_to) = (word()?.parse().ok()?, word()?.parse().ok()?);
        let (stage, sequence, name) = (word()?, word()?.parse().ok()?, word()?);
        let stage = match (stage, name) {
            ("records", "") => MigrationStage::Records(None),
            ("records", name) => MigrationStage::Records(Some(NameKey::new(name).ok()?)),
            ("removed-names", "") => MigrationStage::RemovedNames(sequence),
            ("catching-up", "") => MigrationStage::CatchingUp,
            ("complete", "") => MigrationStage::Complete,
            _ => return None,
        };
        Some(Self { copied_to, compared_to, stage })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoint_round_trip() {
        let key = NameKey::new("10.1/ a b\n\u{e9} ").unwrap();
        let stages = [
            MigrationStage::Records(None),
            MigrationStage::Records(Some(key)),
            MigrationStage::RemovedNames(7),
            MigrationStage::CatchingUp,
        ];
        for stage in stages.into_iter().chain([MigrationStage::Complete]) {
            let checkpoint = Checkpoint { copied_to: 12, compared_to: u64::MAX, stage };
            assert_eq!(Checkpoint::decode(&checkpoint.encode()), Some(checkpoint));
        }
        for invalid in
            ["", "1", "2 1 1 complete 0 ", "1 1 1 complete 0 x", "1 x 1 complete 0 ", "1 1 1 other 0 "]
        {
            assert_eq!(Checkpoint::decode(invalid.as_bytes()), None, "{invalid}");
        }
    }
}
