//! Replication positions of a receiver, as JSON and text.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde::Serialize;
use serde_json::Value as Json;

use super::queue_name::{QueueName, QueueNameError};
use super::stream_table::{StreamTable, StreamTableError, StreamTableValue};
use crate::message::ReplicationStart;
use crate::record::{JsonError, JsonNode};

/// Replication position of a receiver in one queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReplicationPosition {
    /// Id of the last applied transaction; 0 or below if there was none.
    pub last_txn_id: i64,
    /// Last timestamp of the source as Unix time in milliseconds.
    pub last_timestamp_millis: i64,
}

impl ReplicationPosition {
    /// Position before the first transaction.
    pub const START: Self = Self { last_txn_id: -1, last_timestamp_millis: -1 };

    /// Start position for a request to a single source.
    pub const fn start(self) -> ReplicationStart<'static> {
        ReplicationStart::AfterTransaction {
            id: self.last_txn_id.cast_unsigned(),
            last_query_millis: self.last_timestamp_millis.cast_unsigned(),
        }
    }
}

/// Replication positions of a receiver by queue.
///
/// ```
/// use tendot_proto::replication::{ReplicationPosition, ReplicationStates};
///
/// let json = r#"{"replicationServerStates":{"0:1:0.NA/10":{"lastTxnId":7,"lastTimestamp":1700000000000}},"#.to_owned()
///     + r#""ownName":"2:0.NA/10"}"#;
/// let states = ReplicationStates::from_json(json.as_bytes())?;
/// let source = "0:1:0.NA/10".parse().unwrap();
/// assert_eq!(states.sources[&source], ReplicationPosition { last_txn_id: 7, last_timestamp_millis: 1_700_000_000_000 });
/// assert_eq!(states.to_json(), json);
///
/// let text = states.to_stream_table()?;
/// assert_eq!(ReplicationStates::from_stream_table(&text, states.own_name.clone())?, states);
/// # Ok::<(), tendot_proto::replication::ReplicationStatesError>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReplicationStates {
    /// Positions by source.
    pub sources: BTreeMap<QueueName, ReplicationPosition>,
    /// Name of the receiver's own site, whose transactions it does not request. Not in the text form.
    pub own_name: Option<String>,
}

impl ReplicationStates {
    /// Position of a source; [`ReplicationPosition::START`] for an unknown one.
    pub fn position(&self, source: &QueueName) -> ReplicationPosition {
        self.sources.get(source).copied().unwrap_or(ReplicationPosition::START)
    }

    /// Whether a source is a server of the receiver's own site.
    pub fn is_own_site(&self, source: &QueueName) -> bool {
        self.own_name.as_ref().is_some_and(|name| *name == source.site)
    }

    /// Parses the states of a transaction request ([`ReplicationStart::States`]).
    pub fn from_json(json: &[u8]) -> Result<Self, ReplicationStatesError> {
        let json: Json = serde_json::from_slice(json).map_err(|error| JsonError::from_syntax(&error))?;
        let root = JsonNode::new(&json);
        if !json.is_object() {
            return Err(root.expected("an object").into());
        }
        let mut states = Self::default();
        if let Some(name) = root.get("ownName") {
            states.own_name = Some(name.string()?.into());
        }
        let Some(sources) = root.get("replicationServerStates") else { return Ok(states) };
        let Json::Object(members) = sources.json() else { return Err(sources.expected("an object").into()) };
        for name in members.keys() {
            let Some(state) = sources.get(name) else { continue };
            if !state.json().is_object() {
                return Err(state.expected("an object").into());
            }
            let number = |key| state.get(key).map_or(Ok(0), |number| number.integer());
            let position = ReplicationPosition {
                last_txn_id: number("lastTxnId")?,
                last_timestamp_millis: number("lastTimestamp")?,
            };
            let source = name.parse().map_err(|error: QueueNameError| state.error(error))?;
            states.sources.insert(source, position);
        }
        Ok(states)
    }

