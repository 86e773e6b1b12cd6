//! Runs every administration operation against a server: plain, signed, in a session, encrypted.
//!
//! ```console
//! $ cargo run -p tendot-client --example admin_operations -- siteinfo.json 10.5555 300:0.NA/10.5555 admpriv.bin all
//! $ cargo run -p tendot-client --example admin_operations -- siteinfo.json 10.5555 301:0.NA/10.5555 secret:… names
//! ```
//!
//! The identity needs all permissions under the prefix, and for `all` the permission to home prefixes. The example deletes the
//! handles that it creates.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use std::ops::ControlFlow;

use tendot_client::native::{AdminClient, AdminIdentity, AdminServer, ResolveOptions, RootSites};
use tendot_proto::record::{Admin, AdminPermissions};
use tendot_proto::{HandleValue, ValuePermissions, ValueReference};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [site, prefix, identity, key, extent] = &arguments[..] else {
        return Err(
            "usage: admin_operations siteinfo.json PREFIX INDEX:HANDLE KEY-FILE|secret:TEXT all|names".into(),
        );
    };
    let root = RootSites::from_bytes(&std::fs::read(site)?)?;
    let reference = ValueReference::parse(identity);
    let handle = str::from_utf8(&reference.handle)?;
    let identity = match key.strip_prefix("secret:") {
        Some(secret) => AdminIdentity::with_secret_key(reference.index, handle, secret.as_bytes()),
        None => AdminIdentity::with_key_file(reference.index, handle, &std::fs::read(key)?, None)?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for mode in ["plain", "signed", "session", "encrypted"] {
        let name = format!("{prefix}/administer-{mode}");
        let server = AdminServer::for_handle(&root, &name).ok_or("no primary site")?;
        let mut admin = AdminClient::new(server, identity.clone());
        let operations = async {
            admin = configure(admin, mode).await?;
            if extent == "all" {
                check_prefixes(&mut admin, prefix).await?;
            }
            check_records(admin, prefix, &name).await
        };
        runtime.block_on(operations).map_err(|error| format!("{mode}: {error}"))?;
        println!("{mode}: ok");
    }
    Ok(())
}

async fn configure(mut admin: AdminClient, mode: &str) -> Result<AdminClient, Box<dyn Error>> {
    match mode {
        "signed" => admin = admin.require_signature(),
        "session" => admin.open_session(false).await?,
        "encrypted" => admin.open_session(true).await?,
        _ => {}
    }
    Ok(admin)
}

async fn check_prefixes(admin: &mut AdminClient, prefix: &str) -> Result<(), Box<dyn Error>> {
    let derived = format!("{prefix}.administer");
    admin.home_prefix(&derived).await?;
    let mut homed = Vec::new();
    let on_handle = |name: tendot_proto::Handle<'_>| {
        homed.push(name.to_string().to_ascii_uppercase());
        ControlFlow::Continue(())
    };
    admin.list_homed_prefixes(on_handle).await?;
    assert!(homed.contains(&format!("0.NA/{}", derived.to_ascii_uppercase())), "{homed:?}");
    admin.unhome_prefix(&derived).await?;
    Ok(())
}

async fn check_records(mut admin: AdminClient, prefix: &str, name: &str) -> Result<(), Box<dyn Error>> {
    let reference = admin.identity().reference().clone();
    let permissions = AdminPermissions(0x0ff3);
    let owner = Admin { permissions, reference, legacy_byte_length: false }.to_bytes();
    let owner = HandleValue::with_data(100, "HS_ADMIN", owner);
    admin.create(name, &[HandleValue::new(1, "URL", "https://example.org/1"), owner]).await?;
    let private =
        HandleValue { permissions: ValuePermissions(0x0c), ..HandleValue::new(2, "EMAIL", "x@example.org") };
    admin.add_values(name, &[private]).await?;
    admin.modify_values(name, &[HandleValue::new(1, "URL", "https://example.org/2")]).await?;
    let values =
        admin.resolve(name, &ResolveOptions { indexes: vec![1, 2], ..ResolveOptions::default() }).await?;
    let texts: Vec<_> = values.iter().map(|value| String::from_utf8_lossy(&value.data)).collect();
    assert!(texts.iter().any(|text| text == "https://example.org/2"), "{texts:?}");
    assert!(texts.iter().any(|text| text == "x@example.org"), "{texts:?}");
    admin.remove_values(name, &[2]).await?;
    let mut names = 0;
    let on_handle = |_: tendot_proto::Handle<'_>| {
        names += 1;
        ControlFlow::Continue(())
    };
    admin.list_handles(prefix, on_handle).await?;
    assert!(names > 0, "no handle listed");
    admin.delete(name).await?;
    admin.close_session().await?;
    Ok(())
}
