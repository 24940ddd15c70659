//! The database behind a trial, seen past Shardine: its rows, and a trigger that remembers the versions they had.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};
use shardine_testkit::sql_server::{Database, Kind};

pub enum Behind {
    Server(Database),
    File(PathBuf),
}

/// Version, age and name.
pub type Row = (i64, i64, String);

impl Behind {
    pub fn url(&self) -> String {
        match self {
            Self::Server(database) => database.url(),
            Self::File(path) => format!("sqlite:{}", path.display()),
        }
    }

    /// What the database's own program prints: a line per row, columns separated by tabs.
    pub fn ask(&self, statement: &str) -> Result<String> {
        let path = match self {
            Self::Server(database) => return database.sql(statement),
            Self::File(path) => path,
        };
        let mut sqlite = Command::new("sqlite3");
        let output = sqlite.args(["-cmd", ".timeout 10000", "-tabs"]).arg(path).arg(statement).output()?;
        if !output.status.success() {
            bail!("{statement}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Has every change of a version written down in `seen`.
    pub fn write_history(&self) {
        self.ask("CREATE TABLE seen (was BIGINT, became BIGINT)").unwrap();
        let trigger = match self {
            Self::Server(Database { kind: Kind::Postgres, .. }) => {
                "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN INSERT INTO seen VALUES (old.__version__, new.__version__); RETURN NULL; END $$; \
                 CREATE TRIGGER history AFTER UPDATE ON users FOR EACH ROW EXECUTE FUNCTION note()"
            }
            Self::Server(Database { kind: Kind::MariaDb, .. }) => {
                "CREATE TRIGGER history AFTER UPDATE ON users FOR EACH ROW IF old.__version__ <> new.__version__ THEN \
                 INSERT INTO seen VALUES (old.__version__, new.__version__); END IF"
            }
            Self::File(_) => {
                "CREATE TRIGGER history AFTER UPDATE ON users \
                 BEGIN INSERT INTO seen VALUES (old.__version__, new.__version__); END"
            }
        };
        self.ask(trigger).unwrap();
    }

    /// How many versions were written down, and how many of them went down.
    pub fn history(&self) -> Result<(u64, u64)> {
        let count = |condition: &str| -> Result<u64> {
            Ok(self.ask(&format!("SELECT count(*) FROM seen WHERE {condition}"))?.trim().parse()?)
        };
        Ok((count("1 = 1")?, count("abs(became) <= abs(was)")?))
    }

    pub fn rows(&self) -> BTreeMap<String, Row> {
        let key = match self {
            Self::Server(Database { kind: Kind::Postgres, .. }) => "convert_from(__key__, 'UTF8')",
            Self::Server(Database { kind: Kind::MariaDb, .. }) => "__key__",
            Self::File(_) => "CAST(__key__ AS TEXT)",
        };
        let text = self.ask(&format!("SELECT {key}, __version__, age, name FROM users")).unwrap();
        let row = |line: &str| {
            let parts: Vec<&str> = line.split('\t').collect();
            (parts[0].to_owned(), (parts[1].parse().unwrap(), parts[2].parse().unwrap(), parts[3].to_owned()))
        };
        text.lines().map(row).collect()
    }
}
