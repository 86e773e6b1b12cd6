/// True in `cargo xtask test --full`, where tests repeat their cases at greater length (`TENDOT_TEST_FULL=1`).
pub fn is_full_run() -> bool {
    std::env::var_os("TENDOT_TEST_FULL").is_some_and(|value| value != "0")
}

/// Number of repetitions of a test: that in the environment variable `name` if it is set, otherwise `full` in a full
/// run and `ordinary` in all others.
pub fn repetitions(name: &str, ordinary: u64, full: u64) -> u64 {
    let given = std::env::var(name).ok().map(|number| number.parse().expect("a number"));
    given.unwrap_or(if is_full_run() { full } else { ordinary })
}
