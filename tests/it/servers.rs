//! The guards over real servers do what the other tests rely on, and leave nothing behind.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermod_tests::server::{Cluster, Hermod, MariaDb, Postgres, Redis, Sentinel, is_alive};
use hermod_tests::{unique, until};
use redis::Commands;

const SOON: Duration = Duration::from_secs(60);
/// Names the guard that [`orphan_maker`] starts. It is unset when the tests run.
const MAKE_ORPHANS_OF: &str = "HERMOD_TESTS_MAKE_ORPHANS_OF";

#[test]
fn redis_is_killed_and_restarted_on_its_port() -> Result<()> {
    let mut redis = Redis::start()?;
    let (port, pid) = (redis.port(), redis.pid());
    redis.ask::<()>(&["SET", "a", "1"])?;
    redis.stop()?;
    ensure!(!is_alive(pid) && !redis.is_running());
    assert!(redis.connection().is_err(), "nobody listens on a stopped server's port");
    redis.restart()?;
    assert_eq!(redis.port(), port);
    assert_eq!(redis.ask::<Option<String>>(&["GET", "a"])?, None, "without a file, memory is all there was");
    Ok(())
}

#[test]
fn redis_with_a_file_loses_nothing_it_answered() -> Result<()> {
    let mut redis = Redis::options().appendonly().start()?;
    let mut connection = redis.connection()?;
    for n in 0..1000 {
        connection.set::<_, _, ()>(format!("k{n}"), n)?;
    }
    redis.restart()?;
    assert_eq!(redis.ask::<u32>(&["DBSIZE"])?, 1000);
    Ok(())
}

#[test]
fn redis_is_paused_and_resumed() -> Result<()> {
    let mut redis = Redis::start()?;
    let mut connection = redis.connection()?;
    connection.set_read_timeout(Some(Duration::from_millis(200)))?;
    redis.pause()?;
    assert!(redis::cmd("PING").query::<String>(&mut connection).is_err(), "a paused server does not answer");
    redis.resume()?;
    assert_eq!(redis.ask::<String>(&["PING"])?, "PONG");
    redis.pause()?;
    Ok(())
}

#[test]
fn redis_takes_settings_and_follows() -> Result<()> {
    let primary = Redis::options().maxmemory("10mb", "allkeys-lru").start()?;
    assert_eq!(primary.field(&["INFO", "memory"], "maxmemory")?, "10485760");
    assert_eq!(primary.field(&["INFO", "memory"], "maxmemory_policy")?, "allkeys-lru");
    primary.ask::<()>(&["SET", "a", "1"])?;
    let replica = Redis::options().replica_of(primary.port()).start()?;
    assert_eq!(replica.ask::<String>(&["GET", "a"])?, "1");
    assert_eq!(primary.ask::<u32>(&["WAIT", "1", "5000"])?, 1);
    Ok(())
}

/// One key for each of some hundred slots, on all three shards.
fn keys() -> Vec<String> {
    (0..300).map(|n| format!("key-{n}")).collect()
}

#[test]
fn a_cluster_answers_on_all_slots_after_a_failover() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let before = cluster.primaries()?;
    let client = redis::cluster::ClusterClient::new(cluster.node_urls())?;
    let mut connection = client.get_connection()?;
    for key in keys() {
        connection.set::<_, _, ()>(&key, &key)?;
    }
    // Copies are made after the answer. Only what reached the replica may be asked for afterwards.
    for primary in &before {
        let client = redis::Client::open(format!("redis://127.0.0.1:{primary}"))?;
        assert_eq!(redis::cmd("WAIT").arg(1).arg(5000).query::<u32>(&mut client.get_connection()?)?, 1);
    }

    let killed = cluster.kill_primary(1)?;
    assert_eq!(before.get(1), Some(&killed));
    cluster.settle()?;
    let after = cluster.primaries()?;
    assert!(!after.contains(&killed), "{before:?} {after:?}");
    let mut connection = client.get_connection()?;
    for key in keys() {
        assert_eq!(connection.get::<_, String>(&key)?, key);
        connection.set::<_, _, ()>(&key, "new")?;
    }

    cluster.restart(killed)?;
    assert_eq!(cluster.primaries()?, after, "who was killed comes back as a replica");
    Ok(())
}

#[test]
fn sentinels_make_the_replica_the_primary() -> Result<()> {
    for sentinels in [1, 3] {
        let mut sentinel = Sentinel::start_with(sentinels)?;
        let killed = sentinel.kill_primary()?;
        sentinel.settle()?;
        let primary = sentinel.primary()?;
        assert_ne!(primary, killed);
        let client = redis::Client::open(format!("redis://127.0.0.1:{primary}"))?;
        client.get_connection()?.set::<_, _, ()>("a", 1)?;
        sentinel.restart(killed)?;
        let client = redis::Client::open(format!("redis://127.0.0.1:{killed}"))?;
        assert_eq!(client.get_connection()?.get::<_, u32>("a")?, 1);
    }
    Ok(())
}

