//! Fuzz targets as a program.
//!
//! Built with `--cfg fuzzing`, as `cargo xtask fuzz` does, it is a libFuzzer program for the target that the variable
//! `TENDOT_FUZZ_TARGET` names. Otherwise `tendot-fuzz TARGET FILE…` runs a target on files, for example those that fuzzing found.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
static TARGET: std::sync::LazyLock<tendot_fuzz::Target> = std::sync::LazyLock::new(|| {
    let name = std::env::var("TENDOT_FUZZ_TARGET").expect("TENDOT_FUZZ_TARGET names the target");
    tendot_fuzz::target(&name).expect("a known target")
});

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| TARGET(bytes));

#[cfg(not(fuzzing))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("usage: tendot-fuzz TARGET FILE…")?;
    let target = tendot_fuzz::target(&name).ok_or_else(|| format!("unknown target `{name}`"))?;
    for path in arguments {
        target(&std::fs::read(&path)?);
        println!("{path}: passed");
    }
    Ok(())
}
