//! Every link of a Markdown file to a file of the repository leads somewhere. Links to the web are not followed.

use std::path::Path;

use shardine_testkit::workspace_root;

use super::Problem;
use crate::tree::File;

pub fn check(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.has_extension("md")) {
        let folder = file.path.parent().unwrap_or(Path::new(""));
        for (number, target) in local_links(&file.text) {
            if !workspace_root().join(folder).join(target).exists() {
                let place = format!("{}:{number}", file.path.display());
                problems.push(Problem::new(place, format!("leads to {target}, which is not there")));
            }
        }
    }
    problems
}

/// The targets of `](target)`, without the part after `#`, with their line numbers; none from code.
fn local_links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        // Outside of code spans only: every second piece between backticks is code.
        for piece in line.split('`').step_by(2) {
            let targets = piece.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            let files = targets.map(|target| target.split('#').next().unwrap_or_default());
            links.extend(
                files.filter(|target| !target.is_empty() && !target.contains(':')).map(|target| (index + 1, target)),
            );
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_to_files_are_found() {
        let text = "[a](docs/a.md#top) and [b](https://example.org) and [c](#here)\n`[d](d.md)`\n```\n[e](e.md)\n```\n[f](f.md)\n";

        assert_eq!(local_links(text), [(1, "docs/a.md"), (6, "f.md")]);
    }
}
