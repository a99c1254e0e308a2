//! Followers of a queue hear of a delivery without asking for it.
//!
//! One engine follows, another pushes, as two servers on one store would.

mod lost;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use hermod_core::queue::push::Push;
use hermod_core::queue::{Delivery, Due, Failing, Terms};
use hermod_core::{Micros, Outcome, Place, QueueId, SpaceId};
use hermod_engine::redis::{Address, Options};
use hermod_engine::{Engine, Follow, Redis, Wake};
use hermod_tests::server::{self, Cluster};
use hermod_tests::{EngineLane, Store, unique};

use crate::outage::cluster::ask;
use crate::outage::until;

/// How long anything may take on a busy machine; nobody waits for it unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);
/// How soon a wake-up is heard.
const SOON: Duration = Duration::from_millis(100);
/// Far ahead, so that nothing falls due while a test runs.
const LATER: Micros = Micros::saturating(4_000_000_000_000_000);
const PARTITIONS: u16 = 64;
const FAILING: Failing = Failing { max_attempts: 5, drops: false, drop_after: None };
/// So often a follower may be told to look while a store comes back in parts.
const LOOKS_MAX: usize = 5;

/// A queue in a space of its own, one engine that follows it and one that pushes.
struct Post {
    follower: Engine,
    pusher: Engine,
    space: SpaceId,
    queue: QueueId,
    /// The next delivery is due so much before [`LATER`], and before all others.
    sooner: u64,
}

pub(crate) async fn open(url: &str) -> Result<Engine> {
    Ok(Engine::Redis(Redis::open(Options::new(Address::parse(url)?)).await?))
}

impl Post {
    async fn open(url: &str) -> Result<Post> {
        let (follower, pusher) = (open(url).await?, open(url).await?);
        Ok(Post { follower, pusher, space: SpaceId::new(unique("wake"))?, queue: QueueId::new("mail")?, sooner: 0 })
    }

    fn follow(&self) -> Follow {
        self.follower.follow(&self.space, &self.queue)
    }

    /// Follows, and waits until it is told to look.
    async fn follow_now(&self) -> Result<Follow> {
        let mut follow = self.follow();
        ensure!(next(&mut follow).await? == Wake::Look, "to look comes first");
        Ok(follow)
    }

    /// Puts one delivery there.
    async fn push(&self, partition: u16, due: Micros) -> Result<()> {
        let place = Place { space: self.space.clone(), partition };
        let push = Push::new(place, self.queue.clone(), Terms::default(), FAILING, vec![Delivery::new(Due::At(due), false, "hello")]);
        let ran = self.pusher.run(&push, None).await?;
        ensure!(matches!(ran.outcome, Outcome::Done(_)), "{ran:?}");
        Ok(())
    }

    /// Puts one there that is due before all others, trying until the store takes it.
    async fn push_sooner(&mut self, partition: u16) -> Result<Wake> {
        let mut due = LATER;
        let pushed = async || {
            self.sooner += 1;
            due = Micros::saturating(LATER.get() - self.sooner);
            self.push(partition, due).await.is_ok()
        };
        until(PATIENCE, "the store to take a delivery", pushed).await?;
        Ok(Wake::At { partition, time: due, owner: Arc::from("") })
    }

    /// Pushes, and waits until it is heard. Who is told to look meanwhile has found it, so another is pushed.
    async fn ensure_heard(&mut self, follow: &mut Follow, partition: u16) -> Result<()> {
        for _ in 0..LOOKS_MAX {
            let wake = self.push_sooner(partition).await?;
            loop {
                match next(follow).await? {
                    Wake::Look => break,
                    told if told == wake => return Ok(()),
                    // A push whose answer was lost.
                    Wake::At { .. } | Wake::Replied { .. } => {}
                }
            }
        }
        bail!("told to look {LOOKS_MAX} times, and never when")
    }

    /// The channels of this queue that somebody is subscribed to on these nodes.
    fn channels(&self, ports: &[u16]) -> Result<usize> {
        self.channels_of(&self.queue, ports)
    }

