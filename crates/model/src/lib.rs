//! Words shared by all crates: ids, values, tables, keys, positions, commands, entries, replies, errors, limits.
//!
//! Pure: no clock, randomness, I/O or async. What is stored or sent is defined here byte for byte (`docs/encoding.md`).

// In the order in which a newcomer should read them.
pub mod ids;
pub mod key;
pub mod slot;
pub mod bound;
pub mod epoch;
pub mod descriptor;
pub mod split;
pub mod cluster_map;
pub mod address;

pub mod value;
pub mod sql_value;
pub mod json;
pub mod text;
pub mod number;
pub mod version;
pub mod table;
pub mod sort;
pub mod backing;
pub mod sql;
pub mod row;

pub mod command;
pub mod reply;
pub mod error;

pub mod entry;
pub mod group_entry;
pub mod log;
pub mod stream;
pub mod checksum;
pub mod codec;

pub mod limits;

pub use backing::{Ack, AckAfter, Backing, Conflict, Deletes, Mapping, SqlOptions, WriteMode};
pub use bound::{Bound, Bounds};
pub use cluster_map::{BadMap, ClusterMap, DoorAddresses, NodeEntry, NodeMode};
pub use command::{Action, Command, Request};
pub use descriptor::{Descriptor, Placement, ShardState};
pub use entry::Entry;
pub use epoch::{CatalogueVersion, ConfVersion, Epoch, Generation, RangeVersion, RequestEpoch};
pub use error::{ErrorCode, Refusal};
pub use ids::{ClientId, FieldId, GroupKind, LogIndex, NodeId, ReplicaId, ShardId, TableId, Timestamp};
pub use key::{Position, RowKey, RowKeyBuf};
pub use reply::{Answer, Outcome, Reply};
pub use row::{ChangedFields, FieldRef, FieldValue, FieldsView, RowImage, RowView};
pub use slot::Slot;
pub use split::{Split, SplitMember};
pub use sql_value::{Decimal, SqlValue};
pub use table::{Catalogue, Field, Table};
pub use value::{FieldType, Value, ValueRef};
pub use version::Version;
