//! Status of the store in `/readyz` and `/metrics`: PostgreSQL hosts, or writer and scrub of the embedded store.

use tendot_server::http::{HttpServer, Readiness};
use tendot_store::{DatabaseHost, HostRole, ScrubStatus, WriteStatus};

/// Returns the current status of each database host.
pub(crate) trait HostStatusFn: Fn() -> Vec<DatabaseHost> + Clone + Send + Sync + 'static {}

impl<F: Fn() -> Vec<DatabaseHost> + Clone + Send + Sync + 'static> HostStatusFn for F {}

/// Adds the readiness probe and the gauges of each database host.
pub(crate) fn register_database_status(http: HttpServer, hosts: &impl HostStatusFn) -> HttpServer {
    let gauge = |read: fn(&DatabaseHost) -> Option<f64>| {
        let hosts = hosts.clone();
        let sample = move |host: DatabaseHost| read(&host).map(|value| (host.address, value));
        move || hosts().into_iter().filter_map(sample).collect()
    };
    let probe = hosts.clone();
    http.readiness_probe(move || readiness(&probe()))
        .external_gauges(
            "tendot_database_up",
            "Whether the database host is reachable.",
            "host",
            gauge(|host| Some(gauge_bool(host.role != HostRole::Unreachable))),
        )
        .external_gauges(
            "tendot_database_primary",
            "Whether the database host is the primary.",
            "host",
            gauge(|host| Some(gauge_bool(host.role == HostRole::Primary))),
        )
        .external_gauges(
            "tendot_database_lag_changes",
            "Log entries that the host has not replayed yet.",
            "host",
            gauge(|host| host.lag_entries.map(|entries| entries as f64)),
        )
        .external_gauges(
            "tendot_database_lag_seconds",
            "Replication lag in seconds.",
            "host",
            gauge(|host| host.lag.map(|lag| lag.as_secs_f64())),
        )
}

/// Reason in `/readyz` when the scrub has found damage.
const DAMAGED: &str = "the scrub found damage; run `tendot verify`";

/// Adds the readiness probe and the gauges of the embedded store.
pub(crate) fn register_write_status(
    http: HttpServer,
    status: impl Fn() -> WriteStatus + Clone + Send + Sync + 'static,
    scrub: impl Fn() -> Option<ScrubStatus> + Clone + Send + Sync + 'static,
) -> HttpServer {
    let gauge = |read: fn(WriteStatus) -> Option<f64>| {
        let status = status.clone();
        move || read(status())
    };
    let scrub_gauge = |read: fn(ScrubStatus) -> Option<f64>| {
        let scrub = scrub.clone();
        move || scrub().and_then(read)
    };
    let (probe, scrub_probe) = (status.clone(), scrub.clone());
    http.readiness_probe(move || match probe().fault {
        Some(fault) => Readiness::ReadOnly(fault.as_str()),
        None if scrub_probe().is_some_and(|scrub| scrub.damaged > 0) => Readiness::Damaged(DAMAGED),
        None => Readiness::Ready,
    })
    .external_gauge(
        "tendot_store_scrub_damaged",
        "Damaged items that the scrub found.",
        scrub_gauge(|scrub| Some(scrub.damaged as f64)),
    )
    .external_gauge(
        "tendot_store_scrub_completed_timestamp_seconds",
        "Time when the scrub last reached the end of the store (Unix time).",
        scrub_gauge(|scrub| scrub.completed_ms.map(|time| time as f64 / 1e3)),
    )
    .external_gauge(
        "tendot_store_writable",
        "Whether the embedded store can be written.",
        gauge(|status| Some(gauge_bool(status.fault.is_none()))),
    )
    .external_gauge(
        "tendot_store_free_bytes",
        "Free space of the disk of the embedded store.",
        gauge(|status| status.free_bytes.map(|bytes| bytes as f64)),
    )
    .external_gauge(
        "tendot_store_last_commit_timestamp_seconds",
        "Time of the last commit of the embedded store (Unix time).",
        gauge(|status| status.last_commit_ms.map(|time| time as f64 / 1e3)),
    )
}

fn gauge_bool(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn readiness(hosts: &[DatabaseHost]) -> Readiness {
    let has = |role| hosts.iter().any(|host| host.role == role && host.serves_reads);
    if has(HostRole::Primary) {
        Readiness::Ready
    } else if has(HostRole::Standby) {
        Readiness::ReadOnly("the database has no primary")
    } else {
        Readiness::Unreachable
    }
}

#[cfg(test)]
mod tests {
    use HostRole::{Primary, Standby, Unreachable};

    use super::*;

    #[test]
    fn readiness_by_host_roles() {
        check(&[Primary], Readiness::Ready);
        check(&[Unreachable, Standby, Primary], Readiness::Ready);
        check(&[Unreachable, Standby], Readiness::ReadOnly("the database has no primary"));
        check(&[Unreachable, Unreachable], Readiness::Unreachable);
        let excluded = DatabaseHost { serves_reads: false, ..host(&Standby) };
        assert_eq!(readiness(&[excluded]), Readiness::Unreachable);
    }

    fn host(role: &HostRole) -> DatabaseHost {
        DatabaseHost { address: "a:1".into(), role: *role, serves_reads: true, lag_entries: None, lag: None }
    }

    #[track_caller]
    fn check(roles: &[HostRole], expected: Readiness) {
        assert_eq!(readiness(&roles.iter().map(host).collect::<Vec<_>>()), expected, "{roles:?}");
    }
}
