//! The host with replicas that only remember what was done to them.

use bytes::Bytes;
use shardine_model::log::{HardState, LogEntry, LogEntryKind, LogOp, LogWrite, SnapshotMeta};
use shardine_model::{NodeId, ReplicaId, ShardId};
use shardine_shard::{
    ChangeRefused, Group, MembershipChange, Message, Persist, Role, SnapshotPart, Time, TransferRefused,
};

use crate::{GroupReplica, Host, SeatId, Work};

const VOTERS: [ReplicaId; 3] = [ReplicaId(1), ReplicaId(2), ReplicaId(3)];

#[derive(Default)]
struct Actions {
    persists: Vec<Persist>,
    messages: Vec<Message>,
    snapshot: Vec<SnapshotPart>,
    stop: Option<String>,
    answers: Vec<&'static str>,
}

/// Proposes one entry for whatever it has gathered, and is told when that is on disk.
#[derive(Default)]
struct Memory {
    shard: ShardId,
    id: ReplicaId,
    time_ms: u64,
    gathered: u64,
    writes: u64,
    persisted: Vec<u64>,
    turns_ended: u64,
    ticks: u64,
    is_resting: bool,
    due_ms: Option<u64>,
    timers_run: u64,
    pieces_left: u64,
    saved: u64,
    /// Nobody, or itself if it was never told anything.
    leader: Option<Option<ReplicaId>>,
    heirs: Vec<ReplicaId>,
    asked: Vec<ReplicaId>,
    campaigns: u64,
    retired: u64,
}

impl Memory {
    fn write(&mut self, count: u64, install: Option<SnapshotMeta>, actions: &mut Actions) {
        self.writes += 1;
        let entry = |_| LogEntry { index: 1, term: 1, kind: LogEntryKind::Normal, data: Bytes::new() };
        let write = LogWrite {
            shard: self.shard,
            replica: self.id,
            entries: (0..count).map(entry).collect(),
            hard_state: Some(HardState::default()),
        };
        let install = install.map(|meta| (meta, Bytes::from_static(b"snapshot")));
        actions.persists.push(Persist { number: self.writes, write, install });
    }
}

impl GroupReplica for Memory {
    type Actions = Actions;
    type Machine = ();

    fn shard(&self) -> ShardId {
        self.shard
    }
    fn id(&self) -> ReplicaId {
        self.id
    }
    fn set_time(&mut self, time: Time) {
        self.time_ms = time.monotonic_ms;
    }
    fn tick(&mut self, _: Time, _: &mut Actions) {
        self.ticks += 1;
    }
    fn rests(&self) -> bool {
        self.is_resting
    }
    fn campaign(&mut self, _: &mut Actions) {
        self.campaigns += 1;
    }
    fn forget_leader(&mut self, _: &mut Actions) {
        self.leader = Some(None);
    }
    fn hand_over(&mut self, to: Option<ReplicaId>, _: &mut Actions) -> Result<ReplicaId, TransferRefused> {
        let to = to.ok_or(TransferRefused::NoHeir(self.id))?;
        self.asked.push(to);
        Ok(to)
    }
    fn is_handing_over(&self) -> bool {
        false
    }
    fn leader(&self) -> Option<ReplicaId> {
        self.leader.unwrap_or(Some(self.id))
    }
    fn voters(&self) -> &[ReplicaId] {
        &VOTERS
    }
    fn heirs(&self) -> Vec<ReplicaId> {
        self.heirs.clone()
    }
    fn change_members(&mut self, _: &MembershipChange, _: &mut Actions) -> Result<(), ChangeRefused> {
        Ok(())
    }

    fn retire(&mut self, _: &mut Actions) {
        self.retired += 1;
    }

    fn group(&self) -> &Group {
        unreachable!("nobody here has a map")
    }

