//! What must not happen, whatever is done: a wrong value; two servers for one shard for longer than `docs/kit.md` says; a call
//! that fails although a server was well all the time that has the key.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use shardine_kit::{WhileSilent, wire};

/// How long a claim may be believed in after the store has given it away: until the next proof gets through. With it goes
/// what a busy machine takes.
const GRACE: Duration = Duration::from_secs(5);
/// A server has to be well for so long before a call for the call to find it.
const WELL: Duration = Duration::from_secs(4);
const REMEMBERED: Duration = Duration::from_secs(40);

/// What a server said of itself; nothing if it did not answer in time.
#[derive(Clone, Debug)]
pub struct Seen {
    pub sent: Instant,
    pub heard: Instant,
    pub shard: Option<wire::Shard>,
}

impl Seen {
    fn serving(&self) -> Option<&wire::Shard> {
        self.shard.as_ref().filter(|shard| !shard.interval().is_empty())
    }
}

/// A call that did not bring all values.
#[derive(Clone, Debug)]
pub struct Failed {
    pub begun: Instant,
    pub ended: Instant,
    pub counters: Vec<u32>,
    pub told: String,
}

#[derive(Debug)]
pub struct Verdict {
    silent: WhileSilent,
    begun: Instant,
    seen: Vec<VecDeque<Seen>>,
    /// The store says nothing at this moment.
    store_is_bad: bool,
    /// When it last did, and when somebody last changed what it has behind its back.
    store_was_bad: Option<Instant>,
    tampered: Option<Instant>,
    /// Pairs of servers that serve one shard, since when.
    overlaps: BTreeMap<(usize, usize), Instant>,
    failed: Vec<Failed>,
    pub violations: Vec<String>,
}

impl Verdict {
    pub fn new(silent: WhileSilent, servers: usize) -> Self {
        Self {
            silent,
            begun: Instant::now(),
            seen: vec![VecDeque::new(); servers],
            store_is_bad: false,
            store_was_bad: None,
            tampered: None,
            overlaps: BTreeMap::new(),
            failed: Vec::new(),
            violations: Vec::new(),
        }
    }

    pub fn store(&mut self, is_bad: bool) {
        (self.store_is_bad, self.store_was_bad) = (is_bad, Some(Instant::now()));
    }

    pub fn tampered(&mut self) {
        self.tampered = Some(Instant::now());
    }

    pub fn wrong(&mut self, what: String) {
        self.violate(format!("a wrong value: {what}"));
    }

    /// Judged when it is known how the servers were at its end.
    pub fn failed(&mut self, failed: Failed) {
        self.failed.push(failed);
    }

    /// What each shard of a data centre is served by now.
    pub fn served(&self, dc: &str) -> usize {
        let now = self.seen.iter().filter_map(|seen| seen.back()?.serving().filter(|shard| shard.dc == dc));
        now.map(|shard| shard.number).collect::<std::collections::BTreeSet<_>>().len()
    }

    pub fn see(&mut self, server: usize, seen: Seen) {
        self.look_for_overlaps(server, &seen);
        let now = seen.heard;
        self.seen[server].push_back(seen);
        while self.seen[server].front().is_some_and(|old| now.duration_since(old.heard) > REMEMBERED) {
            self.seen[server].pop_front();
        }
        let (due, waiting) = std::mem::take(&mut self.failed)
            .into_iter()
            .partition(|failed| now.duration_since(failed.ended) > Duration::from_secs(1));
        self.failed = waiting;
        Vec::into_iter(due).for_each(|failed: Failed| self.judge(&failed));
    }

    /// A server that serves what another one was seen to serve by a later claim, before it was asked.
    fn look_for_overlaps(&mut self, server: usize, seen: &Seen) {
        let Some(mine) = seen.serving() else {
            self.overlaps.retain(|(one, two), _| *one != server && *two != server);
            return;
        };
        for other in (0..self.seen.len()).filter(|other| *other != server) {
            let pair = (server.min(other), server.max(other));
            let last = self.seen[other].back().and_then(|last| Some((last, last.serving()?)));
            let Some((last, theirs)) =
                last.filter(|(_, theirs)| (&theirs.dc, theirs.number) == (&mine.dc, mine.number))
            else {
                self.overlaps.remove(&pair);
                continue;
            };
            if mine.generation <= theirs.generation && last.heard < seen.sent {
                let since = *self.overlaps.entry(pair).or_insert(seen.sent);
                if seen.sent.duration_since(since) > self.allowed(since, seen.sent) {
                    self.violate(format!(
                        "an overlap: {} has shard {} of {} by generation {}, and {} still serves it by {}, for {:?}",
                        theirs.host,
                        mine.number,
                        mine.dc,
                        theirs.generation,
                        mine.host,
                        mine.generation,
                        seen.sent.duration_since(since),
                    ));
                }
            }
        }
    }

