//! Transfers, registrants and tokens.

use super::*;

impl RegistryModel {
    /// Current owners of the subject of a transfer.
    pub(super) fn may_transfer(
        &self,
        subject: &TransferSubject,
        to: &str,
        actor: &ModelActor,
    ) -> Result<BTreeSet<Box<str>>, char> {
        let mut from = BTreeSet::new();
        match subject {
            TransferSubject::Names(names) => {
                let mut seen = BTreeSet::new();
                for transferred in names {
                    let (prefix, _) = transferred.split_once('/').unwrap();
                    self.prefixes.get(prefix).ok_or('!')?;
                    let name = self.names.get(&transferred.to_ascii_uppercase()).ok_or('!')?;
                    let owner = self.owner(prefix, name);
                    match (name.state, self.may_act_for(actor, &owner)) {
                        (DoiStatus::Reserved, false) => return Err('!'),
                        (_, false) => return Err('-'),
                        (DoiStatus::Retired, _) => return Err('c'),
                        _ if *owner == *to => return Err('c'),
                        _ => {}
                    }
                    seen.insert(transferred.to_ascii_uppercase()).then_some(()).ok_or('!')?;
                    from.insert(owner);
                }
            }
            TransferSubject::Prefix(prefix) => {
                let holder = &self.prefixes.get(&**prefix).ok_or('!')?.holder;
                self.may_act_for(actor, holder).then_some(()).ok_or('-')?;
                (**holder != *to).then_some(()).ok_or('c')?;
                from.insert(holder.clone());
            }
            TransferSubject::Agency(code) => {
                let is_own = *actor == ModelActor::Operator || *actor == ModelActor::Agency(code.to_string());
                is_own.then_some(()).ok_or('-')?;
                let is_valid = !self.agencies[&**code] && !self.agencies[to] && **code != *to;
                is_valid.then_some(()).ok_or('c')?;
                from.insert(code.clone());
            }
        }
        Ok(from)
    }

    pub(super) fn apply_transfer(&mut self, subject: &TransferSubject, to: &str) {
        match subject {
            TransferSubject::Names(names) => {
                for transferred in names {
                    let (prefix, _) = transferred.split_once('/').unwrap();
                    let is_holder = *self.prefixes[prefix].holder == *to;
                    let name = self.names.get_mut(&transferred.to_ascii_uppercase()).unwrap();
                    name.owner = (!is_holder).then(|| to.into());
                }
            }
            TransferSubject::Prefix(prefix) => self.prefixes.get_mut(&**prefix).unwrap().holder = to.into(),
            TransferSubject::Agency(code) => {
                *self.agencies.get_mut(&**code).unwrap() = true;
                for member in self.registrants.values_mut().filter(|member| *member.agency == **code) {
                    member.agency = to.into();
                }
                *self.outcomes.entry("agency closed +".into()).or_default() += 1;
            }
        }
    }

    pub(super) fn transfer(&mut self, step: u64, actor: &ModelActor) -> (&'static str, char, char) {
        let ids: Vec<_> = self.registrants.keys().cloned().collect();
        let codes: Vec<_> = self.agencies.keys().cloned().collect();
        let kind = self.rng.below(40);
        let (subject, to) = match kind {
            0..3 => {
                let recent = codes[codes.len().saturating_sub(4)..].to_vec();
                let code = self.rng.pick(&recent).as_str().into();
                (TransferSubject::Agency(code), self.rng.pick(&recent).as_str().into())
            }
            3..10 => {
                let prefixes: Vec<_> = self.prefixes.keys().cloned().collect();
                let prefix = self.rng.pick(&prefixes).as_str().into();
                (TransferSubject::Prefix(prefix), self.rng.pick(&ids).clone())
            }
            _ => {
                let count = 1 + self.rng.below(3);
                let names = (0..count).map(|_| self.random_name(step).1.into()).collect();
                (TransferSubject::Names(names), self.rng.pick(&ids).clone())
            }
        };
        let force = self.rng.below(4) == 0;
        let random_bytes = self.rng.bytes();
        let found = self.execute_as(
            &ProposeTransfer { subject: subject.clone(), to: to.clone(), force, random_bytes },
            actor,
        );
        let expected = self.authenticated(actor).and_then(|()| {
            (!force || *actor == ModelActor::Operator).then_some(()).ok_or('-')?;
            self.may_transfer(&subject, &to, actor)
        });
        if let (Ok(from), Ok(created)) = (&expected, &found) {
            let state = if force { TransferState::Completed } else { TransferState::Proposed };
            assert_eq!((created.state, created.from.iter().cloned().collect()), (state, from.clone()));
            if force {
                self.apply_transfer(&subject, &to);
            }
            let token = self.tokens.get(actor).map(|(_, id, _)| id.clone());
            assert_eq!(created.proposed_with, token);
            let transfer =
                ModelTransfer { subject, from: from.clone(), to, proposed_by: actor.clone(), token, state };
            self.transfers.insert(created.id.clone(), transfer);
        }
        ("transfer", expected_letter(expected.map(drop)), outcome_letter(&found))
    }

