//! The turn with a machine that only remembers what it was told: two toys, a leader and one that learns from it.

use shardine_consensus::{Message, ReadDone, Restored};
use shardine_model::checksum::Summing;
use shardine_model::codec::put_bytes;
use shardine_model::log::{LogEntry, Membership, SnapshotMeta};
use shardine_model::stream::SnapshotError;
use shardine_model::{ReplicaId, ShardId};

use super::{Turn, drain};
use crate::actions::{Persist, SnapshotPart};
use crate::member::machine::Machine;
use crate::member::proposals::Fate;
use crate::member::{Member, Options, Outbox};

/// What nobody can execute, and no snapshot may hold.
const POISON: &[u8] = b"poison";

#[derive(Default)]
struct Diary {
    lines: Vec<Vec<u8>>,
    /// Lines that a running cut has not handed out.
    cut: Vec<Vec<u8>>,
}

impl Machine for Diary {
    fn begin_cut(&mut self) {
        self.cut = self.lines.clone();
    }

    fn next_chunk(&mut self) -> Option<Vec<u8>> {
        (!self.cut.is_empty()).then(|| self.cut.remove(0))
    }

    fn abandon_cut(&mut self) {
        self.cut.clear();
    }

    fn summing() -> Box<dyn Summing> {
        unreachable!("nobody looks at what these toys have")
    }

    fn restored(mut self, chunks: Vec<&[u8]>) -> Result<Self, SnapshotError> {
        if chunks.contains(&POISON) {
            return Err(SnapshotError::Contradiction("a line that nobody can have written"));
        }
        self.lines.extend(chunks.into_iter().map(<[u8]>::to_vec));
        Ok(self)
    }
}

#[derive(Default)]
struct Actions {
    persists: Vec<Persist>,
    messages: Vec<Message>,
    snapshot: Vec<SnapshotPart>,
    /// Own proposals that were executed, and those that were lost.
    done: Vec<&'static str>,
    lost: Vec<(&'static str, Fate)>,
    stop: Option<String>,
}

struct Toy {
    member: Member<&'static str>,
    diary: Diary,
    /// Its newest snapshot on disk, and the one that is being written.
    file: Vec<u8>,
    writing: (u64, Vec<u8>),
}

impl Turn for Toy {
    type Machine = Diary;
    type Actions = Actions;
    type Load = &'static str;
    type Rest = Option<&'static str>;

    fn parts(&mut self) -> (&mut Member<&'static str>, &mut Diary) {
        (&mut self.member, &mut self.diary)
    }

    fn outbox(actions: &mut Actions) -> Outbox<'_> {
        Outbox { persists: &mut actions.persists, messages: &mut actions.messages }
    }

    fn empty_machine(&mut self) -> Diary {
        Diary::default()
    }

    fn prepared(&mut self) -> Option<Diary> {
        None
    }

    fn execute(
        &mut self,
        entry: &LogEntry,
        own: Option<&'static str>,
        _: &mut Actions,
    ) -> Result<Option<&'static str>, String> {
        if &*entry.data == POISON && own != Some("swallow") {
            return Err("poison".to_owned());
        }
        self.diary.lines.push(entry.data.to_vec());
        Ok(own)
    }

    fn finish(&mut self, own: Option<&'static str>, actions: &mut Actions) {
        actions.done.extend(own);
    }

    fn lose(&mut self, load: &'static str, fate: Fate, actions: &mut Actions) {
        actions.lost.push((load, fate));
    }

    fn end_turn(&mut self, _: Vec<ReadDone>, _: &mut Actions) {}

    fn say_stopped(&mut self, reason: String, actions: &mut Actions) {
        actions.stop = Some(reason);
    }

    #[cfg(feature = "mutants")]
    fn answers_before_sync(&self) -> bool {
        false
    }
}

impl Toy {
    fn new(node: u64) -> Self {
        let membership = Membership { learners: vec![ReplicaId(2)], ..Membership::of([ReplicaId(1)]) };
        let snapshot = SnapshotMeta { membership, ..SnapshotMeta::default() };
        let options = Options {
            replica: ReplicaId(node),
            shard: ShardId(1),
            incarnation: 1,
            seed: 1,
            snapshot_log_bytes: u64::MAX,
            window_entries: 0,
        };
        let member = Member::new(options, Restored { snapshot, ..Restored::default() });
        Self { member, diary: Diary::default(), file: Vec::new(), writing: (0, Vec::new()) }
    }

    /// One that leads, alone with its disk.
    fn leader() -> Self {
        let mut toy = Self::new(1);
        toy.member.group.campaign();
        toy.run();
        assert!(toy.member.is_serving());
        toy
    }