    fn channels_of(&self, queue: &QueueId, ports: &[u16]) -> Result<usize> {
        let glob = format!("hm:{{{}/*}}:queue:{queue}:wake", self.space);
        let mut count = 0;
        for port in ports {
            count += ask::<Vec<String>>(*port, &["PUBSUB", "SHARDCHANNELS", &glob])?.len();
        }
        Ok(count)
    }
}

async fn next(follow: &mut Follow) -> Result<Wake> {
    match tokio::time::timeout(PATIENCE, follow.next()).await {
        Ok(wake) => Ok(wake),
        Err(_) => bail!("waited {PATIENCE:?} in vain for a wake-up"),
    }
}

/// Waits until the follower is told to look.
async fn until_look(follow: &mut Follow) -> Result<()> {
    while next(follow).await? != Wake::Look {}
    Ok(())
}

async fn is_silent(follow: &mut Follow) -> bool {
    let mut next = pin!(follow.next());
    poll_fn(|context| Poll::Ready(next.as_mut().poll(context).is_pending())).await
}

/// The addresses of the servers that these tests may share, and the ports that have the channels.
fn shared() -> Result<[(String, Vec<u16>); 2]> {
    let (redis, cluster) = (server::Redis::shared()?, Cluster::shared()?);
    Ok([(redis.url(), vec![redis.port()]), (cluster.url(), cluster.primaries()?)])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_wakes_a_follower_soon() -> Result<()> {
    for (url, _) in shared()? {
        let post = Post::open(&url).await?;
        let mut follow = post.follow_now().await?;
        let mut took = Vec::new();
        for partition in 0..PARTITIONS {
            let start = Instant::now();
            post.push(partition, LATER).await?;
            ensure!(next(&mut follow).await? == Wake::At { partition, time: LATER, owner: Arc::from("") });
            took.push(start.elapsed());
        }
        took.sort_unstable();
        let (quickest, median, slowest) = (took[0], took[took.len() / 2], took[took.len() - 1]);
        println!("{url}: from the push to its wake-up {quickest:?}, {median:?}, {slowest:?} (quickest, median, slowest)");
        ensure!(median < SOON, "{url}: half of all take more than {median:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_delivery_behind_an_earlier_one_wakes_nobody() -> Result<()> {
    let post = Post::open(&server::Redis::shared()?.url()).await?;
    let mut follow = post.follow_now().await?;
    let before = |us: u64| Micros::saturating(LATER.get() - us);
    post.push(5, before(10)).await?;
    ensure!(next(&mut follow).await? == Wake::At { partition: 5, time: before(10), owner: Arc::from("") });
    post.push(5, before(9)).await?;
    post.push(5, before(10)).await?;
    // What one node publishes comes in order, so the others would have come before this one.
    post.push(6, LATER).await?;
    ensure!(next(&mut follow).await? == Wake::At { partition: 6, time: LATER, owner: Arc::from("") });
    post.push(5, before(11)).await?;
    ensure!(next(&mut follow).await? == Wake::At { partition: 5, time: before(11), owner: Arc::from("") });
    ensure!(is_silent(&mut follow).await);
    Ok(())
}

/// All followers of a queue hear all of it, and nothing of another queue; also those who come later, and those who are slow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_follower_hears_its_queue() -> Result<()> {
    for (url, ports) in shared()? {
        let mut post = Post::open(&url).await?;
        let mut one = post.follow_now().await?;
        let mut other = post.follow_now().await?;
        let mut stranger = post.follower.follow(&post.space, &QueueId::new("parcels")?);
        until_look(&mut stranger).await?;
        ensure!(post.channels(&ports)? == usize::from(PARTITIONS), "one subscription for both");
        for partition in [0, 21, 42, 63] {
            let wake = post.push_sooner(partition).await?;
            ensure!(next(&mut one).await? == wake);
            ensure!(next(&mut other).await? == wake);
        }
        for _ in 0..1_000 {
            post.push_sooner(7).await?;
        }
        let wake = post.push_sooner(7).await?;
        while next(&mut one).await? != wake {}
        // Who was slow is told the earliest of a thousand; the last may come when it has just been told.
        let mut told = 1;
        while next(&mut other).await? != wake {
            told += 1;
        }
        ensure!(told <= 2, "{url}: a slow follower was told {told} times");
        ensure!(is_silent(&mut stranger).await, "{url}: another queue's follower was told");
    }
    Ok(())
}

/// Without a follower nothing is subscribed to; without any, nothing is connected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_follows_is_not_subscribed_to() -> Result<()> {
    let (redis, cluster) = (server::Redis::start()?, Cluster::start()?);
    for (url, ports) in [(redis.url(), vec![redis.port()]), (cluster.url(), cluster.primaries()?)] {
        let post = Post::open(&url).await?;
        let parcels = QueueId::new("parcels")?;
        let listeners = || -> Result<usize> {
            let lists = ports.iter().map(|port| ask::<String>(*port, &["CLIENT", "LIST", "TYPE", "pubsub"]));
            Ok(lists.collect::<Result<Vec<_>>>()?.iter().map(|list| list.lines().count()).sum())
        };
        ensure!(listeners()? == 0, "{url}: connected before somebody follows");
        let (one, other) = (post.follow_now().await?, post.follow_now().await?);
        let mut stranger = post.follower.follow(&post.space, &parcels);
        until_look(&mut stranger).await?;
        ensure!(listeners()? == ports.len(), "{url}: {} connections", listeners()?);
        drop(one);
        // The next command goes out after the end of a subscription would have.
        let third = post.follower.follow(&post.space, &QueueId::new("letters")?);
        until(PATIENCE, "another queue", async || {
            post.channels_of(&QueueId::new("letters").expect("a name"), &ports).is_ok_and(|n| n == 64)
        })
        .await?;
        ensure!(post.channels(&ports)? == usize::from(PARTITIONS), "{url}: one of two has gone, and the other is not subscribed");
        drop((other, third));
        until(PATIENCE, "the end of a subscription", async || post.channels(&ports).is_ok_and(|count| count == 0)).await?;
        ensure!(post.channels_of(&parcels, &ports)? == usize::from(PARTITIONS), "{url}: another queue's subscription ended too");
        // Who comes back is told to look again.
        let mut again = post.follow_now().await?;
        post.push(3, LATER).await?;
        ensure!(next(&mut again).await? == Wake::At { partition: 3, time: LATER, owner: Arc::from("") });
        drop((again, stranger));
        until(PATIENCE, "the connections to be closed", async || listeners().is_ok_and(|count| count == 0)).await?;
        ensure!(post.channels_of(&parcels, &ports)? == 0);
    }
    Ok(())
}

/// Queues that are left and followed again at once, over and over: each time to look, then to hear.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_followed_again_at_once() -> Result<()> {
    for (url, ports) in shared()? {
        let mut post = Post::open(&url).await?;
        let stays = post.follower.follow(&post.space, &QueueId::new("parcels")?);
        for round in 0..20_u16 {
            let mut follow = post.follow_now().await?;
            let wake = post.push_sooner(round).await?;
            ensure!(next(&mut follow).await? == wake, "{url}");
        }
        drop(stays);
        until(PATIENCE, "the end of all subscriptions", async || post.channels(&ports).is_ok_and(|count| count == 0)).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedded_engine_needs_no_wake_ups() -> Result<()> {
    let lane = EngineLane::open(Store::Embedded).await?;
    let (place, queue) = (Place { space: lane.space().clone(), partition: 1 }, QueueId::new("mail")?);
    let mut follow = lane.engine().follow(lane.space(), &queue);
    ensure!(is_silent(&mut follow).await);
    let push = Push::new(place, queue, Terms::default(), FAILING, vec![Delivery::new(Due::At(LATER), false, "hello")]);
    let ran = lane.engine().run(&push, None).await?;
    ensure!(matches!(&ran.outcome, Outcome::Done(pushed) if pushed.next == Some(LATER)), "its answer says when: {ran:?}");
    ensure!(is_silent(&mut follow).await);
    Ok(())
}
