//! What nodes stand on in namespaces of their own, so that it can be taken from under them: a network, a small disk for each,
//! and a PostgreSQL that they share, which remembers every row that went back.

use anyhow::{Result, ensure};

use super::{FIELD, TABLE};
use crate::sql_server::{Database, Kind, SqlServer, Sync};
use crate::{Cluster, Dir, Disk, Home, Network, find_binary};

/// Room for the logs of three lanes, coordination and the map, which are made in advance. Only what is written takes memory.
const DISK_MIB: u64 = 2048;
/// Snapshots come often, so that whoever was away for a while needs one.
const SNAPSHOT_LOG_BYTES: &str = "512KiB";

pub struct Ground {
    pub network: Network,
    pub disks: Vec<Disk>,
    pub sql: SqlServer,
    database: Database,
}

impl Ground {
    /// With a cluster on it: its first node has one lane, the second two, the third three, and so on again.
    pub fn make(nodes: usize) -> Result<(Ground, Cluster)> {
        let dir = Dir::new()?;
        let network = Network::make(nodes)?;
        let disks = (0..nodes).map(|place| Disk::make(&dir.join(format!("d{}", place + 1)), DISK_MIB));
        let disks = disks.collect::<Result<Vec<_>>>()?;
        let sql = SqlServer::start(Kind::Postgres, Sync::Off, &[])?;
        let database = sql.database()?;
        let url = sql.url_by_file(&database);
        // Nobody else is in this network.
        let start = ["--insecure", "--snapshot-log-bytes", SNAPSHOT_LOG_BYTES];
        let mut cluster = Cluster::prepare(dir, find_binary()?, nodes, &start)?;
        for (place, disk) in disks.iter().enumerate() {
            let node = &mut cluster.nodes[place];
            node.args = vec!["--lanes".to_owned(), (1 + place % 3).to_string()];
            let (host, enter) = (Network::host(place), Network::enter(place));
            node.home = Home { host, enter, folder: disk.path().to_path_buf() };
        }
        cluster.found(nodes, &["--sql", &url, "--coord-groups", "2"])?;
        Ok((Ground { network, disks, sql, database }, cluster))
    }

    /// From now on the database watches its table (reliability I44, I45).
    pub fn watch(&self) -> Result<()> {
        self.database.sql(&format!(
            "CREATE TABLE went_back (k bytea, old bigint, new bigint);
             CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               IF abs(NEW.__version__) < abs(OLD.__version__)
                  OR NEW.__version__ = OLD.__version__ AND NEW.{FIELD} <> OLD.{FIELD} THEN
                 INSERT INTO went_back VALUES (NEW.__key__, OLD.__version__, NEW.__version__);
               END IF;
               RETURN NEW; END $$;
             CREATE TRIGGER look BEFORE UPDATE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION look()"
        ))?;
        Ok(())
    }

    /// Fails if a row went back.
    pub fn ensure_order(&self) -> Result<()> {
        let back = self.database.sql("SELECT convert_from(k, 'UTF8'), old, new FROM went_back LIMIT 10")?;
        ensure!(back.is_empty(), "rows went back in SQL (key, from version, to version):\n{back}");
        Ok(())
    }

    /// Fails if SQL has another number for a record than it was read to have (reliability I53).
    pub fn ensure_equal(&self, read: &[(String, u64)]) -> Result<()> {
        let rows = format!("SELECT convert_from(__key__, 'UTF8'), {FIELD} FROM {TABLE} WHERE __version__ > 0");
        let rows = self.database.sql(&rows)?;
        let rows: std::collections::BTreeMap<&str, &str> =
            rows.lines().filter_map(|row| row.split_once('\t')).collect();
        for (name, number) in read {
            let there = rows.get(name.as_str()).copied().unwrap_or("0");
            ensure!(there == number.to_string(), "{TABLE}:{name} is {number}, and {there} in SQL");
        }
        Ok(())
    }
}
