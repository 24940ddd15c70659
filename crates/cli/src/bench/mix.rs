//! Which share of commands reads, and which writes.

use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    pub gets: u32,
    pub sets: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Get,
    Set,
}

impl Mix {
    /// The kind of a command, given a random number.
    pub fn pick(self, chance: u32) -> Kind {
        if chance % (self.gets + self.sets) < self.gets { Kind::Get } else { Kind::Set }
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut mix = Self { gets: 0, sets: 0 };
        for part in text.split(',') {
            let share = |count: &str| count.parse::<u16>().map(u32::from).map_err(|_| format!("{count:?} is no share"));
            match part.split_once(':') {
                Some(("get", count)) => mix.gets = share(count)?,
                Some(("set", count)) => mix.sets = share(count)?,
                Some(_) | None => return Err(format!("{part:?} is not get:N or set:N")),
            }
        }
        if mix.gets + mix.sets == 0 { Err("one share must be above 0".to_owned()) } else { Ok(mix) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept() {
        let mix: Mix = "get:3,set:1".parse().unwrap();

        let gets = (0..100).filter(|chance| mix.pick(*chance) == Kind::Get).count();

        assert_eq!(gets, 75);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "get", "get:x", "put:1", "get:0,set:0", "get:-1"] {
            assert!(text.parse::<Mix>().is_err(), "{text}");
        }
    }
}
