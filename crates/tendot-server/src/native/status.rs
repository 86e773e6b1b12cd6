//! Server status, `0.SITE/status`: a synthetic record that is never stored.

use tendot_proto::endpoint::IncomingRequest;
use tendot_proto::wire::WireList;
use tendot_proto::{Budget, Handle, HandleValue, ResponseCode, ResponseData, ValuePermissions};
use tendot_registry::{Caller, Error, ResolveQuery};

use crate::native::{NativeReply, NativeServer};

const STATUS_HANDLE: &str = "0.SITE/status";

pub(crate) fn is_status(handle: Handle<'_>) -> bool {
    handle.as_bytes().eq_ignore_ascii_case(STATUS_HANDLE.as_bytes())
}

impl NativeServer {
    /// Replies with the status to administrators of the server.
    pub(crate) async fn status(
        &self,
        incoming: &mut IncomingRequest<'_>,
        query: &ResolveQuery<'_>,
        caller: &Caller,
    ) -> Result<NativeReply, Error> {
        let values = self.status_values(query, caller, &mut incoming.budget).await?;
        let outcome = ResponseData::Resolved { handle: query.handle, values: WireList::from(&values[..]) };
        let response = incoming.respond(ResponseCode::SUCCESS, outcome);
        Ok(self.seal(incoming, response))
    }

    /// Values of the status record, for both protocols.
    pub(crate) async fn status_values(
        &self,
        query: &ResolveQuery<'_>,
        caller: &Caller,
        budget: &mut Budget,
    ) -> Result<Vec<HandleValue<'static>>, Error> {
        // None of the values are public.
        if query.public_only {
            return Err(Error::ValuesNotFound);
        }
        // Authorized like the list of homed prefixes.
        self.registry.list_homed_prefixes(None, 1, caller, budget).await?;
        let head = self.registry.log_head().await?.sequence;
        let numbers = format!(
            "runtime={}; numreqs={}; version={}",
            self.start.elapsed().as_millis(),
            self.metrics.total_requests(),
            env!("CARGO_PKG_VERSION"),
        );
        let value = |index, value_type, data: String| HandleValue {
            permissions: ValuePermissions::ADMIN_READ | ValuePermissions::ADMIN_WRITE,
            ..HandleValue::with_data(index, value_type, data.into_bytes())
        };
        let mut values = vec![
            value(1, "CNRI.SERVER_STATUS", numbers),
            value(3, "CNRI.REPLICATION_STATUS", format!("{{\"latestTxnId\":{head}}}")),
        ];
        let is_all = query.indexes.is_empty() && query.types.is_empty();
        values.retain(|value| {
            is_all
                || query.indexes.contains(&value.index)
                || query.types.iter().any(|filter| value.matches_type_filter(filter))
        });
        if values.is_empty() { Err(Error::ValuesNotFound) } else { Ok(values) }
    }
}
