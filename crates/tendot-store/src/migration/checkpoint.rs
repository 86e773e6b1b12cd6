use crate::NameKey;

/// Migration progress, stored in the target with each batch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Checkpoint {
    /// The line of the log up to which names are what they were in the source, once they have been copied.
    pub(crate) followed: u64,
    /// The line up to which they have been compared, too; 0 if not all of them have.
    pub(crate) verified: u64,
    pub(crate) stage: MigrationStage,
}

/// Phase of a migration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum MigrationStage {
    /// Records are copied, with their histories, in the order of their keys: those up to this one are there.
    Records(Option<NameKey>),
    /// Histories of names that have no record are copied, as the log tells of them: those up to this line are there.
    Removed(u64),
    /// All was copied once; what has changed since is.
    Following,
    /// It is whole.
    Complete,
}

impl Checkpoint {
    /// Whether the store is whole, and may be used.
    pub(crate) fn is_complete(&self) -> bool {
        self.stage == MigrationStage::Complete
    }

    /// As it is kept: words, and last what may have any bytes in it.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (word, line, name) = match &self.stage {
            MigrationStage::Records(after) => {
                ("records", 0, after.as_ref().map(NameKey::as_bytes).unwrap_or_default())
            }
            MigrationStage::Removed(line) => ("removed", *line, &b""[..]),
            MigrationStage::Following => ("following", 0, &b""[..]),
            MigrationStage::Complete => ("complete", 0, &b""[..]),
        };
        let words = format!("1 {} {} {word} {line} ", self.followed, self.verified);
        [words.as_bytes(), name].concat()
    }

    /// None if the bytes are none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(bytes).ok()?.splitn(6, ' ');
        let mut word = || words.next();
        word().filter(|version| *version == "1")?;
        let (followed, verified) = (word()?.parse().ok()?, word()?.parse().ok()?);
        let (stage, line, name) = (word()?, word()?.parse().ok()?, word()?);
        let stage = match (stage, name) {
            ("records", "") => MigrationStage::Records(None),
            ("records", name) => MigrationStage::Records(Some(NameKey::new(name).ok()?)),
            ("removed", "") => MigrationStage::Removed(line),
            ("following", "") => MigrationStage::Following,
            ("complete", "") => MigrationStage::Complete,
            _ => return None,
        };
        Some(Self { followed, verified, stage })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back() {
        let key = NameKey::new("10.1/ a b\n\u{e9} ").unwrap();
        let stages = [
            MigrationStage::Records(None),
            MigrationStage::Records(Some(key)),
            MigrationStage::Removed(7),
            MigrationStage::Following,
        ];
        for stage in stages.into_iter().chain([MigrationStage::Complete]) {
            let mark = Checkpoint { followed: 12, verified: u64::MAX, stage };
            assert_eq!(Checkpoint::decode(&mark.encode()), Some(mark));
        }
        for none in
            ["", "1", "2 1 1 complete 0 ", "1 1 1 complete 0 x", "1 x 1 complete 0 ", "1 1 1 other 0 "]
        {
            assert_eq!(Checkpoint::decode(none.as_bytes()), None, "{none}");
        }
    }
}
