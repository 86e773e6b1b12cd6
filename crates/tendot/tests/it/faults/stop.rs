//! The server is stopped with SIGSTOP and continued after some clients have timed out.

use std::time::Duration;

use tendot_testing::repetitions;

use super::load::{Load, LoadSettings, QUOTA, pause, random_time, seeded_rng};
use super::service::Service;

/// Stops per store, so that its check stays quick.
const STOPS_PER_STORE: u64 = 10;

#[test]
fn acknowledged_changes_survive_stop() {
    let stops = repetitions("TENDOT_TEST_SERVER_STOPS", 4, 100);
    let mut rng = seeded_rng();
    for first in (0..stops).step_by(STOPS_PER_STORE as usize) {
        let short_timeout = Some(Duration::from_millis(100));
        let settings = LoadSettings { short_timeout, ..LoadSettings::default() };
        let load = Load::new(Service::embedded("tendot-data", QUOTA), settings);
        let seed = rng.next_u64();
        load.run(seed, || {
            for _ in first..stops.min(first + STOPS_PER_STORE) {
                load.wait_for_progress(rng.in_range(1, 100) as u64);
                load.service.signal(0, "STOP");
                // Some clients time out meanwhile.
                pause(Duration::from_millis(50) + random_time(&mut rng, 250));
                load.service.signal(0, "CONT");
            }
            load.wait_for_progress(50);
        });
        // Requests whose clients gave up end with the server.
        load.service.restart(0, "TERM");
        load.check();
    }
}
