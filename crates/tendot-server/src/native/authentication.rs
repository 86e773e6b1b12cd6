//! Outstanding authentication challenges.

use tendot_proto::Budget;
use tendot_proto::Now;
use tendot_proto::auth::{AuthError, AuthPolicy, ChallengeLimits, ChallengeTable, PendingChallenge};
use tendot_proto::crypto::{AwsLcProvider, SystemRandom};
use tendot_proto::endpoint::Transport;

/// Outstanding challenges; those issued over UDP have a table of their own.
///
/// UDP source addresses may be forged: however many challenges are issued over UDP, they take no room from other transports.
#[derive(Debug)]
pub(crate) struct PendingChallenges {
    forgeable: ChallengeTable,
    others: ChallengeTable,
}

impl PendingChallenges {
    pub(crate) fn new(policy: AuthPolicy) -> Self {
        let table = || ChallengeTable::new(ChallengeLimits::default(), policy);
        Self { forgeable: table(), others: table() }
    }

    /// Issues a challenge for a request on this transport.
    pub(crate) fn issue(
        &mut self,
        request: &[u8],
        transport: Transport,
        now: Now,
        budget: &mut Budget,
        is_session: impl Fn(u32) -> bool,
    ) -> Result<&PendingChallenge, AuthError> {
        let (table, other) = match transport {
            Transport::Udp => (&mut self.forgeable, &self.others),
            Transport::Tcp | Transport::Http => (&mut self.others, &self.forgeable),
        };
        let is_taken = |id| is_session(id) || other.contains(id);
        table.issue(request, now, &AwsLcProvider, &mut SystemRandom, budget, is_taken)
    }

    /// Removes the challenge with this id, for its only answer.
    pub(crate) fn take(&mut self, id: u32, now: Now) -> Result<PendingChallenge, AuthError> {
        self.others.consume(id, now).or_else(|_| self.forgeable.consume(id, now))
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        self.others.contains(id) || self.forgeable.contains(id)
    }
}
