//! The order in which tables are mapped: parents before children, as far as there is one.

use std::collections::BTreeSet;

use crate::survey::TableFacts;

/// The names of the tables, each behind those that its foreign keys lead to. Where they lead in a circle, the first by name
/// that has fewest parents left begins.
pub(super) fn parents_first(tables: &[&TableFacts]) -> Vec<String> {
    let mut left: BTreeSet<&str> = tables.iter().map(|table| &*table.name).collect();
    let mut order = Vec::with_capacity(tables.len());
    while !left.is_empty() {
        let missing = |table: &&&TableFacts| {
            let parents: BTreeSet<&str> = table.foreign_keys.iter().map(|key| &*key.parent).collect();
            parents.iter().filter(|parent| **parent != table.name && left.contains(**parent)).count()
        };
        let waiting = tables.iter().filter(|table| left.contains(&*table.name));
        let next = waiting.min_by_key(|table| (missing(table), &*table.name)).expect("some are left");
        left.remove(&*next.name);
        order.push(next.name.clone());
    }
    order
}
