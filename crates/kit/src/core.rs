//! Everything that decides: the map, who is asked, when a second one is asked, what a call's end is, what a claim does next.
//! No clock, chance, network or database in here: time and chance are arguments, requests are numbers.

// In the order in which a newcomer should read them.
pub mod shard;
pub mod interval;
pub mod map;
pub mod view;
pub mod plan;
pub mod call;

pub mod budget;
pub mod latency;
pub mod tenure;
pub mod moment;
