//! What comes from a file or from standard input.

use std::io::Read;

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
