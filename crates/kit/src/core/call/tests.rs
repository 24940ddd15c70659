//! Calls told as stories, with a map, answers and time as the test likes them.

use std::sync::Arc;

use super::*;
use crate::core::interval::Interval;
use crate::core::map::{Map, Report, Slot, Trust};
use crate::core::plan::Standing;
use crate::core::shard::Shard;

/// A host that was heard of at the beginning.
#[derive(Clone, Debug)]
struct Well {
    cost: u64,
    p95: Option<u64>,
}

impl Rated for Well {
    fn standing(&self, _now: Moment) -> Standing {
        let last_good = Some(Moment::from_micros(0));
        Standing { last_good, cost: self.cost, p95: self.p95, ..Standing::default() }
    }
}

const ACTIVITY: Activity = Activity { silence_max: Duration::from_secs(30), in_flight_max: 100 };

const PATIENCE: Patience = Patience {
    deadline: Duration::from_secs(2),
    host_timeout: Duration::from_millis(500),
    retries: 2,
    retry_pause: Duration::from_millis(20),
    search_pause: Duration::from_secs(1),
    hedge_delay_min: Duration::from_millis(2),
    hedge_delay_max: Duration::from_millis(100),
};

struct Story {
    map: Map<Well>,
    call: Call<Well>,
    millis: u64,
    sent: u64,
    /// Chance.
    roll: u64,
}

impl Story {
    /// Hosts with what they serve, cheapest first, and the positions of the keys. They answer in three milliseconds as a
    /// rule.
    fn new(mode: Mode, hosts: &[(&str, Interval)], positions: &[u64]) -> Self {
        Self::usually_within(Some(3_000), mode, hosts, positions)
    }

    fn usually_within(p95: Option<u64>, mode: Mode, hosts: &[(&str, Interval)], positions: &[u64]) -> Self {
        let mut map = Map::default();
        let names: Vec<String> = hosts.iter().map(|(name, _)| (*name).to_owned()).collect();
        map.set_hosts(&names, |_, slot| Well { cost: u64::from(slot.0) + 1, p95 });
        let call = Call::new(mode, PATIENCE, ACTIVITY, positions.to_vec(), Moment::from_micros(0));
        let mut story = Self { map, call, millis: 0, sent: 0, roll: 0 };
        hosts.iter().for_each(|(name, interval)| story.serves(name, *interval));
        story
    }

    fn serves(&mut self, name: &str, interval: Interval) {
        self.sent += 1;
        let (epoch, dc, host) = (self.sent, String::new(), name.to_owned());
        let shard = Shard { dc, host, incarnation: 1, epoch, interval, hold: None };
        let slot = self.map.view_slot(name);
        self.map.report(slot, name, Report { shard, sent: self.sent }, Trust::NewerOnly);
    }

