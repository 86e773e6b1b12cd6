//! Servers, clients, stores and fixtures that several test modules share.

pub(crate) mod api_client;
pub(crate) mod edits;
pub(crate) mod fixtures;
pub(crate) mod http_server;
pub(crate) mod http_session;
pub(crate) mod native_server;
pub(crate) mod proxies;
pub(crate) mod records_server;
pub(crate) mod stores;
pub(crate) mod web_driver;
