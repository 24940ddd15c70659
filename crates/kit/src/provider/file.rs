//! A list in a file, one address a line, that is read again each time.

use std::path::PathBuf;

use super::{Error, Listing, Provider};

/// A file with a host per line. Empty lines and what follows a `#` are left out. Whoever changes it should put a new file in
/// its place (`mv`), or a half-written one may be read.
#[derive(Clone, Debug)]
pub struct HostsFile(PathBuf);

impl HostsFile {
    /// The file at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }
}

impl Provider for HostsFile {
    fn hosts(&self) -> Listing<'_> {
        Box::pin(async {
            let path = self.0.clone();
            let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
            let text = read.map_err(|error| Error::new(self.0.display(), error))?;
            text.map(|text| parse(&text)).map_err(|error| Error::new(self.0.display(), error))
        })
    }
}

fn parse(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_empty_lines_are_no_hosts() {
        assert_eq!(parse("a:1\n\n # nobody\n b:2 # the new one\n"), ["a:1", "b:2"]);
    }
}
