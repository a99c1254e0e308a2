//! The Redis engine: every operation is one call of a function, one round trip, one slot.
//!
//! One runner serves a single node, Sentinel and Cluster. Commands are pipelined over few
//! connections; one that waits for replicas has another for itself meanwhile. The link is watched by a task of its own: it connects when the store appears, and
//! again when it was lost, so that a server may start before its store does.
//!
//! A command whose connection is lost may or may not have run. On a single node it is not sent
//! again: the caller is told, and an idempotency key makes asking again safe. The cluster client
//! does send it again; a check without a key may then be charged twice, which never admits more
//! than the limit.

mod address;
mod batch;
mod connection;
mod fitness;
mod link;
mod wake;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ::redis::{Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value, cmd};
use hashbrown::HashMap;
use hermod_core::limit::records::{Records, Tag};
use hermod_core::{
    Micros, Once, Operation, Partitions, Place, QueueId, Reply, Script, ScriptCall, SpaceId, once, once::Returned, script::SCRIPTS,
};

use crate::clock::Clock;
use crate::error::{EngineError, OpenError};
use crate::{Durability, Ran};
pub use address::Address;
use batch::Batch;
use link::Link;
pub(crate) use wake::Follower;
use wake::Wakes;

/// A script that does nothing: what a call costs at the least.
const NOTHING: &str = "#!lua\nreturn '1'";
static TRIVIAL: LazyLock<::redis::Script> = LazyLock::new(|| ::redis::Script::new(NOTHING));

/// So often the functions are loaded for one call. Once is enough unless somebody throws them away meanwhile.
const LOAD_AGAIN_MAX: usize = 3;
/// So often an operation is asked again with the store's time. Twice is enough unless its clock jumps.
const ASK_AGAIN_MAX: usize = 4;

/// How a Redis engine is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the store is.
    pub address: Address,
    /// How many partitions; must not change later.
    pub partitions: Partitions,
    /// Where time comes from. The system's clock means each node's own.
    pub clock: Clock,
    /// How many replicas must have a durable change before it is answered.
    pub replicas: u32,
    /// How long an answer may take.
    pub timeout: Duration,
}

impl Options {
    /// The usual bounds, for this store.
    pub fn new(address: Address) -> Options {
        Options { address, partitions: Partitions::DEFAULT, clock: Clock::System, replicas: 0, timeout: Duration::from_secs(2) }
    }
}

/// State on Redis or Valkey. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Redis {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: Options,
    link: Link,
    wakes: Wakes,
    /// What each script is called on the store, by name.
    functions: HashMap<&'static str, String>,
    /// The operations that wait for a call, by script; none on a Cluster.
    batches: HashMap<&'static str, Arc<Batch>>,
}

