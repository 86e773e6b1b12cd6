//! Permission matrix: every operation by every kind of caller, over all stores.

use tendot_proto::record::{PublicKey, ValueList};
use tendot_proto::{Handle, HandleValue, ValueReference};
use tendot_registry::party::{
    AllocatePrefix, CreateAgency, CreateRegistrant, PrefixPolicy, RevokeToken, Role, Scope, UpdateAgency,
    UpdatePrefix, UpdateRegistrant,
};
use tendot_registry::registration::{
    DoiFilter, DoiStatus, RedactDoi, RegisterDoi, RegistrationRequest, UpdateDoi,
};
use tendot_registry::transfer::{DecideTransfer, TransferSubject};
use tendot_registry::{CallContext, Caller, HandleWrite, RegistryError, ResolveQuery};
use tendot_testing::block_on;

use crate::fixtures::registry_fixture::*;
use crate::support::{StoreKind, store_tests};

store_tests!(memory, embedded, postgres => { matrix });

/// A line per operation, a column per caller, see [`RegistryFixture::caller`]: `+` done, `?` unauthenticated, `-` forbidden, `0` not
/// found, `c` conflict, `!` invalid. For reads by the Handle protocol, a token has to be valid when it is presented.
const TABLE: &str = "
                          nOoAB123rdtmRDTMpPxvekws
agency create             ?++---------------???---
agency rename             ?+++-----------+--???---
agency other range        ?++---------------???---
agency read               ++++++++++++++++++++++++
registrant create         ?+++--------------???---
registrant create plain   ?+++-----------+--???---
registrant create here    ?!!++!!!---!----!-???!!!
registrant contact        0+++0+00++++++++++???+00
registrant rename         ?+++-+-----+---+--???+--
registrant admins         ?+++-+------------???+--
prefix by name            ?+++-----------+--???---
prefix next               ?+++-----------+--???---
prefix out of range       ?++---------------???---
prefix taken              ?ccc-----------c--???---
prefix derived            ?++---------------???---
prefix policy             ?+++-----------+--???---
token of operator         ?++---------------???---
token of agency           ?+++--------------???---
token of registrant       ?+++-+------------???+--
token for reading         ?+++-+------------???+--
tokens listed             ?+++0+00---+---+--???+00
token revoke              ?+++0+00---+---+--???+00
sessions manage           ?++---------------???---
name create               ?+++-+---+---+----???+--
name create taken         ?ccc-c---c---c----???c--
name create reserved      ?ccc-c---c---c----???c--
name mint                 ?+++-+---+---+----???+--
name reserve              ?+++-+---+---+----???+--
name update               ?+++-+---+---+----???+--
name update reserved      ?+++0+00-+---+--00???+00
name update transferred   ?+++--+------+----???---
name update no such       ?0000000-0---0--00???000
name retire               ?+++-+---+---+----???+--
name retire reserved      ?+++0+00-+---+--00???+00
name retire transferred   ?+++--+------+----???---
name create key           ?+++-+------------???+--
name update key           ?+++-+------------???+--
name retire key           ?+++-+------------???+--
batch update key          ?+++-+------------???+--
name read key             000000000000000000???000
name redact               ?+++-----------+--???---
name redact reserved      ?+++-----------+--???---
name redact no such       ?000-----------0--???---
name read                 ++++++++++++++++++???+++
name read hidden          0+++0+00++++++++00???+00
name read reserved        0+++0+00++++++++00???+00
names listed reserved     0+++0+00++++++++00???+00
batch create              ?+++-+---+---+----???+--
batch update              ?+++-+---+---+----???+--
batch reserved            ?+++-+---+---+----???+--
batch transferred         ?+++--+------+----???---
transfer name             ?+++-+----+---+---???+--
transfer name reserved    ?+++!+!!--+---+-!!???+!!
transfer name of A2       ?+++--+-------+---???---
transfer prefix           ?+++-+----+---+---???+--
transfer agency           ?+++----------+---???---
force transfer name       ?++---------------???---
force transfer agency     ?++---------------???---
accept name               ?+++-+0---+---+---???+00
decline name              ?+++++0+--+---+---???+00
read transfer             ?+++++0+++++++++++???+00
accept prefix             ?+++-+0---+---+---???+00
accept agency             ?+++-000--0---+-0-???000
handle create             ?+++-+---+---+----???+--
handle create reserved    ?ccc-c---c---c----???c--
handle overwrite          ?+++-+------------???+--
handle overwrite same     ?+++-+---+---+----???+--
handle modify             ?+++-+---+---+----???+--
handle modify reserved    000000000000000000000000
handle modify transferred ?+++--+------+----???---
handle delete             ?+++-+---+---+----???+--
handle delete reserved    ?00000000000000000???000
handle delete no such     ?00000000000000000???000
handle delete prefix      ?cc---------------???---
handle derived prefix     000000000000000000000000
handle create key         ?+++-+------------???+--
handle create admin       ?+++-+------------???+--
handle add key            ?+++-+------------???+--
handle add public key     ?+++-+------------???+--
handle add group          ?+++-+------------???+--
handle add admin          ?+++-+------------???+--
handle modify key         ?+++-+------------???+--
handle remove key         ?+++-+------------???+--
handle remove public key  ?+++-+------------???+--
handle remove group       ?+++-+------------???+--
handle remove admin       ?+++-+------------???+--
handle modify admin       ?+++-+------------???+--
handle delete key         ?+++-+------------???+--
handle read key           ?!!!-!--!!!!!!!!--!??+--
handle read key in clear  !!!!!!!!!!!!!!!!!!!!!!!!
handle home               ?++---------------???---
handle home registry      !!!!!!!!!!!!!!!!!!!!!!!!
handle list               ?+++-+--++++++++--+??+--
handle read hidden        ?+++-+--++++++++--+??+--
history of reserved       0+++0+00++++++++00???+00
changes of reserved       0+++0+00++++++++00???+00
";

