//! Which coordination groups a node that is alone has, and which of them a path belongs to.

use anyhow::bail;
use shardine_model::{GroupKind, ShardId};
use shardine_router::COORD_GROUPS_MAX as GROUPS_MAX;
use shardine_shard::coord::{NodeCall, Path};
use shardine_store::Storage;

use crate::start_error::StartError;

const FIRST_GROUP: u32 = ShardId::FIRST_COORDINATION.0;

fn is_group(shard: ShardId) -> bool {
    shard.kind() == GroupKind::Coordination
}

/// The groups that the directory holds, or, if it is new, as many as asked for. Nodes stay in the group that they were made
/// in, so the number cannot change.
pub(crate) fn groups(storage: &Storage, asked: Option<u32>) -> anyhow::Result<Vec<ShardId>> {
    let mut known = storage.shards()?;
    known.retain(|&shard| is_group(shard));
    choose(&known, asked)
}

fn choose(known: &[ShardId], asked: Option<u32>) -> anyhow::Result<Vec<ShardId>> {
    let asked = match asked {
        Some(count) if count == 0 || count > GROUPS_MAX => {
            bail!("--coord-groups {count}: there may be 1 to {GROUPS_MAX} coordination groups")
        }
        asked => asked,
    };
    let count = if known.is_empty() { asked.unwrap_or(1) } else { u32::try_from(known.len())? };
    let groups: Vec<ShardId> = (FIRST_GROUP..FIRST_GROUP + count).map(ShardId).collect();
    if !known.is_empty() && groups != known {
        bail!(
            "the data directory holds coordination groups {known:?}, which are not the first {count}: part of it is missing; restore it from a copy"
        );
    }
    if let Some(asked) = asked.filter(|&asked| asked != count) {
        return Err(StartError::OtherLayout { option: "coord-groups", asked, found: count }.into());
    }
    Ok(groups)
}

/// The place of a path's group among so many, on a node that is alone and has no map to say it.
pub(super) fn place_of(path: &str, groups: usize) -> usize {
    Path::parse(path).map_or(0, |path| path.place(groups))
}

/// The path of the node that a call is about. A list is of all.
pub(super) fn path_of(call: &NodeCall) -> Option<&str> {
    match call {
        NodeCall::Create { path, .. }
        | NodeCall::Alter { path, .. }
        | NodeCall::Drop { path }
        | NodeCall::Describe { path }
        | NodeCall::Resource { node: path, .. } => Some(path),
        NodeCall::List => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(count: u32) -> Vec<ShardId> {
        (FIRST_GROUP..FIRST_GROUP + count).map(ShardId).collect()
    }

    #[test]
    fn a_new_directory_gets_as_many_as_asked_for() {
        assert_eq!(choose(&[], None).unwrap(), groups(1));
        assert_eq!(choose(&[], Some(4)).unwrap(), groups(4));
        assert!(choose(&[], Some(0)).is_err());
        assert!(choose(&[], Some(GROUPS_MAX + 1)).is_err());
    }

    #[test]
    fn their_number_cannot_change() {
        assert_eq!(choose(&groups(4), None).unwrap(), groups(4));
        assert_eq!(choose(&groups(4), Some(4)).unwrap(), groups(4));

        let error = choose(&groups(4), Some(2)).unwrap_err().to_string();

        assert!(error.contains("was made with 4"), "{error}");
    }

    #[test]
    fn a_missing_group_is_noticed() {
        assert!(choose(&groups(4)[1..], None).is_err());
    }
}
