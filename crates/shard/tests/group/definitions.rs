//! Requests that were read before a table came, and are taken before it: they mean what they meant, and are executed.

use shardine_model::{CatalogueVersion, Entry};
use shardine_story::words;

use crate::cluster::Cluster;

/// A table of which nobody has heard, under the next version of the definitions.
fn table(cluster: &Cluster, definition: &str, version: u64) -> Entry<'static> {
    let catalogue = cluster.node(1).records().catalogue().clone();
    let table = words::table(&catalogue, &definition.split_whitespace().collect::<Vec<_>>());
    Entry::Schema { catalogue: CatalogueVersion(version), table: Box::new(table) }
}

#[test]
fn what_has_gathered_goes_into_the_log_before_a_definition() {
    let mut cluster = Cluster::new();
    cluster.keep_busy(1, true);
    let before = cluster.submit(1, "set kv:foo f=1");

    let definition = table(&cluster, "foo age:int64", 5);
    cluster.propose(1, &definition);
    cluster.keep_busy(1, false);
    cluster.settle();

    assert_eq!(cluster.node(1).records().catalogue().named_in(), CatalogueVersion(5));
    assert_eq!(cluster.version(before), 1);
    cluster.assert_agreement();
}

#[test]
fn what_waits_for_its_row_is_executed_when_that_has_come() {
    let mut cluster = Cluster::new();
    cluster.define("users age:int64 sql");
    let before = cluster.submit(1, "set users:lili age=1");
    cluster.settle();
    assert_eq!(cluster.answer(before), None, "SQL is asked first");

    let definition = table(&cluster, "foo age:int64", 5);
    cluster.propose(1, &definition);
    cluster.settle();
    cluster.sql_finds_nothing();

    assert_eq!(cluster.version(before), 1);
    cluster.assert_agreement();
}
