//! The gRPC doors of a cluster: those that the user named, those that the cluster has told of, and which of them is used now.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardine_proto::v1;
use shardine_proto::v1::cluster_client::ClusterClient;
use tokio::time::Instant;

use crate::dial::{Carrier, Dial, Ticket};
use crate::error::Error;

/// How often the cluster is asked for its nodes.
const LEARN_EVERY: Duration = Duration::from_secs(30);

/// How long that may take.
const LEARN_TIME: Duration = Duration::from_secs(2);

/// Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Doors {
    ticket: Ticket,
    state: Arc<Mutex<State>>,
}

/// Invariant: there is at least one door, and `at` is one of them.
#[derive(Debug)]
struct State {
    dials: Vec<Dial>,
    at: usize,
    learnt_at: Option<Instant>,
}

impl Doors {
    /// Addresses with commas between them.
    pub fn new(addresses: &str, ticket: &Ticket) -> Result<Self, Error> {
        let named = addresses.split(',').map(str::trim).filter(|address| !address.is_empty());
        let dials: Vec<Dial> = named.map(|address| Dial::new(address, ticket)).collect::<Result<_, _>>()?;
        if dials.is_empty() {
            return Err(Error::Misused("an address is missing: host:port".to_owned()));
        }
        let state = State { dials, at: 0, learnt_at: None };
        Ok(Self { ticket: ticket.clone(), state: Arc::new(Mutex::new(state)) })
    }

    /// The door to knock at.
    pub fn current(&self) -> Dial {
        let state = self.lock();
        state.dials[state.at].clone()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lock().dials.len()
    }

    /// Nobody has answered there: the next one is used from now on, unless somebody has turned already.
    pub fn turn_from(&self, address: &str) {
        let mut state = self.lock();
        if state.dials[state.at].address() == address {
            state.at = (state.at + 1) % state.dials.len();
        }
    }

    /// The door at an address that the cluster has told.
    pub fn dial(&self, address: &str) -> Option<Dial> {
        self.learn([address.to_owned()]);
        self.lock().dials.iter().find(|dial| dial.address() == address).cloned()
    }

    /// Takes addresses of nodes. What cannot be one is left out.
    pub fn learn(&self, addresses: impl IntoIterator<Item = String>) {
        let mut state = self.lock();
        for address in addresses {
            let is_known = state.dials.iter().any(|dial| dial.address() == address);
            if let (false, Ok(dial)) = (is_known || address.is_empty(), Dial::new(&address, &self.ticket)) {
                state.dials.push(dial);
            }
        }
    }

    /// Asks the cluster where its nodes are, beside whatever else is done. A server that is no Shardine does not know.
    pub fn learn_soon(&self, carrier: &Carrier) {
        let mut state = self.lock();
        if state.learnt_at.is_some_and(|at| at.elapsed() < LEARN_EVERY) {
            return;
        }
        state.learnt_at = Some(Instant::now());
        let (doors, mut cluster) = (self.clone(), ClusterClient::new(carrier.clone()));
        tokio::spawn(async move {
            let asked = tokio::time::timeout(LEARN_TIME, cluster.routes(v1::RoutesRequest {})).await;
            if let Ok(Ok(reply)) = asked {
                doors.learn(reply.into_inner().addresses);
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_that_does_not_answer_is_left_for_the_next() {
        let doors = Doors::new("a:1, b:2", &Ticket::default()).unwrap();
        doors.learn(["b:2".to_owned(), "c:3".to_owned(), String::new()]);

        let mut visited = Vec::new();
        for _ in 0..4 {
            let address = doors.current().address().to_owned();
            doors.turn_from(&address);
            // Another one who had the same trouble there.
            doors.turn_from(&address);
            visited.push(address);
        }

        assert_eq!(visited, ["a:1", "b:2", "c:3", "a:1"]);
    }

    #[test]
    fn no_address_at_all_is_said_at_once() {
        assert!(matches!(Doors::new(" , ", &Ticket::default()), Err(Error::Misused(_))));
    }
}
