//! Who falls behind, a restored database, and what a newer version wrote.

use hermod_core::limit::index::Attributes;
use hermod_core::limit::{Facts, Pattern};

use super::*;
use crate::{Catalog, Options};

/// Two catalogs on one file; the second looks for changes only when told.
async fn pair(folder: &tempfile::TempDir) -> (Catalog, Catalog) {
    let url = format!("sqlite:{}/catalog.db", folder.path().display());
    let writer = Catalog::open(Options::new(&url)).await.unwrap();
    let reader = Catalog::open(Options { poll: Duration::from_secs(3_600), ..Options::new(&url) }).await.unwrap();
    (writer, reader)
}

fn rule(id: &str, subject: Option<&str>) -> Rule {
    let json = format!(r#"{{"id":"{id}","action":"{id}","limit":1,"per":"1s"}}"#);
    let mut rule: Rule = serde_json::from_str(&json).unwrap();
    rule.subject = subject.map(|s| Pattern::subject(s).unwrap());
    rule
}

async fn count(catalog: &Catalog, action: &str) -> usize {
    let facts = Facts { subject: "bot", action, cost: 1, attributes: Attributes::none() };
    catalog.matching(&SpaceId::default_space(), &facts).await.rules.len()
}

#[tokio::test]
async fn who_is_behind_the_trimmed_changes_reads_everything() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, reader) = pair(&folder).await;
    let space = SpaceId::default_space();
    writer.create_rule(&space, rule("first", Some("bot")), None).await.unwrap();
    reader.inner.refresh(None).await.unwrap();
    assert_eq!(count(&reader, "first").await, 1);
    writer.create_rule(&space, rule("own", Some("bot")), None).await.unwrap();
    writer.create_rule(&space, rule("all", None), None).await.unwrap();
    assert_eq!((count(&reader, "own").await, count(&reader, "all").await), (0, 0));
    let trim = writer.inner.database.query("DELETE FROM changes WHERE version <= 2");
    trim.execute(writer.inner.database.pool()).await.unwrap();
    reader.inner.refresh(None).await.unwrap();
    assert_eq!((count(&reader, "own").await, count(&reader, "all").await), (1, 1));
    assert_eq!(reader.version(), 3);
}

#[tokio::test]
async fn a_restored_database_is_read_again_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, reader) = pair(&folder).await;
    let space = SpaceId::default_space();
    writer.create_rule(&space, rule("gone", None), None).await.unwrap();
    writer.create_rule(&space, rule("own", Some("bot")), None).await.unwrap();
    reader.inner.refresh(None).await.unwrap();
    assert_eq!((count(&reader, "gone").await, count(&reader, "own").await), (1, 1));
    for statement in ["DELETE FROM rules", "UPDATE spaces SET subject_rules = 0", "UPDATE catalog_version SET version = 0"] {
        writer.inner.database.query(statement).execute(writer.inner.database.pool()).await.unwrap();
    }
    reader.inner.refresh(None).await.unwrap();
    assert_eq!((count(&reader, "gone").await, count(&reader, "own").await), (0, 0));
    assert_eq!(reader.version(), 0);
}

#[tokio::test]
async fn a_rule_of_a_newer_version_stays_as_it_was_known_and_others_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, reader) = pair(&folder).await;
    let space = SpaceId::default_space();
    writer.create_rule(&space, rule("all", None), None).await.unwrap();
    reader.inner.refresh(None).await.unwrap();
    run(&writer, r#"UPDATE rules SET body = '{"surprise":1}'"#).await;
    writer.create_rule(&space, rule("next", None), None).await.unwrap();
    reader.inner.refresh(None).await.unwrap();
    assert_eq!((count(&reader, "all").await, count(&reader, "next").await), (1, 1));
    // The same where everything is read anew.
    reader.inner.reload().await.unwrap();
    assert_eq!((count(&reader, "all").await, count(&reader, "next").await), (1, 1));
    // One that starts now has never known it.
    let (late, _) = pair(&folder).await;
    assert_eq!((count(&late, "all").await, count(&late, "next").await), (0, 1));
    assert!(writer.delete_rule(&space, &hermod_core::RuleId::new("next").unwrap(), None).await.unwrap());
    reader.inner.refresh(None).await.unwrap();
    assert_eq!((count(&reader, "all").await, count(&reader, "next").await), (1, 0));
}

async fn run(catalog: &Catalog, statement: &'static str) {
    catalog.inner.database.query(statement).execute(catalog.inner.database.pool()).await.unwrap();
}

/// A catalog beside the one that writes, which follows it by itself.
async fn following(folder: &tempfile::TempDir) -> Catalog {
    let url = format!("sqlite:{}/catalog.db", folder.path().display());
    Catalog::open(Options { poll: Duration::from_millis(5), ..Options::new(url) }).await.unwrap()
}

