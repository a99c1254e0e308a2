//! The planner and the native operation together, without an engine.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::history::Touched;
use super::message::Stamp;
use super::*;
use crate::chance::Seed;
use crate::id::{DeckId, MessageId, Subject};
use crate::int::Micros;

const MINUTE: u64 = 60_000_000;
/// 2026-01-10T12:00:00Z.
const NOON: u64 = 1_768_046_400_000_000;

fn us(n: u64) -> Micros {
    Micros::saturating(n)
}

fn deck(strategy: Strategy) -> Deck {
    Deck { strategy, subject_cap: None, ..Deck::new(DeckId::new("tips").unwrap()) }
}

fn messages(count: u32, change: impl Fn(&mut Message)) -> Vec<Message> {
    let make = |ordinal| {
        let mut message = Message { ordinal, ..Message::new(MessageId::new(format!("m{ordinal}")).unwrap(), "1") };
        change(&mut message);
        message
    };
    (0..count).map(make).collect()
}

fn offer(deck: &Deck, messages: &[Message], profile: &Profile, now: Micros) -> Arc<Offer> {
    let messages: Vec<_> = messages.iter().cloned().map(Arc::new).collect();
    let shelf = Shelf::new(Arc::new(deck.clone()), messages.into(), Arc::new([]));
    Arc::new(Offer::new(Arc::new(shelf), Vec::new(), &Subject::new("bot").unwrap(), &Arc::new(profile.clone()), now))
}

fn view(deck: &Deck, messages: &[Message]) -> View {
    View::new(offer(deck, messages, &Profile::default(), us(NOON)), History::default(), 0)
}

fn ask(seed: u64) -> Ask {
    Ask { seed: Seed::new(seed), lease: Micros::ZERO, number: seed, candidates: 24 }
}

/// Picks, and takes it in.
fn pick(view: &mut View, seed: u64, now: u64) -> Result<u32, Refusal> {
    let Ask { lease, .. } = ask(seed);
    pick_for(view, Ask { lease, ..ask(seed) }, now)
}

fn pick_for(view: &mut View, ask: Ask, now: u64) -> Result<u32, Refusal> {
    match view.plan(&ask, us(now)) {
        Planned::None(refusal) => Err(refusal),
        Planned::Plan(plan) => {
            let mut stored = view.history().clone();
            let Some(Taken::Picked(picked)) = stored.take(&plan, us(now), &mut Touched::default()) else { panic!("{plan:?}") };
            assert!(view.took(&plan, &picked) && view.is_indexed());
            assert_eq!(*view.history(), stored);
            // What is kept beside the history is as if it were made anew.
            let anew = View::new(Arc::clone(view.offer()), stored, 0);
            assert_eq!(format!("{:?}", anew.plan(&ask, us(now))), format!("{:?}", view.plan(&ask, us(now))));
            Ok(picked.ordinal)
        }
    }
}

#[test]
fn never_sent_is_random_and_uniform() {
    let view = view(&deck(Strategy::FreshLru), &messages(10, |_| {}));
    let mut firsts = [0_u32; 10];
    for seed in 0..20_000 {
        let Planned::Plan(plan) = view.plan(&ask(seed), us(NOON)) else { panic!("nothing") };
        assert_eq!(plan.candidates.iter().map(|one| one.ordinal).collect::<BTreeSet<_>>().len(), 10);
        firsts[usize::try_from(plan.candidates[0].ordinal).unwrap()] += 1;
    }
    // Chi-square with 9 degrees of freedom: 27.9 is the 0.1 % point.
    let chi: f64 = firsts.iter().map(|n| (f64::from(*n) - 2_000.0).powi(2) / 2_000.0).sum();
    assert!(chi < 27.9, "chi-square {chi}, {firsts:?}");
}

