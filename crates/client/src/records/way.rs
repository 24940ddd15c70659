//! The way of a request: to whom it goes, and to whom next if that does not answer it. One for all clones of a client's records.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardine_model::Position;
use shardine_proto::v1::cluster_client::ClusterClient;
use shardine_proto::v1::records_client::RecordsClient;
use shardine_proto::v1::tables_client::TablesClient;
use shardine_proto::{DIRECT_METADATA, MESSAGE_BYTES_MAX, v1};
use tokio::time::{Instant, sleep, timeout};
use tonic::Request;
use tonic::metadata::MetadataValue;

use super::error::{Error, Meaning};
use super::map::RouteMap;
use super::numbers::Number;
use crate::dial::Carrier;
use crate::doors::Doors;

/// How long a node that could not be reached is left alone.
const DOWN_TIME: Duration = Duration::from_secs(1);

/// How long a question for the map may take.
const MAP_TIME: Duration = Duration::from_secs(1);

/// Between two tries of one request: twice as long each time, give or take.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// After so many refusals that name another leader, a node is asked to find it.
const MOVES_MAX: u32 = 3;

/// How often a numbered request is asked again that a server calls in doubt. It may have forgotten the result for good.
const DOUBTS_MAX: u32 = 3;

#[derive(Debug)]
pub(super) struct Way {
    doors: Doors,
    state: Mutex<State>,
    is_asking: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    map: RouteMap,
    carriers: BTreeMap<String, Carrier>,
    down: BTreeMap<String, Instant>,
}

/// What a request is to whoever must decide whether to send it again.
#[derive(Debug)]
pub(super) enum Nature {
    Read,
    Change,
    Numbered(Number),
}

/// One request, as long as it takes.
#[derive(Debug)]
pub(super) struct PendingRequest {
    /// Whose leader is asked; anybody without it.
    pub position: Option<Position>,
    pub nature: Nature,
    pub until: Instant,
}

/// One try: whom to ask, and how.
pub(super) struct Attempt {
    pub service: RecordsClient<Carrier>,
    pub delivery: Option<v1::Delivery>,
    carrier: Carrier,
    address: String,
    is_direct: bool,
    left: Duration,
}

impl Attempt {
    /// The message with what goes along.
    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.left);
        if self.is_direct {
            request.metadata_mut().insert(DIRECT_METADATA, MetadataValue::from_static("1"));
        }
        request
    }

    /// The same node, for what is asked of tables.
    pub fn tables(&self) -> TablesClient<Carrier> {
        TablesClient::new(self.carrier.clone())
    }
}

/// What has become of a request so far.
#[derive(Debug, Default)]
struct Tries {
    moves: u32,
    doubts: u32,
    /// An earlier try may have been executed.
    is_in_doubt: bool,
    pause: Duration,
}

impl Way {
    pub fn new(doors: Doors) -> Arc<Self> {
        Arc::new(Self { doors, state: Mutex::default(), is_asking: AtomicBool::new(false) })
    }

