//! All scripts as one library of Redis functions.
//!
//! A library is compiled and run once, when it is loaded; a call then runs no more than its function. A script for `EVAL` makes every
//! function and table of its text anew with each call, which took longer than what most operations do.
//!
//! The library is named after its own text, and its functions after it: servers of two versions can use one store, each its own.

use std::sync::LazyLock;

use xxhash_rust::xxh3::xxh3_64;

use crate::operation::Operation;

/// A function of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// Its name in logs and metrics, and its path under `src/`: `limit/check`.
    pub name: &'static str,
    /// So many operations share a call at most: it must not hold up the others for long.
    pub together: usize,
}

impl Script {
    /// What takes some tens of microseconds.
    pub const fn short(name: &'static str) -> Script {
        Script { name, together: 32 }
    }

    /// What reads or moves many things at once.
    pub const fn long(name: &'static str) -> Script {
        Script { name, together: 8 }
    }

    /// Its name on the store.
    pub fn function(self) -> String {
        format!("{}_{}", LIBRARY.name, self.name.replace('/', "_"))
    }
}

/// What a store has to load before it can be asked anything.
#[derive(Debug)]
pub struct Library {
    /// Its name on the store.
    pub name: String,
    single: String,
    cluster: String,
}

impl Library {
    /// The whole text, for a single node or for those of a Cluster: there a script touches no key but those it was sent for.
    pub fn text(&self, is_cluster: bool) -> &str {
        if is_cluster { &self.cluster } else { &self.single }
    }
}

/// The text of a file, by its path under `src/`.
macro_rules! lua {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/", $name, ".lua"))
    };
}

/// First what all share, then the families: of each what its operations share, and each operation with names of its own.
macro_rules! library {
    ([$($common:literal)*] $([$($shared:literal)*] { $($name:literal)* })*) => {
        concat!(
            $(lua!($common),)*
            $("do\n", $(lua!($shared),)* $("do\n", lua!($name), "end\n",)* "end\n",)*
        )
    };
}

const TEXT: &str = library! {
    ["operation" "limit/meter" "event/log"]
    ["limit/records" "limit/charge" "limit/reservations"] { "limit/check" "limit/reserve" "limit/settle" "limit/lease" "limit/reset" }
    ["pick/history"] { "pick/take" "pick/settle" "pick/subject" }
    ["queue/line" "queue/owners" "queue/tend"] {
        "queue/push" "queue/claim" "queue/settle" "queue/edit" "queue/list" "queue/stats" "queue/worker" "queue/recipient"
        "queue/workers" "queue/reply" "queue/forget"
    }
    [] { "realm/apply" "realm/ledger" "realm/board" "realm/due" "realm/survey" }
    [] { "event/read" }
};

/// The library.
pub static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let name = format!("hermod_{:016x}", xxh3_64(TEXT.as_bytes()));
    let text = |is_cluster: bool| format!("#!lua name={name}\nlocal PREFIX, IS_CLUSTER = '{name}_', {is_cluster}\n{TEXT}");
    let (single, cluster) = (text(false), text(true));
    Library { name, single, cluster }
});

/// Every operation's function, so that a runner can prepare for them.
pub const SCRIPTS: &[Script] = &[
    <crate::limit::Check>::SCRIPT,
    crate::limit::Lease::SCRIPT,
    crate::limit::Reset::SCRIPT,
    crate::limit::Reserve::SCRIPT,
    crate::limit::Settle::SCRIPT,
    crate::queue::push::Push::SCRIPT,
    crate::queue::Claim::SCRIPT,
    crate::queue::Settle::SCRIPT,
    crate::queue::Edit::SCRIPT,
    crate::queue::List::SCRIPT,
    crate::queue::Stats::SCRIPT,
    crate::queue::Staff::SCRIPT,
    crate::queue::Look::SCRIPT,
    crate::queue::Roll::SCRIPT,
    crate::queue::Fetch::SCRIPT,
    crate::queue::Forget::SCRIPT,
    crate::pick::Take::SCRIPT,
    crate::pick::Settle::SCRIPT,
    crate::pick::About::SCRIPT,
    crate::event::ReadEvents::SCRIPT,
    crate::realm::Apply::SCRIPT,
    crate::realm::ReadLedger::SCRIPT,
    crate::realm::ReadBoard::SCRIPT,
    crate::realm::ReadDue::SCRIPT,
    crate::realm::Survey::SCRIPT,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_function() {
        for script in SCRIPTS {
            let define = format!("\ndefine('{}', ", script.name.replace('/', "_"));
            assert_eq!(LIBRARY.text(false).matches(&define).count(), 1, "{}", script.name);
        }
        assert_eq!(LIBRARY.text(false).matches("\ndefine('").count(), SCRIPTS.len());
    }

    #[test]
    fn functions_are_named_after_the_text() {
        let check = <crate::limit::Check>::SCRIPT.function();
        assert!(check.starts_with(&LIBRARY.name) && check.ends_with("_limit_check"), "{check}");
        assert!(check.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{check}");
    }
}
