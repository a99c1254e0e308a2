//! Decks and messages are stored and followed; ordinals are dense and never used again; who is named is found.

use hermod_core::pick::{Audience, Cap, CapKind, Deck, Message, Quiet, Strategy, Zone, message::Stamp};
use hermod_core::{DeckId, MessageId, Micros, SpaceId, Subject, Tag};

use super::{SEEN_WITHIN, eventually, space};
use crate::{Catalog, CatalogError, CatalogOnce, DeckView};

pub(super) async fn all(a: &Catalog, b: &Catalog) {
    decks_are_saved_replaced_and_deleted(a).await;
    every_field_comes_back_as_it_was_saved(a).await;
    messages_are_saved_listed_and_deleted(a).await;
    ordinals_are_dense_and_never_used_again(a).await;
    many_are_created_together_or_not_at_all(a).await;
    a_deck_made_again_is_another_one(a).await;
    who_is_named_is_found_and_a_change_is_noticed(a, b).await;
    a_message_moves_between_everyone_and_named_subjects(a).await;
    many_subjects_are_named_at_once(a, b).await;
    a_replay_answers_the_same(a).await;
    decks_are_followed(a, b).await;
}

fn id(text: &str) -> DeckId {
    DeckId::new(text).unwrap()
}

fn deck(name: &str) -> Deck {
    Deck::new(id(name))
}

