//! What a lookup shows of itself where everything is shown, as in logs: no bytes of messages, which may hold secrets.

use core::fmt;

use super::{Lookup, LookupResponse, Transmit};

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup")
            .field("question", &self.steps.first().map(|step| &step.question))
            .field("asking", &self.steps.last().map(|step| step.question.handle()))
            .field("deadline", &self.deadline)
            .field("sent", &self.sent)
            .field("referrals", &self.referrals)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Transmit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transmit")
            .field("attempt", &self.attempt)
            .field("transport", &self.transport)
            .field("to", &self.to)
            .field("domain", &self.domain)
            .field("server_key_length", &self.server_key.len())
            .field("length", &self.bytes.len())
            .finish()
    }
}

impl fmt::Debug for LookupResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("length", &self.bytes.len())
            .field("transport", &self.transport)
            .field("from", &self.from)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
