//! Who may do what: all roles, all operations, over all stores.

mod parties;

use parties::*;
use tendot_proto::{Handle, Now, Value};
use tendot_registry::doi::{Draft, NameState, NewName};
use tendot_registry::party::{
    AgencyChange, NewAgency, NewPrefix, NewRegistrant, Policy, PrefixChange, RegistrantChange, Role, Scope,
    TokenEnd,
};
use tendot_registry::transfer::{TransferDecision, What};
use tendot_registry::{Caller, Query, Refusal, Write};
use tendot_store::Store;
use tendot_testing::block_on;

/// A line an operation, a letter a role, see [`Scene::caller`]: `+` done, `?` has to be known, `-` forbidden, `0` not found,
/// `c` in conflict, `!` refused for what it says. Where things are only read, a token has to be good when it is shown.
const TABLE: &str = "
                          nOoAB123rdtmRDTMpPxvekws
agency create             ?++---------------???---
agency rename             ?+++-----------+--???---
agency other range        ?++---------------???---
agency read               ++++++++++++++++++++++++
registrant create         ?+++-----------+--???---
registrant create here    ?!!++!!!---!---+!-???!!!
registrant contact        0+++0+00++++++++++???+00
registrant rename         ?+++-+-----+---+--???+--
registrant admins         ?+++-+------------???+--
prefix given              ?+++-----------+--???---
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
name create               ?+++-+---+---+----???+--
name create taken         ?ccc-c---c---c----???c--
name create reserved      ?ccc-c---c---c----???c--
name mint                 ?+++-+---+---+----???+--
name reserve              ?+++-+---+---+----???+--
name update               ?+++-+---+---+----???+--
name update reserved      ?+++0+00-+---+--00???+00
name update given         ?+++--+------+----???---
name update no such       ?0000000-0---0--00???000
name end                  ?+++-+---+---+----???+--
name end reserved         ?+++0+00-+---+--00???+00
name end given            ?+++--+------+----???---
name read                 ++++++++++++++++++???+++
name read hidden          0+++0+00++++++++00???+00
name read reserved        0+++0+00++++++++00???+00
names listed reserved     0+++0+00++++++++00???+00
batch create              ?+++-+---+---+----???+--
batch update              ?+++-+---+---+----???+--
batch reserved            ?+++-+---+---+----???+--
batch given               ?+++--+------+----???---
give name                 ?+++-+----+---+---???+--
give name reserved        ?+++!+!!--+---+---???+!!
give name of another      ?+++--+-------+---???---
give prefix               ?+++-+----+---+---???+--
give agency               ?+++----------+---???---
force name                ?++---------------???---
force agency              ?++---------------???---
accept name               ?+++-+0---+---+---???+00
decline name              ?+++++0+--+---+---???+00
read transfer             ?+++++0+++++++++++???+00
accept prefix             ?+++-+0---+---+---???+00
accept agency             ?+++-000--0---+-0-???000
native create             ?+++-+---+---+----???+--
native create reserved    ?ccc-c---c---c----???c--
native overwrite          ?+++-+---+---+----???+--
native modify             ?+++-+---+---+----???+--
native modify reserved    000000000000000000000000
native modify given       ?+++--+------+----???---
native delete             ?+++-+---+---+----???+--
native delete reserved    ?00000000000000000???000
native delete no such     ?00000000000000000???000
native delete prefix      ?cc---------------???---
native derived prefix     000000000000000000000000
native home               ?++---------------???---
native home parties       !!!!!!!!!!!!!!!!!!!!!!!!
native list               ?+++-+--++++++++--+??+--
native read hidden        ?+++-+--++++++++--+??+--
history of reserved       0+++0+00++++++++00???+00
changes of reserved       0+++0+00++++++++00???+00
";

