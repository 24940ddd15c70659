//! Parts a shard in two. Whole segments change hands; only those of the one segment that the bound lies in are looked at row
//! by row.

use shardine_model::{Bound, Bounds, RangeVersion, ReplicaId};

use crate::derived::Totals;
use crate::slabs::Slabs;
use crate::state::{Lease, Records};

/// What a split gave.
#[derive(Debug)]
pub struct Split {
    /// Everything at and behind the bound.
    pub right: Records,
    /// Rows that were looked at one by one.
    pub rows_touched: usize,
}

impl Records {
    /// Whether a split that was decided earlier is still meant for the shard as it is. Its members are looked at elsewhere.
    #[must_use]
    pub fn is_split_by(&self, split: &shardine_model::Split) -> bool {
        split.epoch.owner() == (self.generation, self.range_version) && self.bounds.is_parted_by(&split.at)
    }

    /// Parts the shard at a bound inside it; this one keeps what stands before. Both halves go on with the clock, the
    /// definitions, the floors and the state of the whole, under the next range version. The right one's lease still names the
    /// holder of the whole's ([`Records::pass_lease`]).
    pub fn split_off(&mut self, at: &Bound) -> Split {
        assert!(self.bounds.is_parted_by(at), "a shard is parted inside its bounds");
        assert!(self.cut.is_none(), "a running cut is given up before a split: it is of the whole");
        let catalogue = &self.catalogue;
        let (index, rows_touched) = self.index.split_off(at, |table| crate::state::has_sql(catalogue, table));
        let mut totals = Totals::default();
        index.segments().for_each(|segment| totals.add(segment.bytes, &segment.derived));
        self.totals.subtract(&totals);
        self.range_version = RangeVersion(self.range_version.0 + 1);
        let hi = self.bounds.hi.replace(at.clone());
        #[cfg_attr(not(feature = "mutants"), expect(unused_mut, reason = "only a planted bug changes it"))]
        let mut right = Records {
            catalogue: self.catalogue.clone(),
            index,
            remembered: self.remembered.split_off(at),
            floors: self.floors.clone(),
            clock: self.clock,
            lease: self.lease,
            bounds: Bounds { lo: at.clone(), hi },
            suspended: self.suspended,
            generation: self.generation,
            range_version: self.range_version,
            sql_tables: self.sql_tables,
            totals,
            cut: None,
            ahead: Slabs::default(),
            cuts: self.cuts,
            join_hand: 0,
            scratch: Vec::new(),
            #[cfg(feature = "mutants")]
            mutant: self.mutant,
        };
        #[cfg(feature = "mutants")]
        right.leave_behind();
        Split { right, rows_touched }
    }

    /// Names who holds the lease from now on, if anybody does: a shard that was parted off has replicas of its own. Given the holder
    /// before, `successor` says who is in its place; if nobody is, the lease is waited out.
    pub fn pass_lease(&mut self, successor: impl FnOnce(ReplicaId) -> Option<ReplicaId>) {
        self.lease = self.lease.map(|lease| Lease { holder: successor(lease.holder).unwrap_or_default(), ..lease });
    }
}
