//! Keeps replies in the order of their commands: what is ready goes out, what comes early is held, what is late is waited for.
//!
//! A slot is one command whose answer comes later; behind it stand further slots and runs of finished bytes. Nothing
//! here knows what is waited for.

use std::collections::VecDeque;

use crate::wire::Protocol;

/// Parts of one command have consecutive sequences; a frame has fewer words than this.
const PART_BITS: u32 = 20;

/// A slot's number, from 0 on for the life of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlotId(u64);

impl SlotId {
    /// The sequence to ask under for one part of the slot's command.
    pub(crate) fn sequence(self, part: usize) -> u64 {
        self.0 << PART_BITS | part as u64
    }

    pub(crate) fn of_sequence(sequence: u64) -> (Self, usize) {
        (Self(sequence >> PART_BITS), (sequence & ((1 << PART_BITS) - 1)) as usize)
    }
}

enum Slot<W> {
    Waiting { protocol: Protocol, waiting: W },
    Ready(Vec<u8>),
}

/// The line of replies. Invariant: the front slot, if there is one, is waiting; two runs of ready bytes never touch
/// unless one of them was waited for.
pub(crate) struct Queue<W> {
    slots: VecDeque<Slot<W>>,
    /// The number of the front slot.
    front: u64,
    waiting: usize,
    held_bytes: usize,
    /// A buffer that was emptied, to be used for the next held run.
    spare: Vec<u8>,
}

impl<W> Default for Queue<W> {
    fn default() -> Self {
        Self { slots: VecDeque::new(), front: 0, waiting: 0, held_bytes: 0, spare: Vec::new() }
    }
}

impl<W> Queue<W> {
    /// How many commands are waited for.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes that are ready but not in turn.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// The number that the next waiting slot will get.
    #[inline]
    pub(crate) fn next_id(&self) -> SlotId {
        SlotId(self.front + self.slots.len() as u64)
    }

    /// The number of the last slot.
    #[inline]
    pub(crate) fn last_id(&self) -> SlotId {
        SlotId((self.front + self.slots.len() as u64).saturating_sub(1))
    }

    #[inline]
    pub(crate) fn wait(&mut self, protocol: Protocol, waiting: W) -> SlotId {
        let id = self.next_id();
        self.slots.push_back(Slot::Waiting { protocol, waiting });
        self.waiting += 1;
        id
    }

    /// Writes a reply that is ready now: to `out` if it is in turn, else into the run at the end of the line.
    #[inline]
    pub(crate) fn reply<T>(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        if self.slots.is_empty() {
            return write(out);
        }
        if !matches!(self.slots.back(), Some(Slot::Ready(_))) {
            self.slots.push_back(Slot::Ready(std::mem::take(&mut self.spare)));
        }
        let Some(Slot::Ready(held)) = self.slots.back_mut() else { unreachable!("a run was just pushed") };
        let before = held.len();
        let result = write(held);
        self.held_bytes += held.len() - before;
        result
    }

    /// A reply that is ready and stands by itself. A large one is handed on as it is, not copied.
    pub(crate) fn reply_bytes(&mut self, out: &mut Vec<u8>, bytes: Vec<u8>) {
        if bytes.len() <= SPARE_BYTES_MAX {
            return self.reply(out, |out| out.extend_from_slice(&bytes));
        }
        if self.slots.is_empty() {
            return append(out, bytes);
        }
        self.held_bytes += bytes.len();
        self.slots.push_back(Slot::Ready(bytes));
    }

    /// What a slot waits for, to be changed while it goes on waiting.
    pub(crate) fn waiting_mut(&mut self, id: SlotId) -> Option<(Protocol, &mut W)> {
        let index = usize::try_from(id.0.checked_sub(self.front)?).ok()?;
        match self.slots.get_mut(index)? {
            Slot::Waiting { protocol, waiting } => Some((*protocol, waiting)),
            Slot::Ready(_) => None,
        }
    }

