//! The messages and calls of etcd's gRPC interface that this engine uses.
//!
//! The messages are written by hand after `rpc.proto` and `kv.proto` of etcd 3.4, so that a build
//! needs no `protoc`. A field that this engine does not use is left out: protobuf skips fields that
//! a message does not have, and sends none that is at its default.
//!
//! For example, [`Txn`] with one compare and one put is a conditional write.

use bytes::Bytes;
use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

/// Largest answer that this process accepts, in bytes. The largest answers are those to reads of
/// many long records.
const ANSWER_BYTES_MAX: usize = 1 << 30;

pub(crate) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(crate) const TXN: &str = "/etcdserverpb.KV/Txn";
pub(crate) const WATCH: &str = "/etcdserverpb.Watch/Watch";
pub(crate) const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
pub(crate) const STATUS: &str = "/etcdserverpb.Maintenance/Status";

/// The revision of the store at an answer, the member that answered, and its cluster.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct Header {
    #[prost(uint64, tag = "1")]
    pub(crate) cluster_id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) member_id: u64,
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
    /// The number of the term of the leader. Each election begins a new term.
    #[prost(uint64, tag = "4")]
    pub(crate) raft_term: u64,
}

/// An answer that has a header.
pub(crate) trait Answer: Message + Default + Send + Sync + 'static {
    /// Returns the header; `None` if the member sent none.
    fn header(&self) -> Option<Header>;
}

impl Answer for RangeAnswer {
    fn header(&self) -> Option<Header> {
        self.header
    }
}

impl Answer for TxnAnswer {
    fn header(&self) -> Option<Header> {
        self.header
    }
}

impl Answer for WatchAnswer {
    fn header(&self) -> Option<Header> {
        self.header
    }
}

impl Answer for StatusAnswer {
    fn header(&self) -> Option<Header> {
        self.header
    }
}

/// A key with its value, and the revision of its last change.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) value: Bytes,
}

/// Asks for one key, or for `key..end` in byte order.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Range {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) end: Bytes,
    /// Largest number of keys; 0 for all.
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    /// The revision to read at; 0 for the present one.
    #[prost(int64, tag = "4")]
    pub(crate) revision: i64,
    /// True if the member may answer without asking the leader, perhaps from an older revision.
    #[prost(bool, tag = "7")]
    pub(crate) serializable: bool,
    #[prost(bool, tag = "8")]
    pub(crate) keys_only: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct RangeAnswer {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Put {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) value: Bytes,
}

/// Deletes one key, or `key..end`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct DeleteRange {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) end: Bytes,
}

/// One step of a transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Step {
    #[prost(oneof = "StepKind", tags = "1, 2, 3")]
    pub(crate) kind: Option<StepKind>,
}

#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub(crate) enum StepKind {
    #[prost(message, tag = "1")]
    Range(Range),
    #[prost(message, tag = "2")]
    Put(Put),
    #[prost(message, tag = "3")]
    Delete(DeleteRange),
}

/// The answer to one step. Answers to puts and deletes have nothing that this engine needs.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct StepAnswer {
    #[prost(message, optional, tag = "1")]
    pub(crate) range: Option<RangeAnswer>,
}

/// A condition of a transaction on one key, or on each key of `key..end`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Compare {
    #[prost(enumeration = "Relation", tag = "1")]
    pub(crate) relation: i32,
    #[prost(enumeration = "Target", tag = "2")]
    pub(crate) target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) key: Bytes,
    #[prost(oneof = "Operand", tags = "5, 6, 7")]
    pub(crate) operand: Option<Operand>,
    #[prost(bytes = "bytes", tag = "64")]
    pub(crate) end: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum Relation {
    Equal = 0,
    Greater = 1,
    Less = 2,
}

/// The property of a key that a condition compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum Target {
    Version = 0,
    Create = 1,
    Mod = 2,
    Value = 3,
}

#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub(crate) enum Operand {
    #[prost(int64, tag = "5")]
    Create(i64),
    #[prost(int64, tag = "6")]
    Mod(i64),
    #[prost(bytes = "bytes", tag = "7")]
    Value(Bytes),
}

/// A transaction: if all conditions hold, the steps of `success` happen, else those of `failure`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Txn {
    #[prost(message, repeated, tag = "1")]
    pub(crate) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) success: Vec<Step>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) failure: Vec<Step>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct TxnAnswer {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(crate) answers: Vec<StepAnswer>,
}

/// Asks a member to report changes of one key from a revision on.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) create: Option<WatchCreate>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct WatchCreate {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(int64, tag = "3")]
    pub(crate) start_revision: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct WatchAnswer {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(bool, tag = "4")]
    pub(crate) canceled: bool,
    /// The oldest revision that is kept, if the member canceled because it has dropped changes.
    #[prost(int64, tag = "5")]
    pub(crate) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(crate) cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub(crate) events: Vec<Event>,
}

