//! Hash partition of a site.

use crate::error::DecodeError;
use crate::handle::Handle;
use crate::record::{HashOption, Site};
use crate::wire::{WireReader, WireWriter};

/// Hash partition: the handles that one server of a site stores (RFC 3652, 3.1.3).
///
/// ```
/// use tendot_proto::Handle;
/// use tendot_proto::message::HashPartition;
/// use tendot_proto::record::{HashOption, Site, SiteServer};
///
/// let servers = vec![SiteServer::default(); 3];
/// let site = Site { hash_option: HashOption::WHOLE, servers, ..Site::default() };
/// let second = HashPartition::new(&site, 1).unwrap();
/// assert!(second.owns(Handle::from("10.1000/ABC")) && !second.owns(Handle::from("10.1000/1")));
/// assert_eq!(HashPartition::new(&site, 3), None);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HashPartition {
    /// Part of the handle that is hashed.
    pub hash_option: HashOption,
    /// Number of servers of the site.
    pub server_count: u32,
    /// Index of this server.
    pub server_index: u32,
}

impl HashPartition {
    /// Partition of the server at `index` of a site. None if it is the only server, which stores all handles, or if
    /// there is no such server.
    ///
    /// An unknown hash option counts as [`HashOption::WHOLE`], as in [`Handle::server_index`].
    pub fn new(site: &Site<'_>, index: usize) -> Option<Self> {
        let hash_option = if site.hash_option.is_known() { site.hash_option } else { HashOption::WHOLE };
        let server_count = u32::try_from(site.servers.len()).ok().filter(|count| *count > 1)?;
        let server_index = u32::try_from(index).ok().filter(|index| *index < server_count)?;
        Some(Self { hash_option, server_count, server_index })
    }

    /// Whether a handle is in the partition. With an unknown hash option, which only a request can have, every handle
    /// is.
    pub fn owns(&self, handle: Handle<'_>) -> bool {
        !self.hash_option.is_known()
            || handle.server_index(self.hash_option, self.server_count as usize)
                == Some(self.server_index as usize)
    }

    pub(super) fn decode(reader: &mut WireReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            hash_option: HashOption(reader.u8("receiver hash option")?),
            server_count: reader.u32("receiver servers")?,
            server_index: reader.u32("receiver index")?,
        })
    }

    pub(super) fn encode(&self, writer: &mut WireWriter<'_>) {
        writer.u8(self.hash_option.0);
        writer.u32(self.server_count);
        writer.u32(self.server_index);
    }
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;
    use crate::record::SiteServer;

    /// Each handle is in one partition: that of the server which a client selects.
    #[test]
    fn agrees_with_server_selection() {
        for hash_option in [0, 1, 2, 9].map(HashOption) {
            let site = Site { hash_option, servers: vec![SiteServer::default(); 3], ..Site::default() };
            for handle in ["10.1000/1", "10.1000/abc", "0.NA/10", "10", "abc"] {
                let handle = Handle::from(handle);
                let owners = (0..3).filter(|index| HashPartition::new(&site, *index).unwrap().owns(handle));
                assert!(owners.eq(handle.server_index(hash_option, 3)), "{handle:?} {hash_option:?}");
            }
        }
        let unknown = HashPartition { hash_option: HashOption(9), server_count: 3, server_index: 0 };
        assert!(["a/1", "a/2", "a/3", "a/4"].iter().all(|handle| unknown.owns(Handle::from(*handle))));
        let only = Site { servers: vec![SiteServer::default()], ..Site::default() };
        assert_eq!(HashPartition::new(&only, 0), None);
    }
}
