//! The rate limiter's resources: a tree of limits beside a node's semaphores. Their settings are replicated; how much of each
//! is left is the leader's affair (`leader/units.rs`).

use std::ops::Bound;

use shardine_model::codec::{DecodeError, Reader};

use crate::attach::room_for;
use crate::ids::{NodeNumber, ResourceId};
use crate::limits::{PATH_DEPTH_MAX, RESOURCE_COST, RESOURCE_PATH_BYTES_MAX, RESOURCES_MAX};
use crate::outcome::{Notice, Outcome};
use crate::path::is_name;
use crate::state::{Coord, Node};
use crate::status::{Refusal, Status, refuse};

/// How quickly a resource may be used: settings as they were sent, zeros where nothing was said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// 0 leaves it to the resources above.
    pub max_units_per_second: f64,
    /// What may be used at once, in seconds' worth; 0 means 1.
    pub max_burst_size_coefficient: f64,
    // For clients that fetch ahead. Ours do not: these are kept and given back.
    pub prefetch_coefficient: f64,
    pub prefetch_watermark: f64,
}

impl PartialEq for Pace {
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

impl Eq for Pace {}

impl Pace {
    fn bits(&self) -> [u64; 4] {
        [
            self.max_units_per_second.to_bits(),
            self.max_burst_size_coefficient.to_bits(),
            self.prefetch_coefficient.to_bits(),
            self.prefetch_watermark.to_bits(),
        ]
    }

    /// The most that may be used at once, if there is a limit at all.
    pub(crate) fn burst(&self) -> f64 {
        let coefficient = if self.max_burst_size_coefficient > 0.0 { self.max_burst_size_coefficient } else { 1.0 };
        self.max_units_per_second * coefficient
    }

