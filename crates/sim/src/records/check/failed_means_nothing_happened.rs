//! Promise: an operation that was answered with a certain failure has no effect, ever (reliability I18); nor has one that no
//! node has taken in. Its value is its own, so it is enough that nobody sees it.

use std::collections::BTreeMap;

use crate::check::Violation;
use crate::records::check::versions_only_grow::Contents;
use crate::records::history::History;

pub fn check(history: &History, contents: &Contents) -> Result<(), Violation> {
    let mut failed: BTreeMap<i64, usize> = BTreeMap::new();
    for (number, job) in history.without_effect() {
        let values = job.touches().into_iter().filter_map(|(_, ask)| ask.value());
        failed.extend(values.map(|value| (value, number)));
    }
    for ((row, version), content) in contents.iter() {
        let writer = content.and_then(|content| failed.get(&content.value));
        if let Some(number) = writer {
            let detail =
                format!("operation {number} failed for certain, and version {version} of row {row} is its work");
            return Err(Violation::new("failed_means_nothing_happened", detail));
        }
    }
    Ok(())
}
