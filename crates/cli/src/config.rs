//! The configuration file, and `config check`. Unknown keys are refused: a misspelt limit would be no limit.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::json;
use shardine_server::{Access, CoordPath, Right};

use crate::complaint::{Code, Complaint};
use crate::log::LogFormat;
use crate::show::Output;
use crate::size::Size;

#[derive(Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Read a file as `up --config` would and say what is wrong with it
    #[command(after_help = "Example:\n  shardine config check shardine.toml")]
    Check { file: PathBuf },
}

/// What `up` may be told by a file. Absent means: flag, environment or default decide.
#[derive(Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub data: Option<PathBuf>,
    pub redis: Option<SocketAddr>,
    pub grpc: Option<SocketAddr>,
    pub http: Option<SocketAddr>,
    pub http_host: Option<Vec<String>>,
    pub sql: Option<String>,
    pub shards: Option<u32>,
    pub lanes: Option<usize>,
    #[serde(skip_serializing)]
    pub token: Option<String>,
    pub insecure: Option<bool>,
    pub connections_max: Option<usize>,
    pub snapshot_log_bytes: Option<Size>,
    pub memory_max: Option<Size>,
    pub checksum_every: Option<u64>,
    pub split_size: Option<Size>,
    pub split_records: Option<u64>,
    pub split_requests: Option<u64>,
    pub split_cpu: Option<u64>,
    pub split_written: Option<Size>,
    pub flush_timeout: Option<u64>,
    pub coord_groups: Option<u32>,
    pub log_format: Option<LogFormat>,
    pub access: Option<Vec<AccessEntry>>,
}

/// A further token for coordination: what it may do at a path and below it.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AccessEntry {
    #[serde(skip_serializing)]
    pub token: String,
    pub path: String,
    pub rights: Vec<RightName>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RightName {
    Read,
    Write,
    Erase,
}

impl File {
    /// The further tokens as the server takes them.
    pub fn access(&self) -> Vec<Access> {
        self.access.iter().flatten().map(AccessEntry::meaning).collect()
    }

    /// What the form of the file does not say. `master` is the token that may everything, which need not be of the file.
    pub fn check_access(&self, master: Option<&str>) -> Result<(), Complaint> {
        for entry in self.access.iter().flatten() {
            let refuse = |what: &str, remedy: &str| {
                let what = format!("[[access]] for {}: {what}", entry.path);
                Err(Complaint::misused(what, "such an entry would mean nothing, or too much", remedy))
            };
            if entry.token.is_empty() {
                return refuse("its token is empty", "token = \"…\", at least a few letters");
            }
            if master == Some(&entry.token) {
                return refuse("its token is the one that may everything", "another token");
            }
            if entry.rights.is_empty() {
                return refuse("it gives no rights", "rights = [\"read\", \"write\", \"erase\"], or some of them");
            }
            if !entry.path.starts_with('/') {
                return refuse("its path does not begin with a slash", "path = \"/local/locks\", or \"/\" for all");
            }
        }
        Ok(())
    }
}

impl AccessEntry {
    fn meaning(&self) -> Access {
        let rights = self.rights.iter().map(|right| match right {
            RightName::Read => Right::Read,
            RightName::Write => Right::Write,
            RightName::Erase => Right::Erase,
        });
        Access { token: self.token.clone(), path: CoordPath::parse(&self.path), rights: rights.collect() }
    }
}

const KEYS: [&str; 23] = [
    "data",
    "redis",
    "grpc",
    "http",
    "http_host",
    "sql",
    "shards",
    "lanes",
    "token",
    "insecure",
    "connections_max",
    "snapshot_log_bytes",
    "memory_max",
    "checksum_every",
    "split_size",
    "split_records",
    "split_requests",
    "split_cpu",
    "split_written",
    "flush_timeout",
    "coord_groups",
    "log_format",
    "access",
];

pub fn run(args: &ConfigArgs, output: Output) -> Result<(), Complaint> {
    let ConfigCommand::Check { file } = &args.command;
    let read = read(file)?;
    output.print(|| format!("{} is sound", file.display()), || json!({ "file": file, "options": read }));
    Ok(())
}

pub fn read(path: &Path) -> Result<File, Complaint> {
    let what = format!("cannot read {}", path.display());
    let text = std::fs::read_to_string(path)
        .map_err(|error| Complaint::misused(what, error.to_string(), "--config FILE that exists and may be read"))?;
    let file = parse(&path.display().to_string(), &text)?;
    if file.token.is_some() || file.access.is_some() {
        check_secret(path)?;
    }
    file.check_access(file.token.as_deref())?;
    Ok(file)
}

fn parse(name: &str, text: &str) -> Result<File, Complaint> {
    toml::from_str(text).map_err(|error| {
        let (line, column) = place(text, error.span().map_or(0, |span| span.start));
        let what = format!("{name}:{line}:{column}: {}", error.message());
        Complaint::misused(what, "the file is not what `up` understands", remedy(error.message()))
    })
}

