//! Registrations, updates, batches and handle writes of names.

use super::*;

impl RegistryModel {
    /// A name of those that are used around this step, in either case.
    pub(super) fn random_name(&mut self, step: u64) -> (String, String) {
        let prefixes: Vec<_> = self.prefixes.keys().cloned().collect();
        let prefix = match self.rng.below(50) {
            0 => "10.79999".to_owned(),
            _ => self.rng.pick(&prefixes).clone(),
        };
        let number = step / 100 + self.rng.below(20) as u64;
        let letters = if self.rng.below(2) == 0 { "name" } else { "NAME" };
        (prefix.clone(), format!("{prefix}/{letters}{number}"))
    }

    pub(super) fn random_state(&mut self) -> (Option<RegistrationState>, DoiStatus) {
        if self.rng.below(4) == 0 {
            (request_from_json(r#"{"state": "reserved"}"#).state, DoiStatus::Reserved)
        } else {
            (None, DoiStatus::Registered)
        }
    }

    pub(super) fn live_under(&self, prefix: &str) -> usize {
        let start = format!("{prefix}/");
        let under = self.names.range(start.clone()..).take_while(|(key, _)| key.starts_with(&start));
        under.filter(|(_, name)| name.state != DoiStatus::Retired).count()
    }

    pub(super) fn has_quota_left(&self, prefix: &str) -> bool {
        prefix != self.limited_prefix || self.live_under(prefix) < QUOTA
    }

    pub(super) fn may_register(&self, prefix: &str, name: &str, actor: &ModelActor) -> Expected {
        self.authenticated(actor)?;
        let holder = &self.prefixes.get(prefix).ok_or('0')?.holder;
        self.may_act_for(actor, holder).then_some(()).ok_or('-')?;
        if self.names.contains_key(&name.to_ascii_uppercase()) {
            return Err('c');
        }
        self.has_quota_left(prefix).then_some(()).ok_or('f')
    }

    pub(super) fn insert(&mut self, name: &str, state: DoiStatus, url: &str) {
        let new = ModelName { spelling: name.into(), state, owner: None, url: url.into(), secret: None };
        self.names.insert(name.to_ascii_uppercase(), new);
    }

    pub(super) fn register(&mut self, step: u64, actor: &ModelActor) -> (&'static str, char, char) {
        let (prefix, name) = self.random_name(step);
        let url = format!("https://example.org/{step}");
        let (state, becomes) = self.random_state();
        let body = RegistrationRequest { state, ..request(&name, &url) };
        let found = self.execute_as(&RegisterDoi { request: body, random_bytes: [0; 16] }, actor);
        let expected = self.may_register(&prefix, &name, actor);
        if expected.is_ok() {
            self.insert(&name, becomes, &url);
        }
        ("register", expected_letter(expected), outcome_letter(&found))
    }

    pub(super) fn may_update(&self, prefix: &str, name: &str, actor: &ModelActor) -> Expected {
        self.authenticated(actor)?;
        self.prefixes.get(prefix).ok_or('0')?;
        let name = self.names.get(&name.to_ascii_uppercase()).ok_or('0')?;
        let is_allowed = self.may_act_for(actor, &self.owner(prefix, name));
        match (name.state, is_allowed) {
            (DoiStatus::Reserved, false) => Err('0'),
            (_, false) => Err('-'),
            (DoiStatus::Retired, _) => Err('g'),
            _ => Ok(()),
        }
    }

    pub(super) fn update(&mut self, step: u64, actor: &ModelActor) -> (&'static str, char, char) {
        let (prefix, name) = self.random_name(step);
        let url = format!("https://example.org/{step}");
        let state = request_from_json(r#"{"state": "registered"}"#).state;
        let state = if self.rng.below(2) == 0 { state } else { None };
        let body =
            RegistrationRequest { url: Some(url.as_str().into()), state, ..RegistrationRequest::default() };
        let found = self.execute_as(
            &UpdateDoi { name: name.as_str().into(), request: body, expected_revision: None },
            actor,
        );
        let expected = self.may_update(&prefix, &name, actor);
        if expected.is_ok() {
            let name = self.names.get_mut(&name.to_ascii_uppercase()).unwrap();
            name.url = url;
            if state.is_some() {
                name.state = DoiStatus::Registered;
            }
        }
        ("update", expected_letter(expected), outcome_letter(&found))
    }

    pub(super) fn remove(&mut self, prefix: &str, name: &str) {
        let key = name.to_ascii_uppercase();
        if self.prefixes[prefix].is_test || self.names[&key].state == DoiStatus::Reserved {
            self.names.remove(&key);
        } else {
            self.names.get_mut(&key).unwrap().state = DoiStatus::Retired;
        }
    }

    pub(super) fn retire(&mut self, step: u64, actor: &ModelActor) -> (&'static str, char, char) {
        let (prefix, name) = self.random_name(step);
        let found =
            self.execute_as(&RetireDoi { name: name.as_str().into(), expected_revision: None }, actor);
        let expected = self.may_update(&prefix, &name, actor);
        if expected.is_ok() {
            self.remove(&prefix, &name);
        }
        ("retire", expected_letter(expected), outcome_letter(&found))
    }

    pub(super) fn batch(&mut self, step: u64, actor: &ModelActor) -> (&'static str, char, char) {
        let count = 1 + self.rng.below(5);
        let (mut lines, mut expected) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (prefix, name) = self.random_name(step);
            let url = format!("https://example.org/{step}/{}", self.rng.below(3));
            let body = request(&name, &url);
            lines.push(batch_line(number as u64, body));
            expected.push(self.apply_line(&prefix, &name, &url, actor));
        }
        let outcomes =
            block_on(self.registry.execute_batch(batch_group(&lines, &self.caller(actor), self.now)));
        for (outcome, expected) in outcomes.unwrap().iter().zip(&expected) {
            let found = match &outcome.result {
                Ok(status) => status.as_str().to_owned(),
                rejected => outcome_letter(rejected).to_string(),
            };
            assert_eq!(found, *expected, "step {step}: {outcome:?} by {actor:?}");
        }
        let all_applied = expected.iter().all(|text| text.len() > 1);
        ("batch", if all_applied { '+' } else { '.' }, if all_applied { '+' } else { '.' })
    }

    pub(super) fn apply_line(&mut self, prefix: &str, name: &str, url: &str, actor: &ModelActor) -> String {
        let existing = self.names.get(&name.to_ascii_uppercase()).cloned();
        let outcome = |model: &Self| -> Result<&'static str, char> {
            model.authenticated(actor)?;
            let holder = &model.prefixes.get(prefix).ok_or('0')?.holder;
            let Some(existing) = &existing else {
                return model.may_register(prefix, name, actor).map(|()| "created");
            };
            let is_allowed = model.may_act_for(actor, &model.owner(prefix, existing));
            match existing.state {
                DoiStatus::Registered | DoiStatus::Reserved if is_allowed && existing.url == url => {
                    Ok("unchanged")
                }
                DoiStatus::Registered | DoiStatus::Reserved if is_allowed => Ok("updated"),
                DoiStatus::Registered => Err('-'),
                _ if is_allowed || model.may_act_for(actor, holder) => Err('c'),
                _ => Err('-'),
            }
        };
        match outcome(self) {
            Ok("created") => self.insert(name, DoiStatus::Registered, url),
            Ok("updated") => self.names.get_mut(&name.to_ascii_uppercase()).unwrap().url = url.into(),
            Ok(_) => {}
            Err(letter) => return letter.to_string(),
        }
        expected_status(existing.as_ref().map(|existing| existing.url == url))
    }

    /// A write by the Handle protocol.
    pub(super) fn handle_write(&mut self, step: u64, actor: &ModelActor) -> (&'static str, char, char) {
        let (prefix, name) = self.random_name(step);
        let url = format!("https://example.org/{step}");
        let existing = self.names.get(&name.to_ascii_uppercase()).cloned();
        let value = || HandleValue::new(1, "URL", url.clone());
        let handle = Handle::from(&*name);
        let kind = self.rng.below(3);
        let write = match kind {
            0 => {
                let values = vec![value(), admin_value(100, &format!("200:0.NA/{prefix}"))];
                HandleWrite::Create {
                    name: handle,
                    values,
                    overwrite: false,
                    keep_secrets: false,
                    uuid_bytes: None,
                    force: false,
                }
            }
            1 => HandleWrite::ModifyValues { name: handle, values: vec![value()], force: false },
            _ => HandleWrite::Delete { name: handle, permanent: false },
        };
        let found = block_on(
            self.registry.write(&write, CallContext::new(&self.caller(actor), self.now, &mut budget())),
        );
        let is_public = existing.as_ref().is_some_and(|existing| existing.state == DoiStatus::Registered);
        let expected = (|| {
            let holder = &self.prefixes.get(&prefix).ok_or('0')?.holder;
            if kind == 0 {
                match existing.as_ref().map(|existing| existing.state) {
                    Some(DoiStatus::Registered) => return Err('c'),
                    Some(DoiStatus::Retired) => return Err('g'),
                    _ => {}
                }
                self.authenticated(actor)?;
                if let Some(existing) = &existing {
                    // Only the owner learns that a reserved name is taken; keys have to be in the prefix record, too.
                    let is_key = matches!(actor, ModelActor::Key(_));
                    let may_know = self.may_act_for(actor, &self.owner(&prefix, existing))
                        && (!is_key || self.may_act_for(actor, holder));
                    return Err(if may_know { 'c' } else { '-' });
                }
                self.may_act_for(actor, holder).then_some(()).ok_or('-')?;
                return self.has_quota_left(&prefix).then_some(()).ok_or('f');
            }
            if kind == 1 && !is_public {
                return Err('0');
            }
            self.authenticated(actor)?;
            let existing = existing.as_ref().filter(|_| is_public).ok_or('0')?;
            self.may_act_for(actor, &self.owner(&prefix, existing)).then_some(()).ok_or('-')
        })();
        if expected.is_ok() {
            match kind {
                0 => self.insert(&name, DoiStatus::Registered, &url),
                1 => self.names.get_mut(&name.to_ascii_uppercase()).unwrap().url = url,
                _ => self.remove(&prefix, &name),
            }
        }
        ("handle write", expected_letter(expected), outcome_letter(&found.map_err(RegistryError::from)))
    }
}