impl Redis {
    /// Connects and checks that the store is fit for use. A store that cannot be reached is no
    /// error: the engine becomes ready when it appears.
    pub async fn open(options: Options) -> Result<Redis, OpenError> {
        let link = Link::open(&options).await?;
        let functions = SCRIPTS.iter().map(|script| (script.name, script.function())).collect();
        let batch = |script: &Script| (script.name, Arc::new(Batch::new(*script)));
        let is_cluster = options.address.is_cluster();
        let batches = SCRIPTS.iter().filter(|_| !is_cluster).map(batch).collect();
        let wakes = Wakes::new(&options);
        Ok(Redis { inner: Arc::new(Inner { options, link, wakes, functions, batches }) })
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> Partitions {
        self.inner.options.partitions
    }

    /// Whether operations can be answered now.
    pub fn ready(&self) -> Result<(), EngineError> {
        self.inner.link.connection().map(|_| ())
    }

    /// Follows a queue's wake-ups in all its partitions.
    pub(crate) fn follow(&self, space: &SpaceId, queue: &QueueId) -> Follower {
        self.inner.wakes.follow(space, queue)
    }

    /// Stops watching the store.
    pub fn close(&self) {
        self.inner.wakes.close();
        self.inner.link.close();
    }

    /// Runs one operation.
    pub async fn run<O: Operation>(&self, op: &O, once: Option<&Once>) -> Result<Ran<O::Answer>, EngineError> {
        let replicas = if op.is_durable() { self.inner.options.replicas } else { 0 };
        let mut about = self.inner.options.clock.now();
        for _ in 0..ASK_AGAIN_MAX {
            let call = once::call(op, once, about);
            let ran = match self.inner.batches.get(O::SCRIPT.name) {
                Some(batch) if replicas == 0 => batch.join(&self.inner, call).await.map(|reply| (reply, Durability::Memory)),
                _ => self.inner.call_one(&O::SCRIPT, call, replicas).await,
            };
            let (reply, durability) = ran.map_err(|fault| self.explain(&O::SCRIPT, fault))?;
            match once::answer(op, &reply)? {
                Returned::Outcome(outcome) => return Ok(Ran { outcome, durability }),
                // The store's clock is in another window of the calendar than ours.
                Returned::AskAgain(now) => about = now,
                Returned::Failed(why) => {
                    tracing::error!(script = O::SCRIPT.name, error = why, "a script failed");
                    return Err(EngineError::failed(why));
                }
            }
        }
        Err(EngineError::unavailable("the store's clock does not stand still long enough"))
    }

    /// What a fault means to the caller. The text goes to the log, never to the caller.
    fn explain(&self, script: &Script, fault: RedisError) -> EngineError {
        if fault.code() == Some("OOM") {
            return EngineError::Full;
        }
        if fault.is_io_error() || fault.is_timeout() || fault.is_connection_dropped() || fault.code() == Some("READONLY") {
            self.inner.link.doubt();
            return EngineError::caused("the connection failed", fault);
        }
        // A fault of ours, not the store's: it must not pass for an outage.
        if matches!(fault.kind(), ErrorKind::Server(ServerErrorKind::ResponseError)) && fault.to_string().contains("user_function") {
            tracing::error!(script = script.name, error = %fault, "a script failed");
            return EngineError::Script(Arc::new(fault));
        }
        EngineError::caused("the store could not answer", fault)
    }

    /// Runs a script that does nothing. For benchmarks: what a call costs at the least.
    pub async fn trivial(&self, place: &Place) -> Result<(), EngineError> {
        let fault = |e: RedisError| EngineError::caused("the store could not answer", e);
        let eval = |verb: &str, script: &str| cmd(verb).arg(script).arg(1).arg(format!("hm:{{{place}}}:nothing")).clone();
        let hash = TRIVIAL.get_hash();
        match self.inner.link.connection()?.next().send(&eval("EVALSHA", hash)).await {
            Err(missing) if missing.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.inner.link.connection()?.next().send(&eval("EVAL", NOTHING)).await.map(|_| ()).map_err(fault)
            }
            sent => sent.map(|_| ()).map_err(fault),
        }
    }

    /// Every key and value of a space; of a hash every field, of a set every member. For tests: it walks all
    /// keys of every node.
    pub async fn dump(&self, space: &SpaceId) -> Result<BTreeMap<String, String>, EngineError> {
        let lanes = self.inner.link.connection()?;
        let fault = |e: RedisError| EngineError::caused("the store could not be dumped", e);
        let mut out = BTreeMap::new();
        for key in lanes.next().keys(&hermod_core::key::all_of(space)).await.map_err(fault)? {
            let kind = lanes.next().send(cmd("TYPE").arg(&key)).await.map_err(fault)?;
            let command = match kind {
                Value::SimpleString(kind) if kind == "hash" => cmd("HGETALL").arg(&key).clone(),
                Value::SimpleString(kind) if kind == "zset" => cmd("ZRANGE").arg(&key).arg(0).arg(-1).arg("WITHSCORES").clone(),
                Value::SimpleString(kind) if kind == "stream" => cmd("XRANGE").arg(&key).arg("-").arg("+").clone(),
                _ => cmd("GET").arg(&key).clone(),
            };
            match lanes.next().send(&command).await.map_err(fault)? {
                Value::BulkString(bytes) => out.extend(hermod_core::key::shown_string(&key, &bytes)),
                Value::Array(items) => {
                    // Of a stream each item is an id and its fields: one field and its value.
                    for item in &items {
                        let Value::Array(entry) = item else { break };
                        let [Value::BulkString(id), Value::Array(fields)] = entry.as_slice() else { continue };
                        let Some(Value::BulkString(value)) = fields.get(1) else { continue };
                        out.insert(format!("{key} {}", String::from_utf8_lossy(id)), hermod_core::key::value_text(&key, value));
                    }
                    for pair in items.chunks(2) {
                        let [Value::BulkString(field), Value::BulkString(value)] = pair else { continue };
                        let is_set = command.args_iter().next() == Some(::redis::Arg::Simple(b"ZRANGE"));
                        out.extend(hermod_core::key::shown(&key, field, value, is_set));
                    }
                }
                _ => {}
            }
        }
        Ok(out)
    }

