//! One replica of one shard: events in, actions out. Pure.
