//! Hash partition: which server of a site has a name.

use tendot_proto::Handle;
use tendot_proto::record::{HashOption, Site};

/// Partition of a multi-server site: the handles whose hash selects this server.
///
/// ```
/// use tendot_proto::record::{HashOption, SiteServer, Site};
/// use tendot_proto::Handle;
/// use tendot_registry::HashPartition;
///
/// let servers = vec![SiteServer::default(); 3];
/// let site = Site { hash_option: HashOption::WHOLE, servers, ..Site::default() };
/// let second = HashPartition::new(&site, 1).unwrap();
/// assert!(second.contains(Handle::from("10.1000/ABC")) && !second.contains(Handle::from("10.1000/1")));
/// assert_eq!(HashPartition::new(&site, 3), None);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HashPartition {
    option: HashOption,
    servers: usize,
    index: usize,
}

impl HashPartition {
    /// Partition of the server at `index` of a site. `None` if it is the only server, which has all names, or if there
    /// is no such server.
    pub fn new(site: &Site<'_>, index: usize) -> Option<Self> {
        let servers = site.servers.len();
        (servers > 1 && index < servers).then_some(Self { option: site.hash_option, servers, index })
    }

    /// Whether a name belongs to the partition.
    pub fn contains(&self, name: Handle<'_>) -> bool {
        Handle::new(&name.qualified()).server_index(self.option, self.servers) == Some(self.index)
    }

    /// Number of servers of the site.
    pub(crate) const fn server_count(&self) -> usize {
        self.servers
    }
}
