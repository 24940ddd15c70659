//! How often the interesting things happened. A fault that never strikes and a path that is never taken prove nothing, so
//! a long run fails if one of these stays at zero.

/// A struct of counters, each with the words for it.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $words:literal,)*) => {
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Every counter with the words for it.
            #[must_use]
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$(($words, self.$name),)*]
            }
        }
    };
}

pub(crate) use counters;

counters! {
    leader_changes: "changes of leader",
    crashes: "crashes",
    lossy_crashes: "crashes that lost unsynced writes",
    restarts_from_snapshot: "restarts from a snapshot",
    suspicions: "suspicions of a node, right or wrong",
    hand_overs: "hand-overs of everything that a node leads",
    hand_overs_failed: "groups that nobody took over in time",
    stalls: "hand-overs because a disk stood still",
    pauses: "pauses",
    partitions: "partitions",
    one_way_cuts: "cuts in one direction",
    clock_jumps: "jumps of a wall clock",
    clocks_astray: "of them to another day",
    clocks_corrected: "nodes that took over a majority's time",
    snapshots_cut: "snapshots cut",
    snapshots_lost: "snapshots lost half-way",
    snapshots_torn: "snapshots whose last step was met by a crash",
    snapshots_asked: "snapshots asked for because the log was large",
    snapshot_installs: "snapshots installed from a leader",
    installs_behind_writes: "of them on their way to disk behind earlier entries of the same group",
    installs_torn: "installs that were met by a crash",
    members_changed: "changes of members",
    joint_changes: "of them to two configurations at once",
    moves_planned: "moves of replicas that the planner began",
    moves_for_balance: "of them for the sake of balance",
    replicas_come: "replicas that came with nothing",
    replicas_left: "replicas that were removed",
    births: "groups born of others",
    infants: "of their replicas, those that a start found without a snapshot",
    disks_lost: "disks lost for good",
    nodes_joined: "nodes that joined",
    links_dialled: "links dialled",
    links_broken: "links broken",
    links_torn: "of them with something on the way",
    messages_lost: "messages lost",
    messages_copied: "messages delivered twice",
    entries_shown: "entries looked at",
    replicas_compared: "comparisons by marked entries, one for each replica that agreed",
    states_compared: "states compared with what others had at the same entry",
}

/// What happens only where nodes have links.
pub(crate) const OF_LINKS: [&str; 3] = ["links dialled", "links broken", "of them with something on the way"];

/// What happens only where shards are split.
pub(crate) const OF_SPLITS: [&str; 4] = [
    "groups born of others",
    "of their replicas, those that a start found without a snapshot",
    "shards split",
    "splits that came too late to be one",
];

/// What happens only where the members of groups change.
pub(crate) const OF_MEMBERS: [&str; 8] = [
    "changes of members",
    "of them to two configurations at once",
    "moves of replicas that the planner began",
    "of them for the sake of balance",
    "replicas that came with nothing",
    "replicas that were removed",
    "disks lost for good",
    "nodes that joined",
];
