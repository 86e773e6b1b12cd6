//! Registers DOIs in a batch, and prints the result of each line while the batch is uploaded.
//!
//! ```console
//! $ cat dois.jsonl
//! {"name":"10.70000/1","url":"https://example.org/1"}
//! $ TENDOT_TOKEN=… cargo run -p tendot-client --example batch_upload -- http://127.0.0.1:8080 dois.jsonl
//! {"line":1,"name":"10.70000/1","status":"created"}
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{self, Read, Write};

use tendot_client::{BatchOptions, RegistryClient};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, file] = &arguments[..] else { return Err("usage: batch_upload URL FILE".into()) };
    let token = std::env::var("TENDOT_TOKEN")?;
    let client = RegistryClient::new(url, Some(&token), None)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(upload(&client, file, File::open(file)?, &mut io::stdout().lock()))
}

/// Uploads JSON lines and writes the results. If the connection is lost, the same call repeats the results so far and resumes.
pub(crate) async fn upload(
    client: &RegistryClient,
    idempotency_key: &str,
    source: impl Read + Send + 'static,
    output: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let options = BatchOptions { idempotency_key: Some(idempotency_key), ..BatchOptions::default() };
    let mut results = client.batch(&options, source).await?;
    while let Some(line) = results.next_line().await? {
        output.write_all(&line)?;
        output.write_all(b"\n")?;
    }
    Ok(())
}
