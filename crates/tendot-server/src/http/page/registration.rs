//! What the registry knows of a name: who has it, since when, and what it names.

use std::time::SystemTime;

use tendot_proto::{Handle, Work};
use tendot_registry::Caller;
use tendot_registry::doi::{DoiStatus, Registered};
use tendot_store::HistoryOrder;

use super::text::{Room, beginning};
use super::value::for_people;
use crate::http::api::date;
use crate::http::metadata::{METADATA_FORMATS, milliseconds};
use crate::http::redirect::own_path;
use crate::http::{Http, WORK};
use crate::upkeep::now;

/// Creators that are named.
const MAX_CREATORS: usize = 6;

/// Characters of a title, or of a name.
const LONGEST: usize = 400;

/// What is known of a name beside its values.
#[derive(Debug, Default)]
pub(crate) struct Known {
    registered: Option<Registered>,
    /// Names of its registrant and its agency.
    registrant: Option<String>,
    agency: Option<String>,
    /// When it was ended, if it was.
    pub(super) ended: Option<u64>,
}

impl Known {
    pub(super) fn title(&self) -> Option<String> {
        Some(self.registered.as_ref()?.summary()?.title)
    }

    /// The id and the name of who has it.
    pub(super) fn registrant(&self) -> Option<(&str, Option<&str>)> {
        Some((&self.registered.as_ref()?.registrant, self.registrant.as_deref()))
    }
}

/// The same as it is shown.
#[derive(Debug)]
pub(super) struct Registration {
    pub(super) state: &'static str,
    pub(super) title: Option<String>,
    pub(super) creators: Option<String>,
    pub(super) rows: Vec<RegistrationRow>,
    /// Forms of metadata, and where they are.
    pub(super) formats: Vec<(&'static str, String)>,
}

/// Something that is known, with its date for programs if it is one.
#[derive(Debug)]
pub(super) struct RegistrationRow {
    pub(super) label: &'static str,
    pub(super) text: String,
    pub(super) date: Option<String>,
}

impl Http {
    /// What everybody may know of a name that is or was registered.
    pub(crate) async fn known(&self, name: &str) -> Option<Known> {
        let (now, work) = (SystemTime::now(), &mut Work::new(WORK));
        let registered = self.registered(name, now, work).await.ok()??;
        let anonymous = &Caller::Anonymous;
        let registrant =
            self.registry.registrant(&registered.registrant, anonymous, milliseconds(now), work).await;
        let agency = self.registry.agency(&registered.agency, work).await;
        Some(Known {
            registrant: registrant.ok().map(|held| held.it.name.into()),
            agency: agency.ok().map(|held| held.it.name.into()),
            ended: registered.ended,
            registered: Some(registered),
        })
    }

    /// The same of a name that was ended, which may have come by another way.
    pub(crate) async fn retired_details(&self, name: &str) -> Known {
        if let Some(known) = self.known(name).await {
            return known;
        }
        let (handle, order) = (Handle::from(name), HistoryOrder::NewestFirst { before: u64::MAX });
        let last =
            self.registry.history(handle, order, 1, &Caller::Anonymous, now(), &mut Work::new(WORK)).await;
        let ended = last.ok().and_then(|last| last.items.first().map(|event| event.at)).filter(|at| *at > 0);
        Known { ended, ..Known::default() }
    }
}

impl Registration {
    pub(super) fn new(known: &Known, room: &mut Room) -> Self {
        let mut rows = Vec::new();
        let registered = known.registered.as_ref();
        let summary = registered.and_then(Registered::summary);
        let mut line = |text: &str| room.line(&beginning(text, LONGEST));
        let mut add = |label, text: Option<String>| {
            rows.extend(text.map(|text| RegistrationRow { label, text, date: None }));
        };
        let party = |id: &str, name: Option<&String>| match name {
            Some(name) => format!("{name} ({id})"),
            None => id.to_owned(),
        };
        let shown = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let (mut title, mut creators) = (None, None);
        if let Some(summary) = &summary {
            title = shown(&summary.title).map(|title| line(&title));
            let some = summary.creators.iter().take(MAX_CREATORS).cloned().collect::<Vec<_>>().join("; ");
            let more = summary.creators.len().saturating_sub(MAX_CREATORS);
            let all = if more > 0 { format!("{some} and {more} more") } else { some };
            creators = shown(&all).map(|creators| line(&creators));
            add("Type", shown(&summary.kind).map(|kind| line(&kind)));
            add("Made", summary.date.as_deref().map(&mut line));
            add("Published by", summary.publisher.as_deref().map(&mut line));
        }
        add("Registrant", registered.map(|it| line(&party(&it.registrant, known.registrant.as_ref()))));
        add("Agency", registered.map(|it| line(&party(&it.agency, known.agency.as_ref()))));
        let mut add_date = |label, at: Option<u64>| {
            let at = at.filter(|at| *at > 0).map(date);
            rows.extend(at.map(|at| RegistrationRow { label, text: for_people(&at), date: Some(at) }));
        };
        add_date("Since", registered.map(|it| it.created));
        add_date("Changed", registered.filter(|it| it.updated != it.created).map(|it| it.updated));
        add_date("Ended", known.ended);
        let state = registered.map_or(DoiStatus::Tombstone, |it| it.state);
        let forms = registered.filter(|_| summary.is_some()).map(|it| own_path(&it.name));
        let formats = forms.map(|path| {
            let link = |(name, label, _): &(&str, &'static str, _)| {
                (*label, format!("/api/v1/metadata{path}?format={name}"))
            };
            METADATA_FORMATS.iter().map(link).collect()
        });
        Self {
            state: match state {
                DoiStatus::Reserved => "Reserved",
                DoiStatus::Registered => "Registered",
                DoiStatus::Tombstone | DoiStatus::Removed => "Ended",
            },
            title,
            creators,
            rows,
            formats: formats.unwrap_or_default(),
        }
    }
}
