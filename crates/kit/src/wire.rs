//! The message that every reply of a sharded service carries: `proto/shardine/kit/v1/shard.proto`, written as prost would
//! write it. By hand, so that a service that uses the kit does not have to compile somebody else's protobuf.

use prost::Message;
use tonic::metadata::MetadataValue;

use crate::core::interval::Interval;
use crate::core::shard::{self, Hold};

/// Where an error carries the shard, since it has no message to put it into.
pub(crate) const METADATA: &str = "shardine-shard-bin";

/// `shardine.kit.v1.Shard`. Field numbers are frozen.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Shard {
    /// The data centre.
    #[prost(string, tag = "1")]
    pub dc: String,
    /// The address.
    #[prost(string, tag = "2")]
    pub host: String,
    /// Grows with every start of the host's process.
    #[prost(fixed64, tag = "3")]
    pub incarnation: u64,
    /// Grows with every change of what the process serves.
    #[prost(uint64, tag = "4")]
    pub epoch: u64,
    /// The first key.
    #[prost(fixed64, tag = "5")]
    pub lo: u64,
    /// The first key that is not served any more.
    #[prost(fixed64, tag = "6")]
    pub hi: u64,
    /// The interval ends with the key space itself; `hi` means nothing then.
    #[prost(bool, tag = "7")]
    pub to_end: bool,
    /// The claimed shard's number.
    #[prost(uint32, tag = "8")]
    pub number: u32,
    /// How often that shard has been claimed; 0 when nothing is claimed.
    #[prost(uint64, tag = "9")]
    pub generation: u64,
}

impl Shard {
    /// The keys that are served.
    #[must_use]
    pub fn interval(&self) -> Interval {
        match self.to_end {
            true => Interval::to_end(self.lo),
            false => Interval::new(self.lo, self.hi),
        }
    }
}

impl From<Shard> for shard::Shard {
    fn from(wire: Shard) -> Self {
        let interval = wire.interval();
        let hold = (wire.generation > 0).then_some(Hold { shard: wire.number, generation: wire.generation });
        Self { dc: wire.dc, host: wire.host, incarnation: wire.incarnation, epoch: wire.epoch, interval, hold }
    }
}

impl From<shard::Shard> for Shard {
    fn from(shard: shard::Shard) -> Self {
        let interval = shard.interval;
        let hold = shard.hold.unwrap_or(Hold { shard: 0, generation: 0 });
        Self {
            dc: shard.dc,
            host: shard.host,
            incarnation: shard.incarnation,
            epoch: shard.epoch,
            lo: interval.lo(),
            hi: interval.hi().unwrap_or(0),
            to_end: interval.hi().is_none(),
            number: hold.shard,
            generation: hold.generation,
        }
    }
}

/// An error that tells what the host serves, as every reply does.
pub(crate) fn stamp(mut status: tonic::Status, shard: &Shard) -> tonic::Status {
    status.metadata_mut().insert_bin(METADATA, MetadataValue::from_bytes(&shard.encode_to_vec()));
    status
}

/// What an error tells about the host that sent it.
pub(crate) fn stamped(status: &tonic::Status) -> Option<Shard> {
    let bytes = status.metadata().get_bin(METADATA)?.to_bytes().ok()?;
    Shard::decode(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(interval: Interval) -> shard::Shard {
        let hold = Some(Hold { shard: 2, generation: 300 });
        shard::Shard { dc: "vla".into(), host: "a:1".into(), incarnation: 5, epoch: 1, interval, hold }
    }

    #[test]
    fn the_bytes_are_those_of_the_proto_file() {
        let bytes = Shard::from(example(Interval::new(1, 256))).encode_to_vec();

        let expected: &[&[u8]] = &[
            b"\x0a\x03vla\x12\x03a:1",
            b"\x19\x05\0\0\0\0\0\0\0\x20\x01",
            b"\x29\x01\0\0\0\0\0\0\0\x31\0\x01\0\0\0\0\0\0",
            b"\x40\x02\x48\xac\x02",
        ];
        assert_eq!(bytes, expected.concat());
    }

    /// kit A-6: also on the wire.
    #[test]
    fn every_interval_survives_the_wire() {
        for interval in [Interval::WHOLE, Interval::EMPTY, Interval::new(3, u64::MAX), Interval::to_end(u64::MAX)] {
            let wire = Shard::from(example(interval));

            let back = Shard::decode(&wire.encode_to_vec()[..]).unwrap();

            assert_eq!(shard::Shard::from(back), example(interval));
        }
    }

    /// kit A-54: the first claim of a shard is one, and no claim is none.
    #[test]
    fn a_claim_begins_with_generation_one() {
        let held = |generation| shard::Shard::from(Shard { number: 2, generation, ..Shard::default() }).hold;

        assert_eq!((held(0), held(1)), (None, Some(Hold { shard: 2, generation: 1 })));
    }

    /// kit A-2: an error has no message, and says it all the same.
    #[test]
    fn an_error_carries_the_shard_of_its_host() {
        let shard = Shard::from(example(Interval::new(1, 256)));

        let status = stamp(tonic::Status::internal("no disk"), &shard);

        assert_eq!(stamped(&status), Some(shard));
        assert_eq!(stamped(&tonic::Status::internal("somebody else's")), None);
    }
}
