//! Group commit: whoever comes while a write is under way shares the next one. No thread of its own, no timer.
//!
//! The first to come *leads*: it writes for itself at once, and nobody wakes it or is woken. Those who come meanwhile put what they
//! bring together and wait; when the write is done one of them leads the next *round* for all. So a single caller pays for two
//! uncontended locks, and of many callers each waits for two syncs at most, its own and the one that was under way.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::Change;
use crate::error::Error;

#[derive(Default)]
pub(super) struct Gather {
    state: Mutex<State>,
    /// Told at the end of every round that somebody waits for.
    turned: Condvar,
}

#[derive(Default)]
struct State {
    /// What will be written in the next round.
    waiting: Vec<Change>,
    /// How many rounds have been begun; the one that is being gathered comes next.
    begun: u64,
    /// How many of them are on disk.
    done: u64,
    is_writing: bool,
    waiters: u32,
    /// A write has failed. There is no other.
    is_stopped: bool,
}

impl Gather {
    /// Returns when the changes have been written, by `write` or by that of another caller. `None` if another one's failed.
    pub(super) fn append(
        &self,
        changes: Vec<Change>,
        write: impl FnOnce(&[Change]) -> Result<(), Error>,
    ) -> Option<Result<(), Error>> {
        let mut state = self.state();
        if state.waiting.is_empty() {
            state.waiting = changes;
        } else {
            state.waiting.extend(changes);
        }
        let round = state.begun + 1;
        loop {
            if state.done >= round {
                return Some(Ok(()));
            }
            if state.is_stopped {
                return None;
            }
            if !state.is_writing {
                return Some(self.lead(state, write));
            }
            state.waiters += 1;
            state = self.turned.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiters -= 1;
        }
    }

    fn lead(
        &self,
        mut state: MutexGuard<'_, State>,
        write: impl FnOnce(&[Change]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let changes = std::mem::take(&mut state.waiting);
        state.begun += 1;
        state.is_writing = true;
        drop(state);
        // If `write` panics, nobody waits for it for ever.
        let mut round = Round { gather: self, is_done: false };
        let result = write(&changes);
        round.is_done = result.is_ok();
        result
    }

    /// Whole at every moment that a panic could leave it in.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The round that is being written; it ends when this is dropped.
struct Round<'a> {
    gather: &'a Gather,
    is_done: bool,
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        let mut state = self.gather.state();
        state.is_writing = false;
        if self.is_done {
            state.done = state.begun;
        } else {
            state.is_stopped = true;
        }
        if state.waiters > 0 {
            self.gather.turned.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::thread;

    use shardine_model::ids::ShardId;

    use super::*;

    fn change(shard: u32) -> Change {
        Change::Truncate { shard: ShardId(shard), below: 1 }
    }

    fn shards(changes: &[Change]) -> Vec<u32> {
        let shard = |change: &Change| match change {
            Change::Truncate { shard, .. } => shard.0,
            other => panic!("{other:?} was not asked for"),
        };
        let mut shards: Vec<u32> = changes.iter().map(shard).collect();
        shards.sort_unstable();
        shards
    }

    /// Lets the first write wait until three others stand behind it, and gives what each write was for.
    fn rounds(first: impl FnOnce() -> Result<(), Error> + Send) -> (Vec<Vec<u32>>, Vec<bool>) {
        let gather = Gather::default();
        let written = Mutex::new(Vec::new());
        let note = |changes: &[Change]| written.lock().unwrap().push(shards(changes));
        let (begun, is_begun) = channel();
        let (go, may_go) = channel::<()>();
        let told = thread::scope(|scope| {
            let (gather, note) = (&gather, &note);
            let mut callers = vec![scope.spawn(move || {
                gather.append(vec![change(1)], |changes| {
                    note(changes);
                    begun.send(()).unwrap();
                    may_go.recv().unwrap();
                    first()
                })
            })];
            is_begun.recv().unwrap();
            for shard in 2..=4 {
                callers.push(scope.spawn(move || {
                    gather.append(vec![change(shard)], |changes| {
                        note(changes);
                        Ok(())
                    })
                }));
            }
            while gather.state().waiters < 3 {
                thread::yield_now();
            }
            go.send(()).unwrap();
            callers.into_iter().map(|caller| matches!(caller.join(), Ok(Some(Ok(()))))).collect()
        });
        (written.into_inner().unwrap(), told)
    }

    #[test]
    fn whoever_comes_meanwhile_shares_the_next_write() {
        let (written, told) = rounds(|| Ok(()));

        assert_eq!(written, [vec![1], vec![2, 3, 4]]);
        assert_eq!(told, [true; 4]);
    }

    /// reliability F7, I26.
    #[test]
    fn after_a_failure_nothing_is_written_and_nobody_is_told_otherwise() {
        let (written, told) = rounds(|| Err(Error::Stopped { dir: "/log".into() }));

        assert_eq!(written, [vec![1]]);
        assert_eq!(told, [false; 4]);
    }

    #[test]
    fn nobody_waits_for_a_writer_that_panicked() {
        let (written, told) = rounds(|| panic!("as a full disk makes nobody do"));

        assert_eq!(written, [vec![1]]);
        assert_eq!(told, [false; 4]);
    }

    #[test]
    fn everything_is_written_once_however_many_come() {
        let gather = Gather::default();
        let (writes, written) = (AtomicUsize::new(0), Mutex::new(Vec::new()));

        thread::scope(|scope| {
            for caller in 0..4 {
                let (gather, writes, written) = (&gather, &writes, &written);
                scope.spawn(move || {
                    for turn in 0..500 {
                        let mine = caller * 1_000 + turn;
                        let write = |changes: &[Change]| {
                            writes.fetch_add(1, Ordering::Relaxed);
                            written.lock().unwrap().extend(shards(changes));
                            Ok(())
                        };
                        assert!(matches!(gather.append(vec![change(mine)], write), Some(Ok(()))));
                        assert!(written.lock().unwrap().contains(&mine), "who returns has been written");
                    }
                });
            }
        });

        let mut written = written.into_inner().unwrap();
        written.sort_unstable();
        let all: Vec<u32> = (0..4).flat_map(|caller| caller * 1_000..caller * 1_000 + 500).collect();
        assert_eq!(written, all);
        assert!(writes.into_inner() <= 2_000);
    }
}
