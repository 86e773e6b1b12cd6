//! Operations over the native protocol.

use tendot_client::native::AdminError;
use tendot_proto::HandleValue;
use tendot_testing::block_on;

use super::ledger::{Action, Outcome, url};
use super::request::is_unknown_message;
use super::service::{HANDLE_PREFIX, MAIN_PREFIX};
use super::workload::Client;

impl Client<'_> {
    /// Creates, changes or deletes a record.
    pub(super) fn native_operation(&mut self) {
        let prefix = if self.rng.percent(70) { HANDLE_PREFIX } else { MAIN_PREFIX };
        let action = match self.rng.below(10) {
            0..4 => Action::Create,
            4..8 => Action::Update,
            _ => Action::Delete,
        };
        let (name, server) = (self.name(prefix), self.server());
        let mut admin = self.load.service.admin_client(server, &name);
        let id = self.load.ledger.begin(&name, action.clone(), server);
        let values = [HandleValue::new(1, "URL", url(id))];
        let done = block_on(async {
            match action {
                Action::Create => admin.create(&name, &values).await,
                Action::Update => admin.modify_values(&name, &values).await,
                _ => admin.delete(&name).await,
            }
        });
        let is_lost = matches!(done, Err(AdminError::OutcomeUnknown { .. }));
        let outcome = match done {
            Ok(()) => Outcome::Acknowledged,
            Err(AdminError::OutcomeUnknown { .. }) => Outcome::Unknown,
            Err(AdminError::ErrorResponse { code, message, .. }) => {
                self.load.ledger.count_code(&format!("native {}", code.0));
                if is_unknown_message(&message) { Outcome::Unknown } else { Outcome::Refused }
            }
            // Before the request was authenticated.
            Err(_) => Outcome::Refused,
        };
        self.load.ledger.finish(id, outcome, is_lost && self.load.settings.lost_connection_means_kill);
    }
}
