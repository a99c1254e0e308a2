//! Waiting for a condition, with a deadline: the only way a test waits for anything.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Short enough that no test is slowed by it, long enough to leave two cores to the servers waited for.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns as soon as `holds` does, or fails after `within`, naming `what` was waited for.
///
/// The condition is asked at least once, and a last time after the deadline, so that a machine that
/// stood still for a while does not make a test fail.
pub fn until(within: Duration, what: impl AsRef<str>, mut holds: impl FnMut() -> bool) -> Result<()> {
    let start = Instant::now();
    loop {
        let late = start.elapsed() >= within;
        if holds() {
            return Ok(());
        }
        if late {
            bail!("waited {within:?} in vain for {}", what.as_ref());
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_when_the_condition_holds() {
        let mut asked = 0;
        until(Duration::from_secs(5), "three questions", || {
            asked += 1;
            asked == 3
        })
        .expect("the condition came to hold");
        assert_eq!(asked, 3);
    }

    #[test]
    fn names_what_was_waited_for() {
        let error = until(Duration::from_millis(1), "the moon", || false).expect_err("it never holds");
        assert!(error.to_string().contains("the moon"), "{error}");
    }
}
