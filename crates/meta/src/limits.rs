//! Every maximum of the map, each with its reason.

/// Nodes of a cluster, removed ones too. Each talks to each of them.
pub const NODES_MAX: usize = 10_000;

/// Labels of a node, and bytes of each name and value.
pub const LABELS_MAX: usize = 32;
pub const LABEL_BYTES_MAX: usize = 255;

/// How a node's share of reads is weighed.
pub const WEIGHT_MAX: u16 = 1_000;
pub const WEIGHT_DEFAULT: u16 = 100;

/// Nodes of coordination. Their paths are in every node's map, which is written whole with each of its versions.
pub const PATHS_MAX: usize = 10_000;

/// Bytes of such a path: as long as the coordination door takes one.
pub const PATH_BYTES_MAX: usize = 1_024;

/// Settings, and bytes of a name and a value.
pub const SETTINGS_MAX: usize = 1_000;
pub const SETTING_NAME_BYTES_MAX: usize = 255;
pub const SETTING_VALUE_BYTES_MAX: usize = 4 << 10;

/// Libraries of functions, bytes of a name, and bytes of all of them: they are in every node's map, which is written whole with each of
/// its versions.
pub const LIBRARIES_MAX: usize = 255;
pub const LIBRARY_NAME_BYTES_MAX: usize = 255;
pub const LIBRARIES_BYTES_MAX: usize = 1 << 20;

/// Shards of records. Each is a Raft group with timers of its own, and stands in every node's map.
pub const SHARDS_MAX: usize = 10_000;

/// Lines of the history, and bytes of each. They are in every node's map, which is written whole with each of its versions.
pub const EVENTS_MAX: usize = 200;
pub const EVENT_BYTES_MAX: usize = 512;

/// Bytes of an SQL address, with a password and options.
pub const SQL_BYTES_MAX: usize = 4 << 10;

/// Voters of a group. Seven survive the loss of three; more only cost.
pub const VOTERS_MAX: usize = 7;

/// Changes of members that are under way at once. Each copies a group's data, and shares disks and network with those who wait.
pub const OPERATIONS_MAX: usize = 4;

/// Versions whose changes are kept for nodes that are a little behind, and the bytes of one such delta. Others get the map whole.
pub const HISTORY_VERSIONS_MAX: usize = 1_000;
pub const DELTA_BYTES_MAX: usize = 60 << 10;

/// Voters of the group of the map itself, by how many nodes there are to hold it.
pub const META_VOTERS_MAX: usize = 5;

/// Voters of every other group.
pub const GROUP_VOTERS: usize = 3;

/// The largest number that is believed to have been given to anything. Counting to it would take longer than the world lasts, and
/// there is room above it.
pub const NUMBER_MAX: u64 = 1 << 62;
