//! Settings of the registry.

use tendot_proto::{ValueReference, limits};

use crate::{HashPartition, ServiceHandleRecord, SigningSettings};

/// Settings of the registry, chosen by the operator.
///
/// ```
/// use tendot_registry::RegistrySettings;
/// use tendot_proto::ValueReference;
///
/// let settings = RegistrySettings { server_admins: vec![ValueReference::parse("300:0.NA/10.1000")], ..RegistrySettings::default() };
/// assert!(settings.allow_listing && !settings.server_admins_full_access);
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
    pub reverse_lookup_users: Vec<ValueReference<'static>>,
    /// Whether the admins of a prefix may create names under it. If not, only server administrators with full access may.
    pub prefix_admins_can_create: bool,
    /// Whether handles can be listed.
    pub allow_listing: bool,
    /// Prefixes whose names are never reused: a deleted name leaves a tombstone. ASCII case-insensitive.
    pub permanent_prefixes: Vec<Box<str>>,
    /// Partition of this server in a multi-server site; without it, the server has all names.
    pub partition: Option<HashPartition>,
    /// Settings for names derived by templates.
    pub templates: TemplateSettings,
    /// Directory codes of the prefixes that the registry may allocate: numbers, such as `10` or `20.500`. Names under them are
    /// DOIs.
    pub directory_codes: Vec<Box<str>>,
    /// Limits on new names and records.
    pub limits: RecordLimits,
    /// Time for which a proposed transfer can be accepted, in milliseconds.
    pub transfer_proposal_ttl_ms: u64,
    /// Signing of records on write; `None` signs nothing. Needs a Tokio runtime.
    pub signing: Option<SigningSettings>,
    /// Service handle that the records of allocated prefixes refer to; without it, they name no site.
    pub service_handle: Option<ServiceHandleRecord>,
}

impl RegistrySettings {
    /// Directory code of all DOIs before the revision of ISO 26324.
    pub const DOI_DIRECTORY_CODE: &'static str = "10";

    /// Whether names under a prefix are DOIs: it has a directory code and a registrant code. A code other than `10` is also a
    /// prefix by itself, as in the revision of ISO 26324.
    ///
    /// ```
    /// use tendot_registry::RegistrySettings;
    ///
    /// let settings = RegistrySettings { directory_codes: vec!["10".into(), "20.500".into()], ..RegistrySettings::default() };
    /// assert!(settings.is_doi_prefix("10.1000") && settings.is_doi_prefix("20.500.12345") && settings.is_doi_prefix("20.500"));
    /// assert!(!settings.is_doi_prefix("10") && !settings.is_doi_prefix("20.5000") && !settings.is_doi_prefix("100.1"));
    /// ```
    pub fn is_doi_prefix(&self, prefix: &str) -> bool {
        self.directory_codes.iter().any(|code| match prefix.strip_prefix(&**code) {
            Some("") => **code != *Self::DOI_DIRECTORY_CODE,
            Some(rest) => rest.starts_with('.'),
            None => false,
        })
    }
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self {
            server_admins: Vec::new(),
            server_admins_full_access: false,
            home_only_admins: Vec::new(),
            reverse_lookup_users: Vec::new(),
            prefix_admins_can_create: true,
            allow_listing: true,
            permanent_prefixes: Vec::new(),
            partition: None,
            templates: TemplateSettings::default(),
            directory_codes: vec![Self::DOI_DIRECTORY_CODE.into()],
            limits: RecordLimits::default(),
            transfer_proposal_ttl_ms: 30 * 24 * 60 * 60 * 1_000,
            signing: None,
            service_handle: None,
        }
    }
}

/// Settings for names derived by prefix templates (`HS_NAMESPACE`).
#[derive(Clone, Debug)]
pub struct TemplateSettings {
    /// Whether the `HS_NAMESPACE` of a prefix takes precedence over `default_namespace`. Deployed servers can disable this
    /// (`template_ns_override`).
    pub use_prefix_namespace: bool,
    /// Default `<namespace>` of prefixes without one.
    pub default_namespace: Option<Box<str>>,
    /// Default delimiter if no namespace has one; the base record is then returned unchanged.
    pub default_delimiter: Option<Box<str>>,
}

impl Default for TemplateSettings {
    fn default() -> Self {
        Self { use_prefix_namespace: true, default_namespace: None, default_delimiter: None }
    }
}

/// Maximum length of a name that any store accepts, in bytes.
pub const MAX_NAME_LEN: usize = tendot_store::NameKey::MAX_LEN;

/// Limits on new names and records.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecordLimits {
    /// Maximum length of a name, in bytes; at most [`MAX_NAME_LEN`]. Names of more than [`limits::MAX_HANDLE_LEN`] bytes do not
    /// resolve over the native protocol.
    pub max_name_bytes: usize,
    /// Maximum number of values of a record.
    pub max_values: usize,
    /// Maximum data length of one value, in bytes.
    pub max_value_bytes: usize,
    /// Maximum length of all values of a record, in bytes. All of them fit into one message with the name and a signature.
    pub max_record_bytes: usize,
    /// Maximum length of a URL, in bytes.
    pub max_url_bytes: usize,
    /// Whether new names may contain invisible characters: controls, bidirectional marks, zero-width characters, tags.
    pub allow_invisible_characters: bool,
    /// Whether a new name may be a Unicode normalization variant of an existing one. If so, the caller gets a warning.
    pub allow_confusable_names: bool,
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self {
            max_name_bytes: limits::MAX_HANDLE_LEN,
            max_values: limits::MAX_VALUES,
            max_value_bytes: limits::MAX_FIELD_LEN,
            max_record_bytes: limits::MAX_MESSAGE_LEN - 4_096,
            max_url_bytes: 2_048,
            allow_invisible_characters: false,
            allow_confusable_names: true,
        }
    }
}