/// Runs an operation of the table.
fn run_operation(fixture: &RegistryFixture, operation: &str, caller: &Caller) -> Result<(), RegistryError> {
    let run = match operation.split(' ').next().unwrap_or_default() {
        "agency" | "registrant" => run_party_operation,
        "prefix" => run_prefix_operation,
        "token" | "tokens" | "sessions" => run_token_operation,
        "name" | "names" | "batch" => run_name_operation,
        "transfer" | "force" | "accept" | "decline" | "read" => run_transfer_operation,
        "handle" => run_handle_operation,
        _ => run_log_operation,
    };
    run(fixture, operation, caller)
}

fn run_party_operation(
    fixture: &RegistryFixture,
    operation: &str,
    caller: &Caller,
) -> Result<(), RegistryError> {
    let (registry, budget) = (&fixture.registry, &mut budget());
    let random_bytes = fixture.random_bytes();
    let a1 = || fixture.id("A1");
    match operation {
        "agency create" => {
            let new = br#"{"code": "delta", "name": "Delta"}"#;
            fixture.execute_as(&serde_json::from_slice::<CreateAgency>(new).unwrap(), caller).map(drop)
        }
        "agency rename" => {
            let name = Some("Other".into());
            fixture
                .execute_as(&UpdateAgency { code: "alpha".into(), name, ..Default::default() }, caller)
                .map(drop)
        }
        "agency other range" => {
            let range = r#"{"range": {"first": "10.1", "last": "10.99999"}}"#;
            let change = UpdateAgency { code: "alpha".into(), ..serde_json::from_str(range).unwrap() };
            fixture.execute_as(&change, caller).map(drop)
        }
        "agency read" => block_on(registry.get_agency("alpha", budget)).map(drop),
        "registrant create" | "registrant create plain" | "registrant create here" => {
            let agency = (operation != "registrant create here").then(|| "alpha".into());
            let admins = match operation {
                "registrant create plain" => Vec::new(),
                _ => vec!["300:10.9/new".into()],
            };
            let name = "New".into();
            let new = CreateRegistrant { agency, name, contact: None, admins, random_bytes };
            fixture.execute_as(&new, caller).map(drop)
        }
        "registrant contact" => {
            let versioned =
                block_on(registry.get_registrant(&fixture.id("A1"), CallContext::new(caller, NOW, budget)))?;
            versioned.value.contact.map(drop).ok_or_else(not_visible)
        }
        "registrant rename" => {
            let name = Some("Other".into());
            fixture.execute_as(&UpdateRegistrant { id: a1(), name, ..Default::default() }, caller).map(drop)
        }
        "registrant admins" => {
            let admins = Some(vec!["300:10.9/evil".into()]);
            fixture.execute_as(&UpdateRegistrant { id: a1(), admins, ..Default::default() }, caller).map(drop)
        }
        _ => panic!("unknown operation: {operation}"),
    }
}