    fn check(&self, is_root: bool) -> Result<(), Refusal> {
        let is_limit = |value: f64| value.is_finite() && value >= 0.0;
        if !is_limit(self.max_units_per_second) || !is_limit(self.max_burst_size_coefficient) {
            return refuse(Status::BadRequest, "units per second and burst size are numbers that are not negative");
        }
        if !self.burst().is_finite() {
            return refuse(Status::BadRequest, "the burst is larger than any number");
        }
        if !self.prefetch_coefficient.is_finite() || !(0.0..=1.0).contains(&self.prefetch_watermark) {
            return refuse(
                Status::BadRequest,
                "the prefetch watermark lies between 0 and 1, its coefficient is a number",
            );
        }
        if is_root && self.max_units_per_second == 0.0 {
            return refuse(Status::BadRequest, "a root resource says how many units there are per second");
        }
        Ok(())
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for bits in self.bits() {
            out.extend_from_slice(&bits.to_le_bytes());
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut number = |what| reader.fixed_u64(what).map(f64::from_bits);
        Ok(Self {
            max_units_per_second: number("units per second")?,
            max_burst_size_coefficient: number("burst size")?,
            prefetch_coefficient: number("prefetch")?,
            prefetch_watermark: number("watermark")?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub path: Box<str>,
    pub pace: Pace,
}

impl Resource {
    /// The path stands there twice: once for looking it up.
    pub fn bytes(&self) -> u64 {
        RESOURCE_COST + 2 * self.path.len() as u64
    }
}

impl Coord {
    pub(crate) fn create_resource(
        &mut self,
        node: &str,
        path: &str,
        pace: &Pace,
        notices: &mut Vec<Notice>,
    ) -> Result<Outcome, Refusal> {
        check_path(path)?;
        let number = self.limiting_node(node)?;
        let mut edit = self.edit(number, notices).expect("just found");
        if let Some(id) = edit.node.resource_paths.get(path) {
            if edit.node.resources[id].pace == *pace {
                return refuse(Status::AlreadyExists, format!("there is a resource {path:?} with these settings"));
            }
            return refuse(Status::BadRequest, format!("there is a resource {path:?} with other settings"));
        }
        let parent = parent_of(path);
        if let Some(parent) = parent.filter(|parent| !edit.node.resource_paths.contains_key(*parent)) {
            return refuse(Status::BadRequest, format!("there is no resource {parent:?} above it"));
        }
        pace.check(parent.is_none())?;
        if edit.node.resources.len() >= RESOURCES_MAX {
            return refuse(Status::PreconditionFailed, format!("{RESOURCES_MAX} resources are the limit of a node"));
        }
        let resource = Resource { path: path.into(), pace: *pace };
        room_for(*edit.bytes, resource.bytes())?;
        let resource = edit.add_resource(resource);
        notices.push(Notice::ResourceMade { node: number, resource });
        Ok(Outcome::Done)
    }

    /// All settings are replaced.
    pub(crate) fn alter_resource(
        &mut self,
        node: &str,
        path: &str,
        pace: &Pace,
        notices: &mut Vec<Notice>,
    ) -> Result<Outcome, Refusal> {
        let (number, resource) = self.known_resource(node, path)?;
        pace.check(parent_of(path).is_none())?;
        let mut edit = self.edit(number, notices).expect("just found");
        edit.resource_mut(resource).pace = *pace;
        notices.push(Notice::ResourceAltered { node: number, resource });
        Ok(Outcome::Done)
    }

    pub(crate) fn drop_resource(
        &mut self,
        node: &str,
        path: &str,
        notices: &mut Vec<Notice>,
    ) -> Result<Outcome, Refusal> {
        let (number, resource) = self.known_resource(node, path)?;
        if self.nodes[&number].resources_below(path).next().is_some() {
            return refuse(Status::BadRequest, format!("resource {path:?} has others below it"));
        }
        self.edit(number, notices).expect("just found").remove_resource(resource);
        notices.push(Notice::ResourceGone { node: number, resource });
        Ok(Outcome::Done)
    }

    /// All roots, or the resource that is named; with everything below if that is asked for (coordination 209).
    pub(crate) fn list_resources(&self, node: &str, path: &str, recursive: bool) -> Result<Vec<String>, Refusal> {
        if path.is_empty() {
            let node = &self.nodes[&self.limiting_node(node)?];
            let all = node.resource_paths.keys().filter(|path| recursive || parent_of(path).is_none());
            return Ok(all.map(|path| path.to_string()).collect());
        }
        let (number, _) = self.known_resource(node, path)?;
        let below = self.nodes[&number].resources_below(path).filter(|_| recursive);
        Ok(std::iter::once(path).chain(below).map(str::to_owned).collect())
    }

    pub(crate) fn describe_resource(&self, node: &str, path: &str) -> Result<Pace, Refusal> {
        let (number, resource) = self.known_resource(node, path)?;
        Ok(self.nodes[&number].resources[&resource].pace)
    }

    pub(crate) fn known_resource(&self, node: &str, path: &str) -> Result<(NodeNumber, ResourceId), Refusal> {
        check_path(path)?;
        let number = self.limiting_node(node)?;
        match self.nodes[&number].resource_paths.get(path) {
            Some(&id) => Ok((number, id)),
            None => refuse(Status::NotFound, format!("there is no resource {path:?}")),
        }
    }
}

impl Node {
    /// A resource and all above it, itself first, with their settings.
    pub(crate) fn chain(&self, resource: ResourceId) -> impl Iterator<Item = (ResourceId, &Pace)> {
        let first = self.resources.get(&resource).map(|resource| &*resource.path);
        let paths = std::iter::successors(first, |path| parent_of(path));
        paths.filter_map(|path| {
            let id = self.resource_paths.get(path)?;
            Some((*id, &self.resources[id].pace))
        })
    }

    fn resources_below(&self, path: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("{path}/");
        let from: (Bound<&str>, Bound<&str>) = (Bound::Excluded(&prefix), Bound::Unbounded);
        let found: Vec<&str> = self
            .resource_paths
            .range::<str, _>(from)
            .map(|(path, _)| &**path)
            .take_while(|path| path.starts_with(&prefix))
            .collect();
        found.into_iter()
    }
}

fn parent_of(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent)
}

/// Paths are sent as they are meant: no slash too many (coordination 206).
fn check_path(path: &str) -> Result<(), Refusal> {
    let is_good = path.len() <= RESOURCE_PATH_BYTES_MAX
        && path.split('/').count() <= PATH_DEPTH_MAX
        && path.split('/').all(|name| !name.is_empty() && is_name(name));
    if is_good { Ok(()) } else { refuse(Status::BadRequest, "Bad resource path.") }
}
