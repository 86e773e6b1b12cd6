//! The primary of the database of two servers is killed, and a standby promoted.

use std::time::Duration;

use tendot_testing::postgres::PostgresCluster;
use tendot_testing::repetitions;

use super::load::{Load, LoadSettings, QUOTA, pause, random_time, seeded_rng};
use super::service::Service;

#[test]
fn acknowledged_changes_survive_failover() {
    let failovers = repetitions("TENDOT_TEST_FAILOVERS", 1, 10);
    let mut rng = seeded_rng();
    for _ in 0..failovers {
        let cluster = PostgresCluster::start();
        let settings =
            LoadSettings { short_timeout: Some(Duration::from_millis(300)), ..LoadSettings::default() };
        let load = Load::new(Service::postgres(&cluster.url("postgres", ""), 2, QUOTA), settings);
        let seed = rng.next_u64();
        load.run(seed, || {
            load.wait_for_progress(rng.in_range(50, 200) as u64);
            // A server that stops does not delay the other one, and is not behind when it continues.
            load.service.signal(0, "STOP");
            pause(Duration::from_millis(50) + random_time(&mut rng, 250));
            load.service.signal(0, "CONT");
            load.wait_for_progress(rng.in_range(1, 100) as u64);
            pause(random_time(&mut rng, 20));
            cluster.primary.kill();
            // Requests arrive while there is no primary.
            pause(random_time(&mut rng, 500));
            cluster.promote();
            load.wait_for_progress(100);
            load.service.restart(1, "KILL");
            load.wait_for_progress(50);
        });
        for server in 0..2 {
            load.service.restart(server, "TERM");
        }
        load.check();
    }
}
