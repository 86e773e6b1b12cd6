//! Does all that an administrator can do at a server, in every way, and tells what came of it.
//!
//! ```console
//! $ cargo run -p tendot-client --example admin_operations -- siteinfo.json 10.5555 300:0.NA/10.5555 admpriv.bin all
//! $ cargo run -p tendot-client --example admin_operations -- siteinfo.json 10.5555 301:0.NA/10.5555 secret:… names
//! ```
//!
//! The identity has to have all rights under the prefix, and may home prefixes if it is to do `all`. Names that it creates are deleted again.

#![expect(clippy::print_stdout, reason = "it tells")]

use std::error::Error;
use std::ops::ControlFlow;

use tendot_client::native::{Administrator, Identity, Peer, Query, Root};
use tendot_proto::record::{Admin, AdminPermissions};
use tendot_proto::{Permissions, Reference, Value};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [site, prefix, identity, key, what] = &arguments[..] else {
        return Err("siteinfo.json PREFIX INDEX:HANDLE KEY-FILE|secret:TEXT all|names".into());
    };
    let root = Root::from_bytes(&std::fs::read(site)?)?;
    let reference = Reference::parse(identity);
    let handle = str::from_utf8(&reference.handle)?;
    let identity = match key.strip_prefix("secret:") {
        Some(secret) => Identity::with_secret_key(reference.index, handle, secret.as_bytes()),
        None => Identity::with_key_file(reference.index, handle, &std::fs::read(key)?, None)?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for way in ["plain", "signed", "session", "encrypted"] {
        let name = format!("{prefix}/administer-{way}");
        let peer = Peer::of(&root, &name).ok_or("no primary site")?;
        let mut admin = Administrator::new(peer, identity.clone());
        let done = async {
            admin = prepared(admin, way).await?;
            if what == "all" {
                prefixes(&mut admin, prefix).await?;
            }
            all(admin, prefix, &name).await
        };
        runtime.block_on(done).map_err(|error| format!("{way}: {error}"))?;
        println!("{way}: all done");
    }
    Ok(())
}

async fn prepared(mut admin: Administrator, way: &str) -> Result<Administrator, Box<dyn Error>> {
    match way {
        "signed" => admin = admin.certified(),
        "session" => admin.open_session(false).await?,
        "encrypted" => admin.open_session(true).await?,
        _ => {}
    }
    Ok(admin)
}

async fn prefixes(admin: &mut Administrator, prefix: &str) -> Result<(), Box<dyn Error>> {
    let derived = format!("{prefix}.administer");
    admin.home(&derived).await?;
    let mut homed = Vec::new();
    let each = |name: tendot_proto::Handle<'_>| {
        homed.push(name.to_string().to_ascii_uppercase());
        ControlFlow::Continue(())
    };
    admin.list_homed(each).await?;
    assert!(homed.contains(&format!("0.NA/{}", derived.to_ascii_uppercase())), "{homed:?}");
    admin.unhome(&derived).await?;
    Ok(())
}

async fn all(mut admin: Administrator, prefix: &str, name: &str) -> Result<(), Box<dyn Error>> {
    let reference = admin.identity().reference().clone();
    let permissions = AdminPermissions(0x0ff3);
    let owner = Admin { permissions, reference, legacy_byte_length: false }.to_bytes();
    let owner = Value::with_data(100, "HS_ADMIN", owner);
    admin.create(name, &[Value::new(1, "URL", "https://example.org/1"), owner]).await?;
    let hidden = Value { permissions: Permissions(0x0c), ..Value::new(2, "EMAIL", "x@example.org") };
    admin.add(name, &[hidden]).await?;
    admin.modify(name, &[Value::new(1, "URL", "https://example.org/2")]).await?;
    let values = admin.resolve(name, &Query { indexes: vec![1, 2], ..Query::default() }).await?;
    let texts: Vec<_> = values.iter().map(|value| String::from_utf8_lossy(&value.data)).collect();
    assert!(texts.iter().any(|text| text == "https://example.org/2"), "{texts:?}");
    assert!(texts.iter().any(|text| text == "x@example.org"), "{texts:?}");
    admin.remove(name, &[2]).await?;
    let mut names = 0;
    let each = |_: tendot_proto::Handle<'_>| {
        names += 1;
        ControlFlow::Continue(())
    };
    admin.list_handles(prefix, each).await?;
    assert!(names > 0, "nothing is listed");
    admin.delete(name).await?;
    admin.close_session().await?;
    Ok(())
}
