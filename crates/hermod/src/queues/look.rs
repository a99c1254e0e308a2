//! `hermod queues show` and `stats`: what is in a queue.

use clap::Args;
use hermod_client::{Client, ClientError, Delivery, DeliveryFilter, Page, PageRequest, QueueStats, Queues};
use serde_json::value::RawValue;

use crate::noun::{List, PageArgs};
use crate::output::{Output, or_dash, table};

/// So much of a payload is shown in a list.
const PAYLOAD_SHOWN: usize = 60;

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The queue's name.
    queue: String,
    /// One delivery.
    #[arg(conflicts_with_all = ["state", "tag", "known_by"])]
    id: Option<String>,
    /// Those in this state: waiting (the default), leased or dead.
    #[arg(long, value_parser = ["waiting", "leased", "dead"])]
    state: Option<String>,
    /// Those of this tag, whatever their state.
    #[arg(long, conflicts_with = "state")]
    tag: Option<String>,
    /// The one of this key.
    #[arg(long = "delivery-key", value_name = "KEY", conflicts_with_all = ["state", "tag"])]
    known_by: Option<String>,
    /// The recipient of the one of that key.
    #[arg(long, value_name = "RECIPIENT", requires = "known_by")]
    to: Option<String>,
    #[command(flatten)]
    page: PageArgs,
}

/// The deliveries of one queue, to be listed.
pub(super) struct Listed<'a> {
    pub(super) queues: Queues<'a>,
    pub(super) queue: &'a str,
    pub(super) filter: DeliveryFilter,
}

impl List for Listed<'_> {
    type Item = Delivery;

    async fn page(&self, request: &PageRequest) -> Result<Page<Delivery>, ClientError> {
        self.queues.deliveries(self.queue, &self.filter, request).await
    }

    async fn all(&self) -> Result<Vec<Delivery>, ClientError> {
        let (mut all, mut request) = (Vec::new(), PageRequest::default().limit(1_000));
        loop {
            let page = self.page(&request).await?;
            all.extend(page.items);
            if page.next.is_none() {
                return Ok(all);
            }
            request.cursor = page.next;
        }
    }
}

pub(super) async fn show(args: &ShowArgs, client: &Client, out: Output) -> anyhow::Result<()> {
    if let Some(id) = &args.id {
        return out.answer(&client.queues().delivery(&args.queue, id).await?, one);
    }
    let filter = match (&args.tag, &args.known_by, args.state.as_deref()) {
        (Some(tag), ..) => DeliveryFilter::Tag(tag.clone()),
        (None, Some(key), _) => DeliveryFilter::Key(key.clone(), args.to.clone()),
        (None, None, Some("leased")) => DeliveryFilter::Leased,
        (None, None, Some("dead")) => DeliveryFilter::Dead,
        _ => DeliveryFilter::Waiting,
    };
    args.page.list(Listed { queues: client.queues(), queue: &args.queue, filter }, out, rows).await
}

pub(super) fn rows(deliveries: &[Delivery]) -> String {
    table(
        ["ID", "STATE", "DUE", "ATTEMPTS", "TO", "TAGS", "PAYLOAD"],
        deliveries.iter().map(|one| {
            let tags = or_dash(Some(one.tags.join(",")).filter(|tags| !tags.is_empty()));
            let carried = payload(one.json.as_deref(), one.base64.as_deref(), PAYLOAD_SHOWN);
            let (due, to) = (one.due.to_string(), or_dash(one.to.as_ref()));
            [one.id.clone(), one.state.to_string(), due, one.attempts.to_string(), to, tags, carried]
        }),
    )
}

/// One delivery in full.
fn one(delivery: &Delivery) -> String {
    let tags = Some(delivery.tags.join(",")).filter(|tags| !tags.is_empty());
    let fields = [
        ("id", Some(delivery.id.clone())),
        ("state", Some(delivery.state.to_string())),
        ("due", Some(delivery.due.to_string())),
        ("not before", delivery.not_before.map(|at| at.to_string())),
        ("held until", delivery.lease_until.map(|at| at.to_string())),
        ("dead since", delivery.dead_since.map(|at| at.to_string())),
        ("expires", delivery.expires_at.map(|at| at.to_string())),
        ("attempts", Some(delivery.attempts.to_string())),
        ("at most", delivery.max_attempts.map(|max| max.to_string())),
        ("to", delivery.to.clone()),
        ("key", delivery.key.clone()),
        ("tags", tags),
        ("payload", Some(payload(delivery.json.as_deref(), delivery.base64.as_deref(), usize::MAX))),
    ];
    table(["", ""], fields.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]))).trim_start().to_owned()
}

pub(super) async fn stats(queue: &str, client: &Client, out: Output) -> anyhow::Result<()> {
    out.answer(&client.queues().stats(queue).await?, counts)
}

fn counts(stats: &QueueStats) -> String {
    let [ready, scheduled, leased, dead] = [stats.ready, stats.scheduled, stats.leased, stats.dead].map(|count| count.to_string());
    let row = [ready, scheduled, leased, dead, or_dash(stats.oldest_due), or_dash(stats.next_due)];
    let text = table(["READY", "SCHEDULED", "LEASED", "DEAD", "DUE SINCE", "NEXT"], [row]);
    let forecast: Vec<String> = stats.forecast.iter().map(u64::to_string).collect();
    if stats.forecast.iter().all(|count| *count == 0) { text } else { format!("{text}\n\ndue in the next minutes: {}", forecast.join(" ")) }
}

/// What is carried, cut where it is longer than a list can show.
pub(super) fn payload(json: Option<&RawValue>, base64: Option<&str>, most: usize) -> String {
    let text = match (json, base64) {
        (Some(json), _) => json.get().to_owned(),
        (None, Some(bytes)) => format!("base64:{bytes}"),
        (None, None) => "null".to_owned(),
    };
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_cuts_long_payloads_and_one_is_shown_in_full() {
        let text = format!(
            r#"{{"id":"dl_1","state":"dead","attempts":5,"due":"2026-02-03T04:05:06.789Z","to":"ann","payload":"{}"}}"#,
            "ä".repeat(99)
        );
        let delivery: Delivery = serde_json::from_str(&text).unwrap();
        assert!(rows(std::slice::from_ref(&delivery)).ends_with("ä…"));
        let shown = one(&delivery);
        assert!(shown.starts_with("id") && shown.ends_with("ä\"") && shown.contains("dead") && !shown.contains("tags"), "{shown}");
    }

    #[test]
    fn counts_show_a_forecast_where_there_is_one() {
        let stats = |forecast: &str| {
            let text = format!(r#"{{"ready":1,"scheduled":2,"leased":0,"dead":3,"forecast":{forecast}}}"#);
            counts(&serde_json::from_str(&text).unwrap())
        };
        assert_eq!(stats("[0,0]").lines().last(), Some("1      2          0       3     -          -"));
        assert!(stats("[0,2]").ends_with("due in the next minutes: 0 2"));
    }
}
