//! How the parts of a call are written: each type has one form, records field by field, choices by a frozen tag.

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_signed, put_varint};
use shardine_model::{
    CatalogueVersion, ErrorCode, NodeId, Position, Refusal, RowImage, RowKeyBuf, ShardId, TableId, Timestamp, Version,
};

pub(crate) trait Wire: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

/// A struct: its fields in this order.
macro_rules! record {
    ($type:ident { $($field:ident),* $(,)? }) => {
        impl $crate::wire::forms::Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::wire::forms::Wire::put(&self.$field, out);)*
            }

            fn get(reader: &mut shardine_model::codec::Reader<'_>) -> Result<Self, shardine_model::codec::DecodeError> {
                Ok(Self { $($field: $crate::wire::forms::Wire::get(reader)?),* })
            }
        }
    };
}

/// An enum: the tag of the variant, then what it holds.
macro_rules! choice {
    ($type:ident, $what:literal { $($tag:literal => $variant:ident $({ $($field:ident),* })? $(($inner:ident))?),* $(,)? }) => {
        impl $crate::wire::forms::Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $({ $($field),* })? $(($inner))? => {
                        out.push($tag);
                        $($($crate::wire::forms::Wire::put($field, out);)*)?
                        $($crate::wire::forms::Wire::put($inner, out);)?
                    })*
                }
            }

            fn get(reader: &mut shardine_model::codec::Reader<'_>) -> Result<Self, shardine_model::codec::DecodeError> {
                match reader.u8($what)? {
                    $($tag => Ok(Self::$variant
                        $({ $($field: $crate::wire::forms::Wire::get(reader)?),* })?
                        $(({ let $inner = $crate::wire::forms::Wire::get(reader)?; $inner }))?),)*
                    other => Err(shardine_model::codec::DecodeError::Unknown { what: $what, value: u64::from(other) }),
                }
            }
        }
    };
}

/// A number that names something.
macro_rules! number {
    ($($type:ident: $inner:ty),*) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                put_varint(out, u64::from(self.0));
            }

            fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let value = reader.varint(stringify!($type))?;
                let what = stringify!($type);
                <$inner>::try_from(value).map($type).map_err(|_| DecodeError::Unknown { what, value })
            }
        }
    )*};
}

number!(TableId: u32, ShardId: u32, NodeId: u64, CatalogueVersion: u64, Timestamp: u64, Position: u64);

impl Wire for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, *self);
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.varint("number")
    }
}

impl Wire for u32 {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(*self));
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let value = reader.varint("number")?;
        u32::try_from(value).map_err(|_| DecodeError::Unknown { what: "number", value })
    }
}

impl Wire for usize {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, *self as u64);
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let value = reader.varint("number")?;
        usize::try_from(value).map_err(|_| DecodeError::Unknown { what: "number", value })
    }
}

impl Wire for f64 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bits().to_le_bytes());
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.fixed_u64("number").map(f64::from_bits)
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8("flag")? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(DecodeError::Unknown { what: "flag", value: u64::from(other) }),
        }
    }
}

impl Wire for Version {
    fn put(&self, out: &mut Vec<u8>) {
        put_signed(out, self.0);
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.signed("version").map(Version)
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.text("text").map(str::to_owned)
    }
}

impl Wire for Box<[u8]> {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self);
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.bytes("bytes").map(Into::into)
    }
}

impl Wire for Vec<u8> {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self);
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.bytes("bytes").map(Into::into)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(inner) = self {
            inner.put(out);
        }
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if bool::get(reader)? { T::get(reader).map(Some) } else { Ok(None) }
    }
}

/// A list, of anything but bytes.
pub(crate) fn put_list<T: Wire>(list: &[T], out: &mut Vec<u8>) {
    put_varint(out, list.len() as u64);
    list.iter().for_each(|one| one.put(out));
}

pub(crate) fn get_list<T: Wire>(reader: &mut Reader<'_>) -> Result<Vec<T>, DecodeError> {
    // No memory is taken for what a count claims.
    (0..reader.count("list")?).map(|_| T::get(reader)).collect()
}

/// Lists of these.
macro_rules! listed {
    ($($type:ty),*) => {$(
        impl Wire for Vec<$type> {
            fn put(&self, out: &mut Vec<u8>) {
                $crate::wire::forms::put_list(self, out);
            }

            fn get(reader: &mut shardine_model::codec::Reader<'_>) -> Result<Self, shardine_model::codec::DecodeError> {
                $crate::wire::forms::get_list(reader)
            }
        }
    )*};
}

listed!(String);

impl<T: Wire> Wire for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        T::get(reader).map(Box::new)
    }
}

impl Wire for ErrorCode {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = reader.u8("error code")?;
        Self::from_number(number).ok_or(DecodeError::Unknown { what: "error code", value: u64::from(number) })
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((A::get(reader)?, B::get(reader)?))
    }
}

record!(Refusal { code, message });
record!(RowKeyBuf { table, key, sort });
record!(RowImage { packed });
