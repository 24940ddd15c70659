//! Which database stands behind the cache, as written in `--sql URL`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Url {
    /// Nothing: every table lives in memory and in the log alone.
    None,
    Sqlite(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UrlError {
    // The text is not repeated: it may hold a password.
    #[error("{database} is not in this version: use sqlite:PATH or none")]
    NotYet { database: &'static str },
    #[error("sqlite: needs the path of a file, as in sqlite:./shardine.db")]
    NoPath,
    #[error("sqlite::memory: would be forgotten on exit: use sqlite:PATH, or none for no database at all")]
    InMemory,
    #[error("an SQL URL is sqlite:PATH or none")]
    Unknown,
}

impl Url {
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text == "none" {
            return Ok(Self::None);
        }
        match text.split_once(':') {
            // `sqlite:///a/b` and `sqlite://b` are how other tools spell `/a/b` and `b`.
            Some(("sqlite", path)) => parse_path(path.strip_prefix("//").unwrap_or(path)),
            Some(("postgres" | "postgresql", _)) => Err(UrlError::NotYet { database: "PostgreSQL" }),
            Some(("mysql" | "mariadb", _)) => Err(UrlError::NotYet { database: "MySQL" }),
            _ => Err(UrlError::Unknown),
        }
    }
}

fn parse_path(path: &str) -> Result<Url, UrlError> {
    match path {
        "" => Err(UrlError::NoPath),
        ":memory:" => Err(UrlError::InMemory),
        path => Ok(Url::Sqlite(PathBuf::from(path))),
    }
}

impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("none"),
            Self::Sqlite(path) => write!(formatter, "sqlite:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_reads_as_it_is_written() {
        for text in ["none", "sqlite:rows.db", "sqlite:/var/lib/rows.db", "sqlite:a b?c.db"] {
            assert_eq!(text.parse::<Url>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn slashes_of_other_tools_are_understood() {
        assert_eq!("sqlite:///var/rows.db".parse(), Ok(Url::Sqlite("/var/rows.db".into())));
        assert_eq!("sqlite://rows.db".parse(), Ok(Url::Sqlite("rows.db".into())));
    }

    #[test]
    fn what_cannot_be_served_says_so_and_hides_passwords() {
        let refused = "postgres://app:secret@db/app".parse::<Url>().unwrap_err();

        assert!(refused.to_string().contains("not in this version"));
        assert!(!refused.to_string().contains("secret"));
        assert_eq!("sqlite:".parse::<Url>(), Err(UrlError::NoPath));
        assert_eq!("sqlite::memory:".parse::<Url>(), Err(UrlError::InMemory));
        assert_eq!("redis://x".parse::<Url>(), Err(UrlError::Unknown));
        assert_eq!("".parse::<Url>(), Err(UrlError::Unknown));
    }
}