    pub(super) fn decide(&mut self, actor: &ModelActor) -> (&'static str, char, char) {
        let open: Vec<_> = self.transfers.keys().cloned().collect();
        if open.is_empty() {
            return ("decide", '.', '.');
        }
        let id = self.rng.pick(&open).clone();
        let accept = self.rng.below(4) > 0;
        let found = self.execute_as(&DecideTransfer { id: id.clone(), accept }, actor);
        let transfer = self.transfers[&id].clone();
        let expected = self.authenticated(actor).and_then(|()| {
            let is_agency =
                |code: &str| *actor == ModelActor::Operator || *actor == ModelActor::Agency(code.to_owned());
            let (gives, receives) = match &transfer.subject {
                TransferSubject::Agency(code) => (is_agency(code), is_agency(&transfer.to)),
                _ => {
                    let gives = transfer.from.iter().any(|from| self.may_act_for(actor, from));
                    (gives, self.may_act_for(actor, &transfer.to))
                }
            };
            (gives || receives).then_some(()).ok_or('0')?;
            match (transfer.state, accept) {
                (TransferState::Proposed, _) => {}
                (TransferState::Completed, true) | (TransferState::Declined, false) => return Ok(false),
                _ => return Err('c'),
            }
            (receives || !accept).then_some(()).ok_or('-')?;
            if accept {
                // The token of the proposal must still be valid.
                let proposer = &transfer.proposed_by;
                let is_same = self.tokens.get(proposer).map(|(_, id, _)| id.clone()) == transfer.token;
                (is_same && self.authenticated(proposer).is_ok()).then_some(()).ok_or('c')?;
                let from = self.may_transfer(&transfer.subject, &transfer.to, &transfer.proposed_by);
                let from = from.map_err(|letter| if letter == '-' { 'c' } else { letter })?;
                (from == transfer.from).then_some(()).ok_or('c')?;
            }
            Ok(true)
        });
        if expected == Ok(true) {
            if accept {
                self.apply_transfer(&transfer.subject, &transfer.to);
            }
            self.transfers.get_mut(&id).unwrap().state =
                if accept { TransferState::Completed } else { TransferState::Declined };
        }
        // Keeps the number of transfers small.
        if transfer.state != TransferState::Proposed {
            self.transfers.remove(&id);
        }
        ("decide", expected_letter(expected.map(drop)), outcome_letter(&found))
    }

    pub(super) fn update_admins(&mut self, actor: &ModelActor) -> (&'static str, char, char) {
        let ids: Vec<_> = self.registrants.keys().cloned().collect();
        let id = self.rng.pick(&ids).clone();
        let count = self.rng.below(3);
        let keys: BTreeSet<_> = (0..count).map(|_| format!("300:10.9/key{}", self.rng.below(10))).collect();
        let admins = Some(keys.iter().map(|key| key.as_str().into()).collect());
        let found =
            self.execute_as(&UpdateRegistrant { id: id.clone(), admins, ..Default::default() }, actor);
        let expected =
            self.authenticated(actor).and_then(|()| self.may_act_for(actor, &id).then_some(()).ok_or('-'));
        if expected.is_ok() {
            self.registrants.get_mut(&id).unwrap().keys = keys;
        }
        ("admins", expected_letter(expected), outcome_letter(&found))
    }

    /// Revokes a token, or replaces a revoked one.
    pub(super) fn revoke_or_replace_token(&mut self, actor: &ModelActor) -> (&'static str, char, char) {
        let owners: Vec<_> = self.tokens.keys().cloned().collect();
        let owner = self.rng.pick(&owners).clone();
        let (_, id, is_valid) = self.tokens[&owner].clone();
        if !is_valid {
            let is_closed = matches!(&owner, ModelActor::Agency(code) if self.agencies[code]);
            if !is_closed {
                self.new_token(owner);
            }
            return ("token", '+', '+');
        }
        let found = self.execute_as(&RevokeToken { id, cascade: false }, actor);
        let expected = self.authenticated(actor).and_then(|()| {
            let is_allowed = match &owner {
                ModelActor::Registrant(id) => self.may_act_for(actor, id),
                owner => *actor == ModelActor::Operator || actor == owner,
            };
            is_allowed.then_some(()).ok_or('0')
        });
        if expected.is_ok() {
            self.tokens.get_mut(&owner).unwrap().2 = false;
        }
        ("token", expected_letter(expected), outcome_letter(&found))
    }

    /// Creates agencies and prefixes if there are few.
    pub(super) fn add_parties(&mut self, step: u64) -> (&'static str, char, char) {
        if self.agencies.values().filter(|is_closed| !**is_closed).count() < 3 {
            self.new_agency(self.agencies.len());
        }
        if self.prefixes.len() < 12 && step.is_multiple_of(7) {
            self.new_prefix(false);
        }
        ("parties", '+', '+')
    }
}
