//! A limit of threads: the server starts with enough of them, and otherwise ends with an error that says what to do.

use std::process::Command;
use std::time::Duration;

use tendot_testing::{ServerProcess, run_checked};

use crate::support::{TENDOT, TestDir};

/// A user without processes, because the limit counts all threads of a user.
const USER: &str = "61234";

#[test]
fn limit_of_threads() {
    let cores = std::thread::available_parallelism().unwrap().get();
    let (mut failed, mut started) = (0, false);
    for limit in (1..12).chain([2 * cores + 6, 2 * cores + 14]) {
        let dir = TestDir::new();
        run_checked(Command::new("chown").arg(USER).arg(dir.path()));
        let serve = "serve --data tendot-data --demo --http 127.0.0.1:0 --native 127.0.0.1:0";
        let script = format!("ulimit -u {limit}; exec {TENDOT} {serve}");
        let mut command = Command::new("setpriv");
        command.args(["--reuid", USER, "--clear-groups", "--inh-caps=-all", "sh", "-c", &script]);
        match ServerProcess::try_start(command.current_dir(dir.path()), Duration::from_secs(60)) {
            Ok(server) => {
                drop(server);
                started = true;
            }
            Err(output) => {
                let is_clear =
                    output.contains("error: cannot start") && output.contains("hint: raise the limit");
                assert!(is_clear && !output.contains("panicked"), "{limit}: {output}");
                failed += 1;
            }
        }
    }
    assert!(started && failed >= 11, "{started}, {failed}");
}
