//! What comes from a file, from standard input or as an argument.

use std::io::Read;
use std::time::SystemTime;

use anyhow::Context;

/// The text of a file and what to call it; `-` is standard input.
pub(crate) fn read(file: &str) -> anyhow::Result<(String, String)> {
    if file == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(("stdin".to_owned(), text));
    }
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    Ok((file.to_owned(), text))
}

/// A time with its offset.
pub(crate) fn time(text: &str) -> Result<SystemTime, String> {
    let time: jiff::Timestamp = text.parse().map_err(|_| "must be a time such as 2030-01-31T09:00:00Z")?;
    Ok(time.into())
}
