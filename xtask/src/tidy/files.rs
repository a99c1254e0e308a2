//! Rules about files as such: how long they are, and which must be there.

use super::Finding;
use super::tree::Source;

/// Beyond this a file holds more than one idea.
const LINES_MAX: usize = 700;
/// What a stranger looks for first.
const REQUIRED: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// Checks all files of the repository.
pub(crate) fn check(tree: &[Source]) -> Vec<Finding> {
    [too_long(tree), absent(tree)].concat()
}

fn too_long(tree: &[Source]) -> Vec<Finding> {
    let code = tree.iter().filter(|source| source.is("rs") || source.is("lua"));
    let counted = code.map(|source| (source, source.text.lines().count()));
    let long = counted.filter(|(_, lines)| *lines > LINES_MAX);
    long.map(|(source, lines)| format!("{}: has {lines} lines, {LINES_MAX} at most; split it by what it does", source.path.display()))
        .collect()
}

fn absent(tree: &[Source]) -> Vec<Finding> {
    let absent = REQUIRED.iter().filter(|name| !tree.iter().any(|source| source.path.as_os_str() == **name));
    absent.map(|name| format!("{name}: is missing; a stranger looks for it at the root")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_files_that_are_too_long() {
        let tree =
            [Source::new("a.rs", &"\n".repeat(700)), Source::new("b.lua", &"\n".repeat(701)), Source::new("c.md", &"\n".repeat(999))];
        let found = too_long(&tree);
        assert!(found.len() == 1 && found[0].contains("b.lua") && found[0].contains("701"), "{found:?}");
    }

    #[test]
    fn finds_what_is_missing_at_the_root() {
        let tree = ["README.md", "docs/CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|path| Source::new(path, ""));
        let found = absent(&tree);
        assert!(found.len() == 1 && found[0].contains("CHANGELOG.md"), "{found:?}");
    }
}