    /// Deletes a record by its name in a dump. For tests: what is stale may vanish at any time.
    pub async fn delete(&self, name: &str) -> Result<(), EngineError> {
        let lanes = self.inner.link.connection()?;
        let fault = |e: RedisError| EngineError::caused("the key could not be deleted", e);
        let mut command = cmd("DEL").arg(name).clone();
        if let Some((key, tag)) = name.rsplit_once(' ').filter(|_| name.contains("}:limit:")) {
            let Value::BulkString(bytes) = lanes.next().send(cmd("GET").arg(key)).await.map_err(fault)? else { return Ok(()) };
            command = match (Records::read(&bytes), Tag::parse(tag)) {
                (Some(records), _) if records.holds(tag) => cmd("SET").arg(key).arg(records.without(tag)).arg("KEEPTTL").clone(),
                (_, Some(tag)) => cmd("HDEL").arg(hermod_core::key::more(key)).arg(&tag.bytes()).clone(),
                _ => return Ok(()),
            };
        }
        lanes.next().send(&command).await.map(|_| ()).map_err(fault)
    }
}

impl Inner {
    async fn call_one(&self, script: &Script, call: ScriptCall, replicas: u32) -> Result<(Reply, Durability), RedisError> {
        let (mut replies, durability) = self.call(script, &[call], replicas).await?;
        replies.pop().map(|reply| (reply, durability)).ok_or_else(bad_reply)
    }

    /// Sends operations in one call; one reply each, but none for those after one that failed: they have not run.
    async fn call(&self, script: &Script, calls: &[ScriptCall], replicas: u32) -> Result<(Vec<Reply>, Durability), RedisError> {
        let function = self.functions.get(script.name).expect("every script is listed in SCRIPTS");
        let command = fcall(function, self.options.clock.given(), calls);
        let mut sent = self.send(&command, calls, replicas).await;
        for _ in 0..LOAD_AGAIN_MAX {
            // Somebody threw them away, or a node is new to its cluster.
            if !sent.as_ref().is_err_and(fitness::is_unknown_function) {
                break;
            }
            let lanes = self.link.connection().map_err(|_| not_connected())?;
            fitness::load(&mut lanes.next(), key_of(calls)).await?;
            sent = self.send(&command, calls, replicas).await;
        }
        let (replies, durability) = sent?;
        let is_cut = replies.len() < calls.len() && replies.last().is_some_and(Reply::is_failure);
        if is_cut || replies.len() == calls.len() { Ok((replies, durability)) } else { Err(bad_reply()) }
    }

    async fn send(&self, command: &Cmd, calls: &[ScriptCall], replicas: u32) -> Result<(Vec<Reply>, Durability), RedisError> {
        let lanes = self.link.connection().map_err(|_| not_connected())?;
        let key = key_of(calls);
        // A quarter of the time to get at a lane, one to wait, one to wait again where the functions were missing, one in reserve; more than
        // that only where they are missing again and again.
        let quarter = self.options.timeout / 4;
        let lane = if replicas > 0 { lanes.durable(key, quarter).await } else { None };
        // Whoever finds the lane taken by those who wait in vain does not, and says so.
        let Some(mut lane) = lane else {
            let reply = lanes.next().send(command).await?;
            return Ok((replies_of(reply)?, Durability::Memory));
        };
        let mut pipeline = Pipeline::new();
        pipeline.add_command(command.clone());
        // At least 1, as WAIT takes 0 for ever.
        pipeline.cmd("WAIT").arg(replicas).arg(u64::try_from(quarter.as_millis()).unwrap_or(u64::MAX).max(1));
        let mut values = lane.send_all(pipeline, key).await?.into_iter();
        let replies = replies_of(values.next().unwrap_or(Value::Nil))?;
        let reached = match values.next() {
            Some(Value::Int(n)) => u32::try_from(n).unwrap_or(0),
            _ => 0,
        };
        let durability = if reached == 0 { Durability::Memory } else { Durability::Replicas(reached) };
        Ok((replies, durability))
    }
}