#[test]
fn weights_are_kept_to() {
    let mut all = messages(4, |_| {});
    all.iter_mut().zip([1, 2, 3, 4]).for_each(|(message, weight)| message.weight = weight);
    // One that outweighs all others by far is no reason to draw forever.
    for (heaviest, strategy) in [(4, Strategy::FreshLru), (4, Strategy::Weighted), (100_000, Strategy::Weighted)] {
        all[3].weight = heaviest;
        let total = f64::from(6 + heaviest);
        let view = view(&deck(strategy), &all);
        let mut firsts = [0_u32; 4];
        for seed in 0..20_000 {
            let Planned::Plan(plan) = view.plan(&ask(seed), us(NOON)) else { panic!("nothing") };
            assert_eq!(plan.candidates.len(), 4);
            firsts[usize::try_from(plan.candidates[0].ordinal).unwrap()] += 1;
        }
        for (n, message) in firsts.iter().zip(&all) {
            let expected = 20_000.0 * f64::from(message.weight) / total;
            assert!((f64::from(*n) - expected).abs() < 4.5 * expected.sqrt() + 1.0, "{firsts:?} of {heaviest}");
        }
    }
}

#[test]
fn all_are_sent_once_then_the_one_sent_longest_ago() {
    let mut view = view(&deck(Strategy::FreshLru), &messages(50, |_| {}));
    let first: Vec<u32> = (0..50).map(|n| pick(&mut view, n, NOON + n).unwrap()).collect();
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 50);
    let second: Vec<u32> = (50..100).map(|n| pick(&mut view, n, NOON + n).unwrap()).collect();
    assert_eq!(first, second);
}

