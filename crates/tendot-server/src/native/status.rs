//! `0.SITE/status`: how the server is, as a record that is never stored.

use tendot_proto::endpoint::Incoming;
use tendot_proto::wire::List;
use tendot_proto::{Handle, OpFlags, Outcome, Permissions, Request, ResponseCode, Value};
use tendot_registry::{Caller, Error};
use tendot_store::Store;

use super::{Native, Reply};
use crate::http::last_change;

const STATUS: &str = "0.SITE/status";

pub(super) fn is_status(handle: Handle<'_>) -> bool {
    handle.as_bytes().eq_ignore_ascii_case(STATUS.as_bytes())
}

impl<S: Store> Native<S> {
    /// Answers those who administer the server.
    pub(super) async fn status(&self, incoming: &mut Incoming<'_>, caller: &Caller) -> Reply {
        // Nothing in it is for everybody.
        if incoming.message.header.flags.has(OpFlags::PUBLIC_ONLY) {
            return self.refuse(incoming, &Error::NoValues);
        }
        // Whoever may see the list of what is homed may see this.
        if let Err(error) = self.registry.list_homed(None, 1, caller, &mut incoming.work).await {
            return self.refuse(incoming, &error);
        }
        let last = match last_change(self.registry.store(), 0).await {
            Ok(last) => last,
            Err(error) => return self.refuse(incoming, &error.into()),
        };
        let Request::Resolve { handle, indexes, types } = incoming.request else {
            return self.unsupported(incoming);
        };
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
        let is_all = indexes.is_empty() && types.is_empty();
        values.retain(|value| {
            is_all
                || indexes.iter().any(|index| index == value.index)
                || types.iter().any(|asked| value.is_selected_by(asked))
        });
        if values.is_empty() {
            return self.refuse(incoming, &Error::NoValues);
        }
        let outcome = Outcome::Resolved { handle, values: List::from(&values[..]) };
        let response = incoming.respond(ResponseCode::SUCCESS, outcome);
        self.send(incoming, response)
    }
}
