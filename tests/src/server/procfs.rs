//! What `/proc` knows about processes: who lives, and who descends from whom.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// A process at one moment. A process id alone may be given again; with its start time it is one of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) pid: u32,
    parent: u32,
    /// In clock ticks since boot.
    started: u64,
    zombie: bool,
}

impl Seen {
    /// Whether this very process, not a later one of the same id, still runs.
    pub(super) fn is_alive(&self) -> bool {
        look(self.pid).is_some_and(|now| now.started == self.started && !now.zombie)
    }
}

/// Whether a process of this id runs. A zombie does not: it only waits for its parent to take notice.
pub fn is_alive(pid: u32) -> bool {
    look(pid).is_some_and(|seen| !seen.zombie)
}

/// All children of `pid`, their children, and so on. Without `pid` itself.
pub(super) fn descendants(pid: u32) -> Vec<Seen> {
    let all: Vec<Seen> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(look)
        .collect();
    let mut found: Vec<Seen> = Vec::new();
    let mut generation = vec![pid];
    while !generation.is_empty() {
        let children: Vec<Seen> = all.iter().filter(|seen| generation.contains(&seen.parent)).copied().collect();
        generation = children.iter().map(|seen| seen.pid).collect();
        found.extend(children);
    }
    found
}

/// The user this process runs as.
pub(super) fn user() -> u32 {
    fs::metadata("/proc/self").map(|me| me.uid()).unwrap_or(0)
}

fn look(pid: u32) -> Option<Seen> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads `pid (name) state ppid ...`. The name may hold spaces and parentheses, so reading starts after the last one.
fn parse(pid: u32, stat: &str) -> Option<Seen> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    // The start time is field 22 of the line; two fields before the name and two after it are behind us.
    let started = fields.nth(17)?.parse().ok()?;
    Some(Seen { pid, parent, started, zombie: matches!(state, "Z" | "X") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_name_with_spaces_and_parentheses() {
        let stat = "7 (a (b) c) S 3 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        assert_eq!(parse(7, stat), Some(Seen { pid: 7, parent: 3, started: 4242, zombie: false }));
    }

    #[test]
    fn sees_this_process_and_its_child() {
        let me = std::process::id();
        assert!(is_alive(me));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let seen = descendants(me).into_iter().find(|seen| seen.pid == child.id());
        child.kill().expect("the child can be killed");
        let zombie = look(child.id()).expect("the child is not yet waited for");
        child.wait().expect("the child ends");
        let seen = seen.expect("the child was found");
        assert_eq!((seen.parent, seen.started), (me, zombie.started));
        assert!(!seen.is_alive());
    }
}
