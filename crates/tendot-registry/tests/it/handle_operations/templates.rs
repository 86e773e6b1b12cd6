//! Names derived by templates.

use std::sync::Arc;

use super::*;

store_tests!(memory, embedded, postgres => { names_derived_by_templates, templates_in_settings, derived_values_grant_nothing });

fn resolve_data(registry: &TestRegistry, name: &str) -> Result<String, u32> {
    let query = ResolveQuery::new(Handle::from(name));
    match block_on(registry.resolve(&query, &caller("anonymous"), &mut Budget::new(50_000))) {
        Ok(Resolution::Values(values)) => {
            Ok(values.iter().map(|value| String::from_utf8_lossy(&value.data)).collect::<Vec<_>>().join(" "))
        }
        Ok(_) => Err(303),
        Err(error) => Err(error.response_code().0),
    }
}

fn names_derived_by_templates(kind: StoreKind) {
    let template =
        |inside: &str| format!("<namespace><template delimiter='@'{inside}</template></namespace>");
    let namespace = |index, xml: String| HandleValue::new(index, "HS_NAMESPACE", xml);
    let registry = fixture(kind, RegistrySettings::default());
    put_record(registry.store(), "10.1/x", vec![url_value(1, "https://a/")]);
    put_record(registry.store(), "10.1/x@stored", vec![url_value(1, "https://stored/")]);
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Err(100));
    let first = template("><foreach><value data='${data}${extension}'/></foreach>");
    let second = template("><notfound/>");
    put_record(registry.store(), "0.NA/10.1", vec![namespace(2, second), namespace(1, first)]);
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Ok("https://a/y".into()));
    assert_eq!(resolve_data(&registry, "10.1/X@Y@Z"), Ok("https://a/Y@Z".into()));
    assert_eq!(resolve_data(&registry, "10.1/x@stored"), Ok("https://stored/".into()));
    assert_eq!(resolve_data(&registry, "10.1/none@y"), Err(100));
    assert_eq!(resolve_data(&registry, "10.1/none"), Err(100));
    assert_eq!(resolve_data(&registry, "10.2/x@y"), Err(100));
    // A template by reference: missing, found, not public, and referring to itself.
    put_record(registry.store(), "0.NA/10.1", vec![namespace(1, template(" ref='7:10.2/t'>"))]);
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Err(2));
    put_record(
        registry.store(),
        "10.2/t",
        vec![HandleValue::new(7, "X", "<template><value type='A'>b</value></template>")],
    );
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Ok("b".into()));
    // A reference must not reveal a value that is not public.
    let hidden = HandleValue::new(7, "X", "<template><value type='A'>secret</value></template>");
    put_record(
        registry.store(),
        "10.2/t",
        vec![HandleValue { permissions: ValuePermissions(0x0c), ..hidden }],
    );
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Err(2));
    put_record(registry.store(), "10.2/t", vec![namespace(7, template(" ref='7:10.2/t'>"))]);
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Err(2));
    put_record(registry.store(), "0.NA/10.1", vec![namespace(1, template("><notfound/>"))]);
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Err(100));
    put_record(registry.store(), "0.NA/10.1", vec![namespace(1, "not XML".into())]);
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Err(100));
    // Prefix records are never derived, whatever template the root record has.
    put_record(registry.store(), "0.NA/0.NA", vec![namespace(1, template("><value type='A'>b</value>"))]);
    assert_eq!(resolve_data(&registry, "0.NA/10.1@y"), Err(100));
    // Retired names are not derived again.
    put_record(registry.store(), "0.NA/10.1", vec![namespace(1, template("><value type='A'>b</value>"))]);
    commit(
        registry.store(),
        Edit::Tombstone { name: "10.1/x@stored".into(), precondition: Precondition::Live },
    );
    assert_eq!(resolve_data(&registry, "10.1/x@stored"), Err(100));
    commit(registry.store(), Edit::Tombstone { name: "10.1/x".into(), precondition: Precondition::Live });
    assert_eq!(resolve_data(&registry, "10.1/x@y"), Err(100));
}

