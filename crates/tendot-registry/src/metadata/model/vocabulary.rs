//! Allowed value sets of kernel XML 2.3 (10.1000/282).
//!
//! An open set accepts further values, which agencies register; a closed one does not.

use std::borrow::Cow;

use serde_json::Value;

use crate::metadata::codec::node::MetadataNode;
use crate::metadata::codec::reader::{MetadataElement, MetadataReader};
use crate::metadata::fault::MetadataFaultCode;
use crate::metadata::schema::{self, SchemaSet};

/// Maximum length of a value that is not listed, in bytes.
const MAX_EXTENSION_BYTES: usize = 64;

/// Declares a closed set as an enum.
macro_rules! closed_set {
    ($(#[$doc:meta])* $name:ident: $($variant:ident = $text:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(in crate::metadata) enum $name {
            $($variant),+
        }

        impl $name {
            const ALL: &[Self] = &[$(Self::$variant),+];
            const NAMES: &[&str] = &[$($text),+];

            pub(in crate::metadata) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }
        }

        impl MetadataElement for $name {
            fn read(node: MetadataNode<'_>, reader: &mut MetadataReader) -> Option<Self> {
                let text = reader.expect_text(node)?;
                let found = Self::ALL.iter().find(|value| value.as_str() == text.trim()).copied();
                if found.is_none() {
                    reader.report_not_allowed(&text, Self::NAMES);
                }
                found
            }

            fn to_node(&self) -> MetadataNode<'_> {
                MetadataNode::text(self.as_str())
            }

            fn schema(_: &mut SchemaSet) -> Value {
                schema::closed_set(Self::NAMES)
            }

            #[cfg(test)]
            fn arbitrary(input: &mut crate::metadata::tests::ArbitraryInput) -> Self {
                *input.of(Self::ALL)
            }
        }
    };
}

/// Declares an open set as a validated text.
macro_rules! open_set {
    ($(#[$doc:meta])* $name:ident: $($text:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Eq, PartialEq)]
        pub(in crate::metadata) struct $name(Cow<'static, str>);

        impl $name {
            const LISTED: &[&str] = &[$($text),+];

            pub(in crate::metadata) fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl MetadataElement for $name {
            fn read(node: MetadataNode<'_>, reader: &mut MetadataReader) -> Option<Self> {
                listed_or_extension(node, reader, Self::LISTED).map(Self)
            }

            fn to_node(&self) -> MetadataNode<'_> {
                MetadataNode::text(self.as_str())
            }

            fn schema(_: &mut SchemaSet) -> Value {
                schema::open_set(Self::LISTED)
            }

            #[cfg(test)]
            fn arbitrary(input: &mut crate::metadata::tests::ArbitraryInput) -> Self {
                if input.next() > 200 { Self("Extension-1".into()) } else { Self((*input.of(Self::LISTED)).into()) }
            }
        }
    };
}

/// Reads a listed value, or one that may have been registered since. A listed value in other case is rejected.
fn listed_or_extension(
    node: MetadataNode<'_>,
    reader: &mut MetadataReader,
    listed: &'static [&'static str],
) -> Option<Cow<'static, str>> {
    let text = reader.expect_text(node)?;
    let text = text.trim();
    if let Some(found) = listed.iter().find(|value| **value == text) {
        return Some(Cow::Borrowed(found));
    }
    if let Some(spelling) = listed.iter().find(|value| value.eq_ignore_ascii_case(text)) {
        reader.report(
            MetadataFaultCode::ValueNotAllowed,
            format!("`{text}` must be spelled `{spelling}`"),
            listed,
        );
        return None;
    }
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.+/".contains(&byte));
    if text.is_empty() || text.len() > MAX_EXTENSION_BYTES || !is_word {
        reader.report_not_allowed(text, listed);
        return None;
    }
    Some(Cow::Owned(text.to_owned()))
}

impl CreationType {
    /// Listed value that equals the text, ASCII case-insensitive, or the text itself.
    pub(in crate::metadata) fn listed_spelling(text: &str) -> &str {
        Self::LISTED.iter().find(|listed| listed.eq_ignore_ascii_case(text)).copied().unwrap_or(text)
    }
}

closed_set! {
    /// Allowed values of `primaryReferentType`. `Place` is in the schema, but not in its list.
    PrimaryReferentType:
    Creation = "Creation", Party = "Party", Place = "Place",
}

closed_set! {
    /// Allowed values of `structuralType` of a creation.
    CreationStructuralType:
    Abstraction = "Abstraction", Digital = "Digital", Performance = "Performance", Physical =
    "Physical", Restricted = "Restricted",
}

