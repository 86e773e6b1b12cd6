//! Handles valid responses and follows referrals.

use super::config::SiteSource;
use super::error::{AttemptError, LookupErrorKind};
use super::locate::SiteLocator;
use super::request::LookupRequest;
use super::{Lookup, LookupEvent, LookupResponse, LookupStep, StepState, validate};
use crate::handle::Handle;
use crate::message::{Message, MessageHeader, OpFlags, ProtocolVersion, ResponseCode, ResponseData};
use crate::now::Now;
use crate::record::{InterfaceProtocol, Site};

impl Lookup {
    /// Handles a response to an attempt of the current step.
    pub(super) fn handle_response(&mut self, now: Now, index: usize, bytes: &[u8]) {
        let Some((step, below)) = self.steps.split_last_mut() else { return };
        let StepState::Query(query) = &mut step.state else { return };
        let Some(attempt) = query.attempts.get_mut(index) else { return };
        if query.streaming_attempt.is_some_and(|id| id != attempt.id) {
            return;
        }
        let budget = &mut self.budget;
        let validated = validate::validate_response(&self.config, &step.request, attempt, bytes, now, budget);
        let (message, response) = match validated {
            Ok(validated) => validated,
            Err(error) => return attempt.fail(error),
        };
        let rtt = now.elapsed.saturating_sub(attempt.started_at);
        self.events.push_back(LookupEvent::RttSample { server: attempt.to.ip(), rtt });
        let header = message.header;
        if query.source == SiteSource::Root && has_newer_serial(&header, &attempt.target.site) {
            self.events.push_back(LookupEvent::RootChanged);
        }
        // A request that must not be repeated goes to no other server, so any response is final.
        if header.response_code == ResponseCode::ERROR && step.request.is_idempotent() {
            return attempt.fail(AttemptError::ServerError(ResponseCode::ERROR));
        }
        if is_referral(&step.request, &message) {
            step.already_referred.push(attempt.target.clone());
            return self.follow_referral(
                &response.data,
                header.response_code == ResponseCode::PREFIX_REFERRAL,
                now,
            );
        }
        if let Some(LookupStep { state: StepState::Locate(locator), .. }) = below.last_mut() {
            if let ResponseData::Resolved { values, .. } = response.data {
                locator.add_values(values, &self.config.root_sites, step.depth, now);
            }
            self.steps.pop();
            return;
        }
        let lookup_response = LookupResponse {
            bytes: bytes.to_vec(),
            transport: attempt.transport,
            from: attempt.to,
            server: attempt.target.clone(),
        };
        if header.flags.contains(OpFlags::CONTINUOUS) && attempt.transport != InterfaceProtocol::UDP {
            query.streaming_attempt = Some(attempt.id);
            attempt.next_timeout = now.elapsed.saturating_add(self.config.stream_timeout);
            self.events.push_back(LookupEvent::PartialResponse(lookup_response));
            return;
        }
        self.finish(LookupEvent::Finished(lookup_response));
    }

    /// Continues at the sites that a referral names.
    fn follow_referral(&mut self, referral: &ResponseData<'_>, for_derived_prefix: bool, now: Now) {
        self.referrals += 1;
        if self.referrals > self.config.max_referrals {
            return self.fail(LookupErrorKind::ReferralLimit { max: self.config.max_referrals });
        }
        let Some(step) = self.steps.last_mut() else { return };
        let mut locator = SiteLocator::new(now, for_derived_prefix);
        if let ResponseData::Referral { handle, values } = *referral {
            if let Some(values) = values.filter(|values| !values.is_empty()) {
                locator.add_values(values, &self.config.root_sites, step.depth, now);
            } else if handle.eq_ignore_case(Handle::ROOT) {
                self.config.root_sites.iter().for_each(|site| locator.add_site(site));
            } else if !handle.as_bytes().is_empty() {
                locator.add_record(handle, step.depth + 1);
            }
        }
        step.state = StepState::Locate(locator);
    }
}

/// Whether a response is a valid referral.
fn is_referral(request: &LookupRequest, message: &Message<'_>) -> bool {
    let handle = request.handle();
    match message.header.response_code {
        ResponseCode::SERVICE_REFERRAL => true,
        // Only for prefixes; before 2.5 the same code meant that the server was read-only.
        ResponseCode::PREFIX_REFERRAL => {
            let is_prefix = handle.is_prefix_handle() || handle.suffix().is_none();
            is_prefix && message.envelope.version >= ProtocolVersion::SESSION_COUNTERS
        }
        _ => false,
    }
}

/// Whether a server has a newer site than the client. An older one is ignored.
fn has_newer_serial(header: &MessageHeader, site: &Site<'_>) -> bool {
    header.response_code == ResponseCode::OUT_OF_DATE_SITE_INFO
        || header.site_serial != MessageHeader::UNKNOWN_SITE_SERIAL && header.site_serial > site.serial
}
