//! Free ports that stay free.
//!
//! Asking the kernel for any port gives one of the range from which it also takes the near end of
//! outgoing connections. While a test has its server down, such a connection may take the port, and a
//! client that tries again and again may even connect to itself. So ports are taken from below that range.
//!
//! A process takes whole blocks, each guarded by a locked file, so two test processes never use one
//! block, and hands out each port once, so a client of a dead server never meets the next test's server.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use super::folder;

/// Ports 11000 to 20999. A cluster node also needs the port 10000 above its own, up to 30999; Linux
/// starts outgoing connections at 32768.
const FIRST: u16 = 11_000;
const PER_BLOCK: u16 = 100;
const BLOCKS: u16 = 100;
const BUS_OFFSET: u16 = 10_000;
/// How often a server is started anew because a stranger took its port first.
const ATTEMPTS: usize = 5;

struct Block {
    next: u16,
    end: u16,
    /// Held, never read.
    _lock: File,
}

/// The blocks this process took; all stay locked while it lives, as their ports stay in use. The last one is handed out.
static TAKEN: Mutex<Vec<Block>> = Mutex::new(Vec::new());

/// A port of 127.0.0.1 on which nobody listens, nor on the one 10000 above it.
pub fn free_port() -> Result<u16> {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(block) = taken.last_mut() {
            while block.next < block.end {
                let port = block.next;
                block.next += 1;
                if is_free(port) && is_free(port + BUS_OFFSET) {
                    return Ok(port);
                }
            }
        }
        taken.push(take_block()?);
    }
}

/// What a server's start fails with when somebody else listens on its port.
#[derive(Debug)]
pub(super) struct PortTaken;

impl std::fmt::Display for PortTaken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the port is in use")
    }
}

impl std::error::Error for PortTaken {}

/// Runs `start` until it meets no [`PortTaken`]. It takes its ports anew each time.
pub(super) fn with_free_ports<T>(start: impl Fn() -> Result<T>) -> Result<T> {
    let mut attempt = 1;
    loop {
        match start() {
            Err(error) if attempt < ATTEMPTS && error.is::<PortTaken>() => attempt += 1,
            result => return result,
        }
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn take_block() -> Result<Block> {
    let folder = folder::common_root()?.join("ports");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    // Consecutive test processes begin at different blocks, so a straggler of the last run is not met.
    let begin = std::process::id() % u32::from(BLOCKS);
    let begin = u16::try_from(begin).unwrap_or(0);
    for step in 0..BLOCKS {
        let start = FIRST + (begin + step) % BLOCKS * PER_BLOCK;
        let lock = File::create(folder.join(start.to_string()))?;
        if lock.try_lock().is_ok() {
            return Ok(Block { next: start, end: start + PER_BLOCK, _lock: lock });
        }
    }
    bail!("all {BLOCKS} blocks of test ports are in use");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_each_port_once_across_blocks() {
        let mut ports: Vec<u16> = (0..150).map(|_| free_port().expect("a port")).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 150);
    }

    #[test]
    fn starts_again_when_the_port_was_taken() {
        let tries = std::cell::Cell::new(0);
        let start = || {
            tries.set(tries.get() + 1);
            if tries.get() < 3 { Err(anyhow::Error::new(PortTaken).context("a server")) } else { Ok(tries.get()) }
        };
        assert_eq!(with_free_ports(start).expect("the third try succeeds"), 3);
    }
}
