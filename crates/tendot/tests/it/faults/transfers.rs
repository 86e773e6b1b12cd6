//! Transfers of names: proposed, accepted, declined or left open.

use serde_json::json;
use tendot_testing::WAIT_TIMEOUT;

use super::ledger::{Action, Outcome, Proposal, ProposalState};
use super::service::MAIN_PREFIX;
use super::workload::Client;

impl Client<'_> {
    /// Proposes a transfer of a name between the registrants, and decides it.
    pub(super) fn transfer(&mut self) {
        let (name, server) = (self.name(MAIN_PREFIX), self.server());
        let to = self.rng.pick(&self.load.service.registrants).clone();
        let request = self.agency_request("POST", "/api/v1/transfers");
        let request = request.json(&json!({"names": [name], "to": to}));
        let answer = self.connections.send(server, &request, WAIT_TIMEOUT);
        let id = answer.json()["id"].as_str().map(str::to_owned);
        assert_eq!(id.is_some(), answer.outcome == Outcome::Acknowledged, "{}", answer.response.text());
        let (outcome, state) = (answer.outcome, ProposalState::Proposed);
        let proposal = Proposal { name: name.clone(), to: to.clone(), id: id.clone(), outcome, state };
        let number = {
            let mut proposals = self.load.ledger.proposals.lock().unwrap();
            proposals.push(proposal);
            proposals.len() - 1
        };
        let Some(id) = id else { return };
        match self.rng.below(10) {
            0..7 => self.accept(number, &id, &name, to),
            7..9 => self.decline(number, &id),
            _ => {}
        }
    }

    /// Accepts a transfer. Repeated decisions are idempotent, so the request is repeated until it is answered.
    fn accept(&mut self, number: usize, id: &str, name: &str, to: String) {
        let server = self.server();
        let operation = self.load.ledger.begin(name, Action::Transfer { to }, server);
        let request = self.agency_request("POST", &format!("/api/v1/transfers/{id}/accept"));
        let answer = self.connections.send_until_answered(|| server, &request);
        self.finish(operation, &answer);
        let is_accepted = answer.outcome == Outcome::Acknowledged;
        let state = if is_accepted { ProposalState::Accepted } else { ProposalState::NotAccepted };
        self.load.ledger.proposals.lock().unwrap()[number].state = state;
    }

    fn decline(&mut self, number: usize, id: &str) {
        let server = self.server();
        let request = self.agency_request("POST", &format!("/api/v1/transfers/{id}/decline"));
        let answer = self.connections.send_until_answered(|| server, &request);
        assert_eq!(answer.status, 200, "{}", answer.response.text());
        self.load.ledger.proposals.lock().unwrap()[number].state = ProposalState::Declined;
    }
}
