//! Something to look at: a few rules, and subjects that run into them now and then.
//!
//! All of it goes through the client, like anybody's. The draws come from a seed, so that two runs
//! show the same.

use std::time::Duration;

use hermod_client::{CheckRequest, Client, ClientError, RuleDraft};

/// The action that is limited.
const ACTION: &str = "tasks/create";
/// Who acts. `vip` has a rule of its own.
const SUBJECTS: [&str; 4] = ["ada", "grace", "bot-7", "vip"];
/// The seed of the traffic if none is given.
const SEED: u64 = 7;

/// Makes the rules.
pub(super) async fn fill(client: &Client) -> Result<(), ClientError> {
    let burst = RuleDraft::new(ACTION, 3, "10s").name("burst");
    let daily = RuleDraft::new(ACTION, 250, "day").name("daily");
    let vip = RuleDraft::new(ACTION, 1000, "day").name("daily").subject("vip");
    for (id, rule) in [("demo-burst", burst), ("demo-daily", daily), ("demo-daily-vip", vip)] {
        client.rules().put(id, &rule).await?;
    }
    Ok(())
}

/// Asks once or twice a second, for as long as it is let.
pub(super) async fn traffic(client: Client, seed: Option<u64>) {
    let mut draws = Draws(seed.unwrap_or(SEED));
    loop {
        tokio::time::sleep(Duration::from_millis(500 + draws.below(500))).await;
        let drawn = draws.below(4);
        let subject = SUBJECTS.iter().zip(0..).find(|(_, place)| *place == drawn).map_or("ada", |(subject, _)| *subject);
        match client.limit().check(&CheckRequest::new(subject, ACTION)).await {
            Ok(checked) => tracing::debug!(subject, allowed = checked.allowed, "demo check"),
            Err(fault) => tracing::warn!(subject, %fault, "the demo check failed"),
        }
    }
}

/// SplitMix64, as everywhere in Hermod.
struct Draws(u64);

impl Draws {
    /// A number in `0..n`. Slightly uneven, which is of no matter for a demonstration.
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)).checked_rem(n).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_draws() {
        let draws = |seed: u64| {
            let mut draws = Draws(seed);
            (0..16).map(|_| draws.below(4)).collect::<Vec<_>>()
        };
        assert_eq!(draws(7), draws(7));
        assert_ne!(draws(7), draws(8));
        assert!(draws(7).iter().all(|draw| *draw < 4));
    }
}