    fn write(&mut self, line: &[u8], name: &'static str) -> Actions {
        assert_eq!(self.member.propose(line.to_vec(), 0, name), Ok(()));
        self.run()
    }

    /// Takes turns, with a disk that has everything at once and a host that cuts, until nothing moves.
    fn run(&mut self) -> Actions {
        let mut actions = Actions::default();
        let mut confirmed = 0;
        loop {
            drain(self, &mut actions);
            self.member.cut_if_due(&mut self.diary);
            self.member.snapshot_step(&mut self.diary, usize::MAX, &mut actions.snapshot);
            actions.snapshot.drain(..).for_each(|part| self.store(part));
            let Some(persist) = actions.persists.get(confirmed) else { return actions };
            confirmed += 1;
            self.member.persisted(persist.number, &mut actions.messages);
        }
    }

    fn store(&mut self, part: SnapshotPart) {
        match part {
            SnapshotPart::Begin(meta) => self.writing = (meta.index, Vec::new()),
            SnapshotPart::Chunk(chunk) => put_bytes(&mut self.writing.1, &chunk),
            SnapshotPart::Abandon => {}
            SnapshotPart::End => {
                self.file = std::mem::take(&mut self.writing.1);
                self.member.snapshot_saved(self.writing.0);
            }
        }
    }

    fn step(&mut self, messages: Vec<Message>) -> Actions {
        messages.into_iter().for_each(|message| self.member.group.step(message));
        self.run()
    }
}

/// What a leader sends, with its snapshot in it, to one who has missed everything.
fn send_snapshot(leader: &mut Toy, learner: &mut Toy) -> Actions {
    let mut messages = Vec::new();
    for _ in 0..20 {
        leader.member.group.tick();
        messages.extend(leader.run().messages);
        let brings_it = messages.iter().any(Message::is_snapshot);
        let offers = messages.iter_mut().filter(|message| message.is_snapshot());
        offers.for_each(|message| message.set_snapshot_data(leader.file.clone().into()));
        let heard = learner.step(std::mem::take(&mut messages));
        if brings_it {
            return heard;
        }
        messages = leader.step(heard.messages).messages;
    }
    panic!("no snapshot was sent");
}

#[test]
fn a_proposal_comes_back_when_its_entry_was_executed() {
    let mut leader = Toy::leader();

    let actions = leader.write(b"one", "mine");

    assert_eq!((actions.done, actions.lost), (vec!["mine"], vec![]));
    assert_eq!(leader.diary.lines, [b"one"]);
}

#[test]
fn nothing_is_executed_before_it_is_on_disk() {
    let mut leader = Toy::leader();
    let mut actions = Actions::default();

    assert_eq!(leader.member.propose(b"one".to_vec(), 0, "mine"), Ok(()));
    drain(&mut leader, &mut actions);

    assert_eq!(actions.persists.len(), 1);
    assert!(actions.done.is_empty());
}

/// reliability F32, I9.
#[test]
fn an_entry_that_cannot_be_executed_stops_the_replica_and_leaves_its_proposals_in_doubt() {
    let mut leader = Toy::leader();
    assert_eq!(leader.member.propose(POISON.to_vec(), 0, "first"), Ok(()));

    let actions = leader.write(b"one", "second");

    assert_eq!(actions.stop.as_deref(), Some("poison"));
    assert_eq!(actions.lost, [("second", Fate::InDoubt)]);
    assert!(leader.member.has_stopped() && !leader.member.is_serving());
    assert!(leader.diary.lines.is_empty(), "nothing behind it is executed");
}

#[test]
fn a_snapshot_takes_the_place_of_what_was_missed() {
    let (mut leader, mut learner) = (Toy::leader(), Toy::new(2));
    leader.write(b"one", "mine");

    let actions = send_snapshot(&mut leader, &mut learner);

    assert_eq!(learner.diary.lines, [b"one"]);
    assert_eq!(learner.member.applied(), leader.member.applied());
    assert!(actions.persists.iter().any(|persist| persist.install.is_some()));
}

/// It would be found again after every restart.
#[test]
fn a_snapshot_that_cannot_be_read_stops_the_replica_and_is_not_written() {
    let (mut leader, mut learner) = (Toy::leader(), Toy::new(2));
    leader.write(POISON, "swallow");

    let actions = send_snapshot(&mut leader, &mut learner);

    assert!(actions.stop.is_some_and(|reason| reason.contains("cannot be read")));
    assert!(actions.persists.iter().all(|persist| persist.install.is_none()));
    assert_eq!(learner.member.applied(), 0);
}
