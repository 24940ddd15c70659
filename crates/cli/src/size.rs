//! Sizes as people write them: `20MB`, `2GiB`, or a plain number of bytes.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// Longest first, so that `MiB` is not taken for `B`.
const UNITS: [(&str, u64); 10] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("b", 1),
    ("", 1),
];

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a size: a whole number and one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB, as in 512MiB")]
pub struct NotASize(String);

impl FromStr for Size {
    type Err = NotASize;

    fn from_str(text: &str) -> Result<Self, NotASize> {
        let wrong = || NotASize(text.to_owned());
        let lower = text.trim().to_ascii_lowercase();
        let (number, unit) =
            UNITS.iter().find_map(|(name, unit)| Some((lower.strip_suffix(name)?, *unit))).ok_or_else(wrong)?;
        let number = number.trim_end();
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        let number: u64 = number.parse().map_err(|_| wrong())?;
        number.checked_mul(unit).map(Self).ok_or_else(wrong)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a size: a number of bytes, or a text such as \"512MiB\"")]
        enum Written {
            Bytes(u64),
            Text(String),
        }
        match Written::deserialize(from)? {
            Written::Bytes(bytes) => Ok(Self(bytes)),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        into.serialize_u64(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let of = |text: &str| text.parse::<Size>().map(|size| size.0).ok();

        assert_eq!(of("20MB"), Some(20_000_000));
        assert_eq!(of("2GiB"), Some(2 << 30));
        assert_eq!(of("64 kib"), Some(65_536));
        assert_eq!(of("67108864"), Some(67_108_864));
        assert_eq!(of("0"), Some(0));
        assert_eq!(of("7B"), Some(7));
        for wrong in ["", "MB", "1.5GB", "-1", "+1", "2G", "20 apples", "18446744073709551616", "99999999TiB"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