/// A put or a deletion of the watched key.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Event {
    /// 0 is a put and 1 a deletion.
    #[prost(int32, tag = "1")]
    pub(crate) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) kv: Option<KeyValue>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct StatusAnswer {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    /// Bytes of the database file.
    #[prost(int64, tag = "3")]
    pub(crate) db_bytes: i64,
    /// The id of the leader; 0 if the member knows none.
    #[prost(uint64, tag = "4")]
    pub(crate) leader: u64,
    /// Alarms and other errors, for example that the database has no space.
    #[prost(string, repeated, tag = "8")]
    pub(crate) errors: Vec<String>,
    /// Bytes of the database file that hold data.
    #[prost(int64, tag = "9")]
    pub(crate) db_bytes_in_use: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct AuthenticateAnswer {
    #[prost(string, tag = "2")]
    pub(crate) token: String,
}

/// Sends one request, and returns the answer to it.
pub(crate) async fn call<Q, A>(
    channel: Channel,
    path: &'static str,
    request: Request<Q>,
) -> Result<A, Status>
where
    Q: Message + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    let mut grpc = ready(channel).await?;
    let path = PathAndQuery::from_static(path);
    let answer = grpc.unary(request, path, ProstCodec::<Q, A>::default()).await?;
    Ok(answer.into_inner())
}

/// Opens a stream of changes. The stream of requests must not end while the changes are wanted.
pub(crate) async fn watch(
    channel: Channel,
    requests: Request<impl futures::Stream<Item = WatchRequest> + Send + 'static>,
) -> Result<tonic::Streaming<WatchAnswer>, Status> {
    let mut grpc = ready(channel).await?;
    let codec = ProstCodec::<WatchRequest, WatchAnswer>::default();
    let answers = grpc.streaming(requests, PathAndQuery::from_static(WATCH), codec).await?;
    Ok(answers.into_inner())
}

async fn ready(channel: Channel) -> Result<Grpc<Channel>, Status> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
    Ok(grpc)
}

impl Step {
    pub(crate) fn range(range: Range) -> Step {
        Step { kind: Some(StepKind::Range(range)) }
    }

    pub(crate) fn put(key: Bytes, value: Bytes) -> Step {
        Step { kind: Some(StepKind::Put(Put { key, value })) }
    }

    /// Returns the key that the step puts.
    pub(crate) fn put_key(&self) -> Option<&Bytes> {
        match &self.kind {
            Some(StepKind::Put(put)) => Some(&put.key),
            Some(StepKind::Range(_) | StepKind::Delete(_)) | None => None,
        }
    }

    /// Deletes `key..end`, or `key` alone if `end` is empty.
    pub(crate) fn delete(key: Bytes, end: Bytes) -> Step {
        Step { kind: Some(StepKind::Delete(DeleteRange { key, end })) }
    }
}

impl Range {
    /// Asks for one key.
    pub(crate) fn one(key: Bytes) -> Range {
        Range { key, ..Range::default() }
    }

    /// Asks for the first `limit` keys of `start..end`; 0 for all.
    pub(crate) fn between((key, end): (Bytes, Bytes), limit: i64) -> Range {
        Range { key, end, limit, ..Range::default() }
    }
}

impl Compare {
    fn on(key: Bytes, target: Target, relation: Relation, operand: Operand) -> Compare {
        Compare {
            relation: relation.into(),
            target: target.into(),
            key,
            operand: Some(operand),
            end: Bytes::new(),
        }
    }

    /// Holds if the key exists with exactly this value.
    pub(crate) fn value(key: Bytes, value: Bytes) -> Compare {
        Compare::on(key, Target::Value, Relation::Equal, Operand::Value(value))
    }

    /// Holds if the key does not exist.
    pub(crate) fn absent(key: Bytes) -> Compare {
        Compare::on(key, Target::Create, Relation::Equal, Operand::Create(0))
    }

    /// Holds if the key exists.
    pub(crate) fn present(key: Bytes) -> Compare {
        Compare::on(key, Target::Create, Relation::Greater, Operand::Create(0))
    }

    /// Holds if the last change of the key has this revision; 0 if the key does not exist.
    pub(crate) fn unchanged(key: Bytes, revision: i64) -> Compare {
        Compare::on(key, Target::Mod, Relation::Equal, Operand::Mod(revision))
    }

    /// Holds if no key exists in the range.
    pub(crate) fn empty((key, end): (Bytes, Bytes)) -> Compare {
        Compare { end, ..Compare::absent(key) }
    }

    /// Holds if no existing key of the range was changed after the revision. A deletion does not
    /// count as a change.
    pub(crate) fn none_after((key, end): (Bytes, Bytes), revision: i64) -> Compare {
        let operand = Operand::Mod(revision.saturating_add(1));
        Compare { end, ..Compare::on(key, Target::Mod, Relation::Less, operand) }
    }
}

impl TxnAnswer {
    pub(crate) fn revision(&self) -> i64 {
        self.header.map_or(0, |header| header.revision)
    }
}
