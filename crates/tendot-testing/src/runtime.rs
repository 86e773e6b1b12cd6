use std::sync::OnceLock;

use tokio::runtime::Runtime;

/// Runs a future to completion inside one Tokio runtime that exists as long as the process: tasks that the future spawns
/// continue after it. Calls can be nested.
pub fn block_on<F: Future>(future: F) -> F::Output {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let _guard = RUNTIME.get_or_init(|| Runtime::new().unwrap()).enter();
    pollster::block_on(future)
}