    /// Tries until there is an answer, or nothing more may be tried, or the time is over.
    pub async fn go<T, F>(
        self: &Arc<Self>,
        errand: &PendingRequest,
        mut send: impl FnMut(Attempt) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Meaning>>,
    {
        if self.lock().map.is_empty() {
            self.ask_for_map().await;
        }
        let mut tries = Tries { pause: PAUSE_MIN, ..Tries::default() };
        loop {
            let attempt = self.attempt(errand, &tries);
            let address = attempt.address.clone();
            let verdict = match send(attempt).await {
                Ok(answer) => return Ok(answer),
                Err(verdict) => verdict,
            };
            self.judge(verdict, &address, errand, &mut tries)?;
            if !tries.pause.is_zero() {
                sleep(tries.pause.mul_f64(rand::random_range(0.5..1.0))).await;
            }
        }
    }

    fn attempt(&self, errand: &PendingRequest, tries: &Tries) -> Attempt {
        let mut state = self.lock();
        let leader = errand.position.filter(|_| tries.moves < MOVES_MAX).and_then(|at| state.map.leader(at));
        let leader = leader.filter(|address| !state.is_down(address)).and_then(|address| match address {
            // Of a node that is alone.
            "" => Some(self.doors.current()),
            address => self.doors.dial(address),
        });
        let is_direct = leader.is_some();
        let dial = leader.unwrap_or_else(|| self.doors.current());
        let address = dial.address().to_owned();
        let carrier = state.carriers.entry(address.clone()).or_insert_with(|| dial.lazily()).clone();
        let delivery = match &errand.nature {
            Nature::Numbered(number) => Some(number.delivery(tries.is_in_doubt)),
            Nature::Read | Nature::Change => None,
        };
        let service = RecordsClient::new(carrier.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let left = errand.until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        Attempt { service, delivery, carrier, address, is_direct, left }
    }

    /// Learns from what a node has said or not said. An error: that was the last try.
    fn judge(
        self: &Arc<Self>,
        verdict: Meaning,
        address: &str,
        errand: &PendingRequest,
        tries: &mut Tries,
    ) -> Result<(), Error> {
        let is_late = Instant::now() >= errand.until;
        tries.pause = if tries.pause.is_zero() { PAUSE_MIN } else { (tries.pause * 2).min(PAUSE_MAX) };
        match verdict {
            Meaning::Refused(error) if error.is_result() => return Err(error),
            Meaning::Refused(error) => return Err(tries.last(error)),
            Meaning::Moved(route) => {
                let is_new = self.lock().map.learn(*route);
                tries.moves = if is_new { tries.moves + 1 } else { MOVES_MAX };
                tries.pause = Duration::ZERO;
                if is_late {
                    return Err(tries.last(Error::Unreachable("the shard moves".to_owned())));
                }
            }
            Meaning::NotDone(error) => {
                if matches!(error, Error::Unreachable(_)) {
                    self.lose(address);
                }
                if is_late {
                    return Err(tries.last(error));
                }
            }
            Meaning::Lost(cause) => {
                self.lose(address);
                tries.doubt(&errand.nature, is_late, cause)?;
            }
            Meaning::Doubt(cause) => {
                tries.doubts += 1;
                tries.doubt(&errand.nature, is_late || tries.doubts > DOUBTS_MAX, cause)?;
            }
        }
        Ok(())
    }

    /// A node does not answer: others are asked for a while, and for the map.
    fn lose(self: &Arc<Self>, address: &str) {
        self.lock().down.insert(address.to_owned(), Instant::now() + DOWN_TIME);
        self.doors.turn_from(address);
        let way = Arc::clone(self);
        tokio::spawn(async move { way.ask_for_map().await });
    }

    /// Asks whoever is there for the map; one question at a time.
    async fn ask_for_map(&self) {
        if self.is_asking.swap(true, Ordering::Relaxed) {
            return;
        }
        let _asking = Asking(&self.is_asking);
        for _ in 0..self.doors.count() {
            let dial = self.doors.current();
            let mut cluster = ClusterClient::new(dial.lazily());
            match timeout(MAP_TIME, cluster.routes(v1::RoutesRequest {})).await {
                Ok(Ok(reply)) => {
                    let reply = reply.into_inner();
                    self.doors.learn(reply.addresses);
                    let mut state = self.lock();
                    for route in reply.shards {
                        state.map.learn(route);
                    }
                    return;
                }
                Ok(Err(_)) | Err(_) => self.doors.turn_from(dial.address()),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Also if whoever asked is no longer there to see the answer.
struct Asking<'a>(&'a AtomicBool);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl State {
    fn is_down(&self, address: &str) -> bool {
        self.down.get(address).is_some_and(|until| Instant::now() < *until)
    }
}

impl Tries {
    /// Nobody knows what became of a try. A read did nothing, and a numbered request may be asked again.
    fn doubt(&mut self, nature: &Nature, is_last: bool, cause: String) -> Result<(), Error> {
        match nature {
            Nature::Read if is_last => return Err(Error::Unreachable(cause)),
            Nature::Read => {}
            Nature::Numbered(_) if !is_last => self.is_in_doubt = true,
            Nature::Numbered(_) | Nature::Change => return Err(Error::InDoubt(cause)),
        }
        Ok(())
    }

    /// What is said at the end of the time. An earlier try may have been executed.
    fn last(&self, error: Error) -> Error {
        if self.is_in_doubt { Error::InDoubt(error.to_string()) } else { error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dial::Ticket;
    use crate::records::numbers::Numbers;
    use shardine_model::ErrorCode;

    fn way() -> Arc<Way> {
        Way::new(Doors::new("a:1,b:2", &Ticket::default()).unwrap())
    }

    fn errand(nature: Nature) -> PendingRequest {
        PendingRequest { position: Some(Position(7)), nature, until: Instant::now() + Duration::from_secs(5) }
    }

    fn refused(code: ErrorCode) -> Error {
        Error::Refused { code, message: String::new(), version: None, record: None }
    }

    fn lost() -> Meaning {
        Meaning::Lost("the connection broke".to_owned())
    }

    fn route(term: u64, address: &str) -> v1::ShardRoute {
        v1::ShardRoute { term, leader: Some(term), address: address.to_owned(), ..v1::ShardRoute::default() }
    }

    /// records 34, 35
    #[tokio::test(start_paused = true)]
    async fn what_may_have_been_executed_is_asked_again_only_with_a_number() {
        let (way, mut tries) = (way(), Tries::default());

        let told = way.judge(lost(), "a:1", &errand(Nature::Change), &mut tries);
        assert!(matches!(told, Err(Error::InDoubt(_))));

        let numbered = errand(Nature::Numbered(Numbers::new().next().await));
        assert!(!way.attempt(&numbered, &tries).delivery.unwrap().again);
        way.judge(lost(), "a:1", &numbered, &mut tries).unwrap();
        assert!(way.attempt(&numbered, &tries).delivery.unwrap().again);
    }

    /// records 34: a refusal of the second try says nothing of the first, unless it is the request's own result.
    #[tokio::test(start_paused = true)]
    async fn a_doubt_stays_until_there_is_a_result() {
        let (way, numbered) = (way(), errand(Nature::Numbered(Numbers::new().next().await)));
        let after_a_loss = |verdict| {
            let mut tries = Tries::default();
            way.judge(lost(), "a:1", &numbered, &mut tries).unwrap();
            way.judge(verdict, "b:2", &numbered, &mut tries).unwrap_err()
        };

        assert!(matches!(after_a_loss(Meaning::Refused(refused(ErrorCode::Expired))), Error::InDoubt(_)));
        assert!(after_a_loss(Meaning::Refused(refused(ErrorCode::CasMismatch))).is_certain());
        let expired = way.judge(Meaning::Refused(refused(ErrorCode::Expired)), "a:1", &numbered, &mut Tries::default());
        assert!(expired.unwrap_err().is_certain());
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_does_not_answer_is_gone_round_for_a_while() {
        let (way, read) = (way(), errand(Nature::Read));
        way.lock().map.learn(route(1, "c:3"));
        assert_eq!(way.attempt(&read, &Tries::default()).address, "c:3");

        way.judge(lost(), "c:3", &read, &mut Tries::default()).unwrap();

        let round = way.attempt(&read, &Tries::default());
        assert_eq!((round.address.as_str(), round.is_direct), ("a:1", false));
        tokio::time::advance(DOWN_TIME).await;
        assert_eq!(way.attempt(&read, &Tries::default()).address, "c:3");
    }

    /// Two nodes that name each other are not believed for ever.
    #[tokio::test(start_paused = true)]
    async fn whoever_is_sent_in_circles_asks_a_node_to_find_the_leader() {
        let (way, read, mut tries) = (way(), errand(Nature::Read), Tries::default());

        let moved = |term, address| Meaning::Moved(Box::new(route(term, address)));
        way.judge(moved(2, "b:2"), "a:1", &read, &mut tries).unwrap();
        let followed = way.attempt(&read, &tries);
        assert_eq!((followed.address.as_str(), followed.is_direct), ("b:2", true));
        way.judge(moved(1, "a:1"), "b:2", &read, &mut tries).unwrap();

        assert!(!way.attempt(&read, &tries).is_direct);
    }
}
