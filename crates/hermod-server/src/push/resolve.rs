//! Names to addresses, by way of the system's resolver.
//!
//! That resolver blocks a thread, and cannot be called off: a name whose servers do not answer may hold it for
//! half a minute after everybody has stopped waiting. So one look-up per name is under way at a time, shared
//! by all who ask meanwhile, and so many in all. Nothing is kept once it is answered; that is the
//! resolver's business, which knows how long an answer holds.

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// So many look-ups are under way at once; others wait, each within its own time-out.
const LOOKUPS_MAX: usize = 64;

/// `None`: the name could not be resolved.
type Found = Option<Arc<[IpAddr]>>;
type Lookup = Shared<BoxFuture<'static, Found>>;

/// The look-ups that are under way. Cheap to clone.
#[derive(Clone)]
pub(super) struct Lookups {
    places: Arc<Semaphore>,
    under_way: Arc<Mutex<HashMap<String, Lookup>>>,
}

impl Lookups {
    pub(super) fn new() -> Lookups {
        Lookups { places: Arc::new(Semaphore::new(LOOKUPS_MAX)), under_way: Arc::default() }
    }

    /// All addresses of `name`, in the order the system prefers.
    pub(super) async fn find(&self, name: &str) -> Found {
        let lookup = self.under_way.lock().entry(name.to_owned()).or_insert_with(|| self.begin(name.to_owned())).clone();
        lookup.await
    }

    fn begin(&self, name: String) -> Lookup {
        let (places, under_way) = (Arc::clone(&self.places), Arc::clone(&self.under_way));
        // A task of its own, because whoever asked first may stop waiting.
        let task = tokio::spawn(async move {
            let place = places.acquire_owned().await;
            let asked = name.clone();
            let blocking = tokio::task::spawn_blocking(move || {
                let _place = place;
                let found = (asked.as_str(), 0_u16).to_socket_addrs().ok()?;
                Some(found.map(|address| address.ip()).collect())
            });
            let found = blocking.await.ok().flatten();
            under_way.lock().remove(&name);
            found
        });
        async move { task.await.ok().flatten() }.boxed().shared()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_are_found_and_nothing_is_kept() {
        let lookups = Lookups::new();
        // Longer than a label may be, so that it is refused without asking anybody.
        let never = "x".repeat(64);
        let (one, other, none) = tokio::join!(lookups.find("localhost"), lookups.find("localhost"), lookups.find(&never));
        let found = one.unwrap();
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback));
        assert!(Arc::ptr_eq(&found, &other.unwrap()), "both were told by one look-up");
        assert_eq!(none, None);
        assert!(lookups.under_way.lock().is_empty());
    }
}
