//! What replicas of coordination and of the map do in the same way, beside the member of a group that both are: it is written once, and
//! each has it under the same names as a shard of records, so that a host need not know which it has.

/// The methods, for a replica with the fields `options`, `member` and `prepared`, `drain` after each step, and the state machine in this
/// field.
macro_rules! as_members_do {
    ($state:ident: $machine:ty) => {
        #[must_use]
        pub fn id(&self) -> ReplicaId {
            self.options.replica
        }

        /// Its part in the group, to be looked at: who takes part, how far they are, who may lead next.
        #[must_use]
        pub fn group(&self) -> &Group {
            &self.member.group
        }

        #[must_use]
        pub fn role(&self) -> Role {
            self.member.group.role()
        }

        #[must_use]
        pub fn term(&self) -> u64 {
            self.member.group.term()
        }

        #[must_use]
        pub fn applied(&self) -> u64 {
            self.member.applied()
        }

        #[must_use]
        pub fn committed(&self) -> u64 {
            self.member.group.commit()
        }

        /// A leader serves once an entry of its own term is applied: before that it may not know what is committed.
        #[must_use]
        pub fn is_serving(&self) -> bool {
            self.member.is_serving()
        }

        /// Stands for election at once, for a group of one.
        pub fn campaign(&mut self, actions: &mut Actions) {
            self.member.group.campaign();
            self.drain(actions);
        }

        /// Has this replica, where it leads, look for others that have parted from it so often; 0 means never.
        pub fn compare_every(&mut self, every_ms: u64) {
            self.member.compare_every(every_ms);
        }

        /// What that has come to.
        #[must_use]
        pub fn checks(&self) -> Checks {
            self.member.checks()
        }

        /// Takes a leader's snapshot, whose content was received beside the message and made into a state. It is dropped if the group
        /// does not take it.
        pub fn step_snapshot(&mut self, message: Message, prepared: $machine, actions: &mut Actions) {
            self.prepared = Some(prepared);
            self.step(message, actions);
            self.prepared = None;
        }

        pub fn step(&mut self, message: Message, actions: &mut Actions) {
            // Its content has come on another way, or has not come.
            let lacks_content = message.is_snapshot() && !message.has_snapshot_data() && self.prepared.is_none();
            if !self.member.has_stopped() && !lacks_content {
                self.member.group.step(message);
                self.drain(actions);
            }
        }

        /// The host has this log write, and all before it, on disk.
        pub fn persisted(&mut self, number: u64, actions: &mut Actions) {
            if !self.member.has_stopped() {
                self.member.persisted(number, &mut actions.messages);
                self.drain(actions);
            }
        }

        /// Begins to hand the lead over, to the best heir if none is named. Says to whom. It is over when this replica no longer
        /// leads, or when [`Replica::is_handing_over`] says no.
        pub fn hand_over(
            &mut self,
            to: Option<ReplicaId>,
            actions: &mut Actions,
        ) -> Result<ReplicaId, TransferRefused> {
            let heir = to.or(self.member.group.heirs().first().copied());
            let heir = heir.ok_or(TransferRefused::NoHeir(self.options.replica))?;
            self.propose_gathered(actions);
            self.member.group.transfer_leader(heir)?;
            self.drain(actions);
            Ok(heir)
        }

        #[must_use]
        pub fn is_handing_over(&self) -> bool {
            self.member.is_handing_over()
        }

        /// Believes no longer that somebody leads: its node is suspected of being dead. Whoever calls for votes is heard then.
        pub fn forget_leader(&mut self, actions: &mut Actions) {
            self.member.group.forget_leader();
            self.drain(actions);
        }

        /// Proposes a change of members. It is done when [`Replica::group`] says so, here or on whoever leads then.
        pub fn change_members(
            &mut self,
            change: &MembershipChange,
            actions: &mut Actions,
        ) -> Result<(), ChangeRefused> {
            self.member.group.propose_membership(change)?;
            self.drain(actions);
            Ok(())
        }

        /// Cuts now, so that the log behind this group can go.
        pub fn snapshot_now(&mut self) {
            self.member.snapshot_now(&mut self.$state);
        }

        #[must_use]
        pub fn is_cutting(&self) -> bool {
            self.member.is_cutting()
        }

        /// Hands out the next pieces of the running cut, about `bytes` of them. The host calls it when its writer has room.
        pub fn snapshot_step(&mut self, bytes: usize, actions: &mut Actions) {
            self.member.snapshot_step(&mut self.$state, bytes, &mut actions.snapshot);
        }

        /// The host has the snapshot at this index on disk; the log up to it may go.
        pub fn snapshot_saved(&mut self, index: u64) {
            self.member.snapshot_saved(index);
        }

        /// The host could not write the snapshot; the log keeps everything, and the next one is tried later.
        pub fn snapshot_failed(&mut self) {
            self.member.snapshot_failed();
        }
    };
}

pub(crate) use as_members_do;
