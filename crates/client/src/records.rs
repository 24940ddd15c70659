//! Records: read, change, scan, at any node of a cluster and straight at the leader of each row.
//!
//! [`Records`] keeps the map of shards and leaders, and goes to leaders by itself; a node that leads no more says who does. All
//! calls share one connection to each node and are sent without waiting for each other: whatever is awaited together
//! travels together. What was certainly not executed is tried again until the deadline, and so is every read. A change whose
//! connection broke is [`Error::InDoubt`], unless it has a number ([`Records::numbered`]): then it is asked again, and executed once.
//!
//! ```no_run
//! use shardine_client::Client;
//! use shardine_client::records::{Change, Row};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let records = Client::new("10.0.0.1:7400,10.0.0.2:7400")?.records().numbered();
//! let lili = Row::new("users", "lili");
//! records.set(lili.clone(), [("age", 10)]).await?;
//! records.incr(lili.clone(), "age", 1).await?;
//! if let Some(record) = records.get(&lili).await? {
//!     println!("{:?} at version {}", record.get::<i64>("age"), record.version);
//!     // Only if nobody was quicker.
//!     records.change(Change::set(lili, [("age", 12)]).if_version(record.version)).await?;
//! }
//! # Ok(())
//! # }
//! ```

// In the order in which a newcomer should read them.
mod value;
mod change;
mod scan;
mod table;
mod error;
// How requests find their way.
mod way;
mod map;
mod numbers;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use shardine_model::Position;
use shardine_proto::v1;
use shardine_proto::v1::batch_item::Item;
use tokio::time::Instant;

pub use self::change::{Change, Changed, Show};
pub use self::error::Error;
pub use self::scan::{Page, Scan};
pub use self::table::{FieldType, Table};
pub use self::value::{FromValue, Record, Row, Value};
/// The one list of codes for all doors (`docs/errors.md`).
pub use shardine_model::ErrorCode;

use self::error::Meaning;
use self::numbers::Numbers;
use self::way::{Attempt, Nature, PendingRequest, Way};
use crate::doors::Doors;

/// How long a call may take if nothing is said.
const TIME_DEFAULT: Duration = Duration::from_secs(5);

/// Records of a cluster. Clones share connections and the map.
#[derive(Clone, Debug)]
pub struct Records {
    way: Arc<Way>,
    numbers: Option<Arc<Numbers>>,
    time: Duration,
    stale: Option<Duration>,
}

impl Records {
    pub(crate) fn new(doors: Doors) -> Self {
        Self { way: Way::new(doors), numbers: None, time: TIME_DEFAULT, stale: None }
    }

    /// The same with another deadline for each call; five seconds without it.
    #[must_use]
    pub fn within(&self, time: Duration) -> Self {
        Self { time, ..self.clone() }
    }

    /// The same with a number on every change. A change whose answer was lost is then asked again, and executed once. Servers keep
    /// the results meanwhile; 128 changes of one client may be under way, and further ones wait.
    #[must_use]
    pub fn numbered(&self) -> Self {
        Self { numbers: Some(Numbers::new()), ..self.clone() }
    }

    /// The same with reads that any replica may answer, at once, as it was at most this long ago. Which one, its node's weight and
    /// mode decide.
    #[must_use]
    pub fn stale(&self, age_max: Duration) -> Self {
        Self { stale: Some(age_max), ..self.clone() }
    }

    /// A record; `None` if there is none.
    pub async fn get(&self, row: &Row) -> Result<Option<Record>, Error> {
        let (asked, errand) = (self.get_request(row), self.reading(row));
        let found = self.way.go(&errand, |attempt| {
            let asked = asked.clone();
            async move {
                let request = attempt.request(asked);
                let mut service = attempt.service;
                let answered = service.get(request).await.map_err(|status| Meaning::of_status(&status))?;
                Ok(answered.into_inner().record)
            }
        });
        absent_is_none(found.await)
    }

    /// Several records, each with its own result, in the order of the rows. Not of one moment.
    pub async fn get_many(&self, rows: &[Row]) -> Vec<Result<Option<Record>, Error>> {
        join_all(rows.iter().map(|row| self.get(row))).await
    }

