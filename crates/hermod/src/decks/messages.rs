//! `hermod decks messages`: what a deck holds.

use clap::Subcommand;
use hermod_client::{Client, Message, To};

use super::args::MessageArgs;
use super::form::{cap_text, message_fields};
use crate::file::Field;
use crate::noun::{PageArgs, TargetArgs};
use crate::output::{Output, or_dash, table};

/// The longest part of a body in a table, in characters.
const SHOWN: usize = 48;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the deck's messages.
    List(PageArgs),
    /// Show one message.
    Get {
        /// The message's id.
        id: String,
    },
    /// Make a message with this id, or replace the one that has it.
    Put {
        #[command(flatten)]
        target: TargetArgs,
        #[command(flatten)]
        message: Box<MessageArgs>,
    },
    /// Remove a message, and forget who got it.
    Delete(TargetArgs),
}

pub(super) async fn run(deck: &str, verb: &Verb, client: &Client, out: Output) -> anyhow::Result<()> {
    let messages = client.decks().messages(deck);
    match verb {
        Verb::List(page) => page.list(messages, out, rows).await,
        Verb::Get { id } => out.one(&messages.get(id).await?, rows),
        Verb::Put { target: TargetArgs { id, write }, message } => {
            let saved = write.on(messages).put(id, &message.draft()?).await?;
            out.one(&saved, rows)
        }
        Verb::Delete(TargetArgs { id, write }) => {
            write.on(messages).delete(id).await?;
            out.remark(&format!("Message {id} of {deck} is removed."))
        }
    }
}

/// A table whose last column names only what differs from the default, as most messages say something and no more.
fn rows(messages: &[Message]) -> String {
    table(
        ["ID", "TO", "ACTIVE", "CAP", "BODY", "OPTIONS"],
        messages.iter().map(|message| {
            let body = message.body.to_string();
            let shown: String = body.chars().take(SHOWN).collect();
            let options = Field::options(message_fields(message), &["id", "to", "active", "cap", "body"]);
            [
                message.id.clone(),
                to(&message.to),
                if message.active { "yes" } else { "no" }.to_owned(),
                or_dash(message.cap.as_ref().map(cap_text)),
                if shown.len() < body.len() { format!("{shown}…") } else { shown },
                or_dash(Some(options).filter(|options| !options.is_empty())),
            ]
        }),
    )
}

fn to(to: &To) -> String {
    match to {
        To::Subjects(subjects) => match subjects.as_slice() {
            [one] => one.clone(),
            many => format!("{} subjects", many.len()),
        },
        To::Tags(tags) => format!("tags {}", tags.join(",")),
        _ => "everyone".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_what_is_not_the_default() {
        let message = |text: &str| serde_json::from_str::<Message>(text).unwrap();
        let plain = r#"{"id":"a","body":"hi","to":"everyone","weight":1,"priority":0,"active":true,"cap":null,"tags":[],"critical":false}"#;
        let other = r#"{"id":"b","body":{"n":1},"to":{"tags":["vip","new"]},"weight":3,"priority":0,"active":false,
            "cap":{"tokens":3,"per":"day","kind":"calendar"},"tags":[],"critical":true}"#;
        let text = rows(&[message(plain), message(other)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "ID  TO            ACTIVE  CAP             BODY     OPTIONS");
        assert_eq!(lines[1], "a   everyone      yes     -               \"hi\"     -");
        assert_eq!(lines[2], "b   tags vip,new  no      3/day/calendar  {\"n\":1}  weight=3 critical=true");
    }
}
