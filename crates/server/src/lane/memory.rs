//! Memory that is free goes back to the system, also when nobody asks for anything any more.

/// How long nobody must have asked: giving back hundreds of megabytes takes milliseconds, in which nobody should wait.
const QUIET_MS: u64 = 1_000;

/// More than any page that the allocator keeps for small things: taking it and letting it go is a page taken and a page let go.
const PAGE_BYTES: usize = 4 << 20;

#[derive(Default)]
pub(crate) struct Memory {
    requests_before: u64,
    next_ms: u64,
}

impl Memory {
    /// Lets the allocator give back what has been free for a second. It looks for such memory when a page of its own comes or
    /// goes, which it never does in an idle process: a million records that were deleted, or a reply of a gigabyte, would stay
    /// until the next load. The page is not touched, so it costs no memory itself.
    pub fn give_back(&mut self, now_ms: u64, requests: u64) {
        if self.is_due(now_ms, requests) {
            drop(std::hint::black_box(Vec::<u8>::with_capacity(PAGE_BYTES)));
        }
    }

    /// Once for each second in which nobody asked. `requests` is how many have asked so far.
    fn is_due(&mut self, now_ms: u64, requests: u64) -> bool {
        let was_quiet = requests == std::mem::replace(&mut self.requests_before, requests);
        let is_due = was_quiet && now_ms >= self.next_ms;
        if is_due || !was_quiet {
            self.next_ms = now_ms + QUIET_MS;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_after_each_quiet_second_and_never_while_somebody_asks() {
        let mut memory = Memory::default();

        assert!(!memory.is_due(100, 7), "somebody has asked");
        assert!(!memory.is_due(1_000, 7), "a moment ago");
        assert!(memory.is_due(1_100, 7));
        assert!(!memory.is_due(1_200, 7));
        assert!(memory.is_due(2_100, 7));
        assert!(!memory.is_due(9_000, 8));
    }
}