    /// Serializes the states of a transaction request.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct JsonStates<'s> {
            replication_server_states: BTreeMap<String, JsonPosition>,
            #[serde(skip_serializing_if = "Option::is_none")]
            own_name: Option<&'s str>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct JsonPosition {
            last_txn_id: i64,
            last_timestamp: i64,
        }
        let state = |position: &ReplicationPosition| JsonPosition {
            last_txn_id: position.last_txn_id,
            last_timestamp: position.last_timestamp_millis,
        };
        let root = JsonStates {
            replication_server_states: (self.sources.iter())
                .map(|(source, position)| (source.to_string(), state(position)))
                .collect(),
            own_name: self.own_name.as_deref(),
        };
        // Cannot fail: all map keys are strings.
        serde_json::to_string(&root).unwrap_or_default()
    }

    /// Parses the file `txnstat.dct` and [`DumpRecord::OtherStates`](super::DumpRecord): for every site a vector of its
    /// servers. Omits the receiver's own site and servers without a position.
    pub fn from_stream_table(text: &str, own_name: Option<String>) -> Result<Self, ReplicationStatesError> {
        let table: StreamTable = text.parse()?;
        let mut states = Self { sources: BTreeMap::new(), own_name };
        for (site, servers) in table.0 {
            if states.own_name.as_ref() == Some(&site) {
                continue;
            }
            let invalid = |problem| ReplicationStatesError::Site { site: site.clone(), problem };
            let StreamTableValue::Vector(servers) = servers else { return Err(invalid("expected a vector")) };
            for (server, state) in servers.into_iter().enumerate() {
                let StreamTableValue::Table(state) = state else {
                    return Err(invalid("expected a table per server"));
                };
                if state.0.is_empty() {
                    continue;
                }
                let number = |key| match state.0.get(key) {
                    None => Ok(-1),
                    Some(StreamTableValue::Text(digits)) => {
                        digits.parse().map_err(|_| invalid("expected a number"))
                    }
                    Some(_) => Err(invalid("expected a number")),
                };
                let position = ReplicationPosition {
                    last_txn_id: number(LAST_TXN_ID_KEY)?,
                    last_timestamp_millis: number(LAST_TIMESTAMP_KEY)?,
                };
                let server = u16::try_from(server).map_err(|_| invalid("more than 65536 servers"))?;
                states.sources.insert(QueueName { site: site.clone(), server }, position);
            }
        }
        Ok(states)
    }

    /// Serializes the file `txnstat.dct` and [`DumpRecord::OtherStates`](super::DumpRecord).
    pub fn to_stream_table(&self) -> Result<String, ReplicationStatesError> {
        // A server with a high index makes a long, mostly empty vector; the length is limited.
        let max_servers = StreamTable::MAX_LEN / "{}".len();
        let mut servers = 0;
        let mut table = BTreeMap::new();
        for (source, position) in &self.sources {
            let vector = table.entry(source.site.clone()).or_insert_with(Vec::new);
            servers += usize::from(source.server) + 1 - vector.len();
            if servers > max_servers {
                return Err(StreamTableError::TooLong { len: servers * "{}".len() }.into());
            }
            vector.resize(usize::from(source.server), StreamTableValue::Table(StreamTable::default()));
            let text = |number: i64| StreamTableValue::Text(number.to_string());
            vector.push(StreamTableValue::Table(StreamTable(BTreeMap::from([
                (LAST_TXN_ID_KEY.into(), text(position.last_txn_id)),
                (LAST_TIMESTAMP_KEY.into(), text(position.last_timestamp_millis)),
            ]))));
        }
        let vectors = table.into_iter().map(|(site, servers)| (site, StreamTableValue::Vector(servers)));
        let text = StreamTable(vectors.collect()).to_string();
        if text.len() > StreamTable::MAX_LEN {
            return Err(StreamTableError::TooLong { len: text.len() }.into());
        }
        Ok(text)
    }
}

const LAST_TXN_ID_KEY: &str = "last_txn_id";
const LAST_TIMESTAMP_KEY: &str = "last_timestamp";

