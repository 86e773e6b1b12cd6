//! Writes of keys, also by restricted tokens.

use super::*;

impl RegistryModel {
    /// A new token of a registrant, which may register names under the prefix but is not unrestricted.
    fn new_restricted_token(&mut self, prefix: &str) -> ModelActor {
        let ids: Vec<_> = self.registrants.keys().cloned().collect();
        let id = self.rng.pick(&ids).clone();
        let (scopes, prefixes, expires_ms) = match self.rng.below(4) {
            0 => (Some(vec![Scope::Register]), vec![], None),
            1 => (Some(vec![Scope::Register, Scope::Administer]), vec![], None),
            2 => (None, vec![prefix.into()], None),
            _ => (None, vec![], Some(self.now + 1_000_000_000)),
        };
        let (subject, label, random_bytes) = (Some(id.clone()), None, self.rng.bytes());
        let role = Role::Registrant;
        let new = CreateToken { role, subject, scopes, prefixes, expires_ms, label, random_bytes };
        self.execute_as_operator(&new);
        let (plaintext, mut budget) = (new.plaintext(), budget());
        let authenticated = self.registry.authenticate_token(&plaintext, self.now, &mut budget);
        self.restricted = Caller::Token(block_on(authenticated).unwrap().unwrap());
        ModelActor::Restricted(id)
    }

    /// Writes, removes or keeps the secret of a name, by the registry or the Handle protocol.
    pub(super) fn key_write(&mut self, step: u64, actor: ModelActor) -> (&'static str, char, char) {
        let (prefix, name) = self.random_name(step);
        let actor = if self.rng.below(2) == 0 { self.new_restricted_token(&prefix) } else { actor };
        let (url, secret) = (format!("https://example.org/{step}"), format!("secret {step}"));
        let existing = self.names.get(&name.to_ascii_uppercase()).cloned();
        let handle = Handle::from(&*name);
        let key = || HandleValue::new(300, "HS_SECKEY", secret.clone());
        let kind = self.rng.below(4);
        let handle_write = match kind {
            0 | 1 => None,
            2 => Some(HandleWrite::AddValues {
                name: handle,
                values: vec![key()],
                overwrite: true,
                force: false,
            }),
            _ => Some(HandleWrite::RemoveValues { name: handle, indexes: vec![300], force: false }),
        };
        let found = match &handle_write {
            // Without naming the secret, or with a new one.
            None => {
                let values = Some(if kind == 0 { vec![] } else { vec![key()] });
                let url = Some(url.as_str().into());
                let body = RegistrationRequest { url, values, ..RegistrationRequest::default() };
                let command = UpdateDoi { name: (*name).into(), request: body, expected_revision: None };
                outcome_letter(&self.execute_as(&command, &actor))
            }
            Some(write) => {
                let (caller, mut budget) = (self.caller(&actor), budget());
                let written = self.registry.write(write, CallContext::new(&caller, self.now, &mut budget));
                outcome_letter(&block_on(written).map_err(RegistryError::from))
            }
        };
        let has_secret = existing.as_ref().is_some_and(|existing| existing.secret.is_some());
        let changes_secret = kind == 1 || kind == 2 || kind == 3 && has_secret;
        let expected = (|| {
            if handle_write.is_none() {
                self.may_update(&prefix, &name, &actor)?;
            } else {
                self.prefixes.get(&prefix).ok_or('0')?;
                self.authenticated(&actor)?;
                let is_public = |name: &&ModelName| name.state == DoiStatus::Registered;
                let existing = existing.as_ref().filter(is_public).ok_or('0')?;
                self.may_act_for(&actor, &self.owner(&prefix, existing)).then_some(()).ok_or('-')?;
            }
            if changes_secret && matches!(actor, ModelActor::Restricted(_)) {
                return Err('-');
            }
            (kind != 3 || has_secret).then_some(()).ok_or('!')
        })();
        if expected.is_ok() {
            let name = self.names.get_mut(&name.to_ascii_uppercase()).unwrap();
            match kind {
                0 => name.url = url,
                1 => (name.url, name.secret) = (url, Some(secret)),
                2 => name.secret = Some(secret),
                _ => name.secret = None,
            }
        }
        ("key write", expected_letter(expected), found)
    }
}