fn run_prefix_operation(
    fixture: &RegistryFixture,
    operation: &str,
    caller: &Caller,
) -> Result<(), RegistryError> {
    let a1 = || fixture.id("A1");
    match operation {
        "prefix by name" | "prefix next" | "prefix out of range" | "prefix taken" | "prefix derived" => {
            let prefix = match operation {
                "prefix by name" => Some("10.71500"),
                "prefix out of range" => Some("10.5555"),
                "prefix taken" => Some(PREFIX_A2),
                "prefix derived" => Some("10.71002.1"),
                _ => None,
            };
            let (prefix, policy) = (prefix.map(Into::into), PrefixPolicy::default());
            fixture
                .execute_as(&AllocatePrefix { registrant: a1(), prefix, is_test: false, policy }, caller)
                .map(drop)
        }
        "prefix policy" => {
            let policy = Some(PrefixPolicy { quota: Some(7), ..PrefixPolicy::default() });
            fixture
                .execute_as(
                    &UpdatePrefix { prefix: PREFIX_A1.into(), policy, expected_revision: None },
                    caller,
                )
                .map(drop)
        }
        _ => panic!("unknown operation: {operation}"),
    }
}

fn run_token_operation(
    fixture: &RegistryFixture,
    operation: &str,
    caller: &Caller,
) -> Result<(), RegistryError> {
    let (registry, budget) = (&fixture.registry, &mut budget());
    let a1 = || fixture.id("A1");
    match operation {
        "token of operator" => {
            fixture.execute_as(&fixture.new_token(Role::Operator, None, None, vec![], None), caller).map(drop)
        }
        "token of agency" => {
            let token = fixture.new_token(Role::Agency, Some("alpha".into()), None, vec![], None);
            fixture.execute_as(&token, caller).map(drop)
        }
        "token of registrant" | "token for reading" => {
            let scopes = (operation == "token for reading").then(|| vec![Scope::Read]);
            let token = fixture.new_token(Role::Registrant, Some(a1()), scopes, vec![], None);
            fixture.execute_as(&token, caller).map(drop)
        }
        "tokens listed" => {
            let tokens =
                block_on(registry.list_tokens(None, 100, CallContext::new(caller, NOW, budget)))?.items;
            let a1 = Some(a1());
            let has_own = tokens.iter().any(|versioned| versioned.value.subject == a1);
            has_own.then_some(()).ok_or_else(not_visible)
        }
        "sessions manage" => block_on(registry.authorize_operator(CallContext::new(caller, NOW, budget))),
        "token revoke" => {
            let id = fixture.token_id('d');
            fixture.execute_as(&RevokeToken { id, cascade: false }, caller).map(drop)
        }
        _ => panic!("unknown operation: {operation}"),
    }
}

