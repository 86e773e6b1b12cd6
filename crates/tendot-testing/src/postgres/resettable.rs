use std::fmt;

use tokio_postgres::Client;

use super::{database_from_template, shared_server};
use crate::block_on;

/// A database whose initial content can be restored, which takes less time than a new copy each time.
pub struct ResettableDatabase {
    /// The URL of the database.
    pub url: String,
    client: Client,
}

/// Runs a statement for each table; `%1$I` is its name.
const FOR_EACH_TABLE: &str = "do $$ declare it text; begin \
    for it in select tablename from pg_tables \
        where schemaname = 'public' and tablename <> all (string_to_array('{except}', ',')) loop \
    execute format('{statement}', it); end loop; end $$";

impl ResettableDatabase {
    /// A copy of a template as [`database_from_template`] makes it; only the tables of the schema `public` are reset.
    pub fn from_template(template: &str, prepare: impl FnOnce(&str)) -> Self {
        let url = database_from_template(template, prepare);
        let name = url.rsplit('/').next().expect("a URL ends with its database");
        let client = block_on(shared_server().connect(name));
        let copy = for_each_table("create table original.%1$I as table public.%1$I", &[]);
        block_on(client.batch_execute(&format!("create schema original; {copy}"))).unwrap();
        Self { url, client }
    }

    /// Restores the initial rows of all tables except some.
    pub fn reset(&self, except: &[&str]) {
        let restore = "delete from public.%1$I; insert into public.%1$I table original.%1$I";
        block_on(self.client.batch_execute(&for_each_table(restore, except))).unwrap();
    }
}

fn for_each_table(statement: &str, except: &[&str]) -> String {
    FOR_EACH_TABLE.replace("{except}", &except.join(",")).replace("{statement}", statement)
}

impl fmt::Debug for ResettableDatabase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ResettableDatabase").field("url", &self.url).finish_non_exhaustive()
    }
}