fn message(name: &str) -> Message {
    Message::new(message_id(name), r#"{"text":"Grüße"}"#)
}

fn message_id(name: &str) -> MessageId {
    MessageId::new(name).unwrap()
}

fn to(name: &str, subjects: &[&str]) -> Message {
    let subjects = subjects.iter().map(|subject| Subject::new(subject).unwrap()).collect();
    Message { to: Audience::Subjects(subjects), ..message(name) }
}

fn view(catalog: &Catalog, space: &SpaceId, name: &str) -> DeckView {
    DeckView::clone(&catalog.deck(space, &id(name)).unwrap())
}

/// The ids and ordinals of the messages that every server keeps.
fn everyones(catalog: &Catalog, space: &SpaceId, name: &str) -> Vec<(String, u32)> {
    let view = view(catalog, space, name);
    view.messages.iter().map(|message| (message.id.to_string(), message.ordinal)).collect()
}

/// The ids of the messages that name `subject`.
async fn own(catalog: &Catalog, space: &SpaceId, name: &str, subject: &str) -> Vec<String> {
    let view = view(catalog, space, name);
    let own = catalog.own_messages(space, &view, subject).await.unwrap();
    own.messages.iter().map(|message| message.id.to_string()).collect()
}

async fn decks_are_saved_replaced_and_deleted(a: &Catalog) {
    let space = space(a, "decks").await;
    let made = a.put_deck(&space, Deck { version: 7, epoch: 7, ..deck("tips") }, None).await.unwrap();
    assert!(made.created && !made.replayed);
    assert_eq!((made.value.version, made.value.epoch), (1, a.version()));
    let put = a.put_deck(&space, Deck { strategy: Strategy::Sequence, ..deck("tips") }, None).await.unwrap();
    assert!(!put.created);
    assert_eq!((put.value.version, put.value.epoch), (2, made.value.epoch));
    assert_eq!(*view(a, &space, "tips").deck, put.value);
    for name in ["b", "B", "Tips"] {
        a.put_deck(&space, deck(name), None).await.unwrap();
    }
    let names: Vec<String> = a.decks(&space).iter().map(|view| view.deck.id.to_string()).collect();
    assert_eq!(names, ["B", "Tips", "b", "tips"]);
    let refused = a.put_deck(&space, Deck { history_max: 1, ..deck("bad") }, None).await;
    assert!(matches!(refused, Err(CatalogError::Invalid(fault)) if fault.field == "history_max"));
    // Another space has its own.
    assert!(a.deck(&SpaceId::default_space(), &id("tips")).is_none());
    assert!(!a.delete_deck(&SpaceId::default_space(), &id("tips"), None).await.unwrap());
    assert!(a.delete_deck(&space, &id("tips"), None).await.unwrap());
    assert!(!a.delete_deck(&space, &id("tips"), None).await.unwrap());
    assert!(a.deck(&space, &id("tips")).is_none());
    let nowhere = SpaceId::new("nowhere").unwrap();
    assert!(matches!(a.put_deck(&nowhere, deck("tips"), None).await, Err(CatalogError::NotFound { what: "space", .. })));
}

async fn every_field_comes_back_as_it_was_saved(a: &Catalog) {
    let space = space(a, "deck-fields").await;
    let full = Deck {
        strategy: Strategy::Priority,
        subject_cap: None,
        quiet_hours: Some(Quiet::new("22:00", "08:00").unwrap()),
        timezone: Zone::new("Europe/Berlin").unwrap(),
        history_max: 17,
        ..deck("full")
    };
    let saved = a.put_deck(&space, full.clone(), None).await.unwrap().value;
    assert_eq!(saved, Deck { version: 1, epoch: saved.epoch, ..full });
    assert_eq!(*view(a, &space, "full").deck, saved);
    let stamp = |us| Some(Stamp(Micros::saturating(us)));
    let full = Message {
        to: Audience::Tags(vec![Tag::new("vip").unwrap()]),
        when: Some(hermod_core::limit::When::new("attributes.plan == 'pro'").unwrap()),
        weight: 9,
        priority: -3,
        active: false,
        starts_at: stamp(1),
        ends_at: stamp(u64::MAX >> 12),
        cap: Some(Cap::new(3, "day", CapKind::Calendar).unwrap()),
        tags: vec![Tag::new("news").unwrap()],
        critical: true,
        ..message("full")
    };
    let saved = a.put_message(&space, &id("full"), full.clone(), None).await.unwrap().value;
    assert_eq!(saved, Message { version: 1, ordinal: 0, ..full });
    assert_eq!(a.message(&space, &id("full"), &message_id("full")).await.unwrap(), Some(saved.clone()));
    assert_eq!(*view(a, &space, "full").messages[0], saved);
}

async fn messages_are_saved_listed_and_deleted(a: &Catalog) {
    let space = space(a, "messages").await;
    let tips = id("tips");
    let missing = a.put_message(&space, &tips, message("a"), None).await;
    assert!(matches!(missing, Err(CatalogError::NotFound { what: "deck", id }) if id == "tips"));
    assert!(matches!(a.messages(&space, &tips, None, 10).await, Err(CatalogError::NotFound { what: "deck", .. })));
    assert!(matches!(a.delete_message(&space, &tips, &message_id("a"), None).await, Err(CatalogError::NotFound { what: "deck", .. })));
    a.put_deck(&space, deck("tips"), None).await.unwrap();
    assert!(a.messages(&space, &tips, None, 10).await.unwrap().is_empty());
    for name in ["b", "a", "B"] {
        let put = a.put_message(&space, &tips, message(name), None).await.unwrap();
        assert!(put.created && put.value.version == 1);
    }
    let page = async |after: Option<&str>, limit| {
        let page = a.messages(&space, &tips, after.map(message_id).as_ref(), limit).await.unwrap();
        page.iter().map(|message| message.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 2).await, ["B", "a"]);
    assert_eq!(page(Some("a"), 2).await, ["b"]);
    // Deactivated, it is still there for those who remember it.
    let off = a.put_message(&space, &tips, Message { active: false, ..message("a") }, None).await.unwrap();
    assert!(!off.created);
    assert_eq!((off.value.version, off.value.ordinal), (2, 1));
    assert_eq!(everyones(a, &space, "tips"), [("b".into(), 0), ("a".into(), 1), ("B".into(), 2)]);
    assert!(!view(a, &space, "tips").messages[1].active);
    let refused = a.put_message(&space, &tips, Message { weight: 0, ..message("a") }, None).await;
    assert!(matches!(refused, Err(CatalogError::Invalid(fault)) if fault.field == "weight"));
    assert!(!a.delete_message(&space, &tips, &message_id("none"), None).await.unwrap());
    assert!(a.delete_message(&space, &tips, &message_id("a"), None).await.unwrap());
    assert_eq!(a.message(&space, &tips, &message_id("a")).await.unwrap(), None);
    assert_eq!(*view(a, &space, "tips").tombstones, [1]);
}

async fn ordinals_are_dense_and_never_used_again(a: &Catalog) {
    let space = space(a, "ordinals").await;
    let tips = id("tips");
    a.put_deck(&space, deck("tips"), None).await.unwrap();
    for round in 0..3_u32 {
        let made = a.create_messages(&space, &tips, vec![message("a"), to("b", &["ann"]), message("c")], None).await.unwrap().value;
        let ordinals: Vec<u32> = made.iter().map(|message| message.ordinal).collect();
        assert_eq!(ordinals, [round * 3, round * 3 + 1, round * 3 + 2]);
        assert_eq!(view(a, &space, "tips").next_ordinal, round * 3 + 3);
        for name in ["c", "b", "a"] {
            let before = view(a, &space, "tips").generation;
            assert!(a.delete_message(&space, &tips, &message_id(name), None).await.unwrap());
            assert!(view(a, &space, "tips").generation > before, "what is forgotten is news");
        }
    }
    let view = view(a, &space, "tips");
    assert_eq!(*view.tombstones, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!((view.messages.len(), view.named), (0, 0));
}

async fn many_are_created_together_or_not_at_all(a: &Catalog) {
    let space = space(a, "message-batches").await;
    let tips = id("tips");
    a.put_deck(&space, deck("tips"), None).await.unwrap();
    let many: Vec<Message> = (0..1_000).map(|n| message(&format!("m{n}"))).collect();
    let made = a.create_messages(&space, &tips, many.clone(), None).await.unwrap();
    assert!(made.created && made.value.iter().zip(0..).all(|(message, n)| message.ordinal == n && message.version == 1));
    assert_eq!(view(a, &space, "tips").messages.len(), 1_000);
    let known = a.create_messages(&space, &tips, vec![message("new"), message("m7")], None).await;
    assert!(matches!(known, Err(CatalogError::Exists { what: "message", id }) if id == "m7"));
    let twice = a.create_messages(&space, &tips, vec![message("new"), message("new")], None).await;
    assert!(matches!(twice, Err(CatalogError::Exists { what: "message", id }) if id == "new"));
    let wrong = a.create_messages(&space, &tips, vec![message("new"), Message { weight: 0, ..message("newer") }], None).await;
    assert!(matches!(wrong, Err(CatalogError::Invalid(fault)) if fault.field == "weight"));
    let too_many = many.into_iter().chain([message("new")]).collect();
    for list in [Vec::new(), too_many] {
        let refused = a.create_messages(&space, &tips, list, None).await;
        assert!(matches!(refused, Err(CatalogError::Invalid(fault)) if fault.field == "messages"));
    }
    assert_eq!(view(a, &space, "tips").next_ordinal, 1_000);
    assert_eq!(a.message(&space, &tips, &message_id("new")).await.unwrap(), None);
}

async fn a_deck_made_again_is_another_one(a: &Catalog) {
    let space = space(a, "deck-again").await;
    let tips = id("tips");
    let first = a.put_deck(&space, deck("tips"), None).await.unwrap().value;
    a.create_messages(&space, &tips, vec![message("a"), to("b", &["ann"]), message("c")], None).await.unwrap();
    a.delete_message(&space, &tips, &message_id("a"), None).await.unwrap();
    assert_eq!(own(a, &space, "tips", "ann").await, ["b"]);
    assert!(a.delete_deck(&space, &tips, None).await.unwrap());
    let second = a.put_deck(&space, deck("tips"), None).await.unwrap().value;
    assert!(second.epoch > first.epoch);
    assert_eq!(second.version, 1);
    let view = view(a, &space, "tips");
    assert_eq!((view.messages.len(), view.tombstones.len(), view.named, view.next_ordinal), (0, 0, 0, 0));
    a.create_messages(&space, &tips, vec![to("z", &["bob"])], None).await.unwrap();
    assert!(own(a, &space, "tips", "ann").await.is_empty());
}

async fn who_is_named_is_found_and_a_change_is_noticed(a: &Catalog, b: &Catalog) {
    let space = space(a, "named").await;
    let tips = id("tips");
    a.put_deck(&space, deck("tips"), None).await.unwrap();
    let nobody = view(a, &space, "tips");
    assert_eq!(a.own_messages(&space, &nobody, "ann").await.unwrap().generation, 0);
    a.create_messages(&space, &tips, vec![to("x", &["ann", "bob", "ann"]), message("all"), to("w", &["ann"])], None).await.unwrap();
    assert_eq!(everyones(a, &space, "tips"), [("all".into(), 1)]);
    assert_eq!(view(a, &space, "tips").named, 2);
    eventually("those named are counted", SEEN_WITHIN, async || b.deck(&space, &tips).is_some_and(|view| view.named == 2)).await;
    // Changes are seen in their order; what was read with an earlier one may be read once more with its own.
    a.put_deck(&space, deck("last"), None).await.unwrap();
    eventually("all of it is seen", SEEN_WITHIN, async || b.deck(&space, &id("last")).is_some()).await;
    for catalog in [a, b] {
        assert_eq!(own(catalog, &space, "tips", "ann").await, ["x", "w"]);
        assert_eq!(own(catalog, &space, "tips", "bob").await, ["x"]);
        // Subjects are told apart byte by byte, and "none" is remembered.
        for other in ["Ann", "ann ", "eve"] {
            assert!(own(catalog, &space, "tips", other).await.is_empty(), "{other}");
        }
    }
    let known = a.own_messages_now(&space, &view(a, &space, "tips"), "ann").unwrap();
    let generation = view(b, &space, "tips").generation;
    b.put_message(&space, &tips, to("x", &["eve"]), None).await.unwrap();
    assert_eq!(own(b, &space, "tips", "eve").await, ["x"]);
    assert_eq!(view(b, &space, "tips").generation, generation, "nothing of everyone's changed");
    eventually("a message moved to another subject", SEEN_WITHIN, async || own(a, &space, "tips", "eve").await == ["x"]).await;
    assert_eq!(own(a, &space, "tips", "ann").await, ["w"]);
    assert!(own(a, &space, "tips", "bob").await.is_empty());
    let again = a.own_messages(&space, &view(a, &space, "tips"), "ann").await.unwrap();
    assert!(again.generation != known.generation);
    a.put_message(&space, &tips, Message { active: false, ..to("w", &["ann"]) }, None).await.unwrap();
    let off = a.own_messages(&space, &view(a, &space, "tips"), "ann").await.unwrap();
    assert!(!off.messages[0].active);
    a.delete_message(&space, &tips, &message_id("w"), None).await.unwrap();
    assert!(own(a, &space, "tips", "ann").await.is_empty());
    eventually("one is gone", SEEN_WITHIN, async || own(b, &space, "tips", "ann").await.is_empty()).await;
    eventually("its tombstone is there", SEEN_WITHIN, async || *view(b, &space, "tips").tombstones == [2]).await;
    assert_eq!(view(b, &space, "tips").named, 1);
}

async fn a_message_moves_between_everyone_and_named_subjects(a: &Catalog) {
    let space = space(a, "moving").await;
    let tips = id("tips");
    a.put_deck(&space, deck("tips"), None).await.unwrap();
    for _ in 0..2 {
        a.put_message(&space, &tips, message("m"), None).await.unwrap();
        assert_eq!((everyones(a, &space, "tips"), view(a, &space, "tips").named), (vec![("m".into(), 0)], 0));
        a.put_message(&space, &tips, to("m", &["ann"]), None).await.unwrap();
        assert_eq!((everyones(a, &space, "tips"), view(a, &space, "tips").named), (vec![], 1));
        assert_eq!(own(a, &space, "tips", "ann").await, ["m"]);
    }
}

async fn many_subjects_are_named_at_once(a: &Catalog, b: &Catalog) {
    let space = space(a, "many-named").await;
    let tips = id("tips");
    a.put_deck(&space, deck("tips"), None).await.unwrap();
    a.put_message(&space, &tips, to("first", &["s0"]), None).await.unwrap();
    eventually("the first is counted", SEEN_WITHIN, async || b.deck(&space, &tips).is_some_and(|view| view.named == 1)).await;
    assert!(own(b, &space, "tips", "s7").await.is_empty());
    let many: Vec<Message> = (0..300).map(|n| to(&format!("m{n}"), &[&format!("s{n}")])).collect();
    a.create_messages(&space, &tips, many, None).await.unwrap();
    assert_eq!(own(a, &space, "tips", "s0").await, ["first", "m0"]);
    eventually("each is found", SEEN_WITHIN, async || own(b, &space, "tips", "s7").await == ["m7"]).await;
}

async fn a_replay_answers_the_same(a: &Catalog) {
    let space = space(a, "deck-once").await;
    let tips = id("tips");
    let once = |key: &str, fingerprint| CatalogOnce { space: space.clone(), key: key.to_owned(), fingerprint };
    let first = a.put_deck(&space, deck("tips"), Some(&once("deck", 1))).await.unwrap();
    let again = a.put_deck(&space, deck("tips"), Some(&once("deck", 1))).await.unwrap();
    assert!(again.replayed && again.created && again.value == first.value);
    assert!(matches!(a.put_deck(&space, deck("x"), Some(&once("deck", 2))).await, Err(CatalogError::IdempotencyConflict { .. })));
    let list = || vec![message("a"), to("b", &["ann"])];
    let first = a.create_messages(&space, &tips, list(), Some(&once("list", 1))).await.unwrap();
    let again = a.create_messages(&space, &tips, list(), Some(&once("list", 1))).await.unwrap();
    assert!(again.replayed && again.value == first.value);
    let other = a.put_message(&space, &tips, message("a"), Some(&once("list", 1))).await;
    assert!(matches!(other, Err(CatalogError::IdempotencyConflict { .. })));
    let first = a.put_message(&space, &tips, message("a"), Some(&once("one", 1))).await.unwrap();
    let again = a.put_message(&space, &tips, message("a"), Some(&once("one", 1))).await.unwrap();
    assert!(again.replayed && again.value == first.value && first.value.version == 2);
    for _ in 0..2 {
        assert!(a.delete_message(&space, &tips, &message_id("a"), Some(&once("gone", 1))).await.unwrap());
    }
    assert_eq!(*view(a, &space, "tips").tombstones, [0]);
    for _ in 0..2 {
        assert!(a.delete_deck(&space, &tips, Some(&once("away", 1))).await.unwrap());
    }
}

async fn decks_are_followed(a: &Catalog, b: &Catalog) {
    let space = space(a, "deck-following").await;
    let tips = id("tips");
    a.put_deck(&space, deck("tips"), None).await.unwrap();
    eventually("a deck appears", SEEN_WITHIN, async || b.deck(&space, &tips).is_some()).await;
    b.put_deck(&space, deck("other"), None).await.unwrap();
    let untouched = view(b, &space, "other").generation;
    b.put_message(&space, &tips, message("m"), None).await.unwrap();
    assert_eq!(everyones(b, &space, "tips"), [("m".into(), 0)]);
    assert_eq!(view(b, &space, "other").generation, untouched, "one deck is read, not all");
    eventually("a message appears", SEEN_WITHIN, async || everyones(a, &space, "tips").len() == 1).await;
    b.put_message(&space, &tips, Message { weight: 5, ..message("m") }, None).await.unwrap();
    eventually("a message is replaced", SEEN_WITHIN, async || view(a, &space, "tips").messages[0].weight == 5).await;
    // One message is read, not the others, and one that is deleted goes without them.
    b.put_message(&space, &tips, message("other"), None).await.unwrap();
    let kept = std::sync::Arc::clone(&view(b, &space, "tips").messages[0]);
    b.put_message(&space, &tips, Message { weight: 7, ..message("other") }, None).await.unwrap();
    assert!(std::sync::Arc::ptr_eq(&kept, &view(b, &space, "tips").messages[0]));
    eventually("another is replaced", SEEN_WITHIN, async || view(a, &space, "tips").messages.get(1).is_some_and(|m| m.weight == 7)).await;
    b.delete_message(&space, &tips, &message_id("other"), None).await.unwrap();
    assert_eq!(everyones(b, &space, "tips"), [("m".into(), 0)]);
    eventually("another goes", SEEN_WITHIN, async || *view(a, &space, "tips").tombstones == [1]).await;
    b.put_deck(&space, Deck { history_max: 99, ..deck("tips") }, None).await.unwrap();
    eventually("a deck is replaced", SEEN_WITHIN, async || view(a, &space, "tips").deck.history_max == 99).await;
    assert_eq!(everyones(a, &space, "tips").len(), 1);
    b.delete_message(&space, &tips, &message_id("m"), None).await.unwrap();
    eventually("a message goes", SEEN_WITHIN, async || *view(a, &space, "tips").tombstones == [0, 1]).await;
    a.delete_deck(&space, &tips, None).await.unwrap();
    eventually("a deck goes", SEEN_WITHIN, async || b.deck(&space, &tips).is_none()).await;
    assert_eq!(b.decks(&space).len(), 1);
}