    /// Changes the named fields; makes the record from defaults if it is absent.
    pub async fn set<N: Into<String>, V: Into<Value>>(
        &self,
        row: Row,
        values: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Changed, Error> {
        self.change(Change::set(row, values)).await
    }

    /// Adds to a number and says what it has come to.
    pub async fn incr(&self, row: Row, field: &str, by: impl Into<Value>) -> Result<Option<Value>, Error> {
        Ok(self.change(Change::incr(row, field, by)).await?.value)
    }

    /// Deletes a record; says whether there was one.
    pub async fn delete(&self, row: Row) -> Result<bool, Error> {
        Ok(self.change(Change::delete(row)).await?.count > 0)
    }

    /// Any change of one record.
    pub async fn change(&self, change: Change) -> Result<Changed, Error> {
        let errand = self.changing(&change.row.key).await;
        let changed = self.way.go(&errand, |attempt| {
            let item = change.to_item(attempt.delivery);
            async move { send_change(attempt, item).await.map_err(|status| Meaning::of_status(&status)) }
        });
        changed.await
    }

    /// Several changes of one partition at one moment: all or none. A partition is a key, or what stands in its `{…}`.
    pub async fn batch(&self, changes: Vec<Change>) -> Result<Vec<Changed>, Error> {
        let Some(first) = changes.first() else { return Ok(Vec::new()) };
        let errand = self.changing(&first.row.key).await;
        let replies = self.way.go(&errand, |attempt| {
            let item = |change: &Change| v1::BatchItem { item: Some(change.to_item(None)) };
            let (items, delivery) = (changes.iter().map(item).collect(), attempt.delivery);
            let batch = v1::BatchRequest { conditions: Vec::new(), items, delivery };
            async move {
                let request = attempt.request(batch);
                let mut service = attempt.service;
                let answered = service.batch(request).await.map_err(|status| Meaning::of_status(&status))?;
                Ok(answered.into_inner().replies)
            }
        });
        Ok(replies.await?.into_iter().map(Changed::from).collect())
    }

    /// A page of a table, or of the rows of one key in sort order.
    pub async fn scan(&self, scan: &Scan) -> Result<Page, Error> {
        let position = scan.partition().map(Position::of_key);
        let errand = PendingRequest { position, nature: Nature::Read, until: self.until() };
        let page = self.way.go(&errand, |attempt| {
            let asked = scan.to_message();
            async move {
                let request = attempt.request(asked);
                let mut service = attempt.service;
                let answered = service.scan(request).await.map_err(|status| Meaning::of_status(&status))?;
                Ok(answered.into_inner())
            }
        });
        Ok(Page::from_message(page.await?))
    }

    /// Makes a table; one that is there already stays as it is ([`Records::table`] tells what it is).
    pub async fn create_table(&self, table: &Table) -> Result<(), Error> {
        // A second one is refused, so it may be asked for until there is an answer, like a read.
        let errand = PendingRequest { position: None, nature: Nature::Read, until: self.until() };
        let made = self.way.go(&errand, |attempt| {
            let asked = table.to_message();
            async move {
                let (request, mut tables) = (attempt.request(asked), attempt.tables());
                tables.create(request).await.map(drop).map_err(|status| Meaning::of_status(&status))
            }
        });
        match made.await {
            Err(error) if error.code() == Some(ErrorCode::Exists) => Ok(()),
            made => made,
        }
    }

    /// A table's definition; `None` if there is no such table.
    pub async fn table(&self, name: &str) -> Result<Option<Table>, Error> {
        let errand = PendingRequest { position: None, nature: Nature::Read, until: self.until() };
        let found = self.way.go(&errand, |attempt| {
            let asked = v1::ShowTableRequest { name: name.to_owned() };
            async move {
                let (request, mut tables) = (attempt.request(asked), attempt.tables());
                let answered = tables.show(request).await.map_err(|status| Meaning::of_status(&status))?;
                Ok(answered.into_inner())
            }
        });
        table::unknown_is_none(found.await)
    }

    fn get_request(&self, row: &Row) -> v1::GetRequest {
        let max_age_ms = self.stale.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        let (row, stale) = (Some(row.to_message()), self.stale.is_some());
        v1::GetRequest { row, stale, max_age_ms, ..v1::GetRequest::default() }
    }

    /// A read that may be old goes to anybody: the node that is asked chooses the replica.
    fn reading(&self, row: &Row) -> PendingRequest {
        let position = self.stale.is_none().then(|| Position::of_key(&row.key));
        PendingRequest { position, nature: Nature::Read, until: self.until() }
    }

    async fn changing(&self, key: &[u8]) -> PendingRequest {
        let nature = match &self.numbers {
            Some(numbers) => Nature::Numbered(numbers.next().await),
            None => Nature::Change,
        };
        PendingRequest { position: Some(Position::of_key(key)), nature, until: self.until() }
    }

    fn until(&self) -> Instant {
        Instant::now() + self.time
    }
}

/// A record that is not there is no error here.
fn absent_is_none(found: Result<Option<v1::Record>, Error>) -> Result<Option<Record>, Error> {
    match found {
        Ok(record) => Ok(record.and_then(Record::from_message)),
        Err(Error::Refused { code: ErrorCode::NotFound, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn send_change(attempt: Attempt, item: Item) -> Result<Changed, tonic::Status> {
    let mut service = attempt.service.clone();
    Ok(match item {
        Item::Set(message) => service.set(attempt.request(message)).await?.into_inner().into(),
        Item::Insert(message) => service.insert(attempt.request(message)).await?.into_inner().into(),
        Item::Replace(message) => service.replace(attempt.request(message)).await?.into_inner().into(),
        Item::Update(message) => service.update(attempt.request(message)).await?.into_inner().into(),
        Item::Cas(message) => service.cas(attempt.request(message)).await?.into_inner().into(),
        Item::Incr(message) => service.incr(attempt.request(message)).await?.into_inner().into(),
        Item::Delete(message) => service.delete(attempt.request(message)).await?.into_inner().into(),
        Item::Get(_) => return Err(tonic::Status::internal("a read is no change")),
    })
}
