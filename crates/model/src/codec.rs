//! The few primitives that every stored form is made of: variable-length integers and length-prefixed bytes.
//!
//! Reading never trusts a length: it borrows from what is there and refuses what is not.

use thiserror::Error;

/// Bytes that cannot be what they claim to be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("bytes end inside {what}")]
    Truncated { what: &'static str },
    #[error("{what} holds {value}, which has no meaning")]
    Unknown { what: &'static str, value: u64 },
    #[error("{what} {value} is of an early version, and is not read any more")]
    Retired { what: &'static str, value: u64 },
    #[error("{what} is {value} long, the limit is {limit}")]
    TooLong { what: &'static str, value: u64, limit: u64 },
    #[error("{what} is not valid UTF-8")]
    NotText { what: &'static str },
    #[error("{count} bytes are left over after {what}")]
    LeftOver { what: &'static str, count: usize },
}

#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Small magnitudes of either sign stay short.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, zigzag(value));
}

#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[must_use]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[must_use]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads a stored form from front to back, borrowing from it.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        let (&first, rest) = self.rest.split_first().ok_or(DecodeError::Truncated { what })?;
        self.rest = rest;
        Ok(first)
    }

    /// Most are one byte long; those are read without a loop.
    #[inline]
    pub fn varint(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        if let Some((&first, rest)) = self.rest.split_first()
            && first < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(first));
        }
        self.long_varint(what)
    }

    fn long_varint(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for (position, &byte) in self.rest.iter().enumerate() {
            let shift = 7 * position as u32;
            if shift == 63 && byte > 1 {
                return Err(DecodeError::Unknown { what, value: u64::from(byte) });
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                self.rest = &self.rest[position + 1..];
                return Ok(value);
            }
        }
        Err(DecodeError::Truncated { what })
    }

    #[inline]
    pub fn signed(&mut self, what: &'static str) -> Result<i64, DecodeError> {
        self.varint(what).map(unzigzag)
    }

    /// A number that fits 32 bits.
    #[inline]
    pub fn varint_u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        let value = self.varint(what)?;
        u32::try_from(value).map_err(|_| DecodeError::Unknown { what, value })
    }

    /// A count of things that each take at least one byte; so it can never exceed what is left.
    pub fn count(&mut self, what: &'static str) -> Result<usize, DecodeError> {
        let value = self.varint(what)?;
        if value > self.rest.len() as u64 {
            return Err(DecodeError::Truncated { what });
        }
        Ok(value as usize)
    }

    #[inline]
    pub fn take(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        if length > self.rest.len() {
            return Err(DecodeError::Truncated { what });
        }
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let length = self.varint(what)?;
        if length > self.rest.len() as u64 {
            return Err(DecodeError::Truncated { what });
        }
        self.take(length as usize, what)
    }

    pub fn text(&mut self, what: &'static str) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes(what)?).map_err(|_| DecodeError::NotText { what })
    }

    pub fn fixed_u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        let bytes = self.take(8, what)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("take returned eight bytes")))
    }

    pub fn finish(self, what: &'static str) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(DecodeError::LeftOver { what, count: self.rest.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_back_as_they_went() {
        for value in [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            put_signed(&mut out, value);

            let mut reader = Reader::new(&out);

            assert_eq!(reader.signed("value"), Ok(value));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn a_length_beyond_the_end_is_refused() {
        let mut reader = Reader::new(&[200, 1, b'x']);

        assert_eq!(reader.bytes("key"), Err(DecodeError::Truncated { what: "key" }));
    }

    #[test]
    fn a_varint_of_more_than_64_bits_is_refused() {
        let bytes = [0xff; 10];

        assert!(Reader::new(&bytes).varint("value").is_err());
    }
}
