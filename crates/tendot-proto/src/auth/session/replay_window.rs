//! Anti-replay window of a session.

/// Anti-replay window of 200 message counters (as in RFC 4303, 3.4.3).
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplayWindow {
    highest: u32,
    /// Bit n is set if `highest - n` was received.
    seen: [u64; 4],
}

impl ReplayWindow {
    pub(super) const EMPTY: Self = Self { highest: 0, seen: [1, 0, 0, 0] };

    /// Size of the window.
    const SIZE: u32 = 200;

    /// Marks a counter as received; returns whether it was new.
    pub(super) fn accept(&mut self, counter: u32) -> bool {
        if let Some(ahead) = counter.checked_sub(self.highest).filter(|ahead| *ahead > 0) {
            self.advance(ahead);
            self.highest = counter;
        }
        let behind = self.highest - counter;
        if behind >= Self::SIZE {
            return false;
        }
        let Some(word) = self.seen.get_mut(behind as usize / 64) else { return false };
        let bit = 1 << (behind % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn advance(&mut self, by: u32) {
        let old = self.seen;
        let (words, bits) = (by as usize / 64, by % 64);
        for (index, word) in self.seen.iter_mut().enumerate() {
            let old_word =
                |back: usize| index.checked_sub(back).and_then(|index| old.get(index)).copied().unwrap_or(0);
            *word = old_word(words) << bits;
            if bits > 0 {
                *word |= old_word(words.saturating_add(1)) >> (64 - bits);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_each_counter_once() {
        let mut window = ReplayWindow::EMPTY;
        let mut check = |counter, expected| assert_eq!(window.accept(counter), expected, "{counter}");
        check(0, false);
        check(1, true);
        check(1, false);
        check(3, true);
        check(2, true);
        check(2, false);
        check(0, false);
        check(203, true);
        check(3, false);
        check(4, true);
        check(4, false);
        check(202, true);
        check(1_000, true);
        check(800, false);
        check(801, true);
        check(801, false);
        check(u32::MAX, true);
        check(u32::MAX, false);
        check(u32::MAX - 199, true);
        check(u32::MAX - 200, false);
        check(1, false);
    }

    /// Compares with a set, for many orders.
    #[test]
    fn replay_window_matches_set_model() {
        let mut state = 1_u32;
        for _ in 0..50 {
            let (mut window, mut seen) = (ReplayWindow::EMPTY, std::collections::BTreeSet::from([0]));
            for _ in 0..2_000 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let highest = *seen.last().unwrap();
                let counter = (highest + state % 300).saturating_sub(state >> 16 & 0xff);
                let expected = !seen.contains(&counter) && counter + 200 > highest;
                assert_eq!(window.accept(counter), expected, "{counter} after {highest}");
                seen.insert(counter);
            }
        }
    }
}
