//! Selection of the primary: the host on the highest timeline that any server has seen.

use std::sync::atomic::Ordering;
use std::time::Instant;

use futures_util::future::join_all;

use super::Cluster;
use super::host::{ClusterHost, HostState, HostStatus};
use super::timeline::{HostTimeline, SELECT_TIMELINE, Timeline, recorded_timeline};
use crate::postgres::PostgresOpenError;
use crate::postgres::error::{DatabaseError, is_unsupported};

/// Current primary, or the time since which there is none.
///
/// A host remains primary while it accepts writes, unless a promotion has superseded it. Of two primaries on the same timeline,
/// the one that was seen first is used.
#[derive(Debug)]
pub(super) struct PrimaryState {
    /// Index of the host.
    pub(super) host: Option<usize>,
    /// Timeline of the host; `None` if the database has no timelines.
    pub(super) timeline: Option<Timeline>,
    /// When the last primary was lost.
    pub(super) lost_at: Option<Instant>,
    /// Highest timeline that this server knows of.
    pub(super) highest: Option<Timeline>,
}

impl PrimaryState {
    pub(super) const fn new(highest: Option<Timeline>) -> Self {
        Self { host: None, timeline: None, lost_at: None, highest }
    }

    /// Whether a promotion has superseded a primary with this timeline.
    pub(super) fn is_superseded(&self, timeline: Timeline) -> bool {
        self.highest.is_some_and(|highest| timeline.is_superseded_by(highest))
    }

    /// Whether a host belongs to another system than the one that is known.
    fn is_foreign(&self, system: Option<u64>) -> bool {
        matches!((self.highest, system), (Some(highest), Some(system)) if highest.system != system)
    }

    /// Raises the highest timeline. Those of another system are ignored.
    pub(super) fn learn(&mut self, timeline: Timeline) {
        if self.highest.is_none_or(|highest| highest.is_superseded_by(timeline)) {
            self.highest = Some(timeline);
        }
    }

    /// Forgets the highest timeline if no host has its system, or had it when it was last reached: all of them were replaced by
    /// another database, such as by `pg_upgrade` or from a dump.
    pub(super) fn forget_other_systems(&mut self, systems: &[u64]) {
        let Some(highest) = self.highest else { return };
        if !systems.is_empty() && !systems.contains(&highest.system) {
            tracing::warn!(%highest, "system identifier changed: the database was replaced");
            self.highest = None;
        }
    }
}

impl Cluster {
    /// Updates the current primary by the status of a host.
    pub(super) fn update_primary(&self, primary: &mut PrimaryState, host: &ClusterHost, status: &HostStatus) {
        let timeline = status.timeline.current.filter(|_| status.is_primary);
        if primary.host.is_none() && primary.is_foreign(status.timeline.system) {
            primary.forget_other_systems(&self.systems_if_known());
        }
        let is_own_system = |recorded: &Timeline| status.timeline.system == Some(recorded.system);
        let recorded = status.recorded_timeline.filter(is_own_system);
        if !primary.is_foreign(status.timeline.system) {
            timeline.into_iter().chain(recorded).for_each(|timeline| primary.learn(timeline));
        }
        let is_superseded = |timeline: Option<Timeline>, primary: &PrimaryState| {
            timeline.is_some_and(|timeline| primary.is_superseded(timeline))
        };
        let is_primary = primary.host == Some(host.index);
        if let Some(current) = primary.host.and_then(|index| self.get(index)) {
            if is_primary && status.is_primary {
                primary.timeline = timeline;
            }
            if is_primary && !status.is_primary {
                tracing::warn!(host = %host.address, "database host is no longer primary");
                self.clear_primary(primary);
            } else if is_superseded(primary.timeline, primary) {
                tracing::warn!(
                    host = %current.address,
                    highest = primary.highest.map(|highest| highest.number),
                    "primary superseded by a promotion; no longer sending it writes"
                );
                self.clear_primary(primary);
            }
        }
        let is_usable = status.is_primary
            && !is_superseded(timeline, primary)
            && !primary.is_foreign(status.timeline.system);
        if is_usable && primary.host.is_none() {
            if primary.lost_at.is_some() {
                tracing::info!(host = %host.address, "database host became primary");
            }
            (primary.host, primary.timeline) = (Some(host.index), timeline);
            self.primary_changed.notify_waiters();
            // Standbys must be confirmed against the new primary.
            self.hosts.iter().for_each(|host| host.observation().is_confirmed = false);
            self.needs_revalidation.store(true, Ordering::SeqCst);
        }
    }

