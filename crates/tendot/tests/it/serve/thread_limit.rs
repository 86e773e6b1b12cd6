//! Thread limit: the server starts if it suffices and otherwise exits with an error and a hint.

use std::process::Command;
use std::time::Duration;

use tendot_testing::{ServerProcess, run_checked};

use crate::support::{TENDOT, TestDir};

#[test]
fn limit_of_threads() {
    // A user without processes, because the limit counts all threads of a user.
    let user = &(1_000_000 + std::process::id()).to_string();
    let may_execute =
        Command::new("setpriv").args(["--reuid", user, "--clear-groups", "test", "-x", TENDOT]).status();
    assert!(
        may_execute.unwrap().success(),
        "another user cannot execute {TENDOT}: make its directories accessible"
    );
    let cores = std::thread::available_parallelism().unwrap().get();
    let (mut failed, mut started) = (Vec::new(), Vec::new());
    for limit in [1, 2, 3, 4, 8, 2 * cores + 8, 2 * cores + 14] {
        let dir = TestDir::new();
        run_checked(Command::new("chown").arg(user).arg(dir.path()));
        let mut command = Command::new("setpriv");
        command.args(["--reuid", user, "--clear-groups", "--inh-caps=-all"]);
        command.args([
            "prlimit",
            &format!("--nproc={limit}"),
            TENDOT,
            "serve",
            "--data",
            "tendot-data",
            "--demo",
        ]);
        command.args(["--http", "127.0.0.1:0", "--native", "127.0.0.1:0"]);
        match ServerProcess::try_start(command.current_dir(dir.path()), Duration::from_secs(60)) {
            Ok(server) => {
                drop(server);
                started.push(limit);
            }
            Err(output) => {
                let is_clear =
                    output.contains("error: cannot start") && output.contains("hint: raise the thread limit");
                assert!(is_clear && !output.contains("panicked"), "{limit}: {output}");
                failed.push(limit);
            }
        }
    }
    assert_eq!((failed, started), (vec![1, 2, 3, 4, 8, 2 * cores + 8], vec![2 * cores + 14]));
}
