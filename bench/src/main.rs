//! Benchmarks run by `cargo xtask bench…`: `tendot-bench BENCHMARK [ARGUMENT]…`. One program, so that everything is linked once.

mod benchmarks;
mod corpus;
mod measure;
mod names;
mod records;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some((name, arguments)) = arguments.split_first() else {
        return Err("usage: tendot-bench BENCHMARK [ARGUMENT]…".into());
    };
    benchmarks::run(name, arguments)
}
