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
    /// Work type of an article in a periodical.
    pub(super) fn journal_article() -> &'static Self {
        Self::from_types(std::iter::once("JournalArticle"))
    }

    /// Work type of the first listed type.
    pub(super) fn from_types<'a>(mut types: impl Iterator<Item = &'a str>) -> &'static Self {
        let row = |kind: &str| WORK_TYPES.iter().find(|(name, _)| *name == kind).map(|(_, kind)| kind);
        types.find_map(row).unwrap_or(&OTHER_WORK)
    }
}

const fn work_type(
    csl: &'static str,
    bibtex: &'static str,
    ris: &'static str,
    schema_org: &'static str,
    datacite: &'static str,
) -> WorkType {
    WorkType { csl, bibtex, ris, schema_org, datacite }
}

const OTHER_WORK: WorkType = work_type("document", "misc", "GEN", "CreativeWork", "Other");

/// Types that are not listed have no counterpart in any format.
const WORK_TYPES: &[(&str, WorkType)] = &[
    ("Article", work_type("article", "article", "JOUR", "Article", "Text")),
    ("Blog", work_type("webpage", "misc", "BLOG", "Blog", "Text")),
    ("BlogEntry", work_type("post-weblog", "misc", "BLOG", "BlogPosting", "Text")),
    ("Book", work_type("book", "book", "BOOK", "Book", "Book")),
    ("BookChapter", work_type("chapter", "inbook", "CHAP", "Chapter", "BookChapter")),
    ("BookSeries", work_type("collection", "misc", "SER", "BookSeries", "Collection")),
    ("Chapter", work_type("chapter", "inbook", "CHAP", "Chapter", "BookChapter")),
    ("ClinicalTrialProtocol", work_type("report", "techreport", "RPRT", "MedicalScholarlyArticle", "Report")),
    ("Clip", work_type("motion_picture", "misc", "VIDEO", "Clip", "Audiovisual")),
    ("ConferenceProceedings", work_type("book", "proceedings", "CONF", "Book", "ConferenceProceeding")),
    ("ConferenceProceedingsSeries", work_type("collection", "misc", "SER", "BookSeries", "Collection")),
    ("CoursePack", work_type("collection", "misc", "GEN", "LearningResource", "Collection")),
    ("CrystalStructure", work_type("dataset", "misc", "DATA", "Dataset", "Dataset")),
    ("Dataset", work_type("dataset", "misc", "DATA", "Dataset", "Dataset")),
    ("DictionaryEntry", work_type("entry-dictionary", "inbook", "DICT", "DefinedTerm", "Text")),
    ("Ebook", work_type("book", "book", "EBOOK", "Book", "Book")),
    ("EncyclopaediaEntry", work_type("entry-encyclopedia", "inbook", "ENCYC", "Article", "Text")),
    ("Figure", work_type("figure", "misc", "FIGURE", "ImageObject", "Image")),
    ("Film", work_type("motion_picture", "misc", "MPCT", "Movie", "Audiovisual")),
    ("InteractiveResource", work_type("document", "misc", "MULTI", "CreativeWork", "InteractiveResource")),
    ("Journal", work_type("periodical", "misc", "SER", "Periodical", "Journal")),
    ("JournalArticle", work_type("article-journal", "article", "JOUR", "ScholarlyArticle", "JournalArticle")),
    ("JournalIssue", work_type("periodical", "misc", "SER", "PublicationIssue", "Collection")),
    ("JournalVolume", work_type("periodical", "misc", "SER", "PublicationVolume", "Collection")),
    ("LearningObject", work_type("document", "misc", "GEN", "LearningResource", "InteractiveResource")),
    ("MedicalCaseReport", work_type("report", "techreport", "RPRT", "MedicalScholarlyArticle", "Report")),
    ("MovingImage", work_type("motion_picture", "misc", "VIDEO", "VideoObject", "Audiovisual")),
    ("Periodical", work_type("periodical", "misc", "SER", "Periodical", "Journal")),
    ("PrintedBook", work_type("book", "book", "BOOK", "Book", "Book")),
    ("Report", work_type("report", "techreport", "RPRT", "Report", "Report")),
    ("ReportChapter", work_type("chapter", "inbook", "CHAP", "Chapter", "Text")),
    ("ReportSeries", work_type("collection", "misc", "SER", "CreativeWorkSeries", "Collection")),
    ("Season", work_type("broadcast", "misc", "VIDEO", "CreativeWorkSeason", "Collection")),
    ("Serial", work_type("periodical", "misc", "SER", "Periodical", "Collection")),
    ("SerialIssue", work_type("periodical", "misc", "SER", "PublicationIssue", "Collection")),
    ("Series", work_type("collection", "misc", "SER", "CreativeWorkSeries", "Collection")),
    ("ShortFilm", work_type("motion_picture", "misc", "MPCT", "Movie", "Audiovisual")),
    ("Standard", work_type("standard", "techreport", "STAND", "CreativeWork", "Standard")),
    ("StandardSeries", work_type("collection", "misc", "SER", "CreativeWorkSeries", "Collection")),
    ("StillImage", work_type("graphic", "misc", "FIGURE", "ImageObject", "Image")),
    ("Thesis", work_type("thesis", "phdthesis", "THES", "Thesis", "Dissertation")),
    ("TvProgramme", work_type("broadcast", "misc", "VIDEO", "TVEpisode", "Audiovisual")),
    ("WebResource", work_type("webpage", "misc", "ELEC", "WebPage", "Other")),
    ("Website", work_type("webpage", "misc", "ELEC", "WebSite", "Other")),
];
