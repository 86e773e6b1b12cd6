//! Shared test support: the program, directories, databases and servers.

mod command;
mod database;
mod dir;
mod native_session;
mod server;
mod terminal;

pub(crate) use command::{TENDOT, output_with_input, run_by, stderr, tendot, text_output};
pub(crate) use database::{StoreKind, TestDatabase, tests_per_store};
pub(crate) use dir::TestDir;
pub(crate) use native_session::{NativeSession, SESSION_HOLDER, sessions};
pub(crate) use server::{TestServer, TestServerBuilder, wait_until_received};
pub(crate) use terminal::Terminal;
