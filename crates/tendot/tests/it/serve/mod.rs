//! `tendot serve`: requests, configuration, attacks and shutdown.

mod config;
mod countries;
mod data_directory;
mod demo;
mod limits;
mod log;
mod native;
mod operator_token;
mod shutdown;
mod site;
mod systemd;
mod tls;
mod udp_flood;
mod units;
