//! Settings of the registry.

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
    /// Server administrators: may home and unhome prefixes, list homed prefixes, and list all names under them. Index 0
    /// matches any key of the record.
    pub server_admins: Vec<ValueReference<'static>>,
    /// Whether server administrators are authorized for every operation, regardless of the records' admins.
    pub server_admins_full_access: bool,
    /// Administrators who may only home, unhome and list homed prefixes.
    pub home_only_admins: Vec<ValueReference<'static>>,
    /// Identities that may use reverse lookup, besides server administrators. Index 0 matches any key of the record.
    pub searchers: Vec<ValueReference<'static>>,
    /// Whether the admins of a prefix may create names under it. If not, only server administrators with full access may.
    pub prefix_admins: bool,
    /// Whether names can be listed.
    pub list_handles: bool,
    /// Prefixes whose names are never reused: a deleted name leaves a tombstone. ASCII case-insensitive.
    pub permanent_prefixes: Vec<Box<str>>,
    /// Partition of this server in a multi-server site; without it, the server has all names.
    pub share: Option<HashPartition>,
    /// Settings for names derived by templates.
    pub templates: TemplateSettings,
    /// Limits on new names and records.
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
    /// Whether the `HS_NAMESPACE` of a prefix takes precedence over `namespace`. Deployed servers can disable this
    /// (`template_ns_override`).
    pub by_prefix: bool,
    /// Default `<namespace>` of prefixes without one.
    pub namespace: Option<Box<str>>,
    /// Default delimiter if no namespace has one; the base record is then returned unchanged.
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
    /// Maximum number of values of a record.
    pub values: usize,
    /// Maximum data length of one value, in bytes.
    pub value_bytes: usize,
    /// Maximum length of all values of a record, in bytes. All of them fit into one message with the name and a signature.
    pub record_bytes: usize,
    /// Maximum length of a URL, in bytes.
    pub url_bytes: usize,
    /// Whether new names may contain invisible characters: controls, bidirectional marks, zero-width characters, tags.
    pub invisible_names: bool,
    /// Whether a new name may be a Unicode normalization variant of an existing one. If so, the caller gets a warning.
    pub confusable_names: bool,
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self {
            values: limits::MAX_VALUES,
            value_bytes: limits::MAX_FIELD_LEN,
            record_bytes: limits::MAX_MESSAGE_LEN - 4_096,
            url_bytes: 2_048,
            invisible_names: false,
            confusable_names: true,
        }
    }
}
