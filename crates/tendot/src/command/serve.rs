//! `tendot serve`

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use aws_lc_rs::rand;
use data_encoding::BASE64URL_NOPAD;
use tendot_proto::Handle;
use tendot_proto::record::Record;
use tendot_registry::{Registry, Settings};
use tendot_server::http::{Http, Limits, listen};
use tendot_store::{Change, CommitError, Edit, Embedded, Expect, Memory, Store};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::ServeArguments;
use crate::failure::tell;
use crate::store::unopened;
use crate::{Answer, Failure};

pub(crate) fn run(arguments: &ServeArguments) -> Result<Answer, Failure> {
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("threads can't be started", &error))?;
    if arguments.store.store.as_deref() == Some("memory:") {
        return runtime.block_on(serve(arguments, Memory::new(), None));
    }
    let directory = arguments.store.directory()?;
    let store = Embedded::open(&directory).map_err(|error| unopened(&error))?;
    let token = operator_token(&directory.join("operator.token"))?;
    runtime.block_on(serve(arguments, store, Some(token)))
}

async fn serve<S: Store + 'static>(
    arguments: &ServeArguments,
    store: S,
    token: Option<String>,
) -> Result<Answer, Failure> {
    if arguments.demo {
        load_demo(&store).await?;
    }
    let mut http = Http::new(Arc::new(Registry::new(store, Settings::default())));
    if let Some(token) = token {
        http = http.operator_token(token);
    }
    let http = Arc::new(http);
    let address = arguments.http;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| Failure::io(format!("{address} can't be listened to"), &error))?;
    let address = listener.local_addr().map_err(|error| Failure::io("the address is not known", &error))?;
    let end = end_asked().map_err(|error| Failure::io("signals can't be waited for", &error))?;
    http.set_ready(true);
    tell(format_args!("ready: http://{address}/"));
    listen(listener, http, Limits::default(), end)
        .await
        .map_err(|error| Failure::io("connections can't be taken", &error))?;
    Ok(Answer::Yes)
}

/// Ready when the process is asked to end.
fn end_asked() -> std::io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// The operator's token, which is made at the first start and only its owner can read.
fn operator_token(path: &Path) -> Result<String, Failure> {
    let failed = |error| Failure::io(format!("`{}` can't be used", path.display()), &error);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(mut file) => {
            let mut random = [0; 32];
            rand::fill(&mut random).map_err(|_| Failure::new("the system has no randomness"))?;
            let token = BASE64URL_NOPAD.encode(&random);
            writeln!(file, "{token}").and_then(|()| file.sync_all()).map_err(failed)?;
            Ok(token)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let mut token = String::new();
            let file = OpenOptions::new().read(true).open(path);
            file.and_then(|file| file.take(4_096).read_to_string(&mut token)).map_err(failed)?;
            let token = token.trim();
            if token.len() < 16 {
                return Err(Failure::new(format!("`{}` has no token", path.display()))
                    .hint("remove the file, and the next start makes a new one"));
            }
            Ok(token.to_owned())
        }
        Err(error) => Err(failed(error)),
    }
}

/// Puts a few records into the store, unless they are there.
async fn load_demo<S: Store>(store: &S) -> Result<(), Failure> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    for line in include_str!("../demo.jsonl").lines() {
        let Ok(mut record) = Record::from_json(line.as_bytes()) else { continue };
        for value in &mut record.values {
            value.timestamp = u32::try_from(now.as_secs()).unwrap_or(u32::MAX);
        }
        let handle = Handle::new(&record.handle);
        let prefix = String::from_utf8_lossy(handle.prefix()).into();
        let name = handle.to_string().into();
        let edits =
            vec![Edit::Put { name, values: record.values, expect: Expect::Absent }, Edit::Home { prefix }];
        let at = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        match store.commit(Change { by: "demo".into(), at, edits }).await {
            Ok(_) | Err(CommitError::Conflict(_)) => {}
            Err(error) => return Err(Failure::new(error.to_string())),
        }
    }
    tell("demo: try /10.5555/DEMO, /10.5555/DEMO-COPIES?locatt=country:gb and /10.5555/DEMO-ALIAS");
    Ok(())
}
