//! Room for records that lanes have given and the door has not taken yet: it makes JSON or protobuf of one after the other, and lanes
//! are quicker. What does not fit is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shardine_model::{ErrorCode, Refusal};
use shardine_router::Response;

/// Bytes of records that wait for one door: sixteen of the largest. Reads that nobody waits for any more hold none of it.
pub(crate) const WAITING_BYTES_MAX: usize = 512 << 20;

/// Up to this size a record is neither counted nor refused: as many as there may be requests hold little.
const SMALL_BYTES: usize = 64 << 10;

#[derive(Default)]
pub(crate) struct Room {
    used: AtomicUsize,
}

/// A response that waits, and its part of the room.
pub(crate) struct Arrival {
    response: Option<Response>,
    bytes: usize,
    room: Arc<Room>,
}

impl Room {
    /// Takes the response of a read in, or says instead that there is no room for it: a read that was not answered has done nothing.
    pub(crate) fn admit(self: &Arc<Self>, response: Response) -> Arrival {
        let bytes = bytes_of(&response);
        if bytes <= SMALL_BYTES {
            return self.pass(response);
        }
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let waiting = Arrival { response: Some(response), bytes, room: Arc::clone(self) };
        // One alone always fits, whatever its size.
        if used <= WAITING_BYTES_MAX || used == bytes {
            return waiting;
        }
        drop(waiting);
        self.pass(Response::Refused(Refusal::new(
            ErrorCode::Busy,
            "too many large records are being read at once; nothing was done, ask again shortly",
        )))
    }

    /// Takes a response in that needs no room.
    pub(crate) fn pass(self: &Arc<Self>, response: Response) -> Arrival {
        Arrival { response: Some(response), bytes: 0, room: Arc::clone(self) }
    }
}

impl Arrival {
    pub(crate) fn take(mut self) -> Response {
        self.response.take().expect("it is taken once, by value")
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn bytes_of(response: &Response) -> usize {
    match response {
        Response::Page(page) => page.rows.iter().map(|row| row.fields.packed.len()).sum(),
        response => response.row_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use shardine_model::{Answer, Outcome, Reply, RowImage, Version};

    use super::*;

    fn record(bytes: usize) -> Response {
        let outcome = Outcome::Done { changed: 0, row: Some(RowImage { packed: vec![0; bytes].into() }) };
        let (version, sql_version) = (Version(1), Version::NEVER);
        Response::Answer(Answer::One(Reply { version, sql_version, expires_at: None, outcome }))
    }

    #[test]
    fn records_that_nobody_takes_are_refused_when_they_fill_the_room() {
        let room = Arc::new(Room::default());
        let half = WAITING_BYTES_MAX / 2;
        let waiting: Vec<Arrival> = (0..2).map(|_| room.admit(record(half))).collect();

        assert_eq!(room.admit(record(2 * SMALL_BYTES)).take().code(), Some(ErrorCode::Busy));
        assert!(room.admit(record(SMALL_BYTES)).take().code().is_none(), "small ones are always told");
        assert!(room.pass(record(half)).take().code().is_none(), "what changed something is told");

        assert!(waiting.into_iter().all(|waiting| waiting.take().code().is_none()));
        assert!(room.admit(record(WAITING_BYTES_MAX + 1)).take().code().is_none(), "one alone always fits");
        assert_eq!(room.used.load(Ordering::Relaxed), 0);
    }
}
