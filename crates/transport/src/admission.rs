//! Who is let in. Both sides of a link ask the same questions: the one that was dialled, of the hello, and the one that
//! dialled, of the welcome.

use shardine_model::NodeId;

use crate::hello::{Hello, Welcome, Who};
use crate::link::LinkKind;
use crate::refusal::Refusal;
use crate::sightings::{Recognition, Sighting, Sightings};

/// What this process knows of itself and of the others' starts.
#[derive(Clone, Copy, Debug)]
pub struct Local<'a> {
    pub who: &'a Who,
    pub sightings: &'a Sightings,
}

/// What the map says of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Part of the cluster, or not on the map yet, which may be old here. Neither gives anybody a vote.
    Fine,
    Removed,
}

/// Somebody who may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// This start of it is known.
    Known,
    /// The start is newer than any known one: it has to be on disk ([`Sightings::note`]) before the next word is said.
    Remember(NodeId, Sighting),
    /// It asks only who is here.
    Probe,
}

impl Local<'_> {
    /// Whether somebody who has dialled is let in.
    pub fn admit(&self, hello: &Hello, standing: Standing) -> Result<Admission, Refusal> {
        if hello.kind == LinkKind::Probe {
            return Ok(Admission::Probe);
        }
        if self.who.cluster == 0 {
            return Err(Refusal::NoCluster);
        }
        self.check(&hello.who, standing)?;
        if hello.expects != NodeId(0) && hello.expects != self.who.node {
            return Err(Refusal::WrongNode { node: self.who.node });
        }
        self.recognise(&hello.who)
    }

    /// Whether somebody who was dialled and says welcome is the one that was meant, and no copy.
    pub fn admit_acceptor(&self, hello: &Hello, welcome: &Welcome, standing: Standing) -> Result<Admission, Refusal> {
        if hello.kind == LinkKind::Probe {
            return Ok(Admission::Probe);
        }
        self.check(&welcome.who, standing)?;
        if hello.expects != NodeId(0) && hello.expects != welcome.who.node {
            return Err(Refusal::WrongNode { node: welcome.who.node });
        }
        self.recognise(&welcome.who)
    }

    fn check(&self, who: &Who, standing: Standing) -> Result<(), Refusal> {
        if who.cluster != self.who.cluster {
            return Err(Refusal::OtherCluster { cluster: self.who.cluster });
        }
        if who.node == self.who.node {
            let is_self = Sighting::of(who) == Sighting::of(self.who);
            let copy = Refusal::OldCopy { node: who.node, incarnation: self.who.incarnation.max(who.incarnation) };
            return Err(if is_self { Refusal::Oneself } else { copy });
        }
        match standing {
            Standing::Fine => Ok(()),
            Standing::Removed => Err(Refusal::Removed { node: who.node }),
        }
    }

    fn recognise(&self, who: &Who) -> Result<Admission, Refusal> {
        let shown = Sighting::of(who);
        match self.sightings.judge(who.node, shown) {
            Recognition::Same => Ok(Admission::Known),
            Recognition::Newer => Ok(Admission::Remember(who.node, shown)),
            Recognition::OldCopy { seen } => Err(Refusal::OldCopy { node: who.node, incarnation: seen.incarnation }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(node: u64, incarnation: u64, start: u64) -> Who {
        Who { cluster: 9, node: NodeId(node), name: format!("n{node}"), incarnation, start, features: 0 }
    }

    fn admit(caller: Who, expects: u64) -> Result<Admission, Refusal> {
        let mut sightings = Sightings::default();
        sightings.note(NodeId(2), Sighting { incarnation: 5, start: 50 });
        let local = Local { who: &who(1, 3, 30), sightings: &sightings };
        local.admit(&Hello::new(caller, LinkKind::Append, NodeId(expects)), Standing::Fine)
    }

    #[test]
    fn a_known_start_is_let_in_and_a_newer_one_is_remembered_first() {
        let newer = Sighting { incarnation: 6, start: 1 };

        assert_eq!(admit(who(2, 5, 50), 1), Ok(Admission::Known));
        assert_eq!(admit(who(2, 6, 1), 0), Ok(Admission::Remember(NodeId(2), newer)));
    }

    #[test]
    fn an_old_or_second_copy_of_a_directory_is_refused() {
        let refused = Err(Refusal::OldCopy { node: NodeId(2), incarnation: 5 });

        assert_eq!(admit(who(2, 4, 50), 1), refused);
        assert_eq!(admit(who(2, 5, 51), 1), refused);
    }

    #[test]
    fn a_copy_of_the_own_directory_is_no_call_to_oneself() {
        assert_eq!(admit(who(1, 3, 30), 1), Err(Refusal::Oneself));
        assert_eq!(admit(who(1, 4, 31), 1), Err(Refusal::OldCopy { node: NodeId(1), incarnation: 4 }));
    }

    /// reliability I8.
    #[test]
    fn other_clusters_and_calls_for_somebody_else_are_refused_by_name() {
        let foreign = Who { cluster: 8, ..who(2, 5, 50) };

        assert_eq!(admit(foreign, 1), Err(Refusal::OtherCluster { cluster: 9 }));
        assert_eq!(admit(who(2, 5, 50), 4), Err(Refusal::WrongNode { node: NodeId(1) }));
    }

    #[test]
    fn a_removed_node_is_told_so_by_either_side() {
        let (own, sightings) = (who(1, 3, 30), Sightings::default());
        let local = Local { who: &own, sightings: &sightings };
        let hello = Hello::new(who(2, 5, 50), LinkKind::Control, NodeId(1));
        let welcome = Welcome::new(who(2, 5, 50), &hello);

        assert_eq!(local.admit(&hello, Standing::Removed), Err(Refusal::Removed { node: NodeId(2) }));
        let dialled = Hello::new(own.clone(), LinkKind::Control, NodeId(2));
        let answer = local.admit_acceptor(&dialled, &welcome, Standing::Removed);
        assert_eq!(answer, Err(Refusal::Removed { node: NodeId(2) }));
    }

    #[test]
    fn whoever_answers_must_be_the_one_that_was_dialled() {
        let (own, sightings) = (who(1, 3, 30), Sightings::default());
        let local = Local { who: &own, sightings: &sightings };
        let hello = Hello::new(own.clone(), LinkKind::Control, NodeId(2));

        let other = local.admit_acceptor(&hello, &Welcome::new(who(3, 1, 1), &hello), Standing::Fine);

        assert_eq!(other, Err(Refusal::WrongNode { node: NodeId(3) }));
    }

    #[test]
    fn a_node_without_a_cluster_answers_probes_only() {
        let own = Who { cluster: 0, ..who(0, 1, 7) };
        let sightings = Sightings::default();
        let local = Local { who: &own, sightings: &sightings };
        let hello = |kind| Hello::new(who(2, 5, 50), kind, NodeId(0));

        assert_eq!(local.admit(&hello(LinkKind::Probe), Standing::Fine), Ok(Admission::Probe));
        assert_eq!(local.admit(&hello(LinkKind::Control), Standing::Fine), Err(Refusal::NoCluster));
    }
}