    /// For how long an overlap may last that began then.
    fn allowed(&self, since: Instant, now: Instant) -> Duration {
        let is_recent = |at: Instant| since.saturating_duration_since(at) < GRACE;
        let tampered = self.tampered.filter(|at| is_recent(*at));
        match (self.silent, tampered) {
            (WhileSilent::Stop, None) => Duration::ZERO,
            _ if self.store_is_bad => now.duration_since(since),
            (WhileSilent::Stop, Some(at)) => {
                at.max(self.store_was_bad.unwrap_or(at)).max(since).duration_since(since) + GRACE
            }
            (WhileSilent::Serve, _) => {
                let last = [self.tampered, self.store_was_bad].into_iter().flatten().max();
                last.unwrap_or(since).max(since).duration_since(since) + GRACE
            }
        }
    }

    fn judge(&mut self, failed: &Failed) {
        for counter in &failed.counters {
            if let Some(host) = self.well_for(*counter, failed) {
                let took = failed.ended.duration_since(failed.begun);
                return self.violate(format!(
                    "an outage: {host} serves {counter} and was well; after {took:?}: {}",
                    failed.told
                ));
            }
        }
    }

    /// A server that had the key, and answered whenever it was asked, from well before the call to its end.
    fn well_for(&self, counter: u32, failed: &Failed) -> Option<String> {
        let begun = failed.begun.checked_sub(WELL)?;
        let has_it = |seen: &Seen| {
            let is_quick = seen.heard.duration_since(seen.sent) < Duration::from_millis(300);
            is_quick && seen.serving().is_some_and(|shard| shard.interval().contains(counter.into()))
        };
        self.seen.iter().find_map(|seen| {
            // Up to the first time that it was asked after the call: it may have gone between two questions.
            let last = seen.iter().position(|seen| seen.sent > failed.ended)?;
            let during = seen.range(..=last).filter(|seen| seen.heard >= begun);
            let is_well = seen.front().is_some_and(|first| first.sent < begun) && during.clone().all(has_it);
            is_well.then(|| seen[last].shard.as_ref().map(|shard| shard.host.clone()))?
        })
    }

    fn violate(&mut self, what: String) {
        self.violations.push(format!("{:.1} s: {what}", self.begun.elapsed().as_secs_f64()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(host: &str, generation: u64) -> wire::Shard {
        wire::Shard { dc: "a".into(), host: host.into(), hi: 10, generation, ..wire::Shard::default() }
    }

    /// A world in which server 0 has the first claim and server 1 the second, each seen once per tenth of a second.
    fn overlapped(silent: WhileSilent, seconds: u64, change: impl FnOnce(&mut Verdict)) -> Vec<String> {
        let mut verdict = Verdict::new(silent, 2);
        change(&mut verdict);
        let begun = Instant::now();
        for tick in 0..seconds * 10 {
            let at = begun + Duration::from_millis(tick * 100);
            let mut see = |server, host, generation, at| {
                verdict.see(server, Seen { sent: at, heard: at, shard: Some(shard(host, generation)) });
            };
            see(0, "one", 1, at);
            see(1, "two", 2, at + Duration::from_millis(50));
        }
        verdict.violations
    }

    #[test]
    fn who_stops_in_time_is_never_seen_beside_its_successor() {
        assert!(overlapped(WhileSilent::Stop, 1, |_| {})[0].contains("an overlap"));
        assert_eq!(overlapped(WhileSilent::Stop, 1, Verdict::tampered), Vec::<String>::new());
        assert!(!overlapped(WhileSilent::Stop, 8, Verdict::tampered).is_empty());
    }

    #[test]
    fn who_serves_on_does_so_until_its_next_proof() {
        assert_eq!(overlapped(WhileSilent::Serve, 4, |_| {}), Vec::<String>::new());
        assert!(!overlapped(WhileSilent::Serve, 8, |_| {}).is_empty());
        assert_eq!(overlapped(WhileSilent::Serve, 8, |verdict| verdict.store(true)), Vec::<String>::new());
    }

    #[test]
    fn a_call_that_fails_beside_a_server_that_is_well_is_an_outage() {
        for (counter, is_outage) in [(5, true), (15, false)] {
            let mut verdict = Verdict::new(WhileSilent::Serve, 1);
            let begun = Instant::now();
            let at = |tick: u64| begun + Duration::from_millis(tick * 100);
            let (told, counters) = (String::new(), vec![counter]);
            verdict.failed(Failed { begun: at(60), ended: at(70), counters, told });
            for tick in 0..100 {
                verdict.see(0, Seen { sent: at(tick), heard: at(tick), shard: Some(shard("one", 1)) });
            }

            assert_eq!(!verdict.violations.is_empty(), is_outage, "{:?}", verdict.violations);
        }
    }
}
