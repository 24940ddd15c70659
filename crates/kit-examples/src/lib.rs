//! A service on the kit: `goals`, a matcher after the service that the kit's idea comes from, with large keys and neighbours
//! that are read together. The other one, `names` of `docs/kit.md` (strings, spread by a hash), is a program of one file,
//! `bin/names.rs`. They share no line of code but the kit's.

pub mod chaos;
pub mod goals;