closed_set! {
    /// Allowed values of `mode`: the senses that perceive a creation.
    CreationMode:
    Audio = "Audio", Olfactory = "Olfactory", Restricted = "Restricted", Tangible = "Tangible",
    Tasteable = "Tasteable", Visual = "Visual",
}

closed_set! {
    /// Allowed values of `character`: the expression of a creation.
    CreationCharacter:
    Image = "Image", Language = "Language", Music = "Music", Other = "Other", Restricted =
    "Restricted",
}

closed_set! {
    /// Allowed values of `structuralType` of a party.
    PartyStructuralType:
    Animal = "Animal", Individual = "Individual", Organization = "Organization",
}

closed_set! {
    /// Allowed values of the role of a linked party.
    PartyLinkRole:
    CorporateSubsidiary = "CorporateSubsidiary", DivisionOrDepartment = "DivisionOrDepartment",
    MarriagePartner = "MarriagePartner", Member = "Member", Parent = "Parent", Sibling = "Sibling",
}

closed_set! {
    /// Allowed values of `proximity` of a date.
    Proximity:
    After = "After", Before = "Before", Circa = "Circa", NotAfter = "NotAfter", NotBefore =
    "NotBefore",
}

closed_set! {
    /// Allowed values of `returnType` of a URI.
    ReturnType:
    RdfXml = "application/rdf+xml", ApplicationXml = "application/xml", Html = "text/html", TextXml
    = "text/xml",
}

closed_set! {
    /// Primary referent types in System Metadata.
    ReferentType: CreativeWork = "CreativeWork", Party = "Party", Place = "Place"
}

closed_set! {
    /// Allowed values of `placeType`; a single one so far.
    PlaceSubType: Place = "Place"
}

open_set! {
    /// Allowed values of `type` of a creation name.
    CreationNameType:
    "AbbreviatedTitle", "DistinctiveTitle", "FormerTitle", "Name", "PrincipalTitle", "Title",
    "TranslatedTitle",
}

open_set! {
    /// Allowed values of `type` of a creation identifier.
    CreationIdentifierType:
    "Ad-ID", "AMG", "Baseline", "cIDF", "CRID", "DOI", "EAN13", "EditionNumber", "EidrContentID",
    "GRid", "IMDbID", "ISAN", "ISBN10", "ISBN13", "ISRC", "ISSN", "ISTC", "ISWC", "IVA", "MUZE",
    "PII", "ProprietaryIdentifier", "SMPTE-UMID", "TRIB", "TVG", "UPC", "URI", "URN", "UUID",
}

open_set! {
    /// Allowed values of `type` of a creation.
    CreationType:
    "Article", "Blog", "BlogEntry", "Book", "BookChapter", "BookSeries", "Chapter",
    "ClinicalTrialProtocol", "Clip", "ConferenceProceedings", "ConferenceProceedingsSeries",
    "CoursePack", "CrystalStructure", "CueSheet", "Dataset", "DictionaryEntry", "Ebook",
    "EncyclopaediaEntry", "Figure", "Film", "InteractiveResource", "Journal", "JournalArticle",
    "JournalIssue", "JournalVolume", "LearningObject", "MedicalCaseReport", "MovingImage",
    "Periodical", "PrintedBook", "Report", "ReportChapter", "ReportSeries", "Restricted", "Season",
    "Serial", "SerialIssue", "Series", "ShortFilm", "Standard", "StandardSeries", "StillImage",
    "SupplementalResource", "Thesis", "TvProgramme", "WebResource", "Website",
}

open_set! {
    /// Allowed values of `role` of an agent.
    AgentRole:
    "Actor", "Author", "Composer", "CorporateCreator", "Creator", "Director", "FundingBody",
    "Publisher",
}

open_set! {
    /// Allowed values of the role of a linked creation.
    CreationLinkRole:
    "AlternateContent", "Chapter", "Clip", "CueSheet", "Derivation", "Edit", "Edition", "Episode",
    "Fixation", "IsSameAs", "Part", "Performance", "PromotionalResource", "Season", "SharesContent",
    "SupplementalResource", "TakesContent", "Translation", "Undefined", "Version",
}

open_set! {
    /// Allowed values of `type` of a sequence identifier.
    SequenceIdentifierType:
    "ChapterNumber", "IssueNumber", "PageNumber", "ProprietaryIdentifier", "TrackNumber",
    "VolumeNumber",
}

open_set! {
    /// Allowed values of `creationDateType`.
    CreationDateType:
    "PublicationDate", "ReleaseDate",
}

open_set! {
    /// Allowed values of `placeType` of a creation place.
    PlaceType:
    "PlaceOfCreation", "PlaceOfPublication",
}

open_set! {
    /// Allowed values of `languageOfReferentContentType`.
    ContentLanguageType:
    "Original", "Translation",
}

