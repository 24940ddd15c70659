//! Sessions: begun, come back to, stopped, expired.

use crate::command::{Asker, Start};
use crate::ids::{SemaphoreId, SessionId};
use crate::limits::{DESCRIPTION_BYTES_MAX, PROTECTION_KEY_BYTES_MAX, SESSION_TIMEOUT_MS_MAX, SESSIONS_MAX};
use crate::outcome::{Notice, Outcome};
use crate::state::{Coord, NodeEdit, Session};
use crate::status::{Refusal, Status, refuse};

impl Start<'_> {
    /// What can be told without looking at the session (coordination 36-38).
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.timeout_ms > SESSION_TIMEOUT_MS_MAX {
            return refuse(
                Status::BadRequest,
                format!("a session lives {SESSION_TIMEOUT_MS_MAX} ms at most without a stream"),
            );
        }
        if self.description.len() > DESCRIPTION_BYTES_MAX {
            return refuse(Status::BadRequest, format!("a description has {DESCRIPTION_BYTES_MAX} bytes at most"));
        }
        if self.protection_key.len() > PROTECTION_KEY_BYTES_MAX {
            return refuse(
                Status::BadRequest,
                format!("a protection key has {PROTECTION_KEY_BYTES_MAX} bytes at most"),
            );
        }
        Ok(())
    }
}

impl Coord {
    /// The checks run in the order of coordination 64; the sequence number is the leader's affair.
    pub(crate) fn attach(&mut self, start: &Start<'_>, notices: &mut Vec<Notice>) -> Result<Outcome, Refusal> {
        if crate::path::Path::parse(start.path).is_none() {
            return refuse(Status::BadRequest, "the path is empty");
        }
        let Some(node) = self.find_node(start.path) else {
            return refuse(Status::NotFound, format!("there is no coordination node {:?}", start.path));
        };
        start.check()?;
        let has_room = self.has_room_for(crate::limits::SESSION_COST + start.description.len() as u64);
        let mut edit = self.edit(node, notices).expect("just found");
        if start.session != SessionId(0) {
            edit.restore(start)?;
            return Ok(Outcome::Attached { node, session: start.session, is_new: false });
        }
        if edit.node.sessions.len() >= SESSIONS_MAX {
            return refuse(Status::PreconditionFailed, format!("{SESSIONS_MAX} sessions are the limit of a node"));
        }
        has_room?;
        let session = edit.add_session(Session {
            timeout_ms: start.timeout_ms,
            description: start.description.into(),
            protection_key: start.protection_key.into(),
        });
        Ok(Outcome::Attached { node, session, is_new: true })
    }

    pub(crate) fn stop_session(&mut self, by: Asker, notices: &mut Vec<Notice>) -> Result<Outcome, Refusal> {
        self.guest(by, notices)?.end_session(by.session);
        Ok(Outcome::Done)
    }

    /// The leader says when; a session that is gone already is gone.
    pub(crate) fn expire_session(&mut self, by: Asker, notices: &mut Vec<Notice>) -> Outcome {
        if let Ok(mut edit) = self.guest(by, notices) {
            edit.end_session(by.session);
        }
        Outcome::Done
    }

    /// The node of a request, if its session is alive.
    pub(crate) fn guest<'a>(&'a mut self, by: Asker, notices: &'a mut Vec<Notice>) -> Result<NodeEdit<'a>, Refusal> {
        match self.edit(by.node, notices) {
            None => refuse(Status::NotFound, "the coordination node was dropped"),
            Some(edit) if edit.node.sessions.contains_key(&by.session) => Ok(edit),
            Some(_) => refuse(Status::BadSession, format!("session {} is not alive", by.session)),
        }
    }

    /// Refuses growth above the group's limit.
    pub(crate) fn has_room_for(&self, bytes: u64) -> Result<(), Refusal> {
        room_for(self.bytes, bytes)
    }

    /// A session as its client set it up: timeout, description.
    #[must_use]
    pub fn session(&self, by: Asker) -> Option<(u64, &str)> {
        let session = self.nodes.get(&by.node)?.sessions.get(&by.session)?;
        Some((session.timeout_ms, &session.description))
    }

    pub(crate) fn protection_key(&self, by: Asker) -> Option<&[u8]> {
        Some(&self.nodes.get(&by.node)?.sessions.get(&by.session)?.protection_key)
    }
}

pub(crate) fn room_for(held: u64, more: u64) -> Result<(), Refusal> {
    if held + more > crate::limits::STATE_BYTES_MAX {
        return refuse(Status::Overloaded, "the coordination group is full");
    }
    Ok(())
}

impl NodeEdit<'_> {
    fn restore(&mut self, start: &Start<'_>) -> Result<(), Refusal> {
        let Some(session) = self.node.sessions.get(&start.session) else {
            return refuse(Status::SessionExpired, format!("session {} has ended", start.session));
        };
        if !session.protection_key.is_empty() && *session.protection_key != *start.protection_key {
            return refuse(Status::BadSession, "the protection key is another");
        }
        if (session.timeout_ms, &*session.description) == (start.timeout_ms, start.description) {
            return Ok(());
        }
        let before = session.bytes();
        let session = self.session_mut(start.session);
        session.timeout_ms = start.timeout_ms;
        session.description = start.description.into();
        let after = session.bytes();
        *self.bytes = *self.bytes - before + after;
        Ok(())
    }

    /// Everything it held is free at once, and those who waited for it are served in the same step.
    fn end_session(&mut self, id: SessionId) {
        let first = (id, SemaphoreId(0));
        let claims: Vec<_> =
            self.node.links.range(first..=(id, SemaphoreId(u64::MAX))).map(|(&(_, s), &o)| (s, o)).collect();
        for (semaphore, order) in claims {
            #[cfg(feature = "mutants")]
            if self.mutant == Some(crate::Mutant::GrantsToTheDead)
                && self.semaphore(semaphore).waiters.contains_key(&order)
            {
                continue;
            }
            if self.drop_claim(semaphore, order) {
                self.notices.push(Notice::Withdrawn(self.place(semaphore, order)));
            }
            self.serve_queue(semaphore);
            self.vanish_if_idle(semaphore);
        }
        self.remove_session(id);
        self.notices.push(Notice::SessionGone { node: self.number, session: id });
    }
}
