//! Work budget of one request.

/// Remaining work budget of one request, in units of about one microsecond of CPU time.
///
/// Memory safety does not bound CPU time: every loop whose length an untrusted peer chooses, and every cryptographic
/// operation, is charged here first. A budget that is exceeded is an ordinary error response.
///
/// ```
/// use tendot_proto::Budget;
///
/// let mut budget = Budget::new(100);
/// assert!(budget.charge(60).is_ok());
/// assert!(budget.charge(60).is_err(), "nothing is charged on error");
/// assert_eq!(budget.remaining(), 40);
/// ```
///
/// Not `Copy`: a copy could be spent twice.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Budget {
    remaining: u32,
}

impl Budget {
    /// Budget of one request, with a margin: PBKDF2 with the most iterations and the longest key that are accepted, and
    /// one signature.
    pub const PER_REQUEST: Self = Self::new(250_000);

    /// Budget of `units`.
    pub const fn new(units: u32) -> Self {
        Self { remaining: units }
    }

    /// Charges `units`; on error nothing is charged.
    pub fn charge(&mut self, units: u32) -> Result<(), BudgetExceeded> {
        let exceeded = BudgetExceeded { required: units, remaining: self.remaining };
        self.remaining = self.remaining.checked_sub(units).ok_or(exceeded)?;
        Ok(())
    }

    /// Remaining units.
    pub const fn remaining(&self) -> u32 {
        self.remaining
    }
}

/// Work budget exceeded.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("work budget exceeded: {required} units required, {remaining} remaining")]
pub struct BudgetExceeded {
    /// Units of the next operation.
    pub required: u32,
    /// Units that remained.
    pub remaining: u32,
}