#[test]
fn parallel_clients_with_one_stale_plan_pick_different_messages() {
    for cap in [None, Some(Cap::new(1, "1h", CapKind::Bucket).unwrap())] {
        let view = view(&deck(Strategy::FreshLru), &messages(40, |message| message.cap.clone_from(&cap)));
        let Planned::Plan(plan) = view.plan(&ask(7), us(NOON)) else { panic!("nothing") };
        let mut stored = History::default();
        let taken: BTreeSet<u32> = (0..24)
            .map(|n| match stored.take(&plan, us(NOON + n), &mut Touched::default()) {
                Some(Taken::Picked(picked)) => picked.ordinal,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(taken.len(), 24);
        assert_eq!(stored.take(&plan, us(NOON + 24), &mut Touched::default()), None, "all of it is gone: plan again");
    }
}

#[test]
fn priority_and_sequence_go_in_their_order() {
    let mut all = messages(30, |_| {});
    all.iter_mut().for_each(|message| message.priority = i32::try_from(message.ordinal % 3).unwrap());
    let mut view = view(&deck(Strategy::Priority), &all);
    for n in 0..10 {
        assert_eq!(pick(&mut view, n, NOON + n).unwrap() % 3, 2, "an old one of the highest goes before a new one");
    }
    let mut view = self::view(&deck(Strategy::Sequence), &messages(30, |_| {}));
    let sent: Vec<u32> = (0..60).map(|n| pick(&mut view, n, NOON + n).unwrap()).collect();
    assert_eq!(sent, (0..30).chain(0..30).collect::<Vec<_>>());
}

#[test]
fn none_says_why_and_when() {
    let capped = Cap::new(2, "10m", CapKind::Bucket).unwrap();
    let one_cap = |message: &mut Message| message.cap = Some(Cap::new(1, "1h", CapKind::Rolling).unwrap());
    let mut view = view(&Deck { subject_cap: Some(capped), ..deck(Strategy::FreshLru) }, &messages(1, one_cap));
    assert_eq!(pick(&mut view, 0, NOON), Ok(0));
    let refusal = pick(&mut view, 1, NOON + 1).unwrap_err();
    assert_eq!(refusal, Refusal { reason: Reason::MessageCap, retry_at: Some(us(NOON + 60 * MINUTE)) });
    // Refused one tick earlier, admitted at it.
    assert!(pick(&mut view, 2, NOON + 60 * MINUTE - 1).is_err());
    assert_eq!(pick(&mut view, 3, NOON + 60 * MINUTE), Ok(0));

    let mut view = self::view(&Deck::new(DeckId::new("tips").unwrap()), &messages(5, |_| {}));
    pick(&mut view, 0, NOON).unwrap();
    let refusal = pick(&mut view, 1, NOON + MINUTE).unwrap_err();
    assert_eq!(refusal, Refusal { reason: Reason::SubjectCap, retry_at: Some(us(NOON + 10 * MINUTE)) });
    pick(&mut view, 1, NOON + 10 * MINUTE).unwrap();

    let none = self::view(&deck(Strategy::FreshLru), &[]);
    assert_eq!(none.plan(&ask(0), us(NOON)), Planned::None(Refusal { reason: Reason::NoMessages, retry_at: None }));
    let later = messages(1, |message| message.starts_at = Some(Stamp(us(NOON + 7))));
    let later = self::view(&deck(Strategy::FreshLru), &later);
    assert_eq!(later.plan(&ask(0), us(NOON)), Planned::None(Refusal { reason: Reason::NoMessages, retry_at: Some(us(NOON + 7)) }));
}

#[test]
fn retry_at_looks_beyond_the_begin_and_the_end_of_messages() {
    let capped = Deck::new(DeckId::new("tips").unwrap());
    let at = |minutes: u64| us(NOON + minutes * MINUTE);
    let hourly = || Some(Cap::new(1, "1h", CapKind::Rolling).unwrap());
    // What begins before the subject's cap allows anything does not shorten the wait.
    let mut all = messages(2, |_| {});
    all[1].starts_at = Some(Stamp(at(5)));
    let mut view = view(&capped, &all);
    pick(&mut view, 0, NOON).unwrap();
    assert_eq!(pick(&mut view, 1, NOON).unwrap_err(), Refusal { reason: Reason::SubjectCap, retry_at: Some(at(10)) });
    // What ends before its cap is over is not waited for.
    for (starts, expected) in [(None, None), (Some(at(45)), Some(at(45)))] {
        let mut all = messages(2, |message| message.cap = hourly());
        all[0].ends_at = Some(Stamp(at(30)));
        (all[1].starts_at, all[1].active) = (starts.map(Stamp), starts.is_some());
        let mut view = self::view(&deck(Strategy::FreshLru), &all);
        pick(&mut view, 0, NOON).unwrap();
        assert_eq!(pick(&mut view, 1, NOON).unwrap_err(), Refusal { reason: Reason::MessageCap, retry_at: expected });
    }
    // What expires may free the subject before the message is free.
    let all = messages(1, |message| message.cap = Some(Cap::new(1, "10m", CapKind::Bucket).unwrap()));
    let daily = Deck { subject_cap: Some(Cap::new(2, "1day", CapKind::Rolling).unwrap()), ..deck(Strategy::FreshLru) };
    let mut view = self::view(&daily, &all);
    pick_for(&mut view, Ask { lease: us(13 * MINUTE), ..ask(0) }, NOON).unwrap();
    pick(&mut view, 1, NOON + 10 * MINUTE).unwrap();
    assert_eq!(pick(&mut view, 2, NOON + 10 * MINUTE).unwrap_err(), Refusal { reason: Reason::SubjectCap, retry_at: Some(at(20)) });
}

#[test]
fn quiet_and_mute_let_only_critical_messages_pass() {
    let hour = 60 * MINUTE;
    let deck = Deck { quiet_hours: Some(Quiet::new("11:00", "14:00").unwrap()), ..deck(Strategy::FreshLru) };
    let mut all = messages(5, |_| {});
    let plan =
        |all: &[Message], profile: &Profile| View::new(offer(&deck, all, profile, us(NOON)), History::default(), 0).plan(&ask(1), us(NOON));
    let quiet = Refusal { reason: Reason::Quiet, retry_at: Some(us(NOON + 2 * hour)) };
    assert_eq!(plan(&all, &Profile::default()), Planned::None(quiet));
    let muted = Profile { mute_until: Some(Stamp(us(NOON + hour))), ..Profile::default() };
    assert_eq!(plan(&all, &muted), Planned::None(Refusal { reason: Reason::Muted, ..quiet }), "it is still quiet when the mute ends");
    let elsewhere = Profile { timezone: Some(Zone::new("Asia/Tokyo").unwrap()), ..Profile::default() };
    assert!(matches!(plan(&all, &elsewhere), Planned::Plan(_)));
    all[3].critical = true;
    for profile in [Profile::default(), muted] {
        let Planned::Plan(plan) = plan(&all, &profile) else { panic!("nothing") };
        assert_eq!(plan.candidates.iter().map(|one| one.ordinal).collect::<Vec<_>>(), [3]);
    }
}

#[test]
fn a_plan_does_not_hold_before_what_it_waited_for_is_over() {
    let hour = 60 * MINUTE;
    let quiet = Deck { quiet_hours: Some(Quiet::new("22:00", "12:00").unwrap()), ..deck(Strategy::FreshLru) };
    let muted = Profile { mute_until: Some(Stamp(us(NOON))), ..Profile::default() };
    let all = messages(5, |_| {});
    for (deck, profile) in [(&quiet, Profile::default()), (&deck(Strategy::FreshLru), muted.clone()), (&quiet, muted)] {
        // The offer was made hours before, and the clock of the store is behind.
        let view = View::new(offer(deck, &all, &profile, us(NOON - 4 * hour)), History::default(), 0);
        let Planned::Plan(plan) = view.plan(&ask(1), us(NOON)) else { panic!("nothing") };
        assert_eq!(History::default().take(&plan, us(NOON - 1), &mut Touched::default()), None);
        assert!(matches!(History::default().take(&plan, us(NOON), &mut Touched::default()), Some(Taken::Picked(_))));
    }
}

#[test]
fn a_cap_that_is_over_by_one_clock_only_is_not_forgotten() {
    let deck = Deck { history_max: 16, ..deck(Strategy::FreshLru) };
    let capped = |message: &mut Message| message.cap = Some(Cap::new(1, "1h", CapKind::Rolling).unwrap());
    let mut view = view(&deck, &messages(100, capped));
    for n in 0..90 {
        pick(&mut view, n, NOON).unwrap();
    }
    let Planned::Plan(plan) = view.plan(&ask(90), us(NOON + 60 * MINUTE)) else { panic!("nothing") };
    assert!(!plan.evict.is_empty());
    assert_eq!(view.history().clone().take(&plan, us(NOON + 60 * MINUTE - 1), &mut Touched::default()), None);
}

#[test]
fn only_what_is_for_the_subject_is_eligible() {
    use crate::id::Tag;
    let tag = |text: &str| Tag::new(text).unwrap();
    let mut all = messages(6, |_| {});
    all[0].active = false;
    all[1].to = Audience::Tags(vec![tag("vip"), tag("staff")]);
    all[2].when = Some(crate::limit::When::new("attributes.level > 3").unwrap());
    all[3].tags = vec![tag("ads")];
    all[4].ends_at = Some(Stamp(us(NOON)));
    let eligible = |profile: &Profile| -> BTreeSet<u32> {
        let view = View::new(offer(&deck(Strategy::FreshLru), &all, profile, us(NOON)), History::default(), 0);
        let Planned::Plan(plan) = view.plan(&ask(0), us(NOON)) else { panic!("nothing") };
        plan.candidates.iter().map(|one| one.ordinal).collect()
    };
    assert_eq!(eligible(&Profile::default()), [3, 5].into());
    let level = crate::limit::index::Attribute::Int(4);
    let attributes = crate::limit::index::Attributes([(String::from("level"), level)].into());
    let profile = Profile { tags: vec![tag("staff")], attributes, opt_out: vec![tag("ads")], ..Profile::default() };
    assert_eq!(eligible(&profile), [1, 2, 5].into());
}

#[test]
fn failed_send_is_refunded() {
    let cap = Cap::new(1, "1h", CapKind::Bucket).unwrap();
    let deck = Deck::new(DeckId::new("tips").unwrap());
    let offer = offer(&deck, &messages(1, |message| message.cap = Some(cap.clone())), &Profile::default(), us(NOON));
    let lease = us(MINUTE);
    for fate in [Fate::Nacked, Fate::Expired] {
        let mut view = View::new(Arc::clone(&offer), History::default(), 0);
        assert_eq!(pick_for(&mut view, Ask { lease, ..ask(7) }, NOON), Ok(0));
        assert_eq!(pick(&mut view, 1, NOON + 30_000_000).unwrap_err().reason, Reason::SubjectCap);
        let mut at = NOON + MINUTE;
        if fate == Fate::Nacked {
            at = NOON + 30_000_000;
            let mut history = view.history().clone();
            history.settle(7, fate, us(at), &mut Touched::default());
            assert_eq!((history.entries.len(), history.cap.clone()), (0, None));
            view = View::new(Arc::clone(&offer), history, 0);
        }
        assert_eq!(pick_for(&mut view, Ask { lease, ..ask(8) }, at), Ok(0), "{fate:?}");
    }
    // What was given back long after it had come back by itself forgives no later send.
    let mut view = View::new(offer, History::default(), 0);
    pick_for(&mut view, Ask { lease: us(180 * MINUTE), ..ask(7) }, NOON).unwrap();
    pick(&mut view, 8, NOON + 100 * MINUTE).unwrap();
    let mut history = view.history().clone();
    history.settle(7, Fate::Nacked, us(NOON + 101 * MINUTE), &mut Touched::default());
    let mut view = View::new(Arc::clone(view.offer()), history, 0);
    assert_eq!(pick(&mut view, 9, NOON + 101 * MINUTE).unwrap_err().reason, Reason::SubjectCap);
}

#[test]
fn what_is_given_back_of_a_bucket_is_what_has_not_dripped_back() {
    let cap = Some(Cap::new(5, "1h", CapKind::Bucket).unwrap());
    let mut view = view(&Deck { subject_cap: cap, ..deck(Strategy::FreshLru) }, &messages(9, |_| {}));
    for n in 0..5 {
        pick_for(&mut view, Ask { lease: us(120 * MINUTE), ..ask(n) }, NOON).unwrap();
    }
    // Half of it has: of five tokens two and a half. With the rest given back all five are there again.
    let mut history = view.history().clone();
    for n in 0..5 {
        history.settle(n, Fate::Nacked, us(NOON + 30 * MINUTE), &mut Touched::default());
    }
    assert_eq!(history.cap, None);
    // Given back but for the last: what is left of that one counts.
    let mut history = view.history().clone();
    for n in 0..4 {
        history.settle(n, Fate::Nacked, us(NOON + 30 * MINUTE), &mut Touched::default());
    }
    let mut view = View::new(Arc::clone(view.offer()), history, 0);
    for n in 10..14 {
        pick(&mut view, n, NOON + 30 * MINUTE).unwrap();
    }
    assert_eq!(pick(&mut view, 14, NOON + 30 * MINUTE).unwrap_err().reason, Reason::SubjectCap);
}

#[test]
fn long_histories_are_cut_back_and_nothing_counts_as_never_sent() {
    let deck = Deck { history_max: 16, ..deck(Strategy::FreshLru) };
    let mut view = view(&deck, &messages(300, |_| {}));
    let first: BTreeSet<u32> = (0..300).map(|n| pick(&mut view, n, NOON + n).unwrap()).collect();
    assert_eq!(first.len(), 300);
    assert!(view.history().entries.len() <= 16 + 64, "{}", view.history().entries.len());
    assert_eq!(view.history().all_old().count() + view.history().entries.len(), 300);
    // Those of which no more is known go before those sent of late.
    let mut sent: Vec<u32> = view.history().entries.keys().copied().collect();
    sent.sort_by_key(|ordinal| view.history().entries[ordinal].seq);
    for n in 300..700 {
        let picked = pick(&mut view, n, NOON + n).unwrap();
        assert!(!sent.iter().rev().take(16).any(|other| *other == picked), "{picked} of {sent:?}");
        sent.push(picked);
    }
}

#[test]
fn a_live_cap_is_never_forgotten() {
    let deck = Deck { history_max: 16, ..deck(Strategy::FreshLru) };
    let capped = |message: &mut Message| message.cap = Some(Cap::new(1, "1day", CapKind::Rolling).unwrap());
    let mut view = view(&deck, &messages(200, capped));
    let sent: BTreeSet<u32> = (0..200).map(|n| pick(&mut view, n, NOON + n).unwrap()).collect();
    assert_eq!(sent.len(), 200);
    let refusal = pick(&mut view, 200, NOON + 200).unwrap_err();
    assert_eq!(refusal, Refusal { reason: Reason::MessageCap, retry_at: Some(us(NOON + 24 * 60 * MINUTE)) });
}

#[test]
fn deleted_is_forgotten_and_deactivated_keeps_history() {
    let deck = deck(Strategy::FreshLru);
    let mut all = messages(3, |_| {});
    let mut view = view(&deck, &all);
    let order: Vec<u32> = (0..3).map(|n| pick(&mut view, n, NOON + n).unwrap()).collect();
    let again = |all: &[Message], tombstones: &[u32], view: &View| {
        let shelf = Shelf::new(Arc::new(deck.clone()), all.iter().cloned().map(Arc::new).collect(), tombstones.into());
        let offer = Offer::new(Arc::new(shelf), Vec::new(), &Subject::new("bot").unwrap(), &Arc::default(), us(NOON));
        View::new(Arc::new(offer), view.history().clone(), 0)
    };
    // The oldest is deactivated for a while, and goes on where it was.
    let oldest = usize::try_from(order[0]).unwrap();
    all[oldest].active = false;
    let mut view = again(&all, &[], &view);
    assert_eq!(pick(&mut view, 3, NOON + 3), Ok(order[1]));
    all[oldest].active = true;
    let mut view = again(&all, &[], &view);
    assert_eq!(pick(&mut view, 4, NOON + 4), Ok(order[0]));
    // It is deleted: the next pick drops it.
    let deleted = all.remove(oldest).ordinal;
    let mut view = again(&all, &[deleted], &view);
    assert!(view.history().entries.contains_key(&deleted));
    pick(&mut view, 5, NOON + 5).unwrap();
    assert!(!view.history().entries.contains_key(&deleted));
}

#[test]
fn no_double_burst_at_window_edge() {
    let capped = |message: &mut Message| message.cap = Some(Cap::new(3, "1m", CapKind::Bucket).unwrap());
    let mut view = view(&deck(Strategy::FreshLru), &messages(1, capped));
    // Three just before the turn of a minute; the seed's bucket was full again right after it.
    for n in 0..3 {
        assert!(pick(&mut view, n, NOON + MINUTE - 3 + n).is_ok());
    }
    let sent = (0..1_000).filter(|n| pick(&mut view, 10 + n, NOON + MINUTE + n * 10_000).is_ok()).count();
    assert_eq!(sent, 0, "ten seconds after the turn");
}

#[test]
fn a_simulation_goes_on_at_the_next_time_something_is_allowed() {
    let view = view(&Deck::new(DeckId::new("tips").unwrap()), &messages(5, |_| {}));
    let Simulated { picks, end } = view.simulate(Seed::new(1), 7, us(NOON));
    assert_eq!(end, None);
    let times: Vec<u64> = picks.iter().map(|(at, _)| (at.get() - NOON) / MINUTE).collect();
    assert_eq!(times, [0, 10, 20, 30, 40, 50, 60]);
    assert_eq!(picks.iter().take(5).map(|(_, message)| message.ordinal).collect::<BTreeSet<_>>().len(), 5);
    assert_eq!(*view.history(), History::default());
}

#[test]
fn a_simulation_goes_on_where_messages_begin_and_end() {
    let at = |minutes: u64| Some(Stamp(us(NOON + minutes * MINUTE)));
    let deck = Deck { strategy: Strategy::Sequence, ..Deck::new(DeckId::new("tips").unwrap()) };
    let mut all = messages(3, |_| {});
    (all[1].ends_at, all[2].starts_at) = (at(15), at(35));
    let told = |all: &[Message]| {
        let Simulated { picks, end } = view(&deck, all).simulate(Seed::new(1), 7, us(NOON));
        let picks = picks.iter().map(|(at, message)| ((at.get() - NOON) / MINUTE, message.ordinal));
        (picks.collect::<Vec<_>>(), end)
    };
    assert_eq!(told(&all), (vec![(0, 0), (10, 1), (20, 0), (30, 0), (40, 2), (50, 0), (60, 2)], None));
    // Where there is no more, it says so.
    all.iter_mut().for_each(|message| (message.starts_at, message.ends_at) = (None, at(15)));
    assert_eq!(told(&all), (vec![(0, 0), (10, 1)], Some(Refusal { reason: Reason::SubjectCap, retry_at: None })));
    all.iter_mut().for_each(|message| message.active = false);
    assert_eq!(told(&all), (Vec::new(), Some(Refusal { reason: Reason::NoMessages, retry_at: None })));
}
