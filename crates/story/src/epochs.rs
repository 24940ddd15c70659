//! The words of stories for epochs, and for definitions that belong to one.

use shardine_model::{Catalogue, CatalogueVersion, Entry, Generation, RangeVersion, RequestEpoch};

use crate::words::table;

/// `1/2/3`: generation, version of the range, version of the catalogue.
pub fn epoch(text: &str) -> RequestEpoch {
    let numbers: Vec<u64> = text.split('/').map(|number| number.parse().expect("an epoch is of numbers")).collect();
    let [generation, range, catalogue] = numbers[..] else { panic!("{text:?} is not an epoch, like 1/2/3") };
    let (generation, range) = (Generation(generation), RangeVersion(range));
    RequestEpoch { generation, range, catalogue: CatalogueVersion(catalogue) }
}

/// `table …` as an entry; a word `catalogue=N` says to which version of the catalogue the definition belongs.
pub fn definition(catalogue: &Catalogue, words: &[&str]) -> Entry<'static> {
    let (versions, words): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with("catalogue="));
    let version = versions.first().map_or(1, |word| word["catalogue=".len()..].parse().expect("a version is a number"));
    Entry::Schema { catalogue: CatalogueVersion(version), table: Box::new(table(catalogue, &words)) }
}
