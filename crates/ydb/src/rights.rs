//! What a token may do at which paths. One token may everything; others are given rights at a path and below it
//! (coordination 195, 196).

use shardine_coord::{Ask, Path, Refusal, Status};

/// Something that a token may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Describe semaphores, nodes and resources.
    Read,
    /// Create, update, acquire and release semaphores; create and alter nodes and resources; acquire units.
    Write,
    /// Delete semaphores; drop nodes and resources.
    Erase,
}

/// What one token may do at a path and below it. Those of the same token add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub token: String,
    /// Everything if there is none.
    pub path: Option<Path>,
    pub rights: Vec<Right>,
}

/// What was found out about a caller at the gate.
#[derive(Clone, Debug)]
pub(crate) enum Pass {
    Everything,
    Some(Vec<Access>),
}

/// What may be done at one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    read: bool,
    write: bool,
    erase: bool,
}

impl Pass {
    pub fn at(&self, path: &str) -> Rights {
        let Self::Some(granted) = self else { return Rights { read: true, write: true, erase: true } };
        let path = Path::parse(path);
        let covers = |access: &&Access| match (&access.path, &path) {
            (None, _) => true,
            (Some(given), Some(path)) => path == given || path.is_inside(given),
            (Some(_), None) => false,
        };
        let mut rights = Rights::default();
        for right in granted.iter().filter(covers).flat_map(|access| &access.rights) {
            match right {
                Right::Read => rights.read = true,
                Right::Write => rights.write = true,
                Right::Erase => rights.erase = true,
            }
        }
        rights
    }

    /// For calls, which name their path.
    pub fn check(&self, path: &str, right: Right) -> Result<(), Refusal> {
        self.at(path).check(right)
    }
}

impl Rights {
    /// A session may be had by whoever may do anything with it.
    pub fn check_any(self) -> Result<(), Refusal> {
        if self == Self::default() { Err(unauthorized("this token has no rights here")) } else { Ok(()) }
    }

    pub fn check(self, right: Right) -> Result<(), Refusal> {
        let (has, refusal) = match right {
            Right::Read => (self.read, "this token has no right to read here"),
            Right::Write => (self.write, "this token has no right to write here"),
            Right::Erase => (self.erase, "this token has no right to erase here"),
        };
        if has { Ok(()) } else { Err(unauthorized(refusal)) }
    }

    /// Whoever has a session may end it.
    pub fn check_ask(self, ask: &Ask) -> Result<(), Refusal> {
        match ask {
            Ask::Stop => Ok(()),
            Ask::Describe { .. } => self.check(Right::Read),
            Ask::Create { .. } | Ask::Update { .. } | Ask::Acquire { .. } | Ask::Release { .. } => {
                self.check(Right::Write)
            }
            Ask::Delete { .. } => self.check(Right::Erase),
        }
    }
}

fn unauthorized(message: &'static str) -> Refusal {
    Refusal::new(Status::Unauthorized, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(path: &str, rights: &[Right]) -> Access {
        Access { token: "t".to_owned(), path: Path::parse(path), rights: rights.to_vec() }
    }

    #[test]
    fn rights_hold_at_a_path_and_below_it() {
        let pass = Pass::Some(vec![access("/local/team", &[Right::Read])]);

        for path in ["/local/team", "local//team/", "/local/team/locks"] {
            assert!(pass.at(path).read, "{path}");
        }
        for path in ["/local", "/local/teams", "/local/other/team", "", "/"] {
            assert_eq!(pass.at(path), Rights::default(), "{path}");
        }
        assert!(Pass::Everything.at("").erase);
    }

    #[test]
    fn rights_add_up() {
        let pass = Pass::Some(vec![access("/", &[Right::Read]), access("/local/team", &[Right::Write])]);

        assert_eq!(pass.at("/local/other"), Rights { read: true, ..Rights::default() });
        assert_eq!(pass.at("/local/team/locks"), Rights { read: true, write: true, erase: false });
    }

    /// coordination 196.
    #[test]
    fn every_request_needs_its_right() {
        let name = String::new;
        let describe = Ask::Describe {
            req: 1,
            name: name(),
            owners: false,
            waiters: false,
            watch_data: false,
            watch_owners: false,
        };
        let acquire =
            Ask::Acquire { req: 1, name: name(), timeout_ms: 0, count: 1, data: Vec::new(), ephemeral: false };
        let create = Ask::Create { req: 1, name: name(), limit: 1, data: Vec::new() };
        let update = Ask::Update { req: 1, name: name(), data: Vec::new() };
        let release = Ask::Release { req: 1, name: name() };
        let delete = Ask::Delete { req: 1, name: name(), force: true };
        let may = |rights: Rights, ask: &Ask| rights.check_ask(ask).is_ok();

        let (read, write, erase) = (
            Rights { read: true, ..Rights::default() },
            Rights { write: true, ..Rights::default() },
            Rights { erase: true, ..Rights::default() },
        );
        assert_eq!([read, write, erase].map(|rights| may(rights, &describe)), [true, false, false]);
        for ask in [&create, &update, &acquire, &release] {
            assert_eq!([read, write, erase].map(|rights| may(rights, ask)), [false, true, false], "{ask:?}");
        }
        assert_eq!([read, write, erase].map(|rights| may(rights, &delete)), [false, false, true]);
        assert!(may(read, &Ask::Stop));
    }
}
