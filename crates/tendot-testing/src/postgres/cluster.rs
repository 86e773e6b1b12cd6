use super::PostgresServer;

/// A primary with two synchronous standbys: a commit is acknowledged when one of them has it.
#[derive(Debug)]
pub struct PostgresCluster {
    /// The server that is the primary at first.
    pub primary: PostgresServer,
    /// The servers that follow it.
    pub standbys: [PostgresServer; 2],
}

const STANDBY_NAMES: [&str; 2] = ["one", "two"];

const SYNCHRONOUS_STANDBYS: &str = "synchronous_standby_names = 'any 1 (one, two)'";

impl PostgresCluster {
    /// Starts all three servers.
    pub fn start() -> Self {
        let mut servers = PostgresServer::start_replicated(&STANDBY_NAMES).into_iter();
        let mut next = || servers.next().expect("one server per name");
        let cluster = Self { primary: next(), standbys: [next(), next()] };
        cluster.primary.alter_system(SYNCHRONOUS_STANDBYS);
        cluster.primary.wait_for_standbys(2);
        cluster
    }

    /// The URL of a database with all three hosts.
    pub fn url(&self, database: &str, options: &str) -> String {
        let [one, two] = &self.standbys;
        let hosts = [&self.primary, one, two].map(|server| format!("127.0.0.1:{}", server.port)).join(",");
        format!("postgres://postgres@{hosts}/{database}?{options}")
    }

    /// Promotes the standby that received most, as a failover manager does, and lets the other one follow it. Returns the new
    /// primary.
    pub fn promote(&self) -> &PostgresServer {
        let received = |server: &PostgresServer| {
            let sql = "select pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0')::bigint";
            server.psql(sql).parse::<u64>().unwrap()
        };
        // Nothing arrives after the comparison, even from a primary that is alive.
        self.standbys.iter().for_each(PostgresServer::stop_receiving);
        let [one, two] = &self.standbys;
        let [first, second] = STANDBY_NAMES;
        let (best, other, name) =
            if received(one) >= received(two) { (one, two, second) } else { (two, one, first) };
        best.alter_system(SYNCHRONOUS_STANDBYS);
        best.promote();
        other.set_primary(best, name);
        best.wait_for_standbys(1);
        best
    }
}