    fn step(&mut self, _: Message, _: &mut Actions) {}
    fn step_snapshot(&mut self, _: Message, (): (), _: &mut Actions) {}
    fn persisted(&mut self, number: u64, _: &mut Actions) {
        self.persisted.push(number);
    }
    fn end_turn(&mut self, _: &mut Actions) {
        self.turns_ended += 1;
    }
    fn wants_proposal(&self) -> bool {
        self.gathered > 0
    }
    fn propose_gathered(&mut self, actions: &mut Actions) {
        let gathered = std::mem::take(&mut self.gathered);
        self.write(gathered, None, actions);
    }
    fn next_due_ms(&self) -> Option<u64> {
        self.due_ms
    }
    fn run_timers(&mut self, _: &mut Actions) {
        self.due_ms = None;
        self.timers_run += 1;
    }
    fn snapshot_now(&mut self) {
        self.pieces_left = 3;
    }
    fn is_cutting(&self) -> bool {
        self.pieces_left > 0
    }
    fn snapshot_step(&mut self, _: usize, actions: &mut Actions) {
        self.pieces_left -= 1;
        actions.snapshot.push(SnapshotPart::Chunk(Vec::new()));
    }
    fn snapshot_saved(&mut self, index: u64) {
        self.saved = index;
    }
    fn snapshot_failed(&mut self) {}
    fn role(&self) -> Role {
        if self.leader() == Some(self.id) { Role::Leader } else { Role::Follower }
    }
    fn term(&self) -> u64 {
        1
    }
    fn applied(&self) -> u64 {
        0
    }
    fn committed(&self) -> u64 {
        0
    }
    fn is_serving(&self) -> bool {
        true
    }
    fn work(actions: &mut Actions) -> Work<'_> {
        let Actions { persists, messages, snapshot, stop, .. } = actions;
        Work { persists, messages, snapshot, stop }
    }
}

fn add(host: &mut Host<Memory>, shard: u32, id: u64) -> SeatId {
    let (shard, id) = (ShardId(shard), ReplicaId(id));
    host.add(shard, id, Ok(Memory { shard, id, ..Memory::default() }))
}

fn host_of(shards: u32) -> (Host<Memory>, Vec<SeatId>) {
    let mut host = Host::default();
    let seats = (1..=shards).map(|shard| add(&mut host, shard, u64::from(shard))).collect();
    host.end_turn();
    (host, seats)
}

/// Somebody has a request for the replica.
fn gather(host: &mut Host<Memory>, seat: SeatId) {
    host.act(seat, |replica, _| replica.gathered += 1);
    host.end_turn();
}

fn shards_of(ops: &[LogOp]) -> Vec<u32> {
    let shard = |op: &LogOp| match op {
        LogOp::Write(write) => write.shard.0,
        LogOp::Install(install) => install.write.shard.0,
        LogOp::Truncate { shard, .. } | LogOp::Remove { shard, .. } => shard.0,
    };
    ops.iter().map(shard).collect()
}

#[test]
fn a_turn_costs_the_seats_that_were_touched_and_no_others() {
    let (mut host, seats) = host_of(1_000);
    let ended = |host: &Host<Memory>| host.replicas().map(|replica| replica.turns_ended).sum::<u64>();
    let before = ended(&host);

    for _ in 0..10 {
        gather(&mut host, seats[7]);
        let batch = host.begin_batch().unwrap();
        host.finish_batch(batch.receipt);
        host.end_turn();
    }

    assert_eq!(ended(&host) - before, 30, "gathered, proposed and persisted, ten times");
}

