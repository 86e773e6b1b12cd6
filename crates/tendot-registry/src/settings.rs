use tendot_proto::{ValueReference, limits};

use crate::HashPartition;

/// Settings of the registry, chosen by the operator.
///
/// ```
/// use tendot_registry::RegistrySettings;
/// use tendot_proto::ValueReference;
///
/// let settings = RegistrySettings { server_admins: vec![ValueReference::parse("300:0.NA/10.1000")], ..RegistrySettings::default() };
/// assert!(settings.list_handles && !settings.server_admins_full_access);
/// ```
#[derive(Clone, Debug)]
pub struct RegistrySettings {
    /// Who may home and unhome prefixes, list those that are homed, and list the names under all of them. Index 0 is
    /// any key of the record.
    pub server_admins: Vec<ValueReference<'static>>,
    /// Whether these may do everything else, too, whatever the records say.
    pub server_admins_full_access: bool,
    /// Who may home and unhome prefixes and list those that are homed, and nothing else.
    pub home_only_admins: Vec<ValueReference<'static>>,
    /// Who may look names up by what their records say, beside the administrators of the server. Index 0 is any key of the
    /// record.
    pub searchers: Vec<ValueReference<'static>>,
    /// Whether the administrators of a prefix may create names under it. If not, only those may who may do everything.
    pub prefix_admins: bool,
    /// Whether names can be listed at all.
    pub list_handles: bool,
    /// Prefixes whose names are never given again: deleting one leaves a tombstone. ASCII case does not matter.
    pub permanent_prefixes: Vec<Box<str>>,
    /// Which names are kept at this server of several in a site; without it, all are.
    pub share: Option<HashPartition>,
    /// How names are made up that are not stored.
    pub templates: TemplateSettings,
    /// What is taken.
    pub limits: RecordLimits,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self {
            server_admins: Vec::new(),
            server_admins_full_access: false,
            home_only_admins: Vec::new(),
            searchers: Vec::new(),
            prefix_admins: true,
            list_handles: true,
            permanent_prefixes: Vec::new(),
            share: None,
            templates: TemplateSettings::default(),
            limits: RecordLimits::default(),
        }
    }
}

/// Settings for names derived by prefix templates (`HS_NAMESPACE`).
#[derive(Clone, Debug)]
pub struct TemplateSettings {
    /// Whether the `HS_NAMESPACE` of a prefix is asked first. Deployed servers can be told not to
    /// (`template_ns_override`).
    pub by_prefix: bool,
    /// The `<namespace>` for prefixes that have none of their own.
    pub namespace: Option<Box<str>>,
    /// The delimiter where no namespace has one; the stored record is then the answer as it is.
    pub delimiter: Option<Box<str>>,
}

impl Default for TemplateSettings {
    fn default() -> Self {
        Self { by_prefix: true, namespace: None, delimiter: None }
    }
}

/// Limits on new names and records.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecordLimits {
    /// Values of a record.
    pub values: usize,
    /// Bytes of one value's data.
    pub value_bytes: usize,
    /// Bytes of all values of a record, so that an answer with all of them, a name and a signature is a message.
    pub record_bytes: usize,
    /// Bytes of a URL.
    pub url_bytes: usize,
    /// Whether new names may have characters that nobody sees: controls, marks of direction, zero-width, tags.
    pub invisible_names: bool,
    /// Whether a new name may be the same text as another, with accents composed otherwise. If so, who makes it is told.
    pub confusable_names: bool,
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self {
            values: limits::MAX_VALUES,
            value_bytes: limits::FIELD,
            record_bytes: limits::MAX_MESSAGE_LEN - 4_096,
            url_bytes: 2_048,
            invisible_names: false,
            confusable_names: true,
        }
    }
}
