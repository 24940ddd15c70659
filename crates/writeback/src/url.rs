//! Which database stands behind the cache, as written in `--sql URL`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use mysql_async::OptsBuilder;
use thiserror::Error;
use tokio_postgres::config::SslMode;

use crate::tls::{Mode, Tls};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Url {
    /// Nothing: every table lives in memory and in the log alone.
    None,
    Sqlite(PathBuf),
    Postgres(Server<tokio_postgres::Config>),
    /// MySQL or MariaDB: the server says which.
    Mysql(Server<mysql_async::Opts>),
}

/// A server, and how its driver reaches it. Shows everything but the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Server<T> {
    text: String,
    pub(crate) config: Box<T>,
    pub(crate) tls: Tls,
}

// The text is never repeated: it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UrlError {
    #[error("sqlite: needs the path of a file, as in sqlite:./shardine.db")]
    NoPath,
    #[error("sqlite::memory: would be forgotten on exit: use sqlite:PATH, or none for no database at all")]
    InMemory,
    #[error("{scheme} needs a server and a database, as in {scheme}://user:password@host/database: {fault}")]
    BadServer { scheme: String, fault: String },
    #[error("an SQL URL is postgres://USER:PASSWORD@HOST/DB, mysql://USER:PASSWORD@HOST/DB, sqlite:PATH or none")]
    Unknown,
}

impl Url {
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Whether it is a process of its own, which may be down while this one runs.
    #[must_use]
    pub fn is_server(&self) -> bool {
        matches!(self, Self::Postgres(_) | Self::Mysql(_))
    }

    /// What the database calls itself.
    #[must_use]
    pub fn database(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Sqlite(_) => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
            Self::Mysql(_) => "MySQL",
        }
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
            Some((scheme @ ("postgres" | "postgresql"), _)) => parse_postgres(scheme, text),
            Some((scheme @ ("mysql" | "mariadb"), rest)) => parse_mysql(scheme, rest),
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

fn parse_postgres(scheme: &str, text: &str) -> Result<Url, UrlError> {
    let bad = |fault: String| UrlError::BadServer { scheme: scheme.into(), fault };
    let (plain, tls) = Tls::split(text).map_err(bad)?;
    // The driver's own words may repeat the text.
    let mut config: tokio_postgres::Config = plain.parse().map_err(|_| bad("it cannot be read".into()))?;
    config.ssl_mode(if tls.mode == Mode::Disable { SslMode::Disable } else { SslMode::Require });
    if config.get_hosts().is_empty() {
        return Err(bad("no host".into()));
    }
    if config.get_dbname().is_none() {
        return Err(bad("no database".into()));
    }
    config.application_name("shardine");
    Ok(Url::Postgres(Server { text: text.into(), config: Box::new(config), tls }))
}

fn parse_mysql(scheme: &str, rest: &str) -> Result<Url, UrlError> {
    let bad = |fault: &str| UrlError::BadServer { scheme: scheme.into(), fault: fault.into() };
    let (text, tls) = Tls::split(&format!("mysql:{rest}")).map_err(|fault| bad(&fault))?;
    let config = mysql_async::Opts::from_url(&text).map_err(|_| bad("it cannot be read"))?;
    let config = match tls.mysql_options() {
        Some(options) => OptsBuilder::from_opts(config).ssl_opts(options).into(),
        // What the driver's own parameters say stays.
        None => config,
    };
    if config.db_name().is_none_or(str::is_empty) {
        return Err(bad("no database"));
    }
    Ok(Url::Mysql(Server { text, config: Box::new(config), tls }))
}

impl<T> fmt::Display for Server<T> {
    /// `scheme://user@host/db`: without the password, and without parameters, which may hold one.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.text.split('?').next().unwrap_or_default();
        let Some((scheme, rest)) = plain.split_once("://") else { return formatter.write_str("(an SQL server)") };
        let (user, place) = match rest.rsplit_once('@') {
            Some((user, place)) => (user.split(':').next().unwrap_or_default(), place),
            None => ("", rest),
        };
        let at = if user.is_empty() { "" } else { "@" };
        write!(formatter, "{scheme}://{user}{at}{place}")
    }
}

impl<T> fmt::Debug for Server<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("none"),
            Self::Sqlite(path) => write!(formatter, "sqlite:{}", path.display()),
            Self::Postgres(server) => server.fmt(formatter),
            Self::Mysql(server) => server.fmt(formatter),
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
    fn a_server_is_shown_without_its_password() {
        for (text, shown) in [
            ("postgres://app:secret@db:5433/app?connect_timeout=3", "postgres://app@db:5433/app"),
            ("postgresql://app@%2Frun%2Fpg/app?password=secret", "postgresql://app@%2Frun%2Fpg/app"),
            ("mysql://app:se@cret@db/app", "mysql://app@db/app"),
            ("mariadb://app:secret@db/app", "mysql://app@db/app"),
        ] {
            let url = text.parse::<Url>().unwrap();

            assert_eq!(url.to_string(), shown);
            assert!(!format!("{url:?}").contains("cret"), "{url:?}");
        }
    }

    #[test]
    fn what_cannot_be_served_says_so_and_hides_passwords() {
        for text in ["postgres://app:secret@db", "postgres://app:secret@:x/y", "mysql://app:secret@db", "mysql://"] {
            let refused = text.parse::<Url>().unwrap_err();

            assert!(matches!(refused, UrlError::BadServer { .. }), "{text}: {refused}");
            assert!(!refused.to_string().contains("secret"), "{refused}");
        }
        assert_eq!("sqlite:".parse::<Url>(), Err(UrlError::NoPath));
        assert_eq!("sqlite::memory:".parse::<Url>(), Err(UrlError::InMemory));
        assert_eq!("redis://x".parse::<Url>(), Err(UrlError::Unknown));
        assert_eq!("".parse::<Url>(), Err(UrlError::Unknown));
    }
}
