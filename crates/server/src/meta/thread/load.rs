//! What whoever leads the map's group hears of the load: what the planner goes by.

use shardine_router::{EngineStatus, Response};
use shardine_shard::meta::{LeadMove, Load, Map, Settings, Sight, plan_leads};

use super::super::MetaMessage;
use super::MetaThread;
use crate::exchange::balance;

/// Between two questions to all nodes for the sizes of what they lead: while nothing moves, and while something does.
const ASK_IDLE_MS: u64 = 10_000;
const ASK_BUSY_MS: u64 = 1_000;
/// Between two rounds of leads that are given away: as long as one takes to show.
const LEADS_PAUSE_MS: u64 = 2_000;

/// Reports of the load. Only a leader asks for them.
#[derive(Default)]
pub(super) struct Reports {
    /// Sizes as they were last told.
    known: Option<Load>,
    ask_at_ms: u64,
    /// Since when leads are unequal; and when the next ones may be given away.
    uneven_since_ms: Option<u64>,
    leads_at_ms: u64,
}

impl MetaThread {
    /// Asks every node for the sizes of what it leads, now and then.
    pub(super) fn ask_for_load(&mut self) {
        let now_ms = self.now_ms();
        if now_ms < self.reports.ask_at_ms {
            return;
        }
        let is_busy = !self.sheet.full.operations.is_empty();
        self.reports.ask_at_ms = now_ms + if is_busy { ASK_BUSY_MS } else { ASK_IDLE_MS };
        let back = self.parts.back.clone();
        let told = move |response: Response| {
            if let Response::Status(status) = response {
                let _ = back.send(MetaMessage::Load(status));
            }
        };
        self.parts.exchange.cluster_status(Box::new(told));
    }

    pub(super) fn hear_load(&mut self, status: &EngineStatus) {
        self.parts.exchange.audit.look(&self.sheet.full, status);
        self.reports.known = Some(balance::load(status, self.parts.exchange.split_bytes));
    }

    /// Has leads given away where they have been unequal for long enough. Nobody waits for what comes of it: it shows.
    pub(super) fn spread_leads(&mut self, sight: &Sight) {
        let now_ms = self.now_ms();
        let moves = plan_leads(&self.sheet.full, sight);
        if moves.is_empty() {
            self.reports.uneven_since_ms = None;
            return;
        }
        let since_ms = *self.reports.uneven_since_ms.get_or_insert(now_ms);
        let patience_ms = Settings::of(&self.sheet.full.settings).leads_after_ms;
        if now_ms < since_ms + patience_ms || now_ms < self.reports.leads_at_ms {
            return;
        }
        self.reports.leads_at_ms = now_ms + LEADS_PAUSE_MS;
        for LeadMove { shard, from, to, why } in moves {
            tracing::info!(%shard, %from, %to, why, "a lead is to be elsewhere");
            self.parts.exchange.send_to_hand_over(from, shard, Some(to), Box::new(|_| {}));
        }
    }

    /// What whoever leads sees now; the load only if something may be moved by it.
    pub(super) fn sight(&self, map: &Map) -> Sight {
        let may_balance = Settings::of(&map.settings).may_balance(self.parts.host.time().wall.0);
        let load = self.reports.known.clone().filter(|_| may_balance);
        balance::sight(&self.cluster().board, map, load)
    }
}
