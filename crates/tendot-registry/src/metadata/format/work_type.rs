//! Work types in the vocabulary of each format.

/// Work type in the vocabulary of each format.
#[derive(Debug)]
pub(super) struct WorkType {
    pub(super) csl: &'static str,
    pub(super) bibtex: &'static str,
    pub(super) ris: &'static str,
    pub(super) schema_org: &'static str,
    pub(super) datacite: &'static str,
}

impl WorkType {
    /// Work type of the first listed type.
    pub(super) fn from_types<'a>(mut types: impl Iterator<Item = &'a str>) -> &'static Self {
        let row = |kind: &str| WORK_TYPES.iter().find(|(name, _)| *name == kind).map(|(_, kind)| kind);
        types.find_map(row).unwrap_or(&OTHER_WORK)
    }
}

const fn kind(
    csl: &'static str,
    bibtex: &'static str,
    ris: &'static str,
    schema_org: &'static str,
    datacite: &'static str,
) -> WorkType {
    WorkType { csl, bibtex, ris, schema_org, datacite }
}

const OTHER_WORK: WorkType = kind("document", "misc", "GEN", "CreativeWork", "Other");

/// Types that are not listed have no counterpart in any format.
const WORK_TYPES: &[(&str, WorkType)] = &[
    ("Article", kind("article", "article", "JOUR", "Article", "Text")),
    ("Blog", kind("webpage", "misc", "BLOG", "Blog", "Text")),
    ("BlogEntry", kind("post-weblog", "misc", "BLOG", "BlogPosting", "Text")),
    ("Book", kind("book", "book", "BOOK", "Book", "Book")),
    ("BookChapter", kind("chapter", "inbook", "CHAP", "Chapter", "BookChapter")),
    ("BookSeries", kind("collection", "misc", "SER", "BookSeries", "Collection")),
    ("Chapter", kind("chapter", "inbook", "CHAP", "Chapter", "BookChapter")),
    ("ClinicalTrialProtocol", kind("report", "techreport", "RPRT", "MedicalScholarlyArticle", "Report")),
    ("Clip", kind("motion_picture", "misc", "VIDEO", "Clip", "Audiovisual")),
    ("ConferenceProceedings", kind("book", "proceedings", "CONF", "Book", "ConferenceProceeding")),
    ("ConferenceProceedingsSeries", kind("collection", "misc", "SER", "BookSeries", "Collection")),
    ("CoursePack", kind("collection", "misc", "GEN", "LearningResource", "Collection")),
    ("CrystalStructure", kind("dataset", "misc", "DATA", "Dataset", "Dataset")),
    ("Dataset", kind("dataset", "misc", "DATA", "Dataset", "Dataset")),
    ("DictionaryEntry", kind("entry-dictionary", "inbook", "DICT", "DefinedTerm", "Text")),
    ("Ebook", kind("book", "book", "EBOOK", "Book", "Book")),
    ("EncyclopaediaEntry", kind("entry-encyclopedia", "inbook", "ENCYC", "Article", "Text")),
    ("Figure", kind("figure", "misc", "FIGURE", "ImageObject", "Image")),
    ("Film", kind("motion_picture", "misc", "MPCT", "Movie", "Audiovisual")),
    ("InteractiveResource", kind("document", "misc", "MULTI", "CreativeWork", "InteractiveResource")),
    ("Journal", kind("periodical", "misc", "SER", "Periodical", "Journal")),
    ("JournalArticle", kind("article-journal", "article", "JOUR", "ScholarlyArticle", "JournalArticle")),
    ("JournalIssue", kind("periodical", "misc", "SER", "PublicationIssue", "Collection")),
    ("JournalVolume", kind("periodical", "misc", "SER", "PublicationVolume", "Collection")),
    ("LearningObject", kind("document", "misc", "GEN", "LearningResource", "InteractiveResource")),
    ("MedicalCaseReport", kind("report", "techreport", "RPRT", "MedicalScholarlyArticle", "Report")),
    ("MovingImage", kind("motion_picture", "misc", "VIDEO", "VideoObject", "Audiovisual")),
    ("Periodical", kind("periodical", "misc", "SER", "Periodical", "Journal")),
    ("PrintedBook", kind("book", "book", "BOOK", "Book", "Book")),
    ("Report", kind("report", "techreport", "RPRT", "Report", "Report")),
    ("ReportChapter", kind("chapter", "inbook", "CHAP", "Chapter", "Text")),
    ("ReportSeries", kind("collection", "misc", "SER", "CreativeWorkSeries", "Collection")),
    ("Season", kind("broadcast", "misc", "VIDEO", "CreativeWorkSeason", "Collection")),
    ("Serial", kind("periodical", "misc", "SER", "Periodical", "Collection")),
    ("SerialIssue", kind("periodical", "misc", "SER", "PublicationIssue", "Collection")),
    ("Series", kind("collection", "misc", "SER", "CreativeWorkSeries", "Collection")),
    ("ShortFilm", kind("motion_picture", "misc", "MPCT", "Movie", "Audiovisual")),
    ("Standard", kind("standard", "techreport", "STAND", "CreativeWork", "Standard")),
    ("StandardSeries", kind("collection", "misc", "SER", "CreativeWorkSeries", "Collection")),
    ("StillImage", kind("graphic", "misc", "FIGURE", "ImageObject", "Image")),
    ("Thesis", kind("thesis", "phdthesis", "THES", "Thesis", "Dissertation")),
    ("TvProgramme", kind("broadcast", "misc", "VIDEO", "TVEpisode", "Audiovisual")),
    ("WebResource", kind("webpage", "misc", "ELEC", "WebPage", "Other")),
    ("Website", kind("webpage", "misc", "ELEC", "WebSite", "Other")),
];
