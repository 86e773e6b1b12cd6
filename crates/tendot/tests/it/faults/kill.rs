//! The server is killed with SIGKILL.

use tendot_testing::repetitions;

use super::load::{Load, LoadSettings, QUOTA, pause, random_time, seeded_rng};
use super::service::Service;
use crate::support::TestDir;

/// Kills per store, so that its check stays quick.
const KILLS_PER_STORE: u64 = 10;

#[test]
fn acknowledged_changes_survive_kill() {
    let kills = repetitions("TENDOT_TEST_SERVER_KILLS", 4, 300);
    let mut rng = seeded_rng();
    for first in (0..kills).step_by(KILLS_PER_STORE as usize) {
        let settings = LoadSettings { lost_connection_means_kill: true, ..LoadSettings::default() };
        let load = Load::new(Service::embedded("tendot-data", QUOTA), settings);
        let seed = rng.next_u64();
        load.run(seed, || {
            // Export and backup open the store while it grows.
            load.wait_for_progress(20);
            for arguments in [&["export"][..], &["backup", "copy"]] {
                assert!(load.service.store_command(arguments).output().unwrap().status.success());
            }
            for _ in first..kills.min(first + KILLS_PER_STORE) {
                load.wait_for_progress(rng.in_range(1, 150) as u64);
                pause(random_time(&mut rng, 20));
                load.service.restart(0, "KILL");
            }
            load.wait_for_progress(50);
        });
        load.service.restart(0, "KILL");
        load.check();
        // The backup made under load can be restored.
        let restored = TestDir::new();
        restored.run_ok(&["restore", load.service.dir.file("copy").to_str().unwrap()]);
        restored.run_ok(&["verify"]);
    }
}
