//! API keys: shown once, recognised, refused.

use super::space;
use crate::{Catalog, CatalogError, CatalogOnce, Scope};

pub(super) async fn all(a: &Catalog) {
    a_key_is_shown_once_and_recognised(a).await;
    wrong_keys_are_refused(a).await;
    a_key_needs_a_name_and_a_scope(a).await;
}

async fn a_key_is_shown_once_and_recognised(a: &Catalog) {
    let space = space(a, "keys").await;
    let once = CatalogOnce { space: hermod_core::SpaceId::default_space(), key: String::from("make-key"), fingerprint: 1 };
    let scopes = vec![Scope::LimitCheck, Scope::RulesRead, Scope::LimitCheck];
    let made = a.create_key(&space, "Grüße, bot", scopes.clone(), Some(&once)).await.unwrap();
    assert!(made.created && !made.replayed);
    let secret = made.value.secret.clone().unwrap();
    assert!(secret.starts_with(&format!("hk_{}_", made.value.key.id)));
    assert_eq!(made.value.key.scopes, [Scope::RulesRead, Scope::LimitCheck]);
    assert_eq!(*a.authenticate(&secret).unwrap(), made.value.key);
    assert_eq!(a.keys(&space).await.unwrap(), std::slice::from_ref(&made.value.key));
    // The replay gives the same key, and cannot give the secret.
    let again = a.create_key(&space, "Grüße, bot", scopes, Some(&once)).await.unwrap();
    assert!(again.replayed);
    assert_eq!((again.value.key, again.value.secret), (made.value.key.clone(), None));
    assert_eq!(a.keys(&space).await.unwrap().len(), 1);
    // Another space cannot delete it.
    assert!(!a.delete_key(&hermod_core::SpaceId::default_space(), &made.value.key.id, None).await.unwrap());
    assert!(a.authenticate(&secret).is_some());
    assert!(a.delete_key(&space, &made.value.key.id, None).await.unwrap());
    assert!(!a.delete_key(&space, &made.value.key.id, None).await.unwrap());
    assert!(a.authenticate(&secret).is_none());
    assert!(a.keys(&space).await.unwrap().is_empty());
}

async fn wrong_keys_are_refused(a: &Catalog) {
    let space = space(a, "wrong-keys").await;
    let mut made = Vec::new();
    for name in ["one", "two"] {
        made.push(a.create_key(&space, name, vec![Scope::Admin], None).await.unwrap().value);
    }
    let (one, two) = (made[0].secret.clone().unwrap(), made[1].secret.clone().unwrap());
    let secret_of_two = two.rsplit('_').next().unwrap();
    let flipped = if one.ends_with('A') { "B" } else { "A" };
    let wrong = [
        String::new(),
        String::from("hk_"),
        one[3..].to_owned(),
        one.to_lowercase(),
        format!("{one} "),
        format!("{one}x"),
        one[..one.len() - 1].to_owned(),
        format!("{}{flipped}", &one[..one.len() - 1]),
        format!("hk_{}_{secret_of_two}", made[0].key.id),
        format!("hk_{}_", made[0].key.id),
        format!("hk_nobody_{secret_of_two}"),
    ];
    for presented in wrong {
        assert!(a.authenticate(&presented).is_none(), "{presented:?}");
    }
    assert_eq!(a.authenticate(&one).unwrap().name, "one");
    assert_eq!(a.authenticate(&two).unwrap().name, "two");
}

async fn a_key_needs_a_name_and_a_scope(a: &Catalog) {
    let space = space(a, "bad-keys").await;
    for (name, scopes) in [("", vec![Scope::Admin]), ("a\nb", vec![Scope::Admin]), ("bot", vec![])] {
        assert!(matches!(a.create_key(&space, name, scopes, None).await, Err(CatalogError::Invalid(_))));
    }
}
