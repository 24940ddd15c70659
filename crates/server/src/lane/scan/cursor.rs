//! Where the next page begins, as clients carry it.

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_varint};
use shardine_model::{Position, RowKeyBuf, TableId};

/// A position and, unless the page ended between positions, the last row given.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::lane) struct Cursor {
    pub position: Position,
    pub row: Option<RowKeyBuf>,
}

impl Cursor {
    pub fn behind(row: RowKeyBuf) -> Self {
        Self { position: row.as_ref().position(), row: Some(row) }
    }

    pub fn at(position: Position) -> Self {
        Self { position, row: None }
    }

    pub fn write(&self) -> Vec<u8> {
        let mut cursor = self.position.to_bytes().to_vec();
        if let Some(row) = &self.row {
            put_varint(&mut cursor, u64::from(row.table.0));
            put_bytes(&mut cursor, &row.key);
            put_bytes(&mut cursor, &row.sort);
        }
        cursor
    }

    pub fn read(cursor: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(cursor);
        let bytes = reader.take(8, "cursor")?;
        let position = Position(u64::from_be_bytes(bytes.try_into().expect("eight bytes were taken")));
        if reader.is_empty() {
            return Ok(Self::at(position));
        }
        let table = TableId(u32::try_from(reader.varint("cursor table")?).unwrap_or(u32::MAX));
        let (key, sort) = (reader.bytes("cursor key")?.into(), reader.bytes("cursor sort")?.into());
        reader.finish("cursor")?;
        Ok(Self { position, row: Some(RowKeyBuf { table, key, sort }) })
    }
}
