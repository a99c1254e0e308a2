//! The one thread that starts every child process.
//!
//! The kernel sends a child its parent-death signal when the *thread* that started it ends. A test runs
//! on a thread that ends with the test, while a shared server must outlive it; so all children are
//! started here, by a thread that lives as long as the process.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

struct Job {
    command: Command,
    started: Sender<io::Result<Child>>,
}

static KEEPER: OnceLock<Option<Sender<Job>>> = OnceLock::new();

/// Starts `command` on the keeper thread.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    let gone = || io::Error::other("the thread that starts child processes is gone");
    let jobs = KEEPER.get_or_init(keep).as_ref().ok_or_else(gone)?;
    let (started, child) = channel();
    jobs.send(Job { command, started }).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}

fn keep() -> Option<Sender<Job>> {
    let (jobs, inbox) = channel::<Job>();
    let work = move || {
        for mut job in inbox {
            let result = job.command.spawn();
            // If nobody waits for the child any more it is ended here: its owner could not be told of it.
            if let Err(unclaimed) = job.started.send(result)
                && let Ok(mut child) = unclaimed.0
            {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    };
    std::thread::Builder::new().name("keeper".into()).spawn(work).ok().map(|_| jobs)
}