#[test]
fn postgres_keeps_its_databases_when_killed() -> Result<()> {
    let mut postgres = Postgres::start()?;
    let url = postgres.database("one")?;
    assert!(url.ends_with("/one"), "{url}");
    assert!(postgres.database("one").is_err(), "it is there already");
    postgres.stop()?;
    assert!(postgres.run("SELECT 1").is_err());
    postgres.restart()?;
    assert_eq!(postgres.run("SELECT datname FROM pg_database WHERE datname = 'one'")?, "one");
    Ok(())
}

#[test]
fn mariadb_keeps_its_databases_when_killed() -> Result<()> {
    let mut mariadb = MariaDb::start()?;
    let url = mariadb.database("one")?;
    assert!(url.ends_with("/one"), "{url}");
    assert!(mariadb.database("one").is_err(), "it is there already");
    mariadb.stop()?;
    assert!(mariadb.run("SELECT 1").is_err());
    mariadb.restart()?;
    assert_eq!(mariadb.run("SHOW DATABASES LIKE 'one'")?, "one");
    Ok(())
}

#[test]
fn tests_share_servers_by_unique_names() -> Result<()> {
    let (one, two) = (Redis::shared()?, Redis::shared()?);
    assert_eq!(one.pid(), two.pid());
    assert_eq!(Cluster::shared()?.primaries()?.len(), 3);
    let urls = [Postgres::shared()?.database(&unique("it"))?, MariaDb::shared()?.database(&unique("it"))?];
    assert!(urls[0].starts_with("postgres://") && urls[1].starts_with("mysql://"), "{urls:?}");
    Ok(())
}

#[test]
fn hermod_is_the_real_binary() -> Result<()> {
    let mut hermod = Hermod::options("--version").start()?;
    ensure!(hermod.wait(SOON)?.success(), "{:?}", hermod.lines());
    Ok(())
}

/// Not a test of its own: [`nothing_outlives_a_killed_test_process`] runs it in a process it then kills.
#[test]
fn orphan_maker() -> Result<()> {
    let Ok(guard) = std::env::var(MAKE_ORPHANS_OF) else { return Ok(()) };
    // The guard is started on a thread that ends, as the thread of a test does that first asks for a shared server.
    let start = move || -> Result<Box<dyn std::any::Any + Send>> {
        Ok(match guard.as_str() {
            "redis" => {
                let mut redis = Redis::start()?;
                redis.pause()?;
                Box::new(redis)
            }
            "shared" => Box::new(Redis::shared()?),
            "cluster" => Box::new(Cluster::start()?),
            "sentinel" => Box::new(Sentinel::start()?),
            "postgres" => Box::new(Postgres::start()?),
            "mariadb" => Box::new(MariaDb::start()?),
            other => anyhow::bail!("no guard is called {other}"),
        })
    };
    let _guard = std::thread::spawn(start).join().expect("the thread did not panic")?;
    println!("\nready");
    std::thread::park_timeout(10 * SOON);
    Ok(())
}

#[test]
fn nothing_outlives_a_killed_test_process() -> Result<()> {
    let kill_after_start = |guard: &str| -> Result<()> {
        let mut test = Command::new(std::env::current_exe()?)
            .args(["--exact", "servers::orphan_maker", "--nocapture"])
            .env(MAKE_ORPHANS_OF, guard)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(test.stdout.take().context("stdout is piped")?);
        let ready = output.lines().map_while(Result::ok).any(|line| line == "ready");
        let servers = descendants(test.id());
        test.kill()?;
        test.wait()?;
        ensure!(ready && !servers.is_empty(), "{guard} did not start");
        until(SOON, format!("{guard} to be gone: {servers:?}"), || !servers.iter().any(|pid| is_alive(*pid)))
    };
    let guards = ["redis", "shared", "cluster", "sentinel", "postgres", "mariadb"];
    std::thread::scope(|scope| {
        let runs: Vec<_> = guards.iter().map(|guard| scope.spawn(|| kill_after_start(guard))).collect();
        runs.into_iter().try_for_each(|run| run.join().expect("the thread did not panic"))
    })
}

/// All processes below `pid`, found by asking `ps` so that the guards' own way of looking is not what judges them.
fn descendants(pid: u32) -> HashSet<u32> {
    let table = Command::new("ps").args(["-e", "-o", "pid=,ppid="]).output().expect("ps runs");
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let pairs: Vec<Vec<u32>> = table.lines().map(|line| line.split_whitespace().flat_map(str::parse).collect()).collect();
    let mut found = HashSet::new();
    loop {
        let below = pairs.iter().filter(|pair| pair[1] == pid || found.contains(&pair[1])).map(|pair| pair[0]);
        let grown: HashSet<u32> = below.collect();
        if grown.len() == found.len() {
            return found;
        }
        found = grown;
    }
}
