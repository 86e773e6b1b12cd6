use crate::crypto::SecureRandom;

/// A number for a session or a challenge that nobody can guess and that is not in use: 31 bits, since the deployed
/// software takes it for signed, and not 0, which is none.
pub(super) fn random_id(random: &mut dyn SecureRandom, is_taken: impl Fn(u32) -> bool) -> u32 {
    loop {
        let mut bytes = [0; 4];
        random.fill(&mut bytes);
        let id = u32::from_be_bytes(bytes) & i32::MAX as u32;
        if id != 0 && !is_taken(id) {
            return id;
        }
    }
}
