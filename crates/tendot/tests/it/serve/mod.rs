//! `tendot serve`: what it serves, how it is configured, attacked, stopped and killed.

mod config;
mod crash;
mod demo;
mod limits;
mod log;
mod native;
mod shutdown;
mod site;
mod systemd;
mod tls;
mod udp_flood;