/// Invalid replication states.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicationStatesError {
    /// Malformed JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// Malformed or too long text.
    #[error(transparent)]
    Text(#[from] StreamTableError),
    /// Unexpected data for a site.
    #[error("site `{}`: {problem}", site.escape_debug())]
    Site {
        /// Name of the site.
        site: String,
        /// Description of the problem.
        problem: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(sources: &[(&str, i64, i64)], own_name: Option<&str>) -> ReplicationStates {
        let sources = sources.iter().map(|(name, last_txn_id, last_timestamp_millis)| {
            (
                name.parse().unwrap(),
                ReplicationPosition {
                    last_txn_id: *last_txn_id,
                    last_timestamp_millis: *last_timestamp_millis,
                },
            )
        });
        ReplicationStates { sources: sources.collect(), own_name: own_name.map(Into::into) }
    }

    #[test]
    fn json_form() {
        #[track_caller]
        fn check(json: &str, expected: Result<ReplicationStates, &str>) {
            let parsed = ReplicationStates::from_json(json.as_bytes());
            assert_eq!(
                parsed.as_ref().map_err(|error| error.to_string()),
                expected.as_ref().map_err(|text| (*text).into())
            );
            if let Ok(states) = parsed {
                assert_eq!(ReplicationStates::from_json(states.to_json().as_bytes()), Ok(states));
            }
        }
        check("{}", Ok(ReplicationStates::default()));
        check(r#"{"ownName":null,"other":1}"#, Ok(ReplicationStates::default()));
        check(
            r#"{"ownName":"s","replicationServerStates":{"1:a":{"lastTxnId":-1},"0:b":{"lastTimestamp":2}}}"#,
            Ok(states(&[("1:a", -1, 0), ("0:b", 0, 2)], Some("s"))),
        );
        check("[]", Err("expected an object, found an array"));
        check("{", Err("EOF while parsing an object at line 1 column 1"));
        check(r#"{"ownName":1}"#, Err("ownName: expected a string, found 1"));
        let inner = |inner: &str| std::format!(r#"{{"replicationServerStates":{inner}}}"#);
        check(&inner("[]"), Err("replicationServerStates: expected an object, found an array"));
        check(&inner(r#"{"0:a":3}"#), Err("replicationServerStates.0:a: expected an object, found 3"));
        check(&inner(r#"{"a":{}}"#), Err("replicationServerStates.a: invalid queue name: missing `:`"));
        check(
            &inner(r#"{"0:a":{"lastTxnId":"x"}}"#),
            Err("replicationServerStates.0:a.lastTxnId: expected an integer, found \"x\""),
        );
    }

    #[test]
    fn text_form() {
        #[track_caller]
        fn check(text: &str, expected: Result<ReplicationStates, &str>) {
            let parsed = ReplicationStates::from_stream_table(text, Some("own".into()));
            assert_eq!(
                parsed.as_ref().map_err(|error| error.to_string()),
                expected.as_ref().map_err(|text| (*text).into())
            );
            if let Ok(states) = parsed {
                let text = states.to_stream_table().unwrap();
                assert_eq!(ReplicationStates::from_stream_table(&text, Some("own".into())), Ok(states));
            }
        }
        check("{ }", Ok(states(&[], Some("own"))));
        check(
            r#"{ "1:0.NA/10" = ( { "last_txn_id" = "5" "last_timestamp" = "6" } { } { "last_txn_id" = "7" } )
                "own" = ( { "last_txn_id" = "8" } ) }"#,
            Ok(states(&[("0:1:0.NA/10", 5, 6), ("2:1:0.NA/10", 7, -1)], Some("own"))),
        );
        check("{ a = b }", Err("site `a`: expected a vector"));
        check("{ a = ( b ) }", Err("site `a`: expected a table per server"));
        check("{ a = ( { last_txn_id = x } ) }", Err("site `a`: expected a number"));
        check("{ a = ( { last_txn_id = ( ) } ) }", Err("site `a`: expected a number"));
        check("{ a = ( ", Err("unexpected end, expected a value or `)`"));
    }

    /// The output is bounded even for many sites whose last server has a high index.
    #[test]
    fn long_vectors() {
        let single = states(&[("65535:a", 1, 2)], None);
        assert_eq!(
            ReplicationStates::from_stream_table(&single.to_stream_table().unwrap(), None),
            Ok(single)
        );
        let mut many = ReplicationStates::default();
        for site in 0..1000 {
            many.sources.insert(
                QueueName { site: std::format!("{site}"), server: 65535 },
                ReplicationPosition::START,
            );
        }
        assert!(matches!(
            many.to_stream_table(),
            Err(ReplicationStatesError::Text(StreamTableError::TooLong { .. }))
        ));
    }

    #[test]
    fn positions() {
        let states = states(&[("0:a", 5, 6)], Some("b"));
        let source = |name: &str| name.parse::<QueueName>().unwrap();
        assert_eq!(states.position(&source("0:a")).last_txn_id, 5);
        assert_eq!(states.position(&source("1:a")), ReplicationPosition::START);
        assert!(states.is_own_site(&source("3:b")) && !states.is_own_site(&source("0:a")));
        assert_eq!(
            ReplicationPosition::START.start(),
            ReplicationStart::AfterTransaction { id: u64::MAX, last_query_millis: u64::MAX }
        );
    }
}