/// A key of these operations, all of which are in one slot.
fn key_of(calls: &[ScriptCall]) -> &str {
    calls.first().and_then(|call| call.keys.first()).map_or("", String::as_str)
}

fn fcall(function: &str, now: Option<Micros>, calls: &[ScriptCall]) -> Cmd {
    let mut command = cmd("FCALL");
    command.arg(function).arg(calls.iter().map(|call| call.keys.len()).sum::<usize>());
    let mut onces = calls.iter().filter_map(ScriptCall::once_key);
    for key in onces.clone().chain(calls.iter().flat_map(ScriptCall::own_keys)) {
        command.arg(key);
    }
    let mut known = HashSet::with_capacity(calls.len());
    let few = |n: usize| u16::try_from(n).expect("a call holds few operations");
    let mut given = Vec::with_capacity(256);
    given.extend_from_slice(&few(onces.clone().count()).to_le_bytes());
    given.push(u8::from(!onces.all(|key| known.insert(key))));
    let mut shared: Vec<&[u8]> = Vec::new();
    for alike in calls.chunk_by(ScriptCall::is_like) {
        let Some(call) = alike.first() else { continue };
        let position = match shared.iter().position(|other| **other == *call.shared) {
            _ if call.shared.is_empty() => 0,
            Some(position) => position + 1,
            None => {
                shared.push(&call.shared);
                shared.len()
            }
        };
        call.write(few(alike.len()), few(position), &mut given);
    }
    command.arg(now.unwrap_or(Micros::ZERO).get()).arg(given);
    for argument in shared {
        command.arg(argument);
    }
    command
}

/// The script's time, then one reply for each operation.
fn replies_of(value: Value) -> Result<Vec<Reply>, RedisError> {
    match value {
        Value::Array(items) => {
            let mut items = items.into_iter().map(|item| match item {
                Value::BulkString(bytes) => Ok(bytes),
                Value::ServerError(fault) => Err(fault.into()),
                _ => Err(bad_reply()),
            });
            let head = items.next().unwrap_or_else(|| Err(bad_reply()))?;
            let (time, shape) = head.split_first_chunk().ok_or_else(bad_reply)?;
            let now = Micros::new(u64::from_le_bytes(*time)).ok_or_else(bad_reply)?;
            if shape.is_empty() {
                return items.map(|item| item.map(|bytes| Reply::at(now, bytes))).collect();
            }
            let all = items.next().unwrap_or_else(|| Err(bad_reply()))?;
            if items.next().is_some() {
                return Err(bad_reply());
            }
            // So many that are the same.
            if let Ok(many) = shape.try_into().map(u16::from_le_bytes) {
                return Ok(vec![Reply::at(now, all); usize::from(many)]);
            }
            // All of one length, together.
            let length = shape.try_into().map(u32::from_le_bytes).ok().and_then(|length| usize::try_from(length).ok());
            let length = length.filter(|length| *length > 0 && all.len() % length == 0).ok_or_else(bad_reply)?;
            Ok(all.chunks(length).map(|bytes| Reply::at(now, bytes.to_vec())).collect())
        }
        Value::ServerError(fault) => Err(fault.into()),
        _ => Err(bad_reply()),
    }
}

fn bad_reply() -> RedisError {
    RedisError::from((ErrorKind::UnexpectedReturnType, "a script replied what none of ours does"))
}

fn not_connected() -> RedisError {
    RedisError::from((ErrorKind::Io, "not connected"))
}
