//! Which paths there are: one table, by which requests are answered and of which the description is made.

use http::{HeaderValue, StatusCode};

use super::describe::{Described, Doing};
use super::{agency, api, page, redirect, reverse};

/// What a path asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Route {
    Home,
    Live,
    Ready,
    Metrics,
    OpenApi,
    Docs,
    Robots,
    Icon,
    Style,
    OpenUrl,
    Agencies,
    Handle,
    Site,
    Reverse,
    ReverseUnder,
    History,
    Name,
}

/// All paths; the first that fits is taken, and the page has them from the last on. A part in braces, at the end, stands
/// for all the rest.
pub(super) const ROUTES: [(&str, Route); 20] = [
    ("/static/style.css", Route::Style),
    ("/favicon.svg", Route::Icon),
    ("/favicon.ico", Route::Icon),
    ("/robots.txt", Route::Robots),
    ("/", Route::Home),
    ("/docs", Route::Docs),
    ("/openapi.json", Route::OpenApi),
    ("/metrics", Route::Metrics),
    ("/readyz", Route::Ready),
    ("/livez", Route::Live),
    ("/openurl", Route::OpenUrl),
    ("/resolve", Route::OpenUrl),
    ("/ra/{names}", Route::Agencies),
    ("/doiRA/{names}", Route::Agencies),
    ("/hrls/handles", Route::Reverse),
    ("/hrls/handles/{prefix}", Route::ReverseUnder),
    ("/api/site", Route::Site),
    ("/api/v1/history/{name}", Route::History),
    ("/api/handles/{name}", Route::Handle),
    ("/{name}", Route::Name),
];

impl Route {
    /// What a path asks for, and what stands for the part in braces. None for what is not there in the interface.
    pub(super) fn of(path: &str) -> Option<(Self, &str)> {
        // Handle.Net takes it with a slash, too.
        let path = if path == "/api/site/" { "/api/site" } else { path };
        let fits = |template: &str| match template.split_once('{') {
            Some((start, _)) => path.strip_prefix(start),
            None => (path == template).then_some(""),
        };
        let found = ROUTES.iter().find_map(|(template, route)| Some((*route, fits(template)?)));
        match found {
            // A name is all of the path: places in it are counted from the slash. So is what has none, such as `*`.
            Some((Self::Name, _)) | None => (!path.starts_with("/api/")).then_some((Self::Name, path)),
            found => found,
        }
    }

    /// By which methods it is answered.
    pub(super) const fn methods(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Handle => "GET, HEAD, OPTIONS, POST, PUT, DELETE",
            Self::Home => "GET, HEAD, OPTIONS, POST",
            _ => "GET, HEAD, OPTIONS",
        })
    }

    /// What is done there, for the document.
    pub(super) fn describe(self) -> Described {
        let plain = |group: &str, summary: &str, kind: &str| {
            Doing::new(summary).group(group).answer(StatusCode::OK, summary).text(kind)
        };
        let operating = |summary: &str| plain("Operation", summary, "text/plain");
        let tagged = |doing: Doing| {
            doing
                .header("ETag", "Changes when the answer does")
                .answer(StatusCode::NOT_MODIFIED, "The client has it already (`If-None-Match`)")
        };
        match self {
            Self::Home => page::describe_home(),
            Self::Live => Described::read(operating("Whether it runs").sample("curl -s $SERVER/livez")),
            Self::Ready => Described::read(
                operating("Whether it takes requests")
                    .sample("curl -s $SERVER/readyz")
                    .answer(StatusCode::SERVICE_UNAVAILABLE, "Not yet, or not any more")
                    .text("text/plain"),
            ),
            Self::Metrics => Described::read(
                plain("Operation", "What is counted, as OpenMetrics", "application/openmetrics-text")
                    .sample("curl -s $SERVER/metrics")
                    .answer(StatusCode::FORBIDDEN, "Not shown to this address")
                    .text("text/plain"),
            ),
            Self::OpenApi => Described::read(tagged(
                plain("Description", "This description, as OpenAPI 3.1", "application/json")
                    .sample("curl -s $SERVER/openapi.json"),
            )),
            Self::Docs => {
                Described::read(tagged(plain("Description", "This description, as a page", "text/html")))
            }
            Self::Robots => Described::read(plain("Pages", "What crawlers may do", "text/plain")),
            Self::Icon => Described::read(plain("Pages", "The picture of the pages", "image/svg+xml")),
            Self::Style => Described::read(plain("Pages", "The style of the pages", "text/css")),
            Self::OpenUrl => redirect::describe_open_url(),
            Self::Agencies => agency::describe(),
            Self::Handle => api::describe_handles(),
            Self::Site => api::describe_site(),
            Self::Reverse => reverse::describe(),
            Self::ReverseUnder => reverse::describe_under(),
            Self::History => api::describe_history(),
            Self::Name => redirect::describe(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        check("/", Some((Route::Home, "")));
        check("/livez", Some((Route::Live, "")));
        check("/livez/", Some((Route::Name, "/livez/")));
        check("/docs", Some((Route::Docs, "")));
        check("/10/docs", Some((Route::Name, "/10/docs")));
        check("/10.1000//182", Some((Route::Name, "/10.1000//182")));
        check("//10.1000/182", Some((Route::Name, "//10.1000/182")));
        check("/doiRA/10.1,10.2", Some((Route::Agencies, "10.1,10.2")));
        check("/api/handles/10.1/x", Some((Route::Handle, "10.1/x")));
        check("/api/handles/", Some((Route::Handle, "")));
        check("/api/handles", None);
        check("/api/site", Some((Route::Site, "")));
        check("/api/site/", Some((Route::Site, "")));
        check("/hrls/handles", Some((Route::Reverse, "")));
        check("/hrls/handles/", Some((Route::ReverseUnder, "")));
        check("/hrls/handles/10.1", Some((Route::ReverseUnder, "10.1")));
        check("/hrls", Some((Route::Name, "/hrls")));
        check("/api/v1/history/10.1//x", Some((Route::History, "10.1//x")));
        check("/api/v1/history", None);
        check("/api/", None);
        check("/api", Some((Route::Name, "/api")));
        check("*", Some((Route::Name, "*")));
        check("", Some((Route::Name, "")));
    }

    #[track_caller]
    fn check(path: &str, expected: Option<(Route, &str)>) {
        assert_eq!(Route::of(path), expected, "{path}");
    }
}
