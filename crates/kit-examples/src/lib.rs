//! Two services on the kit. `goals` is a matcher after the service that the kit's idea comes from: large keys, neighbours read
//! together. `names` is the small one of `docs/kit.md`: strings, spread by a hash. They share no line of code but the kit's.

// In the order in which a newcomer should read them.
pub mod goals;
pub mod names;
