//! How answers are printed: tables for people, JSON for programs.
//!
//! Everything goes through here, so that a reader who closes the pipe early (`| head`) changes nothing: the command does
//! what it was asked to, and its exit code tells what came of it. Who prints without end asks whether anybody reads.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use comfy_table::{Table, presets};
use hermod_client::Page;
use indicatif::ProgressBar;
use serde::Serialize;

/// From how many on progress is shown.
const MANY: usize = 20;

/// Where answers go, and in which form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Output {
        Output { json }
    }

    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Prints `value` as JSON for programs, else as what `people` makes of it.
    pub(crate) fn answer<T: Serialize>(self, value: &T, people: impl FnOnce(&T) -> String) -> anyhow::Result<()> {
        self.is_answer_read(value, people).map(drop)
    }

    /// The same. False if nobody reads any more.
    pub(crate) fn is_answer_read<T: Serialize>(self, value: &T, people: impl FnOnce(&T) -> String) -> anyhow::Result<bool> {
        let text = if self.json { serde_json::to_string_pretty(value)? } else { people(value) };
        self.is_read(&text)
    }

    /// Prints one thing, for people as a list of one.
    pub(crate) fn one<T: Serialize>(self, value: &T, rows: impl FnOnce(&[T]) -> String) -> anyhow::Result<()> {
        self.answer(value, |value| rows(std::slice::from_ref(value)))
    }

    /// Prints a page of a list, and for people how to go on.
    pub(crate) fn page<T: Serialize>(self, page: &Page<T>, rows: impl FnOnce(&[T]) -> String) -> anyhow::Result<()> {
        self.answer(page, |page| rows(&page.items))?;
        match &page.next {
            Some(next) => self.remark(&format!("\nMore with --cursor {next}")),
            None => Ok(()),
        }
    }

    /// Prints a remark that programs do not need.
    pub(crate) fn remark(self, text: &str) -> anyhow::Result<()> {
        if self.json { Ok(()) } else { self.text(text) }
    }

    /// Shows how far something has come, where many are to be done and somebody looks; without a length, how many were done.
    pub(crate) fn bar(self, length: Option<usize>) -> ProgressBar {
        if self.json || !io::stderr().is_terminal() || length.is_some_and(|length| length <= MANY) {
            return ProgressBar::hidden();
        }
        match length.map(|length| u64::try_from(length).unwrap_or(u64::MAX)) {
            Some(length) => ProgressBar::new(length),
            None => ProgressBar::no_length(),
        }
    }

    /// Prints text as it is; a line break is added if it has none.
    pub(crate) fn text(self, text: &str) -> anyhow::Result<()> {
        self.is_read(text).map(drop)
    }

    /// The same. False if nobody reads any more.
    pub(crate) fn is_read(self, text: &str) -> anyhow::Result<bool> {
        match write(text) {
            Ok(()) => Ok(true),
            Err(fault) if fault.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(fault) => Err(fault.into()),
        }
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') && !text.is_empty() {
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// A table without lines, easy on the eye and on `awk`.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.add_rows(rows);
    table.trim_fmt()
}

/// What a table shows where there is nothing.
pub(crate) fn or_dash(text: Option<impl ToString>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| text.to_string())
}

/// A length of time for a person, to whom two units are exact enough: `1h 1m`.
pub(crate) fn about(span: Duration) -> String {
    let whole = humantime::format_duration(Duration::from_secs(span.as_secs().max(1))).to_string();
    whole.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// Green for yes and red for no, on a terminal that wants colours.
pub(crate) fn verdict(yes: bool, text: &str) -> String {
    let plain = !io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    match (plain, yes) {
        (true, _) => text.to_owned(),
        (false, true) => format!("\x1b[32m{text}\x1b[0m"),
        (false, false) => format!("\x1b[31m{text}\x1b[0m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align_without_trailing_blanks() {
        let text = table(["ID", "NAME"], [["r1".to_owned(), "burst".to_owned()], ["rule-2".to_owned(), or_dash(None::<u8>)]]);
        assert_eq!(text, "ID      NAME\nr1      burst\nrule-2  -");
    }
}