/// A file that holds the token and that others may read gives the token away.
fn check_secret(path: &Path) -> Result<(), Complaint> {
    let mode = std::fs::metadata(path).map_err(Complaint::from_io)?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let what = format!("{} holds a token and may be read by others (mode {:o})", path.display(), mode & 0o777);
    let complaint =
        Complaint::failed(what, "who reads it can change your data", format!("chmod 600 {}", path.display()));
    Err(complaint.coded(Code::Exposed))
}

fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..offset.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
    (line, column)
}

fn remedy(message: &str) -> String {
    let unknown = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
    match unknown {
        None => "compare with docs/cli.md".to_owned(),
        Some(key) => match nearest(key) {
            Some(known) => format!("did you mean {known}?"),
            None => format!("known keys: {}", KEYS.join(", ")),
        },
    }
}

fn nearest(key: &str) -> Option<&'static str> {
    let best = KEYS.into_iter().min_by_key(|known| distance(key, known))?;
    (distance(key, best) <= 1 + best.len() / 3).then_some(best)
}

/// How many letters must be put in, taken out or changed to make one word of the other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (above, letter) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for (column, other) in right.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_file_is_read() {
        let file = parse("x.toml", "data = '/d'\nredis = '127.0.0.1:1'\nshards = 8\n").unwrap();

        assert_eq!((file.data, file.shards), (Some(PathBuf::from("/d")), Some(8)));
        assert_eq!(file.redis, Some(SocketAddr::from(([127, 0, 0, 1], 1))));
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_place_and_neighbour() {
        let complaint = parse("x.toml", "data = '/d'\n  redsi = '127.0.0.1:1'\n").unwrap_err();

        assert!(complaint.what.starts_with("x.toml:2:3: unknown field `redsi`"), "{}", complaint.what);
        assert_eq!(complaint.remedy, "did you mean redis?");
        assert_eq!(complaint.exit, 2);
    }

    #[test]
    fn tokens_with_rights_are_read() {
        let text = "[[access]]\ntoken = 'hush'\npath = '/local/locks'\nrights = ['read', 'erase']\n[[access]]\ntoken = 'u'\npath = '/'\nrights = ['write']\n";
        let file = parse("x.toml", text).unwrap();

        assert!(file.check_access(Some("all")).is_ok());
        let access = file.access();
        assert_eq!(access[0].rights, [Right::Read, Right::Erase]);
        assert_eq!(access[0].path, CoordPath::parse("/local/locks"));
        assert_eq!(access[1].path, None, "everywhere");
        assert!(!serde_json::to_string(&file).unwrap().contains("hush"), "tokens are not shown");
    }

    #[test]
    fn an_entry_that_means_nothing_is_refused() {
        let complaint = |entry: &str| {
            let file = parse("x.toml", &format!("token = 'all'\n[[access]]\n{entry}\n"))?;
            file.check_access(file.token.as_deref())
        };

        assert!(complaint("token = 't'\npath = '/local'\nrights = ['read']").is_ok());
        for entry in [
            "token = ''\npath = '/local'\nrights = ['read']",
            "token = 'all'\npath = '/local'\nrights = ['read']",
            "token = 't'\npath = '/local'\nrights = []",
            "token = 't'\npath = 'local'\nrights = ['read']",
            "token = 't'\npath = '/local'\nrights = ['own']",
            "token = 't'\npath = '/local'\nrights = ['read']\nuntil = 'tomorrow'",
            "path = '/local'\nrights = ['read']",
        ] {
            assert_eq!(complaint(entry).unwrap_err().exit, 2, "{entry}");
        }
    }

    #[test]
    fn the_token_of_the_command_line_is_no_lesser_one_of_the_file() {
        let file = parse("x.toml", "[[access]]\ntoken = 't'\npath = '/local'\nrights = ['read']\n").unwrap();

        assert!(file.check_access(Some("all")).is_ok());
        assert!(file.check_access(Some("t")).is_err());
    }

    #[test]
    fn a_wrong_type_is_refused_with_its_place() {
        let complaint = parse("x.toml", "shards = 'four'\n").unwrap_err();

        assert!(complaint.what.starts_with("x.toml:1:10: "), "{}", complaint.what);
    }

    #[test]
    fn the_list_of_keys_is_the_list_of_fields() {
        for key in KEYS {
            let error = toml::from_str::<File>(&format!("{key} = {{}}")).unwrap_err();

            assert!(!error.message().starts_with("unknown field"), "{key}");
        }
        let error = toml::from_str::<File>("nothing = 1").unwrap_err();
        assert_eq!(error.message().matches('`').count(), 2 * (KEYS.len() + 1));
    }

    #[test]
    fn words_are_as_far_apart_as_letters_differ() {
        assert_eq!(distance("redis", "redis"), 0);
        assert_eq!(distance("redsi", "redis"), 2);
        assert_eq!(distance("", "sql"), 3);
        assert_eq!(nearest("zzzzzzz"), None);
    }
}