/// What somebody gets who asks for something.
fn ask<S: Store>(scene: &Scene<S>, what: &str, caller: &Caller) -> Result<(), Refusal> {
    let (registry, work) = (&scene.registry, &mut work());
    let name = |suffix: &str| format!("{ONE}/{suffix}");
    let names = |suffix: &str| What::Names(vec![name(suffix).into()]);
    let random = scene.random();
    let a1 = || scene.id("A1");
    match what {
        "agency create" => {
            let new = br#"{"code": "delta", "name": "Delta"}"#;
            scene.by(&serde_json::from_slice::<NewAgency>(new).unwrap(), caller).map(drop)
        }
        "agency rename" => {
            let name = Some("Other".into());
            scene.by(&AgencyChange { code: "alpha".into(), name, ..Default::default() }, caller).map(drop)
        }
        "agency other range" => {
            let range = r#"{"range": {"first": "10.1", "last": "10.99999"}}"#;
            let change = AgencyChange { code: "alpha".into(), ..serde_json::from_str(range).unwrap() };
            scene.by(&change, caller).map(drop)
        }
        "agency read" => block_on(registry.agency("alpha", work)).map(drop),
        "registrant create" | "registrant create here" => {
            let agency = (what == "registrant create").then(|| "alpha".into());
            let (name, admins) = ("New".into(), vec!["300:10.9/new".into()]);
            let new = NewRegistrant { agency, name, contact: None, admins, random };
            scene.by(&new, caller).map(drop)
        }
        "registrant contact" => {
            let held = block_on(registry.registrant(&scene.id("A1"), caller, NOW, work))?;
            held.it.contact.map(drop).ok_or_else(hidden_from_them)
        }
        "registrant rename" => {
            let name = Some("Other".into());
            scene.by(&RegistrantChange { id: a1(), name, ..Default::default() }, caller).map(drop)
        }
        "registrant admins" => {
            let admins = Some(vec!["300:10.9/evil".into()]);
            scene.by(&RegistrantChange { id: a1(), admins, ..Default::default() }, caller).map(drop)
        }
        "prefix given" | "prefix next" | "prefix out of range" | "prefix taken" | "prefix derived" => {
            let prefix = match what {
                "prefix given" => Some("10.71500"),
                "prefix out of range" => Some("10.5555"),
                "prefix taken" => Some(TWO),
                "prefix derived" => Some("10.71002.1"),
                _ => None,
            };
            let (prefix, policy) = (prefix.map(Into::into), Policy::default());
            scene.by(&NewPrefix { registrant: a1(), prefix, test: false, policy }, caller).map(drop)
        }
        "prefix policy" => {
            let policy = Some(Policy { quota: Some(7), ..Policy::default() });
            scene.by(&PrefixChange { prefix: ONE.into(), policy, expect: None }, caller).map(drop)
        }
        "token of operator" => {
            scene.by(&scene.new_token(Role::Operator, None, None, vec![], None), caller).map(drop)
        }
        "token of agency" => {
            let token = scene.new_token(Role::Agency, Some("alpha".into()), None, vec![], None);
            scene.by(&token, caller).map(drop)
        }
        "token of registrant" | "token for reading" => {
            let scopes = (what == "token for reading").then(|| vec![Scope::Read]);
            let token = scene.new_token(Role::Registrant, Some(a1()), scopes, vec![], None);
            scene.by(&token, caller).map(drop)
        }
        "tokens listed" => {
            let (tokens, _) = block_on(registry.tokens(None, 100, caller, NOW, work))?;
            let a1 = Some(a1());
            let has_own = tokens.iter().any(|held| held.it.subject == a1);
            has_own.then_some(()).ok_or_else(hidden_from_them)
        }
        "token revoke" => {
            let id = scene.token_id('d');
            scene.by(&TokenEnd { id }, caller).map(drop)
        }
        "name create" => scene.put(&name("new"), "https://a/", caller),
        "name create taken" => scene.put(&name("X"), "https://a/", caller),
        "name create reserved" => scene.put(&name("R"), "https://a/", caller),
        "name mint" | "name reserve" => {
            let (prefix, state) = (Some(ONE.into()), draft(r#"{"state": "reserved"}"#).state);
            let state = if what == "name reserve" { state } else { None };
            let draft = Draft { prefix, url: Some("https://a/".into()), state, ..Draft::default() };
            scene.by(&NewName { draft, random }, caller).map(drop)
        }
        "name update" => scene.change(&name("x"), "https://b/", caller),
        "name update reserved" => scene.change(&name("r"), "https://b/", caller),
        "name update given" => scene.change(&name("given"), "https://b/", caller),
        "name update no such" => scene.change(&name("none"), "https://b/", caller),
        "name end" => scene.end(&name("x"), caller),
        "name end reserved" => scene.end(&name("r"), caller),
        "name end given" => scene.end(&name("given"), caller),
        "name read" => block_on(registry.registered(&name("x"), caller, NOW, work)).map(drop),
        "name read hidden" => {
            let found = block_on(registry.registered(&name("x"), caller, NOW, work))?;
            found.values.iter().find(|value| value.index == 5).map(drop).ok_or_else(hidden_from_them)
        }
        "name read reserved" => block_on(registry.registered(&name("r"), caller, NOW, work)).map(drop),
        "names listed reserved" => {
            let names = registry.names(Some(ONE), None, None, 100, caller, NOW, work);
            let names = block_on(names)?.items;
            assert_eq!(names.iter().filter(|item| item.state != NameState::Reserved).count(), 2);
            let reserved = names.iter().find(|item| item.state == NameState::Reserved);
            reserved.map(drop).ok_or_else(hidden_from_them)
        }
        "batch create" | "batch update" | "batch reserved" | "batch given" => {
            let suffix = match what {
                "batch create" => "new",
                "batch update" => "X",
                "batch reserved" => "R",
                _ => "GIVEN",
            };
            let mut outcomes = scene.batch(&[line(1, deposit(&name(suffix), "https://b/"))], caller);
            outcomes.remove(0).result.map(drop)
        }
        "give name" => scene.give(names("x"), "A2", false, caller).map(drop),
        "give name reserved" => scene.give(names("r"), "A2", false, caller).map(drop),
        "give name of another" => scene.give(names("given"), "A1", false, caller).map(drop),
        "give prefix" => scene.give(What::Prefix(ONE.into()), "B1", false, caller).map(drop),
        "give agency" => scene.give(What::Agency("alpha".into()), "beta", false, caller).map(drop),
        "force name" => scene.give(names("x"), "A2", true, caller).map(drop),
        "force agency" => scene.give(What::Agency("alpha".into()), "beta", true, caller).map(drop),
        "accept name" | "decline name" | "read transfer" | "accept prefix" | "accept agency" => {
            let operator = &Caller::Operator;
            let id = match what {
                "accept prefix" => scene.give(What::Prefix(THREE.into()), "A1", false, operator),
                "accept agency" => scene.give(What::Agency("beta".into()), "alpha", false, operator),
                _ => scene.give(What::Names(vec![format!("{THREE}/gift").into()]), "A1", false, operator),
            };
            let id = id.unwrap_or_else(|refusal| panic!("{refusal:?}"));
            if what == "read transfer" {
                return block_on(registry.transfer(&id, caller, NOW, work)).map(drop);
            }
            scene.by(&TransferDecision { id, accept: what != "decline name" }, caller).map(drop)
        }
        "native create" | "native create reserved" => {
            let name = name(if what == "native create" { "new" } else { "R" });
            let values = vec![Value::new(1, "URL", "https://a/")];
            write(scene, &created(&name, values, false), caller)
        }
        "native overwrite" => {
            let name = name("x");
            let values = vec![Value::new(1, "URL", "https://b/"), admin(100, "300:10.9/key")];
            write(scene, &created(&name, values, true), caller)
        }
        "native modify" | "native modify reserved" | "native modify given" => {
            let name = name(
                what.rsplit(' ')
                    .next()
                    .filter(|last| *last == "given")
                    .unwrap_or(if what == "native modify" { "x" } else { "r" }),
            );
            let values = vec![Value::new(1, "URL", "https://b/")];
            write(scene, &Write::Modify { name: Handle::from(&*name), values, force: false }, caller)
        }
        "native delete" | "native delete reserved" | "native delete no such" => {
            let name = name(match what {
                "native delete" => "x",
                "native delete reserved" => "r",
                _ => "none",
            });
            write(scene, &Write::Delete { name: Handle::from(&*name), for_ever: false }, caller)
        }
        "native delete prefix" => {
            let name = format!("0.NA/{ONE}");
            write(scene, &Write::Delete { name: Handle::from(&*name), for_ever: false }, caller)
        }
        "native derived prefix" => {
            let name = format!("0.NA/{ONE}.5");
            write(scene, &created(&name, vec![admin(100, "300:10.9/key")], false), caller)
        }
        "native home" => write(scene, &Write::Home { prefix: Handle::from("0.NA/10.5") }, caller),
        "native home parties" => write(scene, &Write::Home { prefix: Handle::from("0.NA/0.TENDOT") }, caller),
        "native list" => {
            let list = registry.list(Handle::from(ONE), None, 100, caller, work);
            let found = block_on(list)?;
            assert!(found.names.contains(&"10.71000/x".into()));
            Ok(())
        }
        "native read hidden" => {
            let name = name("x");
            let query = Query { public_only: false, indexes: vec![5], ..Query::new(Handle::from(&*name)) };
            Ok(block_on(registry.resolve(&query, caller, work)).map(drop)?)
        }
        "history of reserved" => {
            let order = tendot_store::Order::OldestFirst { after: 0 };
            let name = name("r");
            let history = registry.history(Handle::from(&*name), order, 10, caller, NOW, work);
            Ok(block_on(history).map(drop)?)
        }
        "changes of reserved" => {
            let start = tendot_registry::Cursor::default();
            let changes = block_on(registry.changes(&start, 1_000, caller, NOW, work))?;
            assert!(changes.items.iter().any(|item| &*item.name == "10.71000/x"));
            changes
                .items
                .iter()
                .find(|item| &*item.name == "10.71000/r")
                .map(drop)
                .ok_or_else(hidden_from_them)
        }
        _ => panic!("{what} is not known"),
    }
}

fn created<'a>(name: &'a str, values: Vec<Value<'a>>, overwrite: bool) -> Write<'a> {
    Write::Create { name: Handle::from(name), values, overwrite, mint: None, force: false }
}

fn write<S: Store>(scene: &Scene<S>, write: &Write<'_>, caller: &Caller) -> Result<(), Refusal> {
    let now = Now { elapsed: std::time::Duration::ZERO, unix: NOW / 1_000 };
    Ok(block_on(scene.registry.write(write, caller, now, &mut work())).map(drop)?)
}

/// What is left out for who asks counts as not found.
fn hidden_from_them() -> Refusal {
    Refusal::from(tendot_registry::Error::NotFound)
}

#[test]
fn in_memory() {
    check(&InMemory);
}

#[test]
fn on_disk() {
    check(&OnDisk::new());
}

#[test]
fn in_a_database() {
    check(&InDatabase::new());
}

fn check(stage: &impl Stage) {
    let mut lines = TABLE.trim_matches('\n').lines();
    assert_eq!(lines.next().map(str::trim), Some(ROLES));
    let mut scene = None;
    let mut wrong = Vec::new();
    for line in lines {
        let (what, expected) = line.split_at(26);
        let what = what.trim();
        let mut found = String::new();
        for role in ROLES.chars() {
            let here = scene.take().unwrap_or_else(|| {
                let scene = stage.scene();
                scene.put(&format!("{THREE}/gift"), "https://a/", &Caller::Operator).unwrap();
                scene
            });
            let before = here.changes();
            let outcome = letter(&ask(&here, what, &here.caller(role)));
            found.push(outcome);
            // A proposal is made by the operator for those who decide.
            let made =
                usize::from(what.starts_with("accept") || ["decline name", "read transfer"].contains(&what));
            let is_changed = here.changes() != before + made;
            assert!(outcome == '+' || !is_changed, "{what} by {role} was refused, and changed something");
            if here.changes() == before {
                scene = Some(here);
            }
        }
        if found != expected {
            wrong.push(format!("{what:26}{found}"));
        }
    }
    assert!(wrong.is_empty(), "found:\n{}", wrong.join("\n"));
}
