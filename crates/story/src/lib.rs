//! What stories are written in: scripts, the words for commands, and how outcomes are shown. The stories, and whoever tells
//! them, are beside the machines that they are about (`*/tests/stories`).

pub mod script;
pub mod words;
pub mod epochs;
pub mod show;
