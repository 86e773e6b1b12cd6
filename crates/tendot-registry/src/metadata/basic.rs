//! Kernel metadata from the fields that every registrant knows.

use crate::metadata::codec::node::MetadataNode;
use crate::metadata::codec::reader::DocumentSyntax;
use crate::metadata::fault::{MetadataFault, MetadataFaultCode};
use crate::metadata::kernel::{ExpectedDoi, KernelMetadata};
use crate::metadata::model::vocabulary::CreationType;

/// Title, creators, date and type of a digital creation.
///
/// ```
/// use tendot_registry::metadata::BasicMetadata;
///
/// let basic = BasicMetadata {
///     title: Some("Self-organized criticality"),
///     creators: vec!["Bak, Per"],
///     date: Some("1988"),
///     creation_type: Some("Article"),
/// };
/// assert_eq!(basic.to_kernel().unwrap().title(), "Self-organized criticality");
/// ```
#[derive(Clone, Debug, Default)]
pub struct BasicMetadata<'a> {
    /// Title; required.
    pub title: Option<&'a str>,
    /// Names of the creators; at least one is required.
    pub creators: Vec<&'a str>,
    /// Date of creation: a year, month or day.
    pub date: Option<&'a str>,
    /// Type of the creation, such as `Article`; required. A listed type may be in any case.
    pub creation_type: Option<&'a str>,
}

/// Types that are perceived as moving images with sound.
const AUDIOVISUAL_TYPES: &[&str] = &["Clip", "Film", "MovingImage", "Season", "ShortFilm", "TvProgramme"];

/// Types that are images.
const IMAGE_TYPES: &[&str] = &["Figure", "StillImage"];

/// Types that are neither language, image nor music.
const DATA_TYPES: &[&str] = &["CrystalStructure", "Dataset", "InteractiveResource"];

impl BasicMetadata<'_> {
    /// True if no field is present.
    pub fn is_empty(&self) -> bool {
        self.title.is_none()
            && self.creators.is_empty()
            && self.date.is_none()
            && self.creation_type.is_none()
    }

    /// Kernel metadata of a digital creation with these fields; mode and character follow from the type. The pointer of a
    /// fault is `/title`, `/creator`, `/date` or `/type`.
    pub fn to_kernel(&self) -> Result<KernelMetadata, Vec<MetadataFault>> {
        let text = |text: &str| MetadataNode::text(text.to_owned());
        let creation_type = self.creation_type.map(CreationType::listed_spelling);
        let is_in = |types: &[&str]| creation_type.is_some_and(|found| types.contains(&found));
        let (modes, character) = if is_in(AUDIOVISUAL_TYPES) {
            (&["Visual", "Audio"][..], "Image")
        } else if is_in(IMAGE_TYPES) {
            (&["Visual"][..], "Image")
        } else if is_in(DATA_TYPES) {
            (&["Visual"][..], "Other")
        } else {
            (&["Visual"][..], "Language")
        };
        let named = |name: &str, kind: &str| {
            MetadataNode::object([("value", Some(text(name))), ("type", Some(text(kind)))])
        };
        let agent = |creator: &&str| {
            MetadataNode::object([("name", Some(named(creator, "Name"))), ("role", Some(text("Creator")))])
        };
        let structural_type = if is_in(&["PrintedBook"]) { "Physical" } else { "Digital" };
        let creation = MetadataNode::object([
            ("name", MetadataNode::list(self.title.map(|title| named(title, "Title")))),
            ("structuralType", Some(text(structural_type))),
            ("mode", MetadataNode::list(modes.iter().map(|mode| text(mode)))),
            ("character", MetadataNode::list([text(character)])),
            ("type", MetadataNode::list(creation_type.map(text))),
            ("principalAgent", MetadataNode::list(self.creators.iter().map(agent))),
            ("creationDate", self.date.map(|date| MetadataNode::object([("date", Some(text(date)))]))),
        ]);
        let document = MetadataNode::object([
            ("primaryReferentType", Some(text("Creation"))),
            ("referentCreation", Some(creation)),
        ]);
        KernelMetadata::from_node(document, DocumentSyntax::Json, ExpectedDoi::Any)
            .map_err(|faults| faults.into_iter().map(fault_of_field).collect())
    }
}

/// Fault of the field that an element was made from.
fn fault_of_field(fault: MetadataFault) -> MetadataFault {
    let fields = [
        ("/referentCreation/name", "title"),
        ("/referentCreation/principalAgent", "creator"),
        ("/referentCreation/creationDate", "date"),
        ("/referentCreation/type", "type"),
    ];
    let Some((_, field)) = fields.into_iter().find(|(pointer, _)| fault.pointer.starts_with(pointer)) else {
        return fault;
    };
    let message = match fault.code {
        MetadataFaultCode::Missing => format!("missing {field}"),
        _ => format!("invalid {field}: {}", fault.message),
    };
    MetadataFault { pointer: format!("/{field}"), message, ..fault }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_kernel_metadata() {
        let basic = BasicMetadata {
            title: Some("Earth at night"),
            creators: vec!["NASA", "NOAA"],
            date: Some("2016-11"),
            creation_type: Some("stillimage"),
        };
        let kernel = basic.to_kernel().unwrap();
        assert_eq!(
            kernel.to_json(),
            "{\"primaryReferentType\":\"Creation\",\"referentCreation\":{\"name\":[{\"value\":\"Earth at night\",\
             \"type\":\"Title\"}],\"structuralType\":\"Digital\",\"mode\":[\"Visual\"],\"character\":[\"Image\"],\
             \"type\":[\"StillImage\"],\"principalAgent\":[{\"name\":{\"value\":\"NASA\",\"type\":\"Name\"},\
             \"role\":\"Creator\"},{\"name\":{\"value\":\"NOAA\",\"type\":\"Name\"},\"role\":\"Creator\"}],\
             \"creationDate\":{\"date\":\"2016-11\"}}}"
        );
    }

    #[test]
    fn faults_name_the_field() {
        let valid = BasicMetadata {
            title: Some("T"),
            creators: vec!["C"],
            date: None,
            creation_type: Some("Article"),
        };
        let check = |basic: BasicMetadata<'_>, expected: &[(&str, &str)]| {
            let faults = basic.to_kernel().unwrap_err();
            let found: Vec<_> = faults.iter().map(|fault| (&*fault.pointer, &*fault.message)).collect();
            assert_eq!(found, expected);
        };
        assert!(valid.to_kernel().is_ok() && BasicMetadata::default().is_empty());
        check(BasicMetadata { title: None, ..valid.clone() }, &[("/title", "missing title")]);
        check(BasicMetadata { creators: vec![], ..valid.clone() }, &[("/creator", "missing creator")]);
        check(BasicMetadata { creation_type: None, ..valid.clone() }, &[("/type", "missing type")]);
        let wrong = "invalid date: invalid date `May`; expected YYYY, YYYY-MM, YYYY-MM-DD or a date and time";
        check(BasicMetadata { date: Some("May"), ..valid.clone() }, &[("/date", wrong)]);
    }
}
