//! The log of `up`, on stderr: sentences for people, or a JSON object per line for machines.

use std::io::IsTerminal;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Colours are for eyes: a file or a pipe gets none.
pub fn to_stderr(format: LogFormat) {
    let filter = EnvFilter::try_from_env("SHARDINE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second subscriber is refused; the first one serves as well.
    let _ = match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => log.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init(),
    };
}
