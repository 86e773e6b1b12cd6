//! `tendot serve`: requests, configuration, attacks, limits of the system and shutdown.

mod config;
mod countries;
mod data_directory;
mod demo;
mod full_disk;
mod limits;
mod log;
mod memory;
mod native;
mod operator_token;
mod settings;
mod shutdown;
mod site;
mod systemd;
mod thread_limit;
mod tls;
mod udp_flood;
mod units;
mod wrong_clock;
