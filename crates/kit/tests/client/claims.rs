//! How a claim lives: on a store without a database, and a clock that jumps.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shardine_kit::claim::{Error, Holder, OnLoss, Store};
use shardine_kit::{Claim, ClaimOptions, Hold, Identity, Interval, Shard, Times, WhileSilent};
use tokio::time::{sleep, timeout};

#[derive(Default)]
struct Script {
    /// What is there to be taken.
    free: Option<Hold>,
    is_held: bool,
    /// As what a claim is made anew that the store does not know any more.
    anew: Option<Hold>,
    is_down: bool,
    /// Takes the question and never answers.
    is_stuck: bool,
    panics: bool,
    /// What an answer takes.
    takes: Duration,
    claims: u32,
    renewals: u32,
}

#[derive(Default)]
struct Scripted(Mutex<Script>);

impl Scripted {
    fn say(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.0.lock().unwrap());
    }

    async fn answer<T>(&self, make: impl FnOnce(&mut Script) -> T) -> Result<T, Error> {
        let (is_stuck, is_down, panics, takes) = {
            let script = self.0.lock().unwrap();
            (script.is_stuck, script.is_down, script.panics, script.takes)
        };
        assert!(!panics, "this panic is part of the test");
        if is_stuck {
            std::future::pending::<()>().await;
        }
        sleep(takes).await;
        match is_down {
            true => Err(Error::new("script", "down")),
            false => Ok(make(&mut self.0.lock().unwrap())),
        }
    }
}

impl Store for Scripted {
    fn timeout(&self) -> Duration {
        Duration::from_secs(30)
    }

    async fn claim(&self, _who: &Identity) -> Result<Option<Hold>, Error> {
        self.answer(|script| {
            script.claims += 1;
            script.is_held = script.free.is_some();
            script.free
        })
        .await
    }

    async fn renew(&self, _who: &Identity, hold: Hold) -> Result<Option<Hold>, Error> {
        self.answer(|script| {
            script.renewals += 1;
            script.is_held.then_some(script.anew.unwrap_or(hold))
        })
        .await
    }

    async fn release(&self, _who: &Identity, _hold: Hold) -> Result<(), Error> {
        self.answer(|script| script.is_held = false).await
    }

    async fn holders(&self) -> Result<Vec<Holder>, Error> {
        Ok(Vec::new())
    }
}

const HOLD: Hold = Hold { shard: 1, generation: 3 };

fn claim(store: &Arc<Scripted>, while_silent: WhileSilent) -> Claim<Scripted> {
    let options = ClaimOptions { times: Times::default(), on_loss: OnLoss::Tell, while_silent };
    Claim::start(Arc::clone(store), Identity::new("a", "a1"), options)
}

/// A shard that is served under a claim.
async fn served(store: &Arc<Scripted>) -> (Claim<Scripted>, Shard) {
    served_by(store, WhileSilent::Stop).await
}

async fn served_by(store: &Arc<Scripted>, while_silent: WhileSilent) -> (Claim<Scripted>, Shard) {
    store.say(|script| script.free = Some(HOLD));
    let claim = claim(store, while_silent);
    claim.taken().await;
    let shard = Shard::new(Identity::new("a", "a1"));
    claim.open(&shard, Interval::new(0, 10));
    (claim, shard)
}

async fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn kit_a_44_without_a_shard_a_server_lives_on_and_asks_every_period() {
    let store = Arc::new(Scripted::default());
    let claim = claim(&store, WhileSilent::Stop);

    pass(21).await;
    assert_eq!((store.0.lock().unwrap().claims, claim.hold()), (5, None));
    store.say(|script| script.free = Some(HOLD));

    assert_eq!(claim.taken().await, HOLD);
}

#[tokio::test(start_paused = true)]
async fn kit_a_46_a_holder_proves_itself_every_period() {
    let store = Arc::new(Scripted::default());
    let (claim, shard) = served(&store).await;

    pass(61).await;

    assert_eq!(store.0.lock().unwrap().renewals, 12);
    assert!(claim.is_proven() && !shard.interval().is_empty());
}