    /// Finds the primary on the highest timeline, or else a host that answers, whose next request reports the problem.
    pub(crate) async fn find_primary(&self, database: &str) -> Result<&ClusterHost, PostgresOpenError> {
        let results = join_all(self.iter().map(OpenedHost::query)).await;
        let hosts = || results.iter().flatten();
        let systems: Vec<u64> = hosts().filter_map(|host| host.timeline.system).collect();
        self.learn_timelines(&systems, hosts().flat_map(OpenedHost::timelines));
        let highest = self.highest_timeline();
        let is_usable = |host: &&OpenedHost<'_>| match (host.timeline.current, highest) {
            (Some(timeline), Some(highest)) => timeline == highest,
            _ => true,
        };
        let primaries = || hosts().filter(|host| host.is_primary);
        if let Some(primary) = primaries().find(is_usable) {
            self.save_timeline();
            return Ok(primary.host);
        }
        if let Some(host) = primaries().next()
            && let (Some(timeline), Some(highest)) = (host.timeline.current, highest)
        {
            return Err(PostgresOpenError::Superseded {
                database: database.into(),
                host: host.host.address.clone(),
                timeline: timeline.number,
                highest: highest.number,
            });
        }
        if let Some(standby) = hosts().next() {
            return Ok(standby.host);
        }
        let error = results.into_iter().find_map(Result::err).unwrap_or(DatabaseError::NoHost);
        Err(PostgresOpenError::from_database(database, &error))
    }

    pub(super) fn clear_primary(&self, primary: &mut PrimaryState) {
        (primary.host, primary.timeline, primary.lost_at) = (None, None, Some(Instant::now()));
        self.primary_changed.notify_waiters();
    }

    /// Systems of all hosts, of those that are unreachable as they were; none while a host was not polled yet, or just failed.
    fn systems_if_known(&self) -> Vec<u64> {
        let observations = || self.hosts.iter().map(ClusterHost::observation);
        if observations().any(|observation| observation.state == HostState::Unknown) {
            return Vec::new();
        }
        // A host that was replaced says so with its first answer.
        observations().filter_map(|observation| observation.timeline.system).collect()
    }
}

/// Host that answered when the store was opened.
struct OpenedHost<'c> {
    host: &'c ClusterHost,
    is_primary: bool,
    timeline: HostTimeline,
    /// Highest timeline that a server has recorded in its tables.
    recorded: Option<Timeline>,
}

impl<'c> OpenedHost<'c> {
    async fn query(host: &'c ClusterHost) -> Result<Self, DatabaseError> {
        let client = host.write_connection().await?;
        let row = client.query_one("select current_setting('transaction_read_only')", &[]).await?;
        let is_primary = row.try_get::<_, &str>(0)? == "off";
        let timeline = match client.query_one(SELECT_TIMELINE, &[]).await {
            Ok(row) => HostTimeline::from_row(&row)?,
            // Another system with PostgreSQL's protocol.
            Err(error) if is_unsupported(&error) => HostTimeline::default(),
            Err(error) => return Err(error.into()),
        };
        let recorded = match client.query_opt("select timeline from tendot_counters where id = 1", &[]).await
        {
            Ok(row) => row.map(|row| recorded_timeline(&row, 0)).transpose()?.flatten(),
            // The tables do not exist yet, or those of an earlier version.
            Err(error) if is_unsupported(&error) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { host, is_primary, timeline, recorded })
    }

    /// Timelines that exist in the system of the host.
    fn timelines(&self) -> impl Iterator<Item = Timeline> + use<> {
        let (system, recorded) = (self.timeline.system, self.recorded);
        let recorded = recorded.filter(|recorded| system == Some(recorded.system));
        self.timeline.current.filter(|_| self.is_primary).into_iter().chain(recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PostgresSettings;
    use crate::postgres::cluster::connection_string::ConnectionString;

    fn cluster() -> Cluster {
        let settings = PostgresSettings::default();
        let address = ConnectionString::parse("postgres://a@127.0.0.1:1,127.0.0.1:2/a", &settings).unwrap();
        Cluster::new(&address, &settings).unwrap()
    }

    /// Status of a host of this system that accepts writes.
    fn status(system: u64) -> HostStatus {
        let current = Some(Timeline { system, number: 1 });
        HostStatus {
            is_primary: true,
            sequence: 1,
            last_commit: None,
            is_confirmed: false,
            timeline: HostTimeline { system: Some(system), current },
            recorded_timeline: None,
            clock_ms: 0,
            measured_at: Instant::now(),
        }
    }

    /// A host of another system does not take over while the right one is unreachable, but does when all were replaced.
    #[test]
    fn hosts_of_other_systems_do_not_take_over() {
        let cluster = cluster();
        let poll = |index, system| {
            cluster.record_status(index, &status(system));
            cluster.primary_state().host
        };
        assert_eq!(poll(0, 7), Some(0));
        assert_eq!(poll(1, 8), Some(0));
        cluster.record_unreachable(0, &DatabaseError::NoHost);
        assert_eq!(poll(1, 8), None);
        assert_eq!(poll(0, 7), Some(0));
        cluster.record_unreachable(0, &DatabaseError::NoHost);
        // Replaced, too.
        assert_eq!(poll(0, 8), Some(0));
    }
}
