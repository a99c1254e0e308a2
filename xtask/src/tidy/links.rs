//! Relative links in Markdown lead somewhere.

use std::path::{Component, Path, PathBuf};

use super::Finding;
use super::tree::Source;

/// Checks all Markdown files. Addresses with a scheme are not followed: a check must not need the network.
pub(crate) fn check(root: &Path, tree: &[Source]) -> Vec<Finding> {
    let pages = tree.iter().filter(|source| source.is("md"));
    pages.flat_map(|page| dead_links(root, page)).collect()
}

fn dead_links(root: &Path, page: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, target) in links(&page.text) {
        let path = target.split(['#', '?']).next().unwrap_or_default();
        if path.is_empty() || has_scheme(&target) {
            continue;
        }
        let folder = page.path.parent().unwrap_or(Path::new(""));
        // A leading slash means the root of the repository, as code hosts show it.
        let from_root = path.strip_prefix('/').map_or_else(|| folder.join(path), PathBuf::from);
        let inside = normal(&from_root);
        if !inside.as_ref().is_some_and(|inside| root.join(inside).exists()) {
            findings.push(format!("{}:{number}: the link to {target} leads nowhere; correct or remove it", page.path.display()));
        }
    }
    findings
}

/// The path without `..`, or nothing if it leads out of the repository.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut parts = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            Component::ParentDir if parts.pop() => {}
            _ => return None,
        }
    }
    Some(parts)
}

fn has_scheme(target: &str) -> bool {
    target.split_once(':').is_some_and(|(scheme, _)| !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// All `[text](target)` and `[name]: target` outside of code, each with the number of its line.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        let start = line.trim_start();
        if start.starts_with("```") || start.starts_with("~~~") {
            in_code = !in_code;
        } else if !in_code {
            let prose = without_code(line);
            found.extend(targets(&prose).into_iter().map(|target| (number, target)));
        }
    }
    found
}

/// The line without its `code`, so that every second part between backticks falls out.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

fn targets(prose: &str) -> Vec<String> {
    let inline = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let named = prose.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
    // A target may be followed by a title, and may stand in angle brackets.
    let bare = |target: &str| target.split_whitespace().next().unwrap_or_default().trim_matches(['<', '>']).to_owned();
    inline.chain(named).map(bare).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<Finding> {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(root.path().join("docs/guide")).expect("a folder");
        std::fs::write(root.path().join("README.md"), "").expect("a file");
        check(root.path(), &[Source::new(path, text)])
    }

    #[test]
    fn finds_dead_links_of_both_kinds() {
        let found = findings("docs/a.md", "fine\n[one](gone.md) and [two](guide)\n\n[three]: ../GONE.md \"title\"\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("docs/a.md:2: the link to gone.md"), "{found:?}");
        assert!(found[1].starts_with("docs/a.md:4: the link to ../GONE.md"), "{found:?}");
    }

    #[test]
    fn a_link_out_of_the_repository_is_dead() {
        assert_eq!(findings("docs/a.md", "[up](../../etc/hosts)").len(), 1);
    }

    #[test]
    fn leaves_living_links_and_code_alone() {
        let text = "[a](../README.md#start) [b](#here) [c](https://example.org/x) [d](mailto:a@b.c) [e](/docs)\n\
                    `[f](gone)` and `v[i](x)`\n```\n[g](gone)\n```\n![h](<guide/> \"title\")\n";
        assert_eq!(findings("docs/a.md", text), [""; 0]);
    }
}