/// Of four ticks one, and each at its own.
#[test]
fn one_that_rests_gets_a_tick_now_and_then() {
    let (mut host, seats) = host_of(8);
    for seat in &seats[1..] {
        host.act(*seat, |replica, _| replica.is_resting = true);
    }
    host.end_turn();

    for _ in 0..4 {
        host.tick();
        host.end_turn();
    }

    let ticks: Vec<u64> = host.replicas().map(|replica| replica.ticks).collect();
    assert_eq!(ticks, [4, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn what_comes_while_a_batch_is_under_way_shares_the_next_one() {
    let (mut host, seats) = host_of(3);
    gather(&mut host, seats[0]);
    let first = host.begin_batch().unwrap();

    gather(&mut host, seats[2]);
    gather(&mut host, seats[1]);
    gather(&mut host, seats[2]);

    assert!(host.begin_batch().is_none(), "one at a time");
    assert_eq!(shards_of(&first.ops), [1]);
    host.finish_batch(first.receipt);
    let second = host.begin_batch().unwrap();
    assert_eq!(shards_of(&second.ops), [2, 3]);
    assert_eq!(second.entries(), 3);
    host.finish_batch(second.receipt);
    assert_eq!(host.replica(seats[2]).unwrap().persisted, [1]);
    assert!(host.begin_batch().is_none(), "nothing is left");
}

#[test]
fn a_snapshot_from_a_peer_stands_behind_what_was_asked_for_before_it() {
    let (mut host, seats) = host_of(1);
    host.act(seats[0], |replica, actions| {
        replica.write(1, None, actions);
        replica.write(0, Some(SnapshotMeta::default()), actions);
        replica.write(2, None, actions);
    });
    host.end_turn();

    let batch = host.begin_batch().unwrap();

    let kinds: Vec<bool> = batch.ops.iter().map(|op| matches!(op, LogOp::Install(_))).collect();
    assert_eq!(kinds, [false, true, false]);
    host.finish_batch(batch.receipt);
    assert_eq!(host.replica(seats[0]).unwrap().persisted, [1, 2, 3]);
}

#[test]
fn a_receipt_for_a_replica_that_has_left_reaches_nobody() {
    let (mut host, seats) = host_of(1);
    gather(&mut host, seats[0]);
    let batch = host.begin_batch().unwrap();

    let gone = host.remove(seats[0]).unwrap();
    assert_eq!(gone.replica.unwrap().retired, 1, "whoever waits is told");
    let next = add(&mut host, 1, 9);
    host.finish_batch(batch.receipt);

    assert!(host.replica(seats[0]).is_none());
    assert_eq!(host.replica(next).unwrap().persisted, [0; 0], "though it sits in the same place");
    assert!(host.act(seats[0], |_, _| {}).is_none());
    let removal = host.begin_batch().unwrap();
    assert!(matches!(removal.ops[..], [LogOp::Remove { shard: ShardId(1), replica: ReplicaId(1) }]));
}

#[test]
fn a_truncation_rides_on_the_next_write_or_goes_with_the_next_tick() {
    let (mut host, seats) = host_of(2);
    host.snapshot_saved(seats[0], 70);
    host.end_turn();
    assert!(host.begin_batch().is_none(), "nobody waits for it");

    gather(&mut host, seats[1]);
    let batch = host.begin_batch().unwrap();
    assert!(matches!(batch.ops[..], [LogOp::Truncate { below: 71, .. }, LogOp::Write(_)]));
    host.finish_batch(batch.receipt);

    host.snapshot_saved(seats[1], 80);
    host.tick();
    host.end_turn();
    assert!(matches!(host.begin_batch().unwrap().ops[..], [LogOp::Truncate { below: 81, .. }]));
}

#[test]
fn cuts_are_finished_one_after_the_other() {
    let (mut host, _) = host_of(2);
    assert!(host.snapshot_now(ShardId(1)) && host.snapshot_now(ShardId(2)));
    assert!(!host.snapshot_now(ShardId(3)), "that one lives elsewhere");
    host.end_turn();

    while host.is_cutting() {
        host.cut_some();
        host.end_turn();
    }

    let order: Vec<u32> = host.parts.iter().map(|part| part.shard.0).collect();
    assert_eq!(order, [1, 1, 1, 2, 2, 2]);
}

#[test]
fn timers_run_when_they_are_due_and_not_before() {
    let (mut host, seats) = host_of(2);
    host.act(seats[1], |replica, _| replica.due_ms = Some(50));
    host.end_turn();
    assert_eq!(host.next_due_ms(), Some(50));

    host.set_time(Time { monotonic_ms: 49, ..Time::default() });
    host.run_due();
    assert_eq!(host.replica(seats[1]).unwrap().timers_run, 0);
    host.set_time(Time { monotonic_ms: 50, ..Time::default() });
    host.run_due();
    host.end_turn();

    assert_eq!(host.replica(seats[1]).unwrap().timers_run, 1);
    assert_eq!(host.replica(seats[1]).unwrap().time_ms, 50, "whoever acts knows the time");
    assert_eq!(host.next_due_ms(), None);
}

#[test]
fn the_last_answers_of_a_replica_that_stops_are_still_given() {
    let (mut host, seats) = host_of(1);
    host.act(seats[0], |_, actions| {
        actions.answers.push("in doubt");
        actions.stop = Some("damaged".to_owned());
    });

    host.end_turn();

    let (seat, actions) = host.next_acted().unwrap();
    assert_eq!((seat, &actions.answers[..]), (seats[0], &["in doubt"][..]));
    assert_eq!(host.stopped, [seats[0]]);
    assert_eq!(host.seat(seats[0]).unwrap().replica.as_ref().err().unwrap(), "damaged");
    assert!(host.act(seats[0], |_, _| {}).is_none(), "it must not be used again");
}

const SUSPECT: NodeId = NodeId(9);

/// A host with replica `id` of shard 1, which follows replica 1 on the node that will be suspected.
fn follower(id: u64) -> (Host<Memory>, SeatId) {
    let mut host = Host::default();
    let seat = add(&mut host, 1, id);
    host.act(seat, |replica, _| replica.leader = Some(Some(ReplicaId(1))));
    (host, seat)
}

fn pass_until(host: &mut Host<Memory>, monotonic_ms: u64) {
    host.set_time(Time { monotonic_ms, ..Time::default() });
    host.run_due();
}

fn campaigns(host: &Host<Memory>, seat: SeatId) -> u64 {
    host.replica(seat).unwrap().campaigns
}

#[test]
fn records_137_who_has_heard_no_clock_since_it_started_asks_for_no_votes() {
    let (mut host, seat) = follower(2);
    host.set_blind(true);
    host.suspect(SUSPECT, |_, replica| replica == ReplicaId(1));
    pass_until(&mut host, 40);
    host.tick();
    assert_eq!((campaigns(&host, seat), host.replica(seat).unwrap().ticks), (0, 0));

    host.set_blind(false);
    pass_until(&mut host, 100);
    host.tick();
    assert_eq!((campaigns(&host, seat), host.replica(seat).unwrap().ticks), (1, 1));
}

#[test]
fn heirs_ask_for_votes_in_their_order_and_again_while_the_suspicion_lasts() {
    let (mut first, first_seat) = follower(2);
    let (mut second, second_seat) = follower(3);
    for host in [&mut first, &mut second] {
        host.suspect(SUSPECT, |_, replica| replica == ReplicaId(1));
        pass_until(host, 0);
    }
    assert_eq!(first.next_due_ms(), Some(50), "asked at once, and again later");
    assert_eq!((campaigns(&first, first_seat), campaigns(&second, second_seat)), (1, 0));

    pass_until(&mut second, 20);
    assert_eq!(campaigns(&second, second_seat), 1);
    pass_until(&mut first, 50);
    pass_until(&mut first, 99);
    assert_eq!(campaigns(&first, first_seat), 2);

    first.trust(SUSPECT);
    pass_until(&mut first, 1_000);
    assert_eq!((campaigns(&first, first_seat), first.next_due_ms()), (2, None));
}

#[test]
fn the_leaders_own_ranking_counts_before_numbers() {
    let (mut host, seat) = follower(2);
    host.hear_heirs(ShardId(1), 4, vec![ReplicaId(3), ReplicaId(2)]);
    host.hear_heirs(ShardId(1), 3, vec![ReplicaId(2), ReplicaId(3)]);

    host.suspect(SUSPECT, |_, replica| replica == ReplicaId(1));
    pass_until(&mut host, 19);
    assert_eq!(campaigns(&host, seat), 0);
    pass_until(&mut host, 20);

    assert_eq!(campaigns(&host, seat), 1);
}

#[test]
fn whoever_has_another_leader_or_leads_itself_asks_for_nothing() {
    let (mut host, seat) = follower(2);
    let leads = add(&mut host, 2, 2);
    host.suspect(SUSPECT, |_, _| true);
    assert!(host.is_suspected(SUSPECT));
    host.act(seat, |replica, _| replica.leader = Some(Some(ReplicaId(3))));

    pass_until(&mut host, 500);

    assert_eq!((campaigns(&host, seat), campaigns(&host, leads)), (0, 0));
    assert_eq!(host.next_due_ms(), None);
}

#[test]
fn a_late_word_of_the_suspect_does_not_end_the_claim() {
    let (mut host, seat) = follower(2);
    host.suspect(SUSPECT, |_, _| true);
    host.act(seat, |replica, _| replica.leader = Some(Some(ReplicaId(1))));

    pass_until(&mut host, 0);

    assert_eq!((campaigns(&host, seat), host.replica(seat).unwrap().leader()), (1, None));
}

#[test]
fn whoever_should_lead_asks_a_few_times_while_nobody_does() {
    let (mut host, seat) = follower(2);
    host.act(seat, |replica, _| replica.leader = Some(None));
    host.stand(seat, 2);

    for time_ms in (0..1_000).step_by(10) {
        pass_until(&mut host, time_ms);
    }
    assert_eq!((campaigns(&host, seat), host.next_due_ms()), (3, None));

    host.stand(seat, 2);
    host.act(seat, |replica, _| replica.leader = Some(Some(ReplicaId(1))));
    pass_until(&mut host, 2_000);
    assert_eq!(campaigns(&host, seat), 3, "somebody leads");
}

#[test]
fn everything_is_handed_over_with_another_heir_at_every_try() {
    let mut host = Host::default();
    let seats = [add(&mut host, 1, 1), add(&mut host, 2, 1)];
    let alone = add(&mut host, 3, 1);
    for seat in seats {
        host.act(seat, |replica, _| replica.heirs = vec![ReplicaId(3), ReplicaId(2)]);
    }

    host.hand_over(1_000);
    assert_eq!(host.hand_over_status().unwrap().open, 2);
    host.tick();
    for seat in seats {
        assert_eq!(host.replica(seat).unwrap().asked, [ReplicaId(3), ReplicaId(2)]);
    }
    host.act(seats[0], |replica, _| replica.leader = Some(Some(ReplicaId(3))));
    host.set_time(Time { monotonic_ms: 1_000, ..Time::default() });
    host.tick();

    let status = host.hand_over_status().unwrap();
    assert!(status.is_over());
    assert_eq!(status.given_up, [ShardId(2), ShardId(3)]);
    assert_eq!(host.replica(alone).unwrap().asked, []);
    assert_eq!(host.replica(seats[1]).unwrap().asked.len(), 2, "time is up");
}

/// A host whose disk stands still with a write of what it leads.
#[test]
fn a_leader_whose_disk_stalls_is_to_hand_over_until_it_leads_nothing() {
    let mut host = Host::default();
    let seat = add(&mut host, 1, 1);
    host.act(seat, |replica, _| (replica.gathered, replica.heirs) = (1, vec![ReplicaId(3)]));
    host.end_turn();
    let _batch = host.begin_batch().unwrap();
    assert!(!host.watch_lead());

    pass_until(&mut host, 1_000);
    assert!(host.watch_lead());
    host.hand_over(2_000);
    assert!(!host.watch_lead(), "it is on its way");
    assert_eq!(host.replica(seat).unwrap().asked, [ReplicaId(3)]);

    pass_until(&mut host, 2_000);
    assert!(!host.watch_lead(), "given up for now");
    assert!(host.watch_lead(), "but the disk still stands");
    host.hand_over(3_000);
    host.act(seat, |replica, _| replica.leader = Some(Some(ReplicaId(3))));
    assert!(!host.watch_lead() && !host.watch_lead(), "nothing is led here");
    assert_eq!(host.hand_over_status(), None);
}

#[test]
fn a_disk_that_does_not_come_back_has_stalled() {
    let mut host = Host::default();
    let seat = add(&mut host, 1, 1);
    host.act(seat, |replica, _| replica.gathered = 1);
    host.end_turn();
    let batch = host.begin_batch().unwrap();

    pass_until(&mut host, 999);
    assert!(!host.is_stalled());
    pass_until(&mut host, 1_000);
    assert!(host.is_stalled());

    host.finish_batch(batch.receipt);
    assert!(!host.is_stalled());
}