async fn caught_up(behind: &Catalog, ahead: &Catalog) {
    let version = ahead.inner.stored_version().await.unwrap();
    let caught_up = async {
        while behind.version() < version {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), caught_up).await.unwrap();
}

#[tokio::test]
async fn a_key_of_a_newer_version_is_left_out_and_all_others_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, _) = pair(&folder).await;
    let reader = following(&folder).await;
    let space = SpaceId::default_space();
    let mut made = Vec::new();
    for name in ["newer", "gone", "stays"] {
        made.push(writer.create_key(&space, name, vec![crate::Scope::Admin], None).await.unwrap().value);
    }
    caught_up(&reader, &writer).await;
    run(&writer, r#"UPDATE api_keys SET scopes = '["admin","moon"]' WHERE name = 'newer'"#).await;
    assert!(writer.delete_key(&space, &made[1].key.id, None).await.unwrap());
    caught_up(&reader, &writer).await;
    let is_known =
        |catalog: &Catalog| made.iter().map(|key| catalog.authenticate(key.secret.as_ref().unwrap()).is_some()).collect::<Vec<_>>();
    assert_eq!(is_known(&reader), [false, false, true]);
    assert!(reader.is_healthy());
    reader.create_space(&SpaceId::new("more").unwrap(), None).await.unwrap();
    assert_eq!(reader.keys(&space).await.unwrap(), std::slice::from_ref(&made[2].key));
    // Nobody can tell what it may do, so nobody takes it away.
    assert!(reader.delete_key(&space, &made[0].key.id, None).await.is_err());
    // One that starts now is no worse off.
    assert_eq!(is_known(&following(&folder).await), [false, false, true]);
}

#[tokio::test]
async fn a_definition_of_a_newer_version_is_left_out_and_its_neighbours_stay() {
    let folder = tempfile::tempdir().unwrap();
    let (writer, _) = pair(&folder).await;
    let reader = following(&folder).await;
    let space = SpaceId::default_space();
    let names = ["newer", "stays"];
    for name in names {
        let queue = hermod_core::QueueId::new(name).unwrap();
        writer.put_queue(&space, hermod_core::queue::Queue::new(queue.clone()), None).await.unwrap();
        let schedule = hermod_core::queue::Schedule {
            queue,
            name: hermod_core::Name::new(name).unwrap(),
            cron: "@daily".parse().unwrap(),
            payload: "null".into(),
            to: None,
            tags: Vec::new(),
            enabled: true,
            version: 1,
        };
        writer.put_schedule(&space, schedule, None).await.unwrap();
        let deck = DeckId::new(name).unwrap();
        writer.put_deck(&space, hermod_core::pick::Deck::new(deck.clone()), None).await.unwrap();
        for id in names {
            let message = hermod_core::pick::Message::new(hermod_core::MessageId::new(id).unwrap(), "1");
            writer.put_message(&space, &deck, message, None).await.unwrap();
        }
    }
    caught_up(&reader, &writer).await;
    for statement in [
        "UPDATE queues SET body = '{}' WHERE id = 'newer'",
        "UPDATE schedules SET body = '{}' WHERE name = 'newer'",
        "UPDATE decks SET body = '{}' WHERE id = 'newer'",
        "UPDATE messages SET body = '{}' WHERE id = 'newer'",
        // As those who wrote them would have noted it.
        "INSERT INTO changes (version, part, space, kind, subject_rules) SELECT version + 1, 0, 'default', 'queue', 0 FROM catalog_version",
        "INSERT INTO changes (version, part, space, kind, subject_rules) SELECT version + 1, 1, 'default', 'schedule', 0 FROM catalog_version",
        "INSERT INTO changes (version, part, space, kind, subject_rules, deck) SELECT version + 1, 2, 'default', 'deck', 0, 'newer' FROM catalog_version",
        "INSERT INTO changes (version, part, space, kind, subject_rules, deck) SELECT version + 1, 3, 'default', 'deck', 0, 'stays' FROM catalog_version",
        "UPDATE catalog_version SET version = version + 1",
    ] {
        run(&writer, statement).await;
    }
    // It reads all that changed anew, or the whole.
    writer.create_space(&SpaceId::new("more").unwrap(), None).await.unwrap();
    caught_up(&reader, &writer).await;
    for catalog in [reader, following(&folder).await] {
        assert!(catalog.is_healthy());
        assert_eq!(catalog.queues(&space).iter().map(|queue| queue.id.as_str()).collect::<Vec<_>>(), ["stays"]);
        assert_eq!(catalog.schedules(&space).iter().map(|schedule| schedule.name.as_str()).collect::<Vec<_>>(), ["stays"]);
        let decks = catalog.decks(&space);
        assert_eq!(decks.iter().map(|view| view.deck.id.as_str()).collect::<Vec<_>>(), ["stays"]);
        assert_eq!(decks[0].messages.iter().map(|message| message.id.as_str()).collect::<Vec<_>>(), ["stays"]);
    }
}