/// A store that is slow, but not too slow for its claims, is as good as a quick one: an answer that takes longer than a period
/// is waited for, and not asked for anew and anew.
#[tokio::test(start_paused = true)]
async fn kit_a_46_an_answer_may_take_longer_than_a_period() {
    let store = Arc::new(Scripted::default());
    store.say(|script| script.takes = Duration::from_secs(9));
    let hour = Duration::from_secs(3_600);
    let (claim, shard) = timeout(hour, served(&store)).await.expect("a shard in the end");

    for _ in 0..600 {
        pass(1).await;
        assert!(claim.is_proven() && !shard.interval().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn kit_a_47_a_lost_shard_answers_nothing_from_the_moment_it_is_noticed() {
    let store = Arc::new(Scripted::default());
    let (claim, shard) = served(&store).await;

    store.say(|script| script.is_held = false);
    assert_eq!(claim.lost().await, HOLD);

    assert!(shard.interval().is_empty() && claim.hold().is_none());
    store.say(|script| script.is_held = true);
    pass(60).await;
    assert!(shard.interval().is_empty(), "and never again");
}

/// Whoever was slow to ask what was taken hears it also when it is lost again.
#[tokio::test(start_paused = true)]
async fn what_was_taken_and_lost_is_told_to_whoever_waits_for_it() {
    let store = Arc::new(Scripted::default());
    store.say(|script| script.free = Some(HOLD));
    let claim = claim(&store, WhileSilent::Serve);
    pass(1).await;
    store.say(|script| script.is_held = false);
    claim.lost().await;

    assert_eq!(timeout(Duration::from_secs(60), claim.taken()).await, Ok(HOLD));
}

/// kit A-49.
async fn silent_store(make_silent: impl FnOnce(&mut Script), end_silence: impl FnOnce(&mut Script)) {
    let store = Arc::new(Scripted::default());
    let (claim, shard) = served(&store).await;
    pass(1).await;
    store.say(make_silent);

    // Proven at second 0; 30 seconds less the margin of 10 are left.
    pass(18).await;
    assert!(!shard.interval().is_empty());
    pass(2).await;
    assert!(shard.interval().is_empty(), "ten seconds before anybody else could take it");
    let answer = shard.get(&[5u64], |key| *key, async |keys| Ok(keys.to_vec())).await.unwrap();
    assert!(!answer.all_matched && answer.values.is_empty());

    store.say(end_silence);
    pass(10).await;
    assert!(!shard.interval().is_empty(), "the row was still ours, so it serves again");
    assert_eq!(claim.hold(), Some(HOLD));
}

#[tokio::test(start_paused = true)]
async fn kit_a_49_a_holder_whose_database_is_down_fences_itself() {
    silent_store(|script| script.is_down = true, |script| script.is_down = false).await;
}

#[tokio::test(start_paused = true)]
async fn kit_a_49_a_holder_whose_database_hangs_fences_itself() {
    silent_store(|script| script.is_stuck = true, |script| script.is_stuck = false).await;
}

#[tokio::test(start_paused = true)]
async fn kit_a_49_a_holder_whose_store_panics_fences_itself() {
    silent_store(|script| script.panics = true, |script| script.panics = false).await;
}

/// The default: an outage of the store is nobody else's.
#[tokio::test(start_paused = true)]
async fn kit_a_49_a_holder_may_serve_on_until_the_store_says_that_it_has_lost() {
    let store = Arc::new(Scripted::default());
    let (claim, shard) = served_by(&store, WhileSilent::default()).await;

    let silences: [fn(&mut Script); 3] =
        [|script| script.is_down = true, |script| script.is_stuck = true, |script| script.panics = true];
    for silence in silences {
        store.say(silence);
        pass(3_600).await;
        assert!(claim.is_proven() && !shard.interval().is_empty() && claim.hold() == Some(HOLD));
        store.say(|script| (script.is_down, script.is_stuck, script.panics) = (false, false, false));
        pass(10).await;
    }
    store.say(|script| script.is_held = false);
    claim.lost().await;

    assert!(shard.interval().is_empty());
}

#[tokio::test(start_paused = true)]
async fn kit_a_49_an_answer_that_was_begun_in_time_is_not_given_too_late() {
    let store = Arc::new(Scripted::default());
    let (_claim, shard) = served(&store).await;
    store.say(|script| script.is_down = true);

    let slow = async |keys: &[u64]| {
        pass(21).await;
        Ok(keys.to_vec())
    };
    let answer = shard.get(&[5u64], |key| *key, slow).await.unwrap();

    assert!(!answer.all_matched && answer.values.is_empty());
    assert_eq!(shard.metrics().late_refusals, 1);
}

/// kit A-55: the store has lost the claim, and nobody else has it.
#[tokio::test(start_paused = true)]
async fn kit_a_55_a_claim_that_was_made_anew_is_served_on_under_its_new_generation() {
    let store = Arc::new(Scripted::default());
    let (claim, shard) = served(&store).await;
    assert_eq!((shard.describe().number, shard.describe().generation), (1, 3));

    store.say(|script| script.anew = Some(Hold { generation: 8, ..HOLD }));
    pass(30).await;

    assert_eq!(claim.hold(), Some(Hold { generation: 8, ..HOLD }));
    assert!(!shard.interval().is_empty());
    assert_eq!((shard.describe().number, shard.describe().generation), (1, 8));
}

/// Says in a child's environment that it is to lose its shard.
const ROBBED: &str = "SHARDINE_KIT_TEST_IS_ROBBED";

/// kit A-47: the default. The process is not there any more, so it is another one that loses its shard, and is looked at.
#[test]
fn kit_a_47_a_server_that_has_lost_its_shard_aborts() {
    if std::env::var_os(ROBBED).is_some() {
        return lose();
    }
    let me = std::env::current_exe().unwrap();
    let name = "claims::kit_a_47_a_server_that_has_lost_its_shard_aborts";

    let child = Command::new(me).args(["--exact", name, "--nocapture"]).env(ROBBED, "1").output().unwrap();

    let told = String::from_utf8_lossy(&child.stderr);
    assert_eq!(child.status.signal(), Some(6), "SIGABRT, not {:?}: {told}", child.status);
    assert!(told.contains("held") && !told.contains("still there"), "{told}");
}

/// Ends the process, and says so if it does not.
fn lose() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let store = Arc::new(Scripted::default());
        store.say(|script| script.free = Some(HOLD));
        let claim = Claim::start(Arc::clone(&store), Identity::new("a", "a1"), ClaimOptions::default());
        claim.taken().await;
        pass(60).await;
        eprintln!("held for a minute");
        store.say(|script| script.is_held = false);
        pass(60).await;
        eprintln!("still there");
    });
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "margin is less than timeout")]
async fn times_that_cannot_work_are_refused_at_the_start() {
    let times = Times { margin: Duration::from_secs(30), ..Times::default() };
    let options = ClaimOptions { times, ..ClaimOptions::default() };

    Claim::start(Arc::new(Scripted::default()), Identity::new("a", "a1"), options);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_does_not_hang_on_a_store_that_does() {
    let store = Arc::new(Scripted::default());
    let (claim, shard) = served(&store).await;
    store.say(|script| script.is_stuck = true);

    let told = timeout(Duration::from_secs(30), claim.release()).await.unwrap();

    assert_eq!(told.unwrap_err().to_string(), "the store: no answer in time");
    assert!(shard.interval().is_empty());
}

/// While the store is being told, it may have told the next one already.
#[tokio::test(start_paused = true)]
async fn a_shard_that_is_given_back_is_neither_served_nor_proven_any_more() {
    let store = Arc::new(Scripted::default());
    let (claim, shard) = served(&store).await;
    store.say(|script| script.takes = Duration::from_secs(9));
    let renewals = store.0.lock().unwrap().renewals;

    let releasing = tokio::spawn(claim.release());
    pass(1).await;
    assert!(shard.interval().is_empty());
    // A proof would be answered before the store has done what it was told.
    store.say(|script| script.takes = Duration::ZERO);
    releasing.await.unwrap().unwrap();

    assert_eq!(store.0.lock().unwrap().renewals, renewals);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_dropped_serves_nothing_and_is_left_to_time_out() {
    let store = Arc::new(Scripted::default());
    let (claim, shard) = served(&store).await;

    drop(claim);

    assert!(shard.interval().is_empty());
    let renewals = store.0.lock().unwrap().renewals;
    pass(60).await;
    assert_eq!(store.0.lock().unwrap().renewals, renewals);
}
