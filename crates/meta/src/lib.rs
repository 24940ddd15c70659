//! The cluster's map as a replicated state machine: which nodes there are, which of them hold which group, what tables there are,
//! and which operations are under way.
//!
//! Three parts. [`Meta`] is the state machine: a function of state and entry, the same on every replica. [`Map`] is what it
//! publishes: every node has one, and keeps it up to date by [`Delta`]s, version by version. [`plan`] looks at a map and says what
//! should be done about it. Leaders of groups are in none of them: they change without anybody's leave, and nodes tell each other.
//!
//! Neither touches a socket, a disk or a clock.

// In the order in which a newcomer should read them.
mod node;
mod operation;
mod map;
mod change;
mod event;

mod command;
mod reply;
mod state;
mod apply;
mod feed;
mod followers;
mod snapshot;

mod audit;
mod plan;
mod settings;

mod codec;
pub mod limits;

pub use apply::Fatal;
pub use apply::libraries::{Libraries, no_library, with_libraries};
pub use audit::{Held, audit};
pub use change::{Change, Delta};
pub use command::{Command, Joiner, Replaced, open_entry};
pub use event::Event;
pub use feed::Feed;
pub use followers::Followers;
pub use map::{BadDelta, Keyspace, Map, Place};
pub use node::{Node, NodeState};
pub use operation::{Operation, OperationId, Replace, Stage, Todo};
pub use plan::{LeadMove, Left, Load, Move, Sight, left_on, plan, plan_leads, plan_with_reasons};
pub use reply::{OLD_COPY, Reply};
pub use settings::{BALANCER, BALANCER_LEADS_AFTER, BALANCER_SPEED, BALANCER_WINDOW, NODE_GONE_AFTER, Settings};
pub use shardine_model::NodeMode as Mode;
pub use state::Meta;
