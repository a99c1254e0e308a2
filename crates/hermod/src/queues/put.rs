//! `hermod queues put`: a queue under its name, and the secret of its webhook if the server makes one up.
//!
//! Such a secret is in the first answer and nowhere else; a repeated answer has its mask alone. A webhook that was there before keeps
//! its secret, and its answer has a mask, too. So the queue is looked at before it is saved: what was there tells the two apart.

use std::process::ExitCode;

use hermod_client::{Client, ClientError, Queue, QueueDraft, Webhook};

use super::args::QueueArgs;
use super::rows;
use crate::noun::TargetArgs;
use crate::output::Output;

pub(super) async fn run(queue: &QueueArgs, target: &TargetArgs, client: &Client, out: Output) -> anyhow::Result<ExitCode> {
    let draft = queue.draft(queue.secret_variable()?.as_deref());
    let before = if leaves_secret(&draft) { Some(client.queues().get(&target.id).await) } else { None };
    let saved = target.write.on(client.queues()).put(&target.id, &draft).await?;
    let fate = before.map_or(Fate::Kept, |before| fate(&saved, &before));
    out.answer(&saved, |saved| match &fate {
        Fate::Made(secret) => {
            format!("{}\n\nsecret: {secret}\nIt is shown once and never again. Keep it.", rows(std::slice::from_ref(saved)))
        }
        _ => rows(std::slice::from_ref(saved)),
    })?;
    if matches!(fate, Fate::Unsure | Fate::Lost) {
        let url = webhook(&saved).map_or("...", |webhook| &webhook.url);
        eprintln!(
            "This answer is a repeated one: a secret that the server made for the webhook was shown with the first, and never again.\n\
             If it is lost, give it another with `hermod queues put {} --webhook {url} --secret whsec_...`.",
            saved.queue
        );
    }
    Ok(if fate == Fate::Lost { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What became of the secret of a webhook that came without one.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    /// The server made it, and this is it.
    Made(String),
    /// The webhook has the one that it had.
    Kept,
    /// It was made, or kept, by an earlier try.
    Unsure,
    /// It was made by an earlier try.
    Lost,
}

/// Who has no right to look knows only that a queue of version 1 is a new one.
fn fate(saved: &Queue, before: &Result<Queue, ClientError>) -> Fate {
    let Some(webhook) = webhook(saved) else { return Fate::Kept };
    if let Some(secret) = webhook.whole_secret() {
        return Fate::Made(secret.to_owned());
    }
    match before {
        _ if saved.version == 1 => Fate::Lost,
        Ok(before) if self::webhook(before).is_none() => Fate::Lost,
        // Each put makes the version grow, if it is not a repeated one.
        Ok(before) if saved.version <= before.version => Fate::Unsure,
        Err(fault) if fault.problem().is_some_and(|problem| problem.status == 404) => Fate::Lost,
        _ => Fate::Kept,
    }
}

fn webhook(queue: &Queue) -> Option<&Webhook> {
    queue.push.as_ref()?.webhook.as_ref()
}

/// Whether it has a webhook whose secret is the server's to choose.
fn leaves_secret(draft: &QueueDraft) -> bool {
    let webhook = draft.push.as_ref().and_then(|push| push.webhook.as_ref());
    webhook.is_some_and(|webhook| webhook.secret.is_none() && webhook.secrets.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(version: u64, secret: Option<&str>) -> Queue {
        let push = secret.map(|secret| serde_json::json!({"webhook": {"url": "https://h", "secret": secret}}));
        let queue = serde_json::json!({"queue": "mail", "mode": "shared", "order": "recipient", "lease": "30s", "worker_ttl": "15s",
            "idle_after": "1day", "max_attempts": 5, "backoff": {}, "on_exhausted": "dead", "on_failure": "block", "overdue": "deliver",
            "max_payload": 262_144, "push": push, "version": version});
        serde_json::from_value(queue).unwrap()
    }

    fn problem(status: u16) -> Result<Queue, ClientError> {
        let problem = serde_json::json!({"status": status, "code": "x"});
        Err(ClientError::Problem(Box::new(serde_json::from_value(problem).unwrap())))
    }

    #[test]
    fn a_secret_that_a_repeated_answer_lacks_is_missed() {
        let (masked, whole) = (Some("whsec_…abcd"), Some("whsec_abcd"));
        for (story, before, saved, expected) in [
            ("a new queue", problem(404), queue(1, whole), Fate::Made("whsec_abcd".to_owned())),
            ("a webhook for an old queue", Ok(queue(3, None)), queue(4, whole), Fate::Made("whsec_abcd".to_owned())),
            ("a webhook that was there", Ok(queue(3, masked)), queue(4, masked), Fate::Kept),
            ("no webhook", Ok(queue(3, masked)), queue(4, None), Fate::Kept),
            ("a new queue, at the second try", problem(404), queue(1, masked), Fate::Lost),
            ("a new queue, asked for again", Ok(queue(1, masked)), queue(1, masked), Fate::Lost),
            ("a webhook for an old queue, at the second try", Ok(queue(3, None)), queue(4, masked), Fate::Lost),
            ("a webhook for an old queue, asked for again", Ok(queue(4, masked)), queue(4, masked), Fate::Unsure),
            ("a queue that may not be read", problem(403), queue(4, masked), Fate::Kept),
            ("a new queue that may not be read, at the second try", problem(403), queue(1, masked), Fate::Lost),
        ] {
            assert_eq!(fate(&saved, &before), expected, "{story}");
        }
    }
}
