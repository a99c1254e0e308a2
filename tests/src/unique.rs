//! Names that no other test has.

use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(1);

/// A name that starts with `prefix` and is given once.
///
/// It is made of the prefix, letters, digits and `_`, so with a plain prefix it is a fit name for a space,
/// a queue and a SQL database alike. The process id is part of it because one Redis may be shared by a
/// test and by the Hermod processes it starts.
pub fn unique(prefix: &str) -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}_{:x}_{number}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_gives_a_name_twice() {
        assert_ne!(unique("space"), unique("space"));
    }
}
