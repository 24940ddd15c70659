//! The definitions of tables as this node has them: one copy for everybody, and a number that tells at a glance whether it is
//! another one than before.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use shardine_model::Catalogue;

pub(crate) struct SharedCatalogue {
    held: RwLock<Arc<Catalogue>>,
    changes: AtomicU64,
}

impl SharedCatalogue {
    pub fn new(catalogue: Catalogue) -> Self {
        Self { held: RwLock::new(Arc::new(catalogue)), changes: AtomicU64::new(1) }
    }

    pub fn get(&self) -> Arc<Catalogue> {
        Arc::clone(&self.held.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// How often there were others. Never 0, so that whoever has seen none can say so.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Puts another one in its place, if `next` makes one of it. `tell` runs before anybody else can find that there is nothing
    /// new in it: what comes behind may build on it.
    pub fn replace(&self, next: impl FnOnce(&Catalogue) -> Option<Catalogue>, tell: impl FnOnce()) {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = next(&held) {
            *held = Arc::new(next);
            self.changes.fetch_add(1, Ordering::AcqRel);
            tell();
        }
    }
}

#[cfg(test)]
mod tests {
    use shardine_model::Table;

    use super::*;

    #[test]
    fn a_change_is_told_once_and_shows_in_the_number() {
        let shared = SharedCatalogue::new(Catalogue::default());
        let (before, mut told) = (shared.changes(), 0);
        let with_kv = |held: &Catalogue| {
            let mut next = held.clone();
            next.put(Table::kv()).then_some(next)
        };

        shared.replace(with_kv, || told += 1);
        shared.replace(with_kv, || told += 1);

        assert_eq!((told, shared.changes()), (1, before + 1));
        assert!(shared.get().named("kv").is_some());
    }
}