fn templates_in_settings(kind: StoreKind) {
    let registry_with = |templates| {
        let registry = fixture(kind, RegistrySettings { templates, ..RegistrySettings::default() });
        put_record(registry.store(), "10.1/x", vec![url_value(1, "https://a/")]);
        let xml = "<namespace><template delimiter='@'><value type='A'>prefix</value></template></namespace>";
        put_record(registry.store(), "0.NA/10.2", vec![HandleValue::new(1, "HS_NAMESPACE", xml)]);
        put_record(registry.store(), "10.2/x", vec![url_value(1, "https://b/")]);
        registry
    };
    let namespace =
        "<namespace><template delimiter='!'><value type='A'>settings</value></template></namespace>";
    let both = registry_with(TemplateSettings {
        use_prefix_namespace: true,
        default_namespace: Some(namespace.into()),
        default_delimiter: Some("?".into()),
    });
    assert_eq!(resolve_data(&both, "10.1/x!y"), Ok("settings".into()));
    assert_eq!(resolve_data(&both, "10.1/x?y"), Err(100));
    assert_eq!(resolve_data(&both, "10.2/x@y"), Ok("prefix".into()));
    let only_delimiter = registry_with(TemplateSettings {
        use_prefix_namespace: false,
        default_namespace: None,
        default_delimiter: Some("?".into()),
    });
    assert_eq!(resolve_data(&only_delimiter, "10.1/x?y"), Ok("https://a/".into()));
    assert_eq!(resolve_data(&only_delimiter, "10.2/x@y"), Err(100));
}

/// Site peer that is a registry in the same process.
#[derive(Debug)]
struct PeerRegistry(TestRegistry);

impl SitePeers for PeerRegistry {
    fn public_values<'a>(
        &'a self,
        name: &'a str,
        budget: &'a mut Budget,
    ) -> PeerFuture<'a, Option<Vec<HandleValue<'static>>>> {
        Box::pin(async move {
            match self.0.resolve(&ResolveQuery::new(Handle::from(name)), &Caller::Anonymous, budget).await {
                Ok(Resolution::Values(values)) => Ok(Some(values)),
                Ok(Resolution::Referral(_)) | Err(Error::NotFound) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn verify_secret<'a>(
        &'a self,
        _: &'a ValueReference<'a>,
        _: Challenge<'a>,
        _: &'a [u8],
        _: &'a mut Budget,
    ) -> PeerFuture<'a, bool> {
        Box::pin(async { Ok(false) })
    }
}

/// Values derived by a template are not keys, neither locally nor at a site peer.
fn derived_values_grant_nothing(kind: StoreKind) {
    let site =
        Site { hash_option: HashOption::WHOLE, servers: vec![SiteServer::default(); 2], ..Site::default() };
    let xml =
        "<namespace><template delimiter='@'><value type='HS_PUBKEY'>derived</value></template></namespace>";
    let sources = [0; 3].map(|_| HandleFixtureSource::new(kind));
    let check = |index: usize, base: &str, is_in_settings: bool| {
        let server = |source: &HandleFixtureSource, index| {
            let default_namespace = is_in_settings.then(|| xml.into());
            let templates = TemplateSettings { default_namespace, ..TemplateSettings::default() };
            let partition = HashPartition::new(&site, index);
            let registry =
                source.fixture(RegistrySettings { partition, templates, ..RegistrySettings::default() });
            if !is_in_settings {
                put_record(registry.store(), "0.NA/10.1", vec![HandleValue::new(1, "HS_NAMESPACE", xml)]);
            }
            put_record(registry.store(), base, vec![HandleValue::new(300, "HS_PUBKEY", "stored")]);
            registry
        };
        let [first, second, third] = &sources;
        let peer = server(first, 1 - index).with_site_peers(Arc::new(PeerRegistry(server(second, index))));
        let derived = format!("{base}@x");
        assert_eq!(
            resolve(&peer, "anonymous", &ResolveQuery::new(Handle::from(&*derived))),
            Ok(vec![1]),
            "{derived}"
        );
        let local = server(third, index).with_site_peers(Arc::new(PeerRegistry(peer)));
        let keys =
            |name| block_on(local.key_values(Handle::from(name), &mut Budget::new(1_000))).unwrap().len();
        assert_eq!((keys(base), keys(&derived)), (1, 0), "{derived}");
    };
    for index in 0..2 {
        let is_at_peer = |name: &str| HashPartition::new(&site, 1 - index).unwrap().owns(Handle::from(name));
        let mut names = (0..).map(|number| format!("10.1/{number}"));
        let base = names.find(|name| is_at_peer(name) && is_at_peer(&format!("{name}@x"))).unwrap();
        check(index, &base, false);
        check(index, &base, true);
    }
}
