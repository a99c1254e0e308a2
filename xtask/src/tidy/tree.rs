//! The files of the repository that rules look at, read once.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// What is generated, fetched or private to one machine.
const SKIPPED: &[&str] = &["target", "hermod-data", "node_modules"];
const READ: &[&str] = &["rs", "lua", "md"];

/// A text file, with its path from the root of the repository.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Source {
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Source {
        Source { path: PathBuf::from(path), text: text.to_owned() }
    }

    /// Whether its name ends in `.extension`.
    pub(crate) fn is(&self, extension: &str) -> bool {
        self.path.extension().is_some_and(|own| own == extension)
    }
}

/// All Rust, Lua and Markdown files below `root`, in the order of their paths.
pub(crate) fn read(root: &Path) -> Result<Vec<Source>> {
    let mut found = Vec::new();
    walk(root, root, &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<Source>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        // Links are not followed, so the walk ends.
        let kind = entry.file_type()?;
        if kind.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name.as_ref()) {
            walk(root, &path, found)?;
        } else if kind.is_file() && READ.iter().any(|extension| path.extension().is_some_and(|own| own == *extension)) {
            let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            found.push(Source { path: path.strip_prefix(root).unwrap_or(&path).to_owned(), text });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sources_and_skips_what_is_generated() {
        let root = tempfile::tempdir().expect("a folder");
        for path in ["a/b.rs", "README.md", "a/data.json", "target/c.rs", ".git/d.md"] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, "text").expect("a file");
        }
        let paths: Vec<PathBuf> = read(root.path()).expect("it reads").into_iter().map(|source| source.path).collect();
        assert_eq!(paths, [PathBuf::from("README.md"), PathBuf::from("a/b.rs")]);
    }
}
