//! Makes the new fields of a record out of the old ones and a plan's changes.

use std::collections::BTreeMap;

use shardine_model::codec::Reader;
use shardine_model::row::WideFields;
use shardine_model::{FieldRef, FieldsView, ValueRef, limits};

use crate::evaluate::{Changes, NewValue};
use crate::record::Wide;

/// How many fields came and went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Merged {
    pub created: u32,
    pub removed: u32,
}

/// Whether the outcome must be a tree: more fields than a packed record should be searched for.
#[inline]
pub(crate) fn needs_wide(old: &FieldsView<'_>, changes: &Changes<'_>) -> bool {
    match old {
        FieldsView::Wide(_) => true,
        // Two fields take at least eight bytes, so short records are never counted.
        FieldsView::Packed(bytes) if bytes.len() / 4 + changes.len() <= limits::PACKED_FIELDS_MAX => false,
        FieldsView::Packed(_) => old.count() + changes.len() > limits::PACKED_FIELDS_MAX,
    }
}

/// Appends the merged packed fields to `out`. The last change of a field wins; untouched fields are copied as they lie.
#[inline]
pub(crate) fn merge_packed(old: &[u8], changes: &Changes<'_>, out: &mut Vec<u8>) -> Merged {
    let mut merged = Merged::default();
    let mut seen: u64 = 0;
    let mut reader = Reader::new(old);
    while !reader.is_empty() {
        let before = reader.rest();
        let field = FieldRef::decode(&mut reader).expect(CHECKED);
        ValueRef::decode(&mut reader).expect(CHECKED);
        let span = &before[..before.len() - reader.rest().len()];
        match changes.iter().rposition(|(changed, _)| *changed == field) {
            None => out.extend_from_slice(span),
            Some(place) => {
                seen |= 1 << (place % 64);
                match changes[place].1.as_value() {
                    None => merged.removed += 1,
                    Some(value) => {
                        field.encode(out);
                        value.encode(out);
                    }
                }
            }
        }
    }
    append_new(old, changes, seen, out, &mut merged);
    merged
}

const CHECKED: &str = "packed fields were checked when they came in";

fn append_new(old: &[u8], changes: &Changes<'_>, seen: u64, out: &mut Vec<u8>, merged: &mut Merged) {
    for (place, (field, new)) in changes.iter().enumerate() {
        let Some(value) = new.as_value() else { continue };
        // `seen` tells for the first 64 changes; more than that is rare enough to search again.
        let was_there = match changes.len() {
            ..=64 => seen & (1 << place) != 0,
            _ => FieldsView::Packed(old).get(*field).is_some(),
        };
        let comes_again = changes[place + 1..].iter().any(|(later, _)| later == field);
        if was_there || comes_again {
            continue;
        }
        field.encode(out);
        value.encode(out);
        merged.created += 1;
    }
}

/// The fields of a packed record of a dynamic table as a tree.
pub(crate) fn widen(old: &FieldsView<'_>) -> WideFields {
    old.iter().filter_map(|entry| Some((name(entry.field)?, blob(entry.value)?))).collect()
}

/// Changes a tree of fields in place: copying it for every change would make a hash of many fields slow.
pub(crate) fn merge_wide(wide: &mut Wide, changes: &Changes<'_>) -> Merged {
    let mut merged = Merged::default();
    for (field, new) in last_changes(changes) {
        let Some(name) = name(field) else { continue };
        let name_bytes = name.len();
        let gone = match new {
            NewValue::Unset => {
                let gone = wide.fields.remove(&name);
                merged.removed += u32::from(gone.is_some());
                gone
            }
            NewValue::Given(_) | NewValue::Made(_) => {
                let value = new.as_value().and_then(blob).unwrap_or_default();
                wide.bytes += Wide::field_bytes(name_bytes, value.len());
                let gone = wide.fields.insert(name, value);
                merged.created += u32::from(gone.is_none());
                gone
            }
        };
        if let Some(value) = gone {
            wide.bytes -= Wide::field_bytes(name_bytes, value.len());
        }
    }
    merged
}

/// What comes of each field in the end. A field set and unset by one command counts as in a packed record: by the
/// outcome, not by the steps. Commands that only set, or only unset, count the same either way and are not sorted.
fn last_changes<'c, 'a>(changes: &'c Changes<'a>) -> Box<dyn Iterator<Item = (FieldRef<'a>, &'c NewValue<'a>)> + 'c> {
    let unset = changes.iter().filter(|(_, new)| matches!(new, NewValue::Unset)).count();
    let in_order = changes.iter().map(|(field, new)| (*field, new));
    if unset == 0 || unset == changes.len() {
        return Box::new(in_order);
    }
    Box::new(in_order.collect::<BTreeMap<_, _>>().into_iter())
}

fn name(field: FieldRef<'_>) -> Option<Box<[u8]>> {
    match field {
        FieldRef::Name(name) => Some(name.into()),
        FieldRef::Id(_) => None,
    }
}

fn blob(value: ValueRef<'_>) -> Option<Box<[u8]>> {
    match value {
        ValueRef::Blob(bytes) => Some(bytes.into()),
        ValueRef::Int(_) | ValueRef::Uint(_) | ValueRef::Float(_) | ValueRef::Str(_) => None,
        ValueRef::Null | ValueRef::Bool(_) | ValueRef::Json(_) | ValueRef::Sql(_) => None,
    }
}