    /// Ends the wait of a slot: writes its reply, and whatever stood behind it and is now in turn.
    #[inline]
    pub(crate) fn finish(&mut self, id: SlotId, out: &mut Vec<u8>, write: impl FnOnce(W, Protocol, &mut Vec<u8>)) {
        let Some(index) = id.0.checked_sub(self.front).map(|index| index as usize) else { return };
        if index == 0 {
            if !matches!(self.slots.front(), Some(Slot::Waiting { .. })) {
                return;
            }
            let Some(Slot::Waiting { protocol, waiting }) = self.slots.pop_front() else { return };
            self.front += 1;
            self.waiting -= 1;
            write(waiting, protocol, out);
            self.release(out);
            return;
        }
        let Some(slot @ Slot::Waiting { .. }) = self.slots.get_mut(index) else { return };
        let taken = std::mem::replace(slot, Slot::Ready(Vec::new()));
        if let (Slot::Waiting { protocol, waiting }, Slot::Ready(held)) = (taken, slot) {
            write(waiting, protocol, held);
            self.held_bytes += held.len();
            self.waiting -= 1;
        }
    }

    #[inline]
    fn release(&mut self, out: &mut Vec<u8>) {
        while let Some(Slot::Ready(held)) = self.slots.front_mut() {
            self.held_bytes -= held.len();
            // A large buffer is handed on, so that one big reply does not stay with the connection for ever.
            if held.capacity() <= SPARE_BYTES_MAX {
                out.extend_from_slice(held);
                held.clear();
                self.spare = std::mem::take(held);
            } else {
                append(out, std::mem::take(held));
            }
            self.slots.pop_front();
            self.front += 1;
        }
    }
}

/// Takes a buffer over where that saves a copy.
pub(crate) fn append(out: &mut Vec<u8>, bytes: Vec<u8>) {
    if out.is_empty() { *out = bytes } else { out.extend_from_slice(&bytes) }
}

const SPARE_BYTES_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn put(text: &'static str) -> impl FnOnce(&mut Vec<u8>) {
        move |out| out.extend_from_slice(text.as_bytes())
    }

    fn finish(queue: &mut Queue<&'static str>, id: SlotId, out: &mut Vec<u8>) {
        queue.finish(id, out, |waiting, _, out| out.extend_from_slice(waiting.as_bytes()));
    }

    #[test]
    fn replies_leave_in_the_order_of_commands() {
        let (mut queue, mut out) = (Queue::default(), Vec::new());
        queue.reply(&mut out, put("a"));
        let b = queue.wait(Protocol::Resp2, "b");
        queue.reply(&mut out, put("c"));
        queue.reply(&mut out, put("d"));
        let e = queue.wait(Protocol::Resp2, "e");
        let f = queue.wait(Protocol::Resp2, "f");
        queue.reply(&mut out, put("g"));
        assert_eq!((out.as_slice(), queue.waiting(), queue.held_bytes()), (&b"a"[..], 3, 3));

        finish(&mut queue, f, &mut out);
        assert_eq!(out, b"a");
        finish(&mut queue, b, &mut out);
        assert_eq!(out, b"abcd");
        finish(&mut queue, e, &mut out);

        assert_eq!(out, b"abcdefg");
        assert_eq!((queue.waiting(), queue.held_bytes()), (0, 0));
    }

    #[test]
    fn an_answer_that_nobody_waits_for_is_dropped() {
        let (mut queue, mut out) = (Queue::default(), Vec::new());
        let id = queue.wait(Protocol::Resp2, "a");
        finish(&mut queue, id, &mut out);

        finish(&mut queue, id, &mut out);
        finish(&mut queue, SlotId(99), &mut out);

        assert_eq!(out, b"a");
    }

    #[test]
    fn a_sequence_holds_slot_and_part() {
        assert_eq!(SlotId::of_sequence(SlotId(7).sequence(65_535)), (SlotId(7), 65_535));
    }
}
