//! The connections of a client's sessions. Many sessions share one, and ping on its beat: one packet then carries the signs of
//! life of all of them, each way, where every session by itself would wake the server for its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::dial::{Carrier, Dial};
use crate::doors::Doors;
use crate::error::Error;

/// Sessions of one connection: well below what servers allow, and few enough that a lost connection is no great event.
const SESSIONS_MAX: usize = 100;

/// Where the next session finds a connection. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    doors: Doors,
    newest: Arc<Mutex<Option<Arc<Connection>>>>,
}

impl Connections {
    pub fn new(doors: Doors) -> Self {
        Self { doors, newest: Arc::default() }
    }

    pub fn doors(&self) -> &Doors {
        &self.doors
    }

    /// The newest connection if it has room, or else one that is made now. Whoever comes meanwhile waits for it.
    pub async fn join(&self) -> Result<Arc<Connection>, Error> {
        let mut newest = self.newest.lock().await;
        if let Some(connection) = newest.as_ref().filter(|connection| has_room(connection)) {
            return Ok(Arc::clone(connection));
        }
        let dial = self.doors.current();
        let mut knock = Knock { doors: &self.doors, dial: &dial, is_answered: false };
        let carrier = dial.connect().await?;
        knock.is_answered = true;
        let made = Arc::new(Connection::new(self.doors.clone(), dial.clone(), carrier));
        *newest = Some(Arc::clone(&made));
        Ok(made)
    }
}

/// One holder is the list itself.
fn has_room(connection: &Arc<Connection>) -> bool {
    !connection.is_lost.load(Ordering::Relaxed) && Arc::strong_count(connection) <= SESSIONS_MAX
}

/// An attempt to connect. One that fails, or is given up, leaves the next attempt to another door.
struct Knock<'a> {
    doors: &'a Doors,
    dial: &'a Dial,
    is_answered: bool,
}

impl Drop for Knock<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.doors.turn_from(self.dial.address());
        }
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    doors: Doors,
    pub dial: Dial,
    pub carrier: Carrier,
    made_at: Instant,
    is_lost: AtomicBool,
}

impl Connection {
    fn new(doors: Doors, dial: Dial, carrier: Carrier) -> Self {
        Self { doors, dial, carrier, made_at: Instant::now(), is_lost: AtomicBool::new(false) }
    }

    /// Nobody begins anything on it any more: it has lost a stream, or does not answer. The next one goes to another node, if one is
    /// known.
    pub fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
        self.doors.turn_from(self.dial.address());
    }

    /// When everybody on it who speaks once in a period does so next.
    pub fn next_beat(&self, period: Duration) -> Instant {
        let (age, period_nanos) = (self.made_at.elapsed().as_nanos(), period.as_nanos().max(1));
        let until_beat = period_nanos - age % period_nanos;
        Instant::now() + Duration::from_nanos(u64::try_from(until_beat).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dial::Ticket;

    fn connection() -> Arc<Connection> {
        let doors = Doors::new("127.0.0.1:1", &Ticket::default()).unwrap();
        let dial = doors.current();
        Arc::new(Connection::new(doors, dial.clone(), dial.lazily()))
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_of_a_connection_ping_at_the_same_moments() {
        let connection = connection();
        let period = Duration::from_secs(10);
        let begun = Instant::now();

        let mut beats = Vec::new();
        for _ in 0..5 {
            tokio::time::advance(Duration::from_millis(700)).await;
            beats.push(connection.next_beat(period).duration_since(begun));
        }

        assert_eq!(beats, [period; 5]);
    }

    #[tokio::test]
    async fn sessions_share_a_connection_until_it_is_lost() {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap().to_string();
        let connections = Connections::new(Doors::new(&address, &Ticket::default()).unwrap());

        let first = connections.join().await.unwrap();
        let second = connections.clone().join().await.unwrap();
        assert!(Arc::ptr_eq(&first, &second));

        first.lose();
        let third = connections.join().await.unwrap();
        assert!(!Arc::ptr_eq(&first, &third));
    }

    #[tokio::test]
    async fn a_full_or_lost_connection_is_joined_by_nobody() {
        let connection = connection();
        let sessions = vec![Arc::clone(&connection); SESSIONS_MAX - 1];
        assert!(has_room(&connection));

        let last = Arc::clone(&connection);
        assert!(!has_room(&connection), "full");

        drop((sessions, last));
        connection.lose();
        assert!(!has_room(&connection), "lost");
    }
}
