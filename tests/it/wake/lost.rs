//! Followers whose store goes away: they are told to look when it is back, and hear again.

use anyhow::{Context, Result, ensure};
use hermod_core::{Place, key};
use hermod_tests::server::{Cluster, Redis, Sentinel};

use super::{PARTITIONS, PATIENCE, Post, is_silent, open, until_look};
use crate::outage::cluster::{ask, migrate};
use crate::outage::until;

/// The slot of a partition's channel.
fn slot(post: &Post, partition: u16, port: u16) -> Result<u16> {
    ask(port, &["CLUSTER", "KEYSLOT", &key::wake(&Place { space: post.space.clone(), partition }, &post.queue)])
}

/// A partition of the first shard.
fn of_the_first_shard(post: &Post, port: u16) -> Result<u16> {
    let is_there = |partition: &u16| slot(post, *partition, port).is_ok_and(|slot| slot <= 5460);
    (0..PARTITIONS).find(is_there).context("64 partitions are spread over all shards")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_killed() -> Result<()> {
    let (redis, cluster) = (Redis::start()?, Cluster::start()?);
    for (url, ports) in [(redis.url(), vec![redis.port()]), (cluster.url(), cluster.primaries()?)] {
        let mut post = Post::open(&url).await?;
        let (mut one, mut other) = (post.follow_now().await?, post.follow_now().await?);
        for round in 0..3 {
            for port in &ports {
                let killed: usize = ask(*port, &["CLIENT", "KILL", "TYPE", "pubsub"])?;
                ensure!(killed == 1, "{url}: {killed} connections on {port}");
                until_look(&mut one).await?;
                until_look(&mut other).await?;
                // The other nodes' have never been away, and this one's stand again.
                for partition in [round, 20 + round, 40 + round, 60 + round] {
                    post.ensure_heard(&mut one, partition).await?;
                }
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_stopped_and_started_again() -> Result<()> {
    let mut redis = Redis::start()?;
    let mut post = Post::open(&redis.url()).await?;
    let mut follow = post.follow_now().await?;
    for _ in 0..2 {
        redis.stop()?;
        // Who comes meanwhile is no worse off.
        let mut late = post.follow();
        redis.restart()?;
        until_look(&mut follow).await?;
        until_look(&mut late).await?;
        post.ensure_heard(&mut follow, 9).await?;
        post.ensure_heard(&mut late, 9).await?;
    }
    redis.stop()?;
    let mut early = Post::open(&redis.url()).await?;
    let mut follow = early.follow();
    ensure!(is_silent(&mut follow).await, "there is nothing to look at");
    redis.restart()?;
    until_look(&mut follow).await?;
    early.ensure_heard(&mut follow, 9).await
}

/// The login of the address is used, and what is refused is asked for until it is granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_counts_for_wake_ups_too() -> Result<()> {
    let redis = Redis::start()?;
    redis.ask::<()>(&["ACL", "SETUSER", "ann", "on", ">ge heim", "~*", "resetchannels", "+@all"])?;
    let mut post = Post::open(&format!("{}/3", redis.url())).await?;
    post.follower = open(&format!("redis://ann:ge%20heim@127.0.0.1:{}/3", redis.port())).await?;
    let mut follow = post.follow();
    let refused = async || redis.ask::<String>(&["INFO", "errorstats"]).is_ok_and(|seen| seen.contains("errorstat_NOPERM:"));
    until(PATIENCE, "the refusal", refused).await?;
    ensure!(is_silent(&mut follow).await && post.channels(&[redis.port()])? == 0);
    redis.ask::<()>(&["ACL", "SETUSER", "ann", "&hm:*"])?;
    until_look(&mut follow).await?;
    let clients: String = redis.ask(&["CLIENT", "LIST", "TYPE", "pubsub"])?;
    ensure!(clients.lines().count() == 1 && clients.contains(" user=ann ") && clients.contains(" db=3 "), "{clients}");
    post.ensure_heard(&mut follow, 9).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_name_another_primary() -> Result<()> {
    let mut sentinel = Sentinel::start()?;
    let mut post = Post::open(&sentinel.url()).await?;
    let mut follow = post.follow_now().await?;
    post.ensure_heard(&mut follow, 9).await?;
    sentinel.kill_primary()?;
    until_look(&mut follow).await?;
    post.ensure_heard(&mut follow, 9).await?;
    ensure!(post.channels(&[sentinel.primary()?])? == usize::from(PARTITIONS));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clusters_primary_is_killed() -> Result<()> {
    lose_a_primary(|cluster| cluster.kill_primary(0), Cluster::restart).await
}

/// A node that says nothing is as good as lost, though its connection is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clusters_primary_is_paused() -> Result<()> {
    let pause = |cluster: &mut Cluster| {
        let port = cluster.primaries()?[0];
        cluster.pause(port).map(|()| port)
    };
    lose_a_primary(pause, Cluster::resume).await
}

/// Wake-ups of the other shards go on; those of the lost one are back after its failover.
async fn lose_a_primary(
    lose: impl FnOnce(&mut Cluster) -> Result<u16>,
    restore: impl FnOnce(&mut Cluster, u16) -> Result<()>,
) -> Result<()> {
    let mut cluster = Cluster::start()?;
    let primaries = cluster.primaries()?;
    let mut post = Post::open(&cluster.url()).await?;
    let lost = of_the_first_shard(&post, primaries[0])?;
    let kept = (0..PARTITIONS).find(|partition| slot(&post, *partition, primaries[0]).is_ok_and(|slot| slot > 5460)).context("another")?;
    let mut follow = post.follow_now().await?;
    post.ensure_heard(&mut follow, lost).await?;
    let port = lose(&mut cluster)?;
    let wake = post.push_sooner(kept).await?;
    ensure!(super::next(&mut follow).await? == wake, "another shard's wake-ups do not go on");
    until_look(&mut follow).await?;
    post.ensure_heard(&mut follow, lost).await?;
    // A server that comes now, with the address of all nodes, has no more to do.
    let mut beside = Post { follower: open(&cluster.url()).await?, pusher: post.pusher.clone(), queue: post.queue.clone(), ..post };
    let mut late = beside.follow_now().await?;
    beside.ensure_heard(&mut late, lost).await?;
    restore(&mut cluster, port)?;
    beside.ensure_heard(&mut late, lost).await?;
    beside.ensure_heard(&mut late, kept).await
}

/// A slot goes to another primary: its old one says so, and the new one is listened to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves() -> Result<()> {
    let cluster = Cluster::start()?;
    let primaries = cluster.primaries()?;
    let mut post = Post::open(&cluster.url()).await?;
    let mut follow = post.follow_now().await?;
    let (source, target) = (primaries[0], primaries[1]);
    let partition = of_the_first_shard(&post, source)?;
    let number = slot(&post, partition, source)?.to_string();
    post.ensure_heard(&mut follow, partition).await?;
    for (from, to) in [(source, target), (target, source)] {
        let (from_id, to_id): (String, String) = (ask(from, &["CLUSTER", "MYID"])?, ask(to, &["CLUSTER", "MYID"])?);
        ask::<()>(to, &["CLUSTER", "SETSLOT", &number, "IMPORTING", &from_id])?;
        ask::<()>(from, &["CLUSTER", "SETSLOT", &number, "MIGRATING", &to_id])?;
        let keys: Vec<String> = ask(from, &["CLUSTER", "GETKEYSINSLOT", &number, "1000"])?;
        migrate(from, to, &keys)?;
        for port in [to, from, primaries[2]] {
            ask::<()>(port, &["CLUSTER", "SETSLOT", &number, "NODE", &to_id])?;
        }
        until_look(&mut follow).await?;
        // To look may come for the other channels of the node first.
        let channel = key::wake(&Place { space: post.space.clone(), partition }, &post.queue);
        let is_there = async || ask::<(String, u32)>(to, &["PUBSUB", "SHARDNUMSUB", &channel]).is_ok_and(|(_, count)| count == 1);
        until(PATIENCE, "the channel to be subscribed to where it is now", is_there).await?;
        post.ensure_heard(&mut follow, partition).await?;
    }
    // Those that did not move are subscribed to again one after the other.
    let are_all_there = async || post.channels(&primaries).is_ok_and(|count| count == usize::from(PARTITIONS));
    until(PATIENCE, "every channel to be subscribed to once", are_all_there).await
}