fn run_name_operation(
    fixture: &RegistryFixture,
    operation: &str,
    caller: &Caller,
) -> Result<(), RegistryError> {
    let (registry, budget) = (&fixture.registry, &mut budget());
    let random_bytes = fixture.random_bytes();
    let name = |suffix: &str| format!("{PREFIX_A1}/{suffix}");
    match operation {
        "name create" => fixture.register(&name("new"), "https://a/", caller),
        "name create taken" => fixture.register(&name("X"), "https://a/", caller),
        "name create reserved" => fixture.register(&name("R"), "https://a/", caller),
        "name mint" | "name reserve" => {
            let (prefix, state) =
                (Some(PREFIX_A1.into()), request_from_json(r#"{"state": "reserved"}"#).state);
            let state = if operation == "name reserve" { state } else { None };
            let body = RegistrationRequest {
                prefix,
                url: Some("https://a/".into()),
                state,
                ..RegistrationRequest::default()
            };
            fixture.execute_as(&RegisterDoi { request: body, random_bytes }, caller).map(drop)
        }
        "name update" => fixture.update(&name("x"), "https://b/", caller),
        "name update reserved" => fixture.update(&name("r"), "https://b/", caller),
        "name update transferred" => fixture.update(&name("transferred"), "https://b/", caller),
        "name update no such" => fixture.update(&name("none"), "https://b/", caller),
        "name retire" => fixture.retire(&name("x"), caller),
        "name retire reserved" => fixture.retire(&name("r"), caller),
        "name retire transferred" => fixture.retire(&name("transferred"), caller),
        "name create key" | "name update key" | "batch update key" => {
            let values = Some(vec![secret_value("other secret")]);
            let suffix = if operation == "name create key" { "new" } else { "keys" };
            let body = RegistrationRequest { values, ..request(&name(suffix), "https://a/") };
            if operation == "name create key" {
                return fixture.execute_as(&RegisterDoi { request: body, random_bytes }, caller).map(drop);
            }
            if operation == "batch update key" {
                return fixture.batch(&[batch_line(1, body)], caller).remove(0).result.map(drop);
            }
            let command = UpdateDoi { name: name(suffix).into(), request: body, expected_revision: None };
            fixture.execute_as(&command, caller).map(drop)
        }
        "name retire key" => fixture.retire(&name("keys"), caller),
        "name read key" => {
            let found = block_on(registry.get_doi(&name("keys"), CallContext::new(caller, NOW, budget)))?;
            found.values.iter().find(|value| value.is_secret()).map(drop).ok_or_else(not_visible)
        }
        "name redact" | "name redact reserved" | "name redact no such" => {
            let suffix = match operation {
                "name redact" => "x",
                "name redact reserved" => "r",
                _ => "none",
            };
            let command = RedactDoi { name: name(suffix).into(), reason: "request".into() };
            fixture.execute_as(&command, caller).map(drop)
        }
        "name read" => {
            block_on(registry.get_doi(&name("x"), CallContext::new(caller, NOW, budget))).map(drop)
        }
        "name read hidden" => {
            let found = block_on(registry.get_doi(&name("x"), CallContext::new(caller, NOW, budget)))?;
            found.values.iter().find(|value| value.index == 5).map(drop).ok_or_else(not_visible)
        }
        "name read reserved" => {
            block_on(registry.get_doi(&name("r"), CallContext::new(caller, NOW, budget))).map(drop)
        }
        "names listed reserved" => {
            let names = registry.list_dois(
                DoiFilter { prefix: Some(PREFIX_A1), registrant: None },
                None,
                100,
                CallContext::new(caller, NOW, budget),
            );
            let names = block_on(names)?.items;
            assert_eq!(names.iter().filter(|item| item.state != DoiStatus::Reserved).count(), 3);
            let reserved = names.iter().find(|item| item.state == DoiStatus::Reserved);
            reserved.map(drop).ok_or_else(not_visible)
        }
        "batch create" | "batch update" | "batch reserved" | "batch transferred" => {
            let suffix = match operation {
                "batch create" => "new",
                "batch update" => "X",
                "batch reserved" => "R",
                _ => "TRANSFERRED",
            };
            let mut outcomes = fixture.batch(&[batch_line(1, request(&name(suffix), "https://b/"))], caller);
            outcomes.remove(0).result.map(drop)
        }
        _ => panic!("unknown operation: {operation}"),
    }
}

fn run_transfer_operation(
    fixture: &RegistryFixture,
    operation: &str,
    caller: &Caller,
) -> Result<(), RegistryError> {
    let (registry, budget) = (&fixture.registry, &mut budget());
    let name = |suffix: &str| format!("{PREFIX_A1}/{suffix}");
    let names = |suffix: &str| TransferSubject::Names(vec![name(suffix).into()]);
    match operation {
        "transfer name" => fixture.transfer(names("x"), "A2", false, caller).map(drop),
        "transfer name reserved" => fixture.transfer(names("r"), "A2", false, caller).map(drop),
        "transfer name of A2" => fixture.transfer(names("transferred"), "A1", false, caller).map(drop),
        "transfer prefix" => {
            fixture.transfer(TransferSubject::Prefix(PREFIX_A1.into()), "B1", false, caller).map(drop)
        }
        "transfer agency" => {
            fixture.transfer(TransferSubject::Agency("alpha".into()), "beta", false, caller).map(drop)
        }
        "force transfer name" => fixture.transfer(names("x"), "A2", true, caller).map(drop),
        "force transfer agency" => {
            fixture.transfer(TransferSubject::Agency("alpha".into()), "beta", true, caller).map(drop)
        }
        "accept name" | "decline name" | "read transfer" | "accept prefix" | "accept agency" => {
            let operator = &Caller::Operator;
            let id = match operation {
                "accept prefix" => {
                    fixture.transfer(TransferSubject::Prefix(PREFIX_B1.into()), "A1", false, operator)
                }
                "accept agency" => {
                    fixture.transfer(TransferSubject::Agency("beta".into()), "alpha", false, operator)
                }
                _ => fixture.transfer(
                    TransferSubject::Names(vec![format!("{PREFIX_B1}/gift").into()]),
                    "A1",
                    false,
                    operator,
                ),
            };
            let id = id.unwrap_or_else(|error| panic!("{error:?}"));
            if operation == "read transfer" {
                return block_on(registry.get_transfer(&id, CallContext::new(caller, NOW, budget))).map(drop);
            }
            fixture.execute_as(&DecideTransfer { id, accept: operation != "decline name" }, caller).map(drop)
        }
        _ => panic!("unknown operation: {operation}"),
    }
}

fn run_handle_operation(
    fixture: &RegistryFixture,
    operation: &str,
    caller: &Caller,
) -> Result<(), RegistryError> {
    let (registry, budget) = (&fixture.registry, &mut budget());
    let name = |suffix: &str| format!("{PREFIX_A1}/{suffix}");
    match operation {
        "handle create" | "handle create reserved" => {
            let name = name(if operation == "handle create" { "new" } else { "R" });
            let values = vec![HandleValue::new(1, "URL", "https://a/")];
            fixture.write(&create_write(&name, values, false), caller)
        }
        "handle overwrite" => {
            let name = name("x");
            let values = vec![HandleValue::new(1, "URL", "https://b/"), admin_value(100, "300:10.9/key")];
            fixture.write(&create_write(&name, values, true), caller)
        }
        "handle overwrite same" => {
            let (name, group) = (name("x"), format!("200:0.NA/{PREFIX_A1}"));
            let values =
                vec![HandleValue::new(1, "URL", "https://b/"), hidden_value(), admin_value(100, &group)];
            fixture.write(&create_write(&name, values, true), caller)
        }
        "handle modify" | "handle modify reserved" | "handle modify transferred" => {
            let name = name(match operation {
                "handle modify" => "x",
                "handle modify reserved" => "r",
                _ => "transferred",
            });
            let values = vec![HandleValue::new(1, "URL", "https://b/")];
            fixture.write(
                &HandleWrite::ModifyValues { name: Handle::from(&*name), values, force: false },
                caller,
            )
        }
        "handle delete" | "handle delete reserved" | "handle delete no such" => {
            let name = name(match operation {
                "handle delete" => "x",
                "handle delete reserved" => "r",
                _ => "none",
            });
            fixture.write(&HandleWrite::Delete { name: Handle::from(&*name), permanent: false }, caller)
        }
        "handle delete prefix" => {
            let name = format!("0.NA/{PREFIX_A1}");
            fixture.write(&HandleWrite::Delete { name: Handle::from(&*name), permanent: false }, caller)
        }
        "handle derived prefix" => {
            let name = format!("0.NA/{PREFIX_A1}.5");
            fixture.write(&create_write(&name, vec![admin_value(100, "300:10.9/key")], false), caller)
        }
        "handle home" => fixture.write(&HandleWrite::Home { prefix: Handle::from("0.NA/10.5") }, caller),
        "handle home registry" => {
            fixture.write(&HandleWrite::Home { prefix: Handle::from("0.NA/0.TENDOT") }, caller)
        }
        "handle list" => {
            let list = registry.list_handles(Handle::from(PREFIX_A1), None, 100, caller, budget);
            let found = block_on(list)?;
            assert!(found.items.contains(&"10.71000/x".into()));
            Ok(())
        }
        "handle read hidden" => {
            let name = name("x");
            let query = ResolveQuery {
                public_only: false,
                indexes: vec![5],
                ..ResolveQuery::new(Handle::from(&*name))
            };
            Ok(block_on(registry.resolve(&query, caller, budget)).map(drop)?)
        }
        _ => run_key_operation(fixture, operation, caller),
    }
}

/// Operations on keys, administrators and groups.
fn run_key_operation(
    fixture: &RegistryFixture,
    operation: &str,
    caller: &Caller,
) -> Result<(), RegistryError> {
    let (registry, budget) = (&fixture.registry, &mut budget());
    let name = |suffix: &str| format!("{PREFIX_A1}/{suffix}");
    match operation {
        "handle create key" | "handle create admin" => {
            let name = name("new");
            let value = match operation {
                "handle create key" => secret_value("other secret"),
                _ => admin_value(100, "300:10.9/key"),
            };
            fixture.write(&create_write(&name, vec![value], false), caller)
        }
        "handle add key" | "handle add public key" | "handle add group" | "handle add admin" => {
            let name = name("x");
            let value = match operation {
                "handle add key" => secret_value("other secret"),
                "handle add public key" => public_key_value(300),
                "handle add group" => group_value(),
                _ => admin_value(101, "300:10.9/new"),
            };
            let name = Handle::from(&*name);
            let write = HandleWrite::AddValues { name, values: vec![value], overwrite: true, force: false };
            fixture.write(&write, caller)
        }
        "handle modify key" | "handle modify admin" => {
            let (name, value) = match operation {
                "handle modify key" => (name("keys"), secret_value("other secret")),
                _ => (name("x"), admin_value(100, "300:10.9/new")),
            };
            let values = vec![value];
            fixture.write(
                &HandleWrite::ModifyValues { name: Handle::from(&*name), values, force: false },
                caller,
            )
        }
        "handle remove key" | "handle remove public key" | "handle remove group" | "handle remove admin" => {
            let (name, index) = match operation {
                "handle remove key" => (name("keys"), 300),
                "handle remove public key" => (name("keys"), 301),
                "handle remove group" => (name("keys"), 200),
                _ => (name("x"), 100),
            };
            let (name, indexes) = (Handle::from(&*name), vec![index]);
            fixture.write(&HandleWrite::RemoveValues { name, indexes, force: true }, caller)
        }
        "handle delete key" => {
            let name = name("keys");
            fixture.write(&HandleWrite::Delete { name: Handle::from(&*name), permanent: false }, caller)
        }
        "handle read key" | "handle read key in clear" => {
            let name = name("keys");
            let query = ResolveQuery {
                public_only: false,
                with_secrets: operation == "handle read key",
                indexes: vec![300],
                ..ResolveQuery::new(Handle::from(&*name))
            };
            Ok(block_on(registry.resolve(&query, caller, budget)).map(drop)?)
        }
        _ => panic!("unknown operation: {operation}"),
    }
}

fn run_log_operation(
    fixture: &RegistryFixture,
    operation: &str,
    caller: &Caller,
) -> Result<(), RegistryError> {
    let (registry, budget) = (&fixture.registry, &mut budget());
    let name = |suffix: &str| format!("{PREFIX_A1}/{suffix}");
    match operation {
        "history of reserved" => {
            let order = tendot_store::HistoryOrder::OldestFirst { after: 0 };
            let name = name("r");
            let history = registry.record_history(
                Handle::from(&*name),
                order,
                10,
                CallContext::new(caller, NOW, budget),
            );
            Ok(block_on(history).map(drop)?)
        }
        "changes of reserved" => {
            let start = tendot_registry::ChangeCursor::default();
            let changes =
                block_on(registry.list_changes(&start, 1_000, CallContext::new(caller, NOW, budget)))?;
            assert!(changes.items.iter().any(|item| &*item.name == "10.71000/x"));
            changes.items.iter().find(|item| &*item.name == "10.71000/r").map(drop).ok_or_else(not_visible)
        }
        _ => panic!("unknown operation: {operation}"),
    }
}

fn create_write<'a>(name: &'a str, values: Vec<HandleValue<'a>>, overwrite: bool) -> HandleWrite<'a> {
    HandleWrite::Create {
        name: Handle::from(name),
        values,
        overwrite,
        keep_secrets: false,
        uuid_bytes: None,
        force: false,
    }
}

/// A secret key at index 300, with the permissions of a value without any: publicly readable.
fn secret_value(secret: &'static str) -> HandleValue<'static> {
    HandleValue::new(300, "HS_SECKEY", secret)
}

fn public_key_value(index: u32) -> HandleValue<'static> {
    HandleValue::with_data(index, "HS_PUBKEY", PublicKey::rsa(&[0xc1; 256], &[1, 0, 1]).to_bytes())
}

/// An administrator group at index 200.
fn group_value() -> HandleValue<'static> {
    let members = vec![ValueReference::parse("300:10.9/new")];
    HandleValue::with_data(200, "HS_VLIST", ValueList { members }.to_bytes())
}

/// Values that are left out of a response count as not found.
fn not_visible() -> RegistryError {
    RegistryError::from(tendot_registry::Error::NotFound)
}

fn matrix(kind: StoreKind) {
    let mut lines = TABLE.trim_matches('\n').lines();
    assert_eq!(lines.next().map(str::trim), Some(CALLER_LETTERS));
    let source = FixtureSource::new(kind);
    let mut unchanged_fixture = None;
    let mut mismatches = Vec::new();
    for line in lines {
        let (operation, expected) = line.split_at(26);
        let operation = operation.trim();
        let mut actual = String::new();
        for letter in CALLER_LETTERS.chars() {
            let fixture = unchanged_fixture.take().unwrap_or_else(|| {
                let fixture = source.fixture();
                fixture.register(&format!("{PREFIX_B1}/gift"), "https://a/", &Caller::Operator).unwrap();
                let values = Some(vec![secret_value("secret"), public_key_value(301), group_value()]);
                let keys =
                    RegistrationRequest { values, ..request(&format!("{PREFIX_A1}/keys"), "https://a/") };
                fixture.execute_as_operator(&RegisterDoi { request: keys, random_bytes: [0; 16] });
                fixture
            });
            let before = fixture.log_len();
            let outcome = outcome_letter(&run_operation(&fixture, operation, &fixture.caller(letter)));
            actual.push(outcome);
            // The operator proposes the transfer that is then decided or read.
            let has_proposal =
                operation.starts_with("accept") || ["decline name", "read transfer"].contains(&operation);
            let is_changed = fixture.log_len() != before + usize::from(has_proposal);
            assert!(
                outcome == '+' || !is_changed,
                "{operation} by {letter} was rejected, and changed something"
            );
            if fixture.log_len() == before {
                unchanged_fixture = Some(fixture);
            }
        }
        if actual != expected {
            mismatches.push(format!("{operation:26}{actual}"));
        }
    }
    assert!(mismatches.is_empty(), "found:\n{}", mismatches.join("\n"));
}