open_set! {
    /// Allowed values of `type` of a party or place name.
    NameType:
    "AbbreviatedName", "FormerName", "Name", "PrincipalName",
}

open_set! {
    /// Allowed values of `type` of a party identifier.
    PartyIdentifierType:
    "DOI", "EIDRPartyID", "IPNumber", "ISNI", "ORCID", "ProprietaryIdentifier",
}

open_set! {
    /// Allowed values of `associatedRole`.
    PartyRole:
    "Author", "BookPublisher", "Composer", "CorporateCreator", "Creator", "DigitalServiceProvider",
    "JournalPublisher", "VideoServiceProvider",
}

impl CreationType {
    /// Value for parts of a creation that are not disclosed.
    pub(in crate::metadata) const RESTRICTED: Self = Self(Cow::Borrowed("Restricted"));
}

/// Territory code (ISO 3166-1 alpha-2, and former codes).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::metadata) struct TerritoryCode(&'static str);

impl MetadataElement for TerritoryCode {
    fn read(node: MetadataNode<'_>, reader: &mut MetadataReader) -> Option<Self> {
        let text = reader.expect_text(node)?;
        let found = TERRITORIES.iter().find(|code| **code == text.trim());
        if found.is_none() {
            reader.report_not_allowed(&text, TERRITORIES);
        }
        found.map(|code| Self(code))
    }

    fn to_node(&self) -> MetadataNode<'_> {
        MetadataNode::text(self.0)
    }

    fn schema(_: &mut SchemaSet) -> Value {
        schema::closed_set(TERRITORIES)
    }

    #[cfg(test)]
    fn arbitrary(input: &mut crate::metadata::tests::ArbitraryInput) -> Self {
        Self(input.of::<&str>(TERRITORIES))
    }
}

#[rustfmt::skip]
const TERRITORIES: &[&str] = &[
    "AD", "AE", "AF", "AG", "AI", "AL", "AM", "AO", "AQ", "AR", "AS", "AT", "AU", "AW", "AX", "AZ", "BA",
    "BB", "BD", "BE", "BF", "BG", "BH", "BI", "BJ", "BL", "BM", "BN", "BO", "BQ", "BR", "BS", "BT", "BV",
    "BW", "BY", "BZ", "CA", "CC", "CD", "CF", "CG", "CH", "CI", "CK", "CL", "CM", "CN", "CO", "CR", "CU",
    "CV", "CW", "CX", "CY", "CZ", "DE", "DJ", "DK", "DM", "DO", "DZ", "EC", "EE", "EG", "EH", "ER", "ES",
    "ET", "FI", "FJ", "FK", "FM", "FO", "FR", "GA", "GB", "GD", "GE", "GF", "GG", "GH", "GI", "GL", "GM",
    "GN", "GP", "GQ", "GR", "GS", "GT", "GU", "GW", "GY", "HK", "HM", "HN", "HR", "HT", "HU", "ID", "IE",
    "IL", "IM", "IN", "IO", "IQ", "IR", "IS", "IT", "JE", "JM", "JO", "JP", "KE", "KG", "KH", "KI", "KM",
    "KN", "KP", "KR", "KW", "KY", "KZ", "LA", "LB", "LC", "LI", "LK", "LR", "LS", "LT", "LU", "LV", "LY",
    "MA", "MC", "MD", "ME", "MF", "MG", "MH", "MK", "ML", "MM", "MN", "MO", "MP", "MQ", "MR", "MS", "MT",
    "MU", "MV", "MW", "MX", "MY", "MZ", "NA", "NC", "NE", "NF", "NG", "NI", "NL", "NO", "NP", "NR", "NU",
    "NZ", "OM", "PA", "PE", "PF", "PG", "PH", "PK", "PL", "PM", "PN", "PR", "PS", "PT", "PW", "PY", "QA",
    "RE", "RO", "RS", "RU", "RW", "SA", "SB", "SC", "SD", "SE", "SG", "SH", "SI", "SJ", "SK", "SL", "SM",
    "SN", "SO", "SR", "SS", "ST", "SV", "SX", "SY", "SZ", "TC", "TD", "TF", "TG", "TH", "TJ", "TK", "TL",
    "TM", "TN", "TO", "TR", "TT", "TV", "TW", "TZ", "UA", "UG", "UM", "US", "UY", "UZ", "VA", "VC", "VE",
    "VG", "VI", "VN", "VU", "WF", "WS", "YE", "YT", "ZA", "ZM", "ZW", "ANHH", "CSH", "CSHH", "CSXX", "DD",
    "DDDE", "SCG", "SU", "SUHH", "VD", "VDVN", "XK", "YD", "YDYE", "YU", "YUCS",
];
