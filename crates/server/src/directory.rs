//! A data directory as somebody sees it who does not start a node on it.

use std::path::Path;

use shardine_store::{DataDir, Error, Identity, NodeFile};

/// Whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    pub cluster: u128,
    pub node: u64,
    /// Empty of a node that is alone.
    pub name: String,
    /// How often it was started.
    pub starts: u64,
    /// Why it was turned away for good, if it was.
    pub refused: Option<String>,
}

/// `None` if it is new, or as good as new, or not there at all; in that case it stays so. An error if a process has it, or if it is damaged.
pub fn look_at(path: &Path) -> Result<Option<Directory>, Error> {
    if !path.exists() {
        return Ok(None);
    }
    let data = DataDir::lock(path)?;
    if data.is_unused()? {
        return Ok(None);
    }
    let (starts, refused) = (data.starts()?, data.load_file(NodeFile::Refused)?);
    let refused = refused.map(|reason| String::from_utf8_lossy(&reason).into_owned());
    let whose = |Identity { cluster, node, name }| Directory { cluster, node: node.0, name, starts, refused };
    Ok(data.identity()?.map(whose))
}
