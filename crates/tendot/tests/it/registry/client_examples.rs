//! The examples of `tendot-client`, against a real server.

#![allow(dead_code, reason = "`cargo run` calls `main`")]

#[path = "../../../../tendot-client/examples/batch_upload.rs"]
mod batch_upload;
#[path = "../../../../tendot-client/examples/caching_resolver.rs"]
mod caching_resolver;
#[path = "../../../../tendot-client/examples/resolve.rs"]
mod resolve;

use serde_json::Value as Json;
use tendot_client::native::{NativeClient, RootSites};
use tendot_client::{CacheSettings, HttpUpstream, RegistryClient, Resolver};
use tendot_proto::Handle;
use tendot_testing::block_on;

use super::TestRegistry;
use crate::support::{TestDir, TestServer};

#[test]
fn client_examples() {
    let dir = TestDir::new();
    let server = TestServer::builder(&dir).with_native().start();
    let native = server.native_address();
    let registry = TestRegistry::with_prefix(dir, server);

    let client = RegistryClient::new(&registry.url, Some(&registry.token), None).unwrap();
    let upload = || {
        let lines = "{\"name\":\"10.70000/1\",\"url\":\"https://example.org/1\"}\nnot JSON\n".as_bytes();
        let mut output = Vec::new();
        block_on(batch_upload::upload(&client, "key", lines, &mut output)).unwrap();
        String::from_utf8(output).unwrap()
    };
    let results = upload();
    let statuses = results.lines().map(|line| serde_json::from_str::<Json>(line).unwrap()["status"].clone());
    assert_eq!(statuses.collect::<Vec<_>>(), ["created", "refused"], "{results}");
    assert_eq!(upload(), results, "the results are repeated");

    let sites = RootSites::from_addresses(&[native], None);
    let client = NativeClient::new(sites.into_direct_config(Handle::from("10.70000/1")));
    let check = |name, expected: &str| {
        let text = block_on(resolve::resolve(&client, name)).unwrap();
        assert!(
            text.starts_with(&format!("{name}, from {native} over ")) && text.ends_with(expected),
            "{text}"
        );
    };
    check("10.70000/1", "\n  https://example.org/1\n");
    check("10.70000/2", "\n  not found\n");

    let resolver = Resolver::new(HttpUpstream::new(&registry.url).unwrap(), CacheSettings::default());
    let check = |name, expected: &str| {
        let text = block_on(caching_resolver::resolve(&resolver, name)).unwrap();
        assert!(text.starts_with(&format!("{name}: ")) && text.contains(expected), "{text}");
    };
    check("10.70000/1", " values, Miss, TTL ");
    check("10.70000/1", " values, Hit, TTL ");
    check("10.70000/2", " not found, Miss, TTL ");
}
