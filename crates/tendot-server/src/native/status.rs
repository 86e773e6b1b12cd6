//! `0.SITE/status`: how the server is, as a record that is never stored.

use tendot_proto::endpoint::Incoming;
use tendot_proto::wire::List;
use tendot_proto::{Handle, OpFlags, Outcome, Permissions, Request, ResponseCode, Value, Work};
use tendot_registry::{Caller, Error, ResolveQuery};

use super::{Native, NativeReply};
use crate::http::last_change;

const STATUS_HANDLE: &str = "0.SITE/status";

pub(crate) fn is_status(handle: Handle<'_>) -> bool {
    handle.as_bytes().eq_ignore_ascii_case(STATUS_HANDLE.as_bytes())
}

impl Native {
    /// Answers those who administer the server.
    pub(super) async fn status(&self, incoming: &mut Incoming<'_>, caller: &Caller) -> NativeReply {
        let Request::Resolve { handle, indexes, types } = incoming.request else {
            return self.unsupported(incoming);
        };
        let query = ResolveQuery {
            indexes: indexes.iter().collect(),
            types: types.iter().collect(),
            public_only: incoming.message.header.flags.has(OpFlags::PUBLIC_ONLY),
            ..ResolveQuery::new(handle)
        };
        let values = match self.status_values(&query, caller, &mut incoming.work).await {
            Ok(values) => values,
            Err(error) => return self.refuse(incoming, &error),
        };
        let outcome = Outcome::Resolved { handle, values: List::from(&values[..]) };
        let response = incoming.respond(ResponseCode::SUCCESS, outcome);
        self.send(incoming, response)
    }

    /// The record, for whichever front door it was asked at.
    pub(crate) async fn status_values(
        &self,
        query: &ResolveQuery<'_>,
        caller: &Caller,
        work: &mut Work,
    ) -> Result<Vec<Value<'static>>, Error> {
        // Nothing in it is for everybody.
        if query.public_only {
            return Err(Error::NoValues);
        }
        // Whoever may see the list of what is homed may see this.
        self.registry.list_homed(None, 1, caller, work).await?;
        let last = last_change(self.registry.store(), 0).await?;
        let numbers = format!(
            "runtime={}; numreqs={}; version={}",
            self.start.elapsed().as_millis(),
            self.metrics.requests(),
            env!("CARGO_PKG_VERSION"),
        );
        let value = |index, value_type, data: String| Value {
            permissions: Permissions(Permissions::ADMIN_READ.0 | Permissions::ADMIN_WRITE.0),
            ..Value::with_data(index, value_type, data.into_bytes())
        };
        let mut values = vec![
            value(1, "CNRI.SERVER_STATUS", numbers),
            value(3, "CNRI.REPLICATION_STATUS", format!("{{\"latestTxnId\":{last}}}")),
        ];
        let is_all = query.indexes.is_empty() && query.types.is_empty();
        values.retain(|value| {
            is_all
                || query.indexes.contains(&value.index)
                || query.types.iter().any(|asked| value.matches_type_filter(asked))
        });
        if values.is_empty() { Err(Error::NoValues) } else { Ok(values) }
    }
}
