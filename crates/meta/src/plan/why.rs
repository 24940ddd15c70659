//! The reasons of repairs, in words.

use shardine_model::{Descriptor, NodeId};

use super::Planner;
use crate::node::Node;
use crate::operation::Operation;

impl Planner<'_> {
    pub(super) fn why_given_up(&self, operation: &Operation) -> String {
        let new = operation.replace().into_iter().flat_map(|replace| replace.new.iter().map(|new| new.node));
        let lost: Vec<String> = new.filter(|node| !self.keeps_data(*node)).map(|node| self.state_of(node)).collect();
        format!("its change of members is given up: {}", lost.join(", "))
    }

    /// Why the members of a group become others.
    pub(super) fn why_changed(&self, group: &Descriptor, voters: &[NodeId], learners: &[NodeId]) -> String {
        let stays = |node: &NodeId| voters.contains(node) || learners.contains(node);
        let leaving = group.members().map(|member| member.node).filter(|node| !stays(node));
        let mut reasons: Vec<String> = leaving.map(|node| self.state_of(node)).collect();
        if voters.len() > group.voters.len() {
            let (present, wanted) = (group.voters.len(), voters.len());
            reasons.push(format!("it has {present} of {wanted} voters"));
        }
        if reasons.is_empty() && learners.len() > group.learners.len() {
            reasons.push("it has one copy, and a second node is there".to_owned());
        }
        if reasons.is_empty() {
            reasons.push("its votes belong elsewhere".to_owned());
        }
        reasons.join(", ")
    }

    fn state_of(&self, node: NodeId) -> String {
        let name = self.name(node);
        match self.map.nodes.get(&node) {
            None => format!("{name} is not known"),
            Some(known) if !known.is_member() => format!("{name} was removed"),
            Some(_) if self.sight.gone.contains(&node) => format!("{name} has been silent for too long"),
            Some(known) if known.weight == 0 => format!("{name} has weight 0"),
            Some(known) if known.is_draining() => format!("{name} is to be emptied"),
            Some(Node { .. }) => format!("{name} need not hold it"),
        }
    }

    pub(super) fn name(&self, node: NodeId) -> String {
        self.map.nodes.get(&node).map_or_else(|| node.to_string(), |node| node.name.clone())
    }
}
