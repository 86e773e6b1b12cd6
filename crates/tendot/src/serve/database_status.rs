//! Status of the store in `/readyz` and `/metrics`: PostgreSQL hosts, or writer and scrub of the embedded store.

use std::sync::Arc;

use tendot_registry::Registry;
use tendot_server::http::{HttpServer, Readiness};
use tendot_store::{DatabaseHost, HostRole, ScrubStatus, WriteStatus};

/// Returns the current status of each database host.
pub(crate) trait HostStatusFn: Fn() -> Vec<DatabaseHost> + Clone + Send + Sync + 'static {}

impl<F: Fn() -> Vec<DatabaseHost> + Clone + Send + Sync + 'static> HostStatusFn for F {}

/// Adds the readiness probe and the gauges of each database host.
pub(crate) fn register_database_status(
    http: HttpServer,
    hosts: &impl HostStatusFn,
    registry: &Arc<Registry>,
) -> HttpServer {
    let gauge = |read: fn(&DatabaseHost) -> Option<f64>| {
        let hosts = hosts.clone();
        let sample = move |host: DatabaseHost| read(&host).map(|value| (host.address, value));
        move || hosts().into_iter().filter_map(sample).collect()
    };
    let (probe, clock) = (hosts.clone(), Arc::clone(registry));
    register_clock_skew(http, registry)
        .readiness_probe(move || with_clock_warning(readiness(&probe()), clock.has_wrong_system_clock()))
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
            "tendot_database_second_primary",
            "Whether the database host accepts writes but is not the current primary.",
            "host",
            gauge(|host| Some(gauge_bool(host.role == HostRole::SecondPrimary))),
        )
        .external_gauges(
            "tendot_database_timeline",
            "Timeline of a database host that accepts writes.",
            "host",
            gauge(|host| host.timeline.map(f64::from)),
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

/// Reason in `/readyz` when the scrub has found corruption.
const CORRUPTION: &str = "the scrub found corruption; run `tendot verify`";

/// Reason in `/readyz` when two database hosts accept writes.
const TWO_PRIMARIES: &str = "two primaries: a second database host accepts writes";

/// Adds the readiness probe and the gauges of the embedded store.
pub(crate) fn register_write_status(
    http: HttpServer,
    status: impl Fn() -> WriteStatus + Clone + Send + Sync + 'static,
    scrub: impl Fn() -> Option<ScrubStatus> + Clone + Send + Sync + 'static,
    registry: &Arc<Registry>,
) -> HttpServer {
    let gauge = |read: fn(WriteStatus) -> Option<f64>| {
        let status = status.clone();
        move || read(status())
    };
    let scrub_gauge = |read: fn(ScrubStatus) -> Option<f64>| {
        let scrub = scrub.clone();
        move || scrub().and_then(read)
    };
    let (probe, scrub_probe, clock) = (status.clone(), scrub.clone(), Arc::clone(registry));
    let readiness = move || match probe().fault {
        Some(fault) => Readiness::ReadOnly(fault.as_str()),
        None if scrub_probe().is_some_and(|scrub| scrub.damaged > 0) => Readiness::Corrupt(CORRUPTION),
        None => with_clock_warning(Readiness::Ready, clock.has_wrong_system_clock()),
    };
    register_clock_skew(http, registry)
        .readiness_probe(readiness)
        .external_gauge(
            "tendot_store_scrub_errors",
            "Number of corrupt pages and entries found by the scrub.",
            scrub_gauge(|scrub| Some(scrub.damaged as f64)),
        )
        .external_gauge(
            "tendot_store_scrub_completed_timestamp_seconds",
            "Time when the last scrub completed (Unix time).",
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

/// Adds the gauge of the clock skew.
fn register_clock_skew(http: HttpServer, registry: &Arc<Registry>) -> HttpServer {
    let registry = Arc::clone(registry);
    http.external_gauge(
        "tendot_clock_skew_seconds",
        "Offset of the system clock from the service clock in seconds, positive if ahead. The service clock is that of the database, or a monotonic clock with the embedded store.",
        move || Some(registry.clock_skew_ms() as f64 / 1e3),
    )
}

/// Readiness with a warning if the system clock is wrong.
const fn with_clock_warning(readiness: Readiness, is_wrong: bool) -> Readiness {
    match readiness {
        Readiness::Ready if is_wrong => Readiness::Warning("system clock out of sync"),
        readiness => readiness,
    }
}

fn gauge_bool(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn readiness(hosts: &[DatabaseHost]) -> Readiness {
    let has = |role| hosts.iter().any(|host| host.role == role && host.serves_reads);
    let is_split = hosts.iter().any(|host| host.role == HostRole::SecondPrimary);
    if has(HostRole::Primary) {
        if is_split { Readiness::Warning(TWO_PRIMARIES) } else { Readiness::Ready }
    } else if has(HostRole::Standby) {
        Readiness::ReadOnly(if is_split {
            "the only reachable primary has been superseded"
        } else {
            "the database has no primary"
        })
    } else {
        Readiness::Unreachable
    }
}

#[cfg(test)]
mod tests {
    use HostRole::{Primary, SecondPrimary, Standby, Unreachable};

    use super::*;

    #[test]
    fn readiness_by_host_roles() {
        check(&[Primary], Readiness::Ready);
        check(&[Unreachable, Standby, Primary], Readiness::Ready);
        check(&[Unreachable, Standby], Readiness::ReadOnly("the database has no primary"));
        check(&[Unreachable, Unreachable], Readiness::Unreachable);
        check(&[SecondPrimary, Primary, Standby], Readiness::Warning(TWO_PRIMARIES));
        check(
            &[SecondPrimary, Standby],
            Readiness::ReadOnly("the only reachable primary has been superseded"),
        );
        check(&[SecondPrimary, Unreachable], Readiness::Unreachable);
        let excluded = DatabaseHost { serves_reads: false, ..host(&Standby) };
        assert_eq!(readiness(&[excluded]), Readiness::Unreachable);
    }

    #[test]
    fn wrong_clock_is_a_warning() {
        let warning = Readiness::Warning("system clock out of sync");
        assert_eq!(with_clock_warning(Readiness::Ready, true), warning);
        assert_eq!(with_clock_warning(Readiness::Ready, false), Readiness::Ready);
        assert_eq!(with_clock_warning(Readiness::Unreachable, true), Readiness::Unreachable);
    }

    fn host(role: &HostRole) -> DatabaseHost {
        let (address, serves_reads) = ("a:1".into(), *role != SecondPrimary);
        DatabaseHost { address, role: *role, serves_reads, lag_entries: None, lag: None, timeline: None }
    }

    #[track_caller]
    fn check(roles: &[HostRole], expected: Readiness) {
        assert_eq!(readiness(&roles.iter().map(host).collect::<Vec<_>>()), expected, "{roles:?}");
    }
}
