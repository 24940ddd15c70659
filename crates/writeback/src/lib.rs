//! The only crate that knows SQL: dialects, loader, flusher.
