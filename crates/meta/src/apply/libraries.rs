//! Libraries of functions. What a library says is nobody's business here: it was read before it was proposed.

use std::collections::BTreeMap;
use std::sync::Arc;

use shardine_model::{ErrorCode, Refusal};

use crate::change::Change;
use crate::limits::{LIBRARIES_BYTES_MAX, LIBRARIES_MAX, LIBRARY_NAME_BYTES_MAX};
use crate::reply::Reply;
use crate::state::{Meta, refused};

/// Texts by the names of their libraries.
pub type Libraries = BTreeMap<String, Arc<[u8]>>;

/// What becomes of the libraries that are there when others come: all or none of them do. Also for a node that has no map.
pub fn with_libraries(
    known: &Libraries,
    come: Vec<(String, Box<[u8]>)>,
    replaces: bool,
    begins_anew: bool,
) -> Result<Libraries, Refusal> {
    let mut next = if begins_anew { Libraries::new() } else { known.clone() };
    for (name, text) in come {
        if name.is_empty() || name.len() > LIBRARY_NAME_BYTES_MAX {
            let message = format!("a library has a name of at most {LIBRARY_NAME_BYTES_MAX} bytes");
            return refused(ErrorCode::BadRequest, message);
        }
        if !replaces && next.contains_key(&name) {
            return refused(ErrorCode::Exists, format!("Library '{name}' already exists"));
        }
        next.insert(name, text.into());
    }
    let bytes: usize = next.values().map(|text| text.len()).sum();
    if next.len() > LIBRARIES_MAX || bytes > LIBRARIES_BYTES_MAX {
        let message = format!("{LIBRARIES_MAX} libraries and {LIBRARIES_BYTES_MAX} bytes of them are the limit");
        return refused(ErrorCode::TooLarge, message);
    }
    Ok(next)
}

/// The refusal of whoever names a library that is not there.
#[must_use]
pub fn no_library() -> Refusal {
    Refusal::new(ErrorCode::NotFound, "Library not found")
}

impl Meta {
    pub(super) fn put_libraries(
        &mut self,
        come: Vec<(String, Box<[u8]>)>,
        replaces: bool,
        begins_anew: bool,
    ) -> Result<Reply, Refusal> {
        let known = &self.map.libraries;
        let next = with_libraries(known, come, replaces, begins_anew)?;
        let gone =
            known.keys().filter(|name| !next.contains_key(*name)).map(|name| Change::Library(name.clone(), None));
        let new = next.iter().filter(|(name, text)| known.get(*name) != Some(text));
        let new = new.map(|(name, text)| Change::Library(name.clone(), Some(Arc::clone(text))));
        let changes: Vec<Change> = gone.chain(new).collect();
        if !changes.is_empty() {
            self.publish(changes);
        }
        Ok(Reply::Done)
    }

    pub(super) fn drop_library(&mut self, name: String) -> Result<Reply, Refusal> {
        if !self.map.libraries.contains_key(&name) {
            return Err(no_library());
        }
        self.publish(vec![Change::Library(name, None)]);
        Ok(Reply::Done)
    }
}
