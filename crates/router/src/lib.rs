//! The hall: key to position to shard; what every door may ask, and nothing of how it is done.
