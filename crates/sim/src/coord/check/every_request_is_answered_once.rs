//! Promise: every request is answered once, by the answer that belongs to it; only an acquire that waits is told so first
//! (coordination 81). A stream that ends answers nothing more.

use std::collections::BTreeMap;

use shardine_coord::{Ask, Message};

use crate::check::Violation;
use crate::coord::watch::Asked;

pub const NAME: &str = "every_request_is_answered_once";

/// A request that is on its way or being worked on.
#[derive(Clone, Debug)]
pub struct Request {
    pub asked: Asked,
    pub ask: Ask,
    /// It was told to wait.
    pub waits: bool,
    /// The largest number of an acquire that anybody was told of before it was sent.
    pub order_floor: u64,
    /// The newest entry that was applied anywhere before it was sent.
    pub index_floor: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Requests {
    open: BTreeMap<(usize, u64), Request>,
}

impl Requests {
    pub fn ask(&mut self, request: Request) {
        self.open.insert((request.asked.wire, request.asked.req), request);
    }

    /// What the message answers. A message without a number answers nothing.
    pub fn answer(&mut self, wire: usize, message: &Message) -> Result<Option<Request>, Violation> {
        let Some(req) = number_of(message) else { return Ok(None) };
        let unasked = || Violation::new(NAME, format!("nobody has asked on {wire} for {message:?}"));
        let request = self.open.get_mut(&(wire, req)).ok_or_else(unasked)?;
        if !fits(&request.ask, message) {
            return Err(Violation::new(NAME, format!("{:?} was answered by {message:?}", request.ask)));
        }
        if let Message::Pending { .. } = message {
            if std::mem::replace(&mut request.waits, true) {
                return Err(Violation::new(NAME, format!("{:?} was told to wait twice", request.ask)));
            }
            return Ok(Some(request.clone()));
        }
        Ok(self.open.remove(&(wire, req)))
    }

    pub fn forget_wire(&mut self, wire: usize) {
        self.open.retain(|(of, _), _| *of != wire);
    }
}

fn number_of(message: &Message) -> Option<u64> {
    match *message {
        Message::Started { .. } | Message::Stopped { .. } | Message::Failure(_) | Message::Changed { .. } => None,
        Message::Created { req, .. }
        | Message::Updated { req, .. }
        | Message::Deleted { req, .. }
        | Message::Pending { req }
        | Message::Acquired { req, .. }
        | Message::Released { req, .. }
        | Message::Described { req, .. } => Some(req),
    }
}

fn fits(ask: &Ask, message: &Message) -> bool {
    matches!(
        (ask, message),
        (Ask::Create { .. }, Message::Created { .. })
            | (Ask::Update { .. }, Message::Updated { .. })
            | (Ask::Delete { .. }, Message::Deleted { .. })
            | (Ask::Acquire { .. }, Message::Pending { .. } | Message::Acquired { .. })
            | (Ask::Release { .. }, Message::Released { .. })
            | (Ask::Describe { .. }, Message::Described { .. })
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Requests {
        let ask = Ask::Release { req: 7, name: "door".to_owned() };
        let asked = Asked { wire: 1, session: shardine_coord::SessionId(1), req: 7, name: 0, was_free: false, sent: 0 };
        let mut requests = Requests::default();
        requests.ask(Request { asked, ask, waits: false, order_floor: 0, index_floor: 0 });
        requests
    }

    #[test]
    fn a_second_answer_is_seen() {
        let mut requests = asked();
        let released = Message::Released { req: 7, result: Ok(true) };

        assert!(requests.answer(1, &released).is_ok_and(|found| found.is_some()));
        assert!(requests.answer(1, &released).is_err());
    }

    #[test]
    fn an_answer_to_something_else_is_seen() {
        assert!(asked().answer(1, &Message::Deleted { req: 7, result: Ok(()) }).is_err());
        assert!(asked().answer(2, &Message::Released { req: 7, result: Ok(true) }).is_err());
    }
}
