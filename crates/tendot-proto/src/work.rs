//! A bound on what one request may cost.

/// Remaining work budget of one request, in units of about one microsecond of CPU time.
///
/// Memory safety does not stop a message from being expensive: every loop whose length a stranger chooses, and every
/// cryptographic operation, takes its price from here first. Running out is an ordinary answer.
///
/// ```
/// use tendot_proto::Budget;
///
/// let mut work = Budget::new(100);
/// assert!(work.charge(60).is_ok());
/// assert!(work.charge(60).is_err(), "nothing is taken that is not there");
/// assert_eq!(work.remaining(), 40);
/// ```
///
/// It is not `Copy`: who hands on a copy lets the same budget be spent twice.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Budget {
    left: u32,
}

impl Budget {
    /// What one request may cost, with room to spare: a PBKDF2 of the most rounds and the longest key that are taken, and
    /// a signature.
    pub const PER_REQUEST: Self = Self::new(250_000);

    /// A budget of so many steps.
    pub const fn new(steps: u32) -> Self {
        Self { left: steps }
    }

    /// Takes `steps`, or nothing when there are not so many.
    pub fn charge(&mut self, steps: u32) -> Result<(), BudgetExceeded> {
        self.left = self.left.checked_sub(steps).ok_or(BudgetExceeded { needed: steps, left: self.left })?;
        Ok(())
    }

    /// What is left.
    pub const fn remaining(&self) -> u32 {
        self.left
    }
}

/// Work budget exceeded.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("needs {needed} steps of work, {left} are left")]
pub struct BudgetExceeded {
    /// What the next step would have cost.
    pub needed: u32,
    /// What was left.
    pub left: u32,
}
