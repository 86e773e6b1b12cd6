//! Call context: caller, time and budget of one operation.

use core::net::IpAddr;
use std::fmt;

use tendot_proto::Budget;

use crate::{Caller, LogAuthor};

/// Caller, time and budget of one operation.
#[derive(Debug)]
pub struct CallContext<'a> {
    /// Caller of the operation.
    pub caller: &'a Caller,
    /// Time of the operation, in milliseconds since 1970.
    pub now_ms: u64,
    /// Budget that the operation is charged to.
    pub budget: &'a mut Budget,
    /// Address of the client, for the change log.
    pub client: Option<IpAddr>,
}

impl<'a> CallContext<'a> {
    /// Context of one operation.
    pub const fn new(caller: &'a Caller, now_ms: u64, budget: &'a mut Budget) -> Self {
        Self { caller, now_ms, budget, client: None }
    }

    /// Sets the address of the client, for the change log.
    #[must_use]
    pub const fn from_client(mut self, client: Option<IpAddr>) -> Self {
        self.client = client;
        self
    }

    /// Author of a change for the change log.
    pub(crate) fn log_author(&self, principal: impl fmt::Display) -> Box<str> {
        LogAuthor::new(&principal.to_string(), self.caller, self.client).to_string().into()
    }
}

/// Timestamp of a handle value: seconds since 1970.
pub(crate) fn handle_timestamp(now_ms: u64) -> u32 {
    u32::try_from(now_ms / 1_000).unwrap_or(u32::MAX)
}
