//! What stories are written in: scripts, the words for commands, and how outcomes are shown. Also used by the tests of
//! the replica core, whose stories speak the same words.

pub mod epochs;
pub mod script;
pub mod show;
pub mod words;
