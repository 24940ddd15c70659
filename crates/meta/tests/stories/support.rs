//! The scripts of the house; their words are this folder's own.

#[path = "../../../records/tests/support/script.rs"]
pub mod script;