    fn step(&mut self, act: impl FnOnce(&mut Call<Well>, &Step<'_, Well>, &mut Vec<Action>)) -> Vec<String> {
        let view = self.map.view();
        let step = Step { view: &view, now: Moment::from_micros(self.millis * 1_000), roll: self.roll };
        let mut actions = Vec::new();
        act(&mut self.call, &step, &mut actions);
        actions.into_iter().map(|action| self.told(action)).collect()
    }

    fn told(&self, action: Action) -> String {
        let ask = |id: AskId| {
            let ask = self.call.ask(id);
            format!("{} {:?}", ask.address, ask.keys)
        };
        match action {
            Action::Send(id) => format!("send {}", ask(id)),
            Action::Propose(id) => format!("propose {}", ask(id)),
            Action::Cancel(id) => format!("cancel {}", ask(id)),
            Action::Suspect(id) => format!("suspect {}", ask(id)),
        }
    }

    fn begin(&mut self) -> Vec<String> {
        self.step(|call, step, out| call.search(step, out))
    }

    fn at(&mut self, millis: u64) -> Vec<String> {
        self.millis = millis;
        self.step(|call, step, out| call.tick(step, out))
    }

    /// The request to this host that is on its way.
    fn out(&self, name: &str) -> AskId {
        let is_out =
            |ask: &Ask<Well>| *ask.address == *name && matches!(ask.state, State::Out { .. } | State::Proposed);
        self.call.asks().iter().position(is_out).unwrap_or_else(|| panic!("{name} has nothing to answer"))
    }

    fn finds(&mut self, name: &str, keys: &[u32]) -> Vec<String> {
        let id = self.out(name);
        self.step(|call, step, out| call.answer(id, Answer::Found(keys), step, out))
    }

    fn refuses(&mut self, name: &str) -> Vec<String> {
        let id = self.out(name);
        self.step(|call, step, out| call.answer(id, Answer::Refused, step, out))
    }

    fn fails(&mut self, name: &str) -> Vec<String> {
        let id = self.out(name);
        self.step(|call, step, out| call.answer(id, Answer::Failed { again: true }, step, out))
    }

    fn verdict(&self) -> Option<Verdict> {
        self.call.verdict(Moment::from_micros(self.millis * 1_000))
    }
}

impl Map<Well> {
    fn view_slot(&self, name: &str) -> Slot {
        let hosts: Vec<u64> = self.hosts().map(|host| host.cost).collect();
        let index = hosts.iter().zip(["a", "b", "c"]).position(|(_, known)| known == name);
        Slot(u32::try_from(index.unwrap()).unwrap())
    }
}

fn half() -> Interval {
    Interval::new(0, 100)
}

#[test]
fn kit_a_22_the_call_ends_with_the_last_missing_key() {
    let mut story = Story::new(Mode::All, &[("a", Interval::WHOLE), ("b", half()), ("c", Interval::WHOLE)], &[1, 200]);

    assert_eq!(story.begin(), ["send a [0, 1]", "send b [0]", "send c [0, 1]"]);
    story.finds("b", &[0]);
    assert_eq!(story.verdict(), None);
    story.finds("c", &[0, 1]);

    assert_eq!(story.verdict(), Some(Verdict::Found), "a has not answered, and nobody waits for it");
}

#[test]
fn kit_a_8_a_refusal_is_not_repeated() {
    let mut story = Story::new(Mode::All, &[("a", Interval::WHOLE), ("b", Interval::WHOLE)], &[1]);
    story.begin();

    assert_eq!(story.refuses("a"), [""; 0]);
    assert_eq!(story.at(400), [""; 0]);

    assert_eq!(story.finds("b", &[0]), [""; 0]);
    assert_eq!(story.verdict(), Some(Verdict::Found));
}

#[test]
fn kit_a_33_keys_that_moved_are_searched_for_and_not_asked_for_in_a_circle() {
    let mut story = Story::new(Mode::All, &[("a", Interval::WHOLE), ("b", Interval::EMPTY)], &[1]);
    story.begin();
    story.serves("a", Interval::to_end(100));

    assert_eq!(story.refuses("a"), [""; 0]);
    assert!(story.call.is_searching());
    assert_eq!(story.at(999), [""; 0]);
    story.serves("b", half());

    assert_eq!(story.at(1_000), ["send b [0]"]);
}

#[test]
fn kit_a_33_a_host_that_lies_about_its_interval_is_asked_once() {
    let mut story = Story::new(Mode::All, &[("a", Interval::WHOLE)], &[1]);
    story.begin();

    // It says that it serves the key, and then that it does not.
    assert_eq!(story.refuses("a"), [""; 0]);

    assert_eq!(story.at(1_000), [""; 0]);
    assert_eq!(story.at(2_000), [""; 0]);
    assert_eq!(story.verdict(), Some(Verdict::NoShard(vec![0])));
}

#[test]
fn kit_a_26_each_host_has_its_own_time_and_its_own_retries() {
    let mut story = Story::new(Mode::All, &[("a", Interval::WHOLE), ("b", Interval::WHOLE)], &[1]);
    story.begin();
    story.millis = 100;

    assert_eq!(story.fails("a"), [""; 0]);
    assert_eq!(story.at(120), ["send a [0]"], "b is slow, and does not delay it");
    story.millis = 130;
    story.fails("a");
    assert_eq!(story.at(150), ["send a [0]"]);
    story.fails("a");
    assert_eq!(story.at(499), [""; 0], "two retries are all");
    assert_eq!(story.at(500), ["cancel b [0]"]);

    assert_eq!(story.verdict(), None, "b has its own two left");
    assert_eq!(story.at(520), ["send b [0]"]);
}

#[test]
fn kit_a_27_when_nobody_is_left_to_ask_the_keys_are_missing() {
    let mut story = Story::new(Mode::All, &[("a", Interval::WHOLE), ("b", half())], &[1, 200]);
    story.begin();
    story.finds("b", &[0]);

    for _ in 0..3 {
        story.fails("a");
        story.at(story.millis + 20);
    }
    assert!(story.verdict().is_none() && story.call.is_searching(), "somebody may serve it by now");
    assert_eq!(story.at(1_539), [""; 0]);
    assert_eq!((story.verdict(), story.call.wake_at()), (None, Moment::from_micros(1_540_000)));
    assert_eq!(story.at(1_540), [""; 0]);

    assert_eq!(story.verdict(), Some(Verdict::Missing(vec![1])), "before the deadline");
}

/// kit A-29: once; who fails then has failed for good.
#[test]
fn whoever_turns_up_during_the_last_look_is_asked() {
    let mut story = Story::new(Mode::One, &[("a", Interval::WHOLE), ("b", half())], &[200]);
    story.begin();
    for _ in 0..3 {
        story.fails("a");
        story.at(story.millis + 20);
    }

    story.serves("b", Interval::WHOLE);
    assert_eq!(story.begin(), ["send b [0]"]);
    story.finds("b", &[0]);

    assert_eq!(story.verdict(), Some(Verdict::Found));
}

/// kit A-35: without a budget nobody is asked a second time, and so there is nothing to look for.
#[test]
fn without_a_budget_there_is_no_last_look() {
    let mut story = Story::new(Mode::All, &[("a", Interval::WHOLE), ("b", Interval::WHOLE)], &[1]);
    story.begin();
    story.fails("a");
    assert_eq!(story.at(10), ["send a [0]"]);
    let again = story.out("a");
    story.call.granted(again, false, Moment::from_micros(10_000));
    for _ in 0..3 {
        story.fails("b");
        story.at(story.millis + 20);
    }

    assert_eq!(story.verdict(), Some(Verdict::Missing(vec![0])));
}

#[test]
fn a_hedge_that_was_forgone_is_no_reason_not_to_look() {
    let mut story = Story::new(Mode::Hedge, &[("a", Interval::WHOLE), ("b", Interval::WHOLE)], &[1]);
    story.begin();
    story.at(3);
    let second = story.out("b");
    story.call.granted(second, false, Moment::from_micros(3_000));
    assert_eq!(story.fails("a"), ["send b [0]"]);
    for _ in 0..3 {
        story.fails("b");
        story.at(story.millis + 20);
    }

    assert!(story.verdict().is_none() && story.call.is_searching());
}

#[test]
fn at_the_deadline_a_key_that_everybody_failed_to_answer_is_missing_and_not_nobodys() {
    let mut story = Story::new(Mode::One, &[("a", Interval::WHOLE)], &[200]);
    story.begin();
    for millis in [500, 1_020, 1_540] {
        story.at(millis);
        story.at(millis + 20);
    }
    assert_eq!(story.verdict(), None);

    story.millis = 2_000;

    assert_eq!(story.verdict(), Some(Verdict::Missing(vec![0])));
}

/// kit A-33: a dead host beside one that has moved is no reason to give up before the deadline.
#[test]
fn while_shards_are_moving_a_failed_host_does_not_end_the_call() {
    let mut story = Story::new(Mode::One, &[("a", Interval::WHOLE), ("b", Interval::WHOLE)], &[1]);
    story.begin();
    story.serves("a", Interval::EMPTY);
    assert_eq!(story.refuses("a"), ["send b [0]"]);
    let id = story.out("b");
    story.step(|call, step, out| call.answer(id, Answer::Failed { again: false }, step, out));
    assert_eq!(story.verdict(), None);

    story.serves("a", Interval::WHOLE);

    assert_eq!(story.at(1_000), ["send a [0]"]);
}

#[test]
fn a_failure_that_says_it_is_final_is_not_repeated() {
    let mut story = Story::new(Mode::All, &[("a", Interval::WHOLE)], &[1]);
    story.begin();
    let id = story.out("a");

    story.step(|call, step, out| call.answer(id, Answer::Failed { again: false }, step, out));

    assert_eq!(story.verdict(), Some(Verdict::Missing(vec![0])));
}

#[test]
fn a_host_that_matches_all_keys_and_leaves_one_out_is_not_believed_to_find_it_later() {
    let mut story = Story::new(Mode::All, &[("a", Interval::WHOLE)], &[1, 2]);
    story.begin();

    story.finds("a", &[1]);

    assert_eq!(story.verdict(), Some(Verdict::Missing(vec![0])));
}

#[test]
fn kit_a_31_at_the_deadline_a_key_of_nobody_is_told_and_nothing_else_awaited() {
    let mut story = Story::new(Mode::All, &[("a", half())], &[1, 200]);
    assert_eq!(story.begin(), ["send a [0]"]);
    assert_eq!(story.at(500), ["cancel a [0]"]);
    story.at(520);

    story.millis = 2_000;

    assert_eq!(story.verdict(), Some(Verdict::NoShard(vec![1])));
}

/// kit A-31: in the order of the call, whichever of them was the last to be nobody's.
#[test]
fn keys_of_nobody_are_told_in_the_order_of_the_call() {
    let mut story = Story::new(Mode::All, &[("a", half())], &[1, 200, 2, 300]);
    story.begin();
    story.serves("a", Interval::EMPTY);
    story.refuses("a");

    story.millis = 2_000;

    assert_eq!(story.verdict(), Some(Verdict::NoShard(vec![0, 1, 2, 3])));
}

#[test]
fn kit_a_34_a_second_host_is_asked_after_the_usual_time_of_the_first() {
    let mut story = Story::new(Mode::Hedge, &[("a", Interval::WHOLE), ("b", Interval::WHOLE)], &[1, 2]);

    assert_eq!(story.begin(), ["send a [0, 1]"]);
    assert_eq!(story.call.wake_at(), Moment::from_micros(3_000));
    assert_eq!(story.at(3), ["suspect a [0, 1]", "propose b [0, 1]"]);
    let second = story.out("b");
    story.call.granted(second, true, Moment::from_micros(3_000));
    assert_eq!(story.at(100), [""; 0], "a request is hedged once");

    assert_eq!(story.finds("b", &[0, 1]), ["cancel a [0, 1]"]);
    assert_eq!(story.verdict(), Some(Verdict::Found));
}

/// kit A-34: a second request is sent for a slow first one. What is asked for because something has failed is not doubled.
#[test]
fn who_is_asked_instead_is_not_hedged() {
    let hosts = [("a", Interval::WHOLE), ("b", Interval::WHOLE), ("c", Interval::WHOLE)];
    let mut story = Story::new(Mode::Hedge, &hosts, &[1]);
    story.begin();

    assert_eq!(story.fails("a"), ["send b [0]"]);

    assert_eq!(story.at(400), [""; 0]);
}

/// Two hosts are asked instead of one, because they are cut otherwise: the first is taken back when both have answered.
#[test]
fn kit_a_36_a_host_is_not_taken_back_while_one_of_its_keys_has_no_value() {
    let upper = Interval::to_end(100);
    let mut story = Story::new(Mode::Hedge, &[("a", Interval::WHOLE), ("b", half()), ("c", upper)], &[1, 200]);
    story.begin();
    assert_eq!(story.at(3), ["suspect a [0, 1]", "propose b [0]", "propose c [1]"]);
    for name in ["b", "c"] {
        let second = story.out(name);
        story.call.granted(second, true, Moment::from_micros(3_000));
    }

    assert_eq!(story.finds("b", &[0]), [""; 0]);

    assert_eq!(story.finds("c", &[1]), ["cancel a [0, 1]"]);
}

#[test]
fn kit_a_26_a_host_that_failed_has_half_of_the_pause_at_least() {
    let mut story = Story::new(Mode::One, &[("a", Interval::WHOLE)], &[1]);
    story.begin();
    story.fails("a");

    assert_eq!(story.at(9), [""; 0]);

    assert_eq!(story.at(10), ["send a [0]"], "chance adds nothing here");
    story.roll = u64::MAX;
    story.fails("a");
    assert_eq!(story.at(29), [""; 0]);
    assert_eq!(story.at(30), ["send a [0]"], "and all of the other half here");
}

/// kit A-33: one request for a key is enough where one is asked, also if a slow host turns out to serve it no more.
#[test]
fn keys_that_somebody_else_is_asked_for_already_are_not_sent_on() {
    let hosts = [("a", Interval::WHOLE), ("b", Interval::WHOLE), ("c", Interval::WHOLE)];
    let mut story = Story::new(Mode::Hedge, &hosts, &[1]);
    story.begin();
    assert_eq!(story.at(3), ["suspect a [0]", "propose b [0]"]);
    let second = story.out("b");
    story.call.granted(second, true, Moment::from_micros(3_000));

    assert_eq!(story.refuses("a"), [""; 0]);
}

/// kit A-33: however often a host says that it serves something new now, it is asked a few times and then searched for.
#[test]
fn a_host_that_says_something_new_each_time_is_asked_four_times_between_two_searches() {
    let mut story = Story::new(Mode::All, &[("a", Interval::WHOLE)], &[1]);
    story.begin();
    let denies = |story: &mut Story, bound: u64| {
        story.serves("a", Interval::new(0, 100 + bound));
        story.refuses("a")
    };
    assert_eq!([1, 2, 3].map(|bound| denies(&mut story, bound)), [1, 2, 3].map(|_| vec!["send a [0]".to_owned()]));

    assert_eq!(denies(&mut story, 4), [""; 0]);
    assert!(story.call.is_searching());
    assert_eq!(story.begin(), [""; 0], "the map has changed");
    assert_eq!(story.at(999), [""; 0]);
    assert_eq!(story.at(1_000), ["send a [0]"]);
    assert_eq!(denies(&mut story, 5), [""; 0]);
}

/// kit A-26: a retry is for keys that nobody else is asked for at the moment.
#[test]
fn a_host_that_failed_is_not_asked_again_while_another_may_answer() {
    let mut story = Story::new(Mode::Hedge, &[("a", Interval::WHOLE), ("b", Interval::WHOLE)], &[1]);
    story.begin();
    story.at(3);
    let second = story.out("b");
    story.call.granted(second, true, Moment::from_micros(3_000));

    assert_eq!(story.fails("a"), [""; 0]);
    assert_eq!(story.at(100), [""; 0]);

    story.finds("b", &[0]);
    assert_eq!(story.verdict(), Some(Verdict::Found));
}

#[test]
fn kit_a_34_the_usual_time_counts_between_two_and_a_hundred_milliseconds() {
    // A host that nobody knows yet has all the time there is.
    for (p95, waited) in [(Some(1), 2_000), (Some(2_000_000), 100_000), (None, 100_000)] {
        let hosts = [("a", Interval::WHOLE), ("b", Interval::WHOLE)];
        let mut story = Story::usually_within(p95, Mode::Hedge, &hosts, &[1]);

        story.begin();

        assert_eq!(story.call.wake_at(), Moment::from_micros(waited), "{p95:?} µs");
    }
}

#[test]
fn kit_a_34_without_budget_the_first_host_is_waited_for() {
    let mut story = Story::new(Mode::Hedge, &[("a", Interval::WHOLE), ("b", Interval::WHOLE)], &[1]);
    story.begin();
    story.at(3);
    let second = story.out("b");

    story.call.granted(second, false, Moment::from_micros(3_000));

    assert_eq!(story.verdict(), None);
    assert_eq!(story.at(500), ["cancel a [0]", "send b [0]"], "its time-out is no hedge, and b is still to be had");
}

#[test]
fn where_one_is_asked_another_takes_over_when_it_fails() {
    let mut story = Story::new(Mode::One, &[("a", Interval::WHOLE), ("b", half())], &[1, 200]);

    assert_eq!(story.begin(), ["send a [0, 1]"]);
    assert_eq!(story.fails("a"), ["send b [0]"]);
    assert_eq!(story.at(20), ["send a [1]"], "nobody else has this one");
    story.finds("b", &[0]);
    story.finds("a", &[1]);

    assert_eq!(story.verdict(), Some(Verdict::Found));
}

#[test]
fn where_one_is_asked_and_all_fail_each_is_asked_again_within_its_retries() {
    let mut story = Story::new(Mode::One, &[("a", Interval::WHOLE), ("b", Interval::WHOLE)], &[1]);
    story.begin();
    story.fails("a");
    story.fails("b");

    let mut sent = Vec::new();
    while story.verdict().is_none() {
        let next = story.call.wake_at();
        story.millis = next.micros().div_ceil(1_000);
        sent.extend(story.at(story.millis));
        let out = story
            .call
            .asks()
            .iter()
            .find(|ask| matches!(ask.state, State::Out { .. }))
            .map(|ask| Arc::clone(&ask.address));
        out.into_iter().for_each(|name| drop(story.fails(&name)));
    }

    assert_eq!(sent, ["send b [0]", "send b [0]"]);
    assert_eq!(story.verdict(), Some(Verdict::Missing(vec![0])));
}
