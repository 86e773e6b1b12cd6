use tendot_proto::Budget;
use tendot_proto::Now;
use tendot_proto::auth::{AuthError, AuthPolicy, ChallengeLimits, ChallengeTable, PendingChallenge};
use tendot_proto::crypto::{AwsLcProvider, SystemRandom};
use tendot_proto::endpoint::Transport;

/// Outstanding challenges; those issued over UDP have a table of their own.
///
/// Those of datagrams, whose addresses may be forged, are kept apart: however many there are, they take no room from others.
#[derive(Debug)]
pub(super) struct PendingChallenges {
    forgeable: ChallengeTable,
    others: ChallengeTable,
}

impl PendingChallenges {
    pub(super) fn new(policy: AuthPolicy) -> Self {
        let table = || ChallengeTable::new(ChallengeLimits::default(), policy);
        Self { forgeable: table(), others: table() }
    }

    /// Challenges a request that came this way.
    pub(super) fn issue(
        &mut self,
        request: &[u8],
        transport: Transport,
        now: Now,
        work: &mut Budget,
        is_session: impl Fn(u32) -> bool,
    ) -> Result<&PendingChallenge, AuthError> {
        let (table, other) = match transport {
            Transport::Udp => (&mut self.forgeable, &self.others),
            Transport::Tcp | Transport::Http => (&mut self.others, &self.forgeable),
        };
        let is_taken = |id| is_session(id) || other.contains(id);
        table.issue(request, now, &AwsLcProvider, &mut SystemRandom, work, is_taken)
    }

    /// Takes out the challenge of this number, for its one answer.
    pub(super) fn take(&mut self, id: u32, now: Now) -> Result<PendingChallenge, AuthError> {
        self.others.consume(id, now).or_else(|_| self.forgeable.consume(id, now))
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        self.others.contains(id) || self.forgeable.contains(id)
    }
}
