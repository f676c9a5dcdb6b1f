//! Columns in Arrow's layout. Lengths are checked when a column is made, positions when a row is read: whoever filled these
//! buffers is trusted with nothing.

use super::error::RowError;

const POSITION_BYTES: usize = 4;

/// Which rows are not null; `offset` is where the column starts in its buffers, in rows.
#[derive(Clone, Copy)]
struct Validity<'a> {
    bits: Option<&'a [u8]>,
    offset: usize,
}

impl<'a> Validity<'a> {
    fn new(
        name: &'static str,
        bits: Option<&'a [u8]>,
        offset: usize,
        rows: usize,
    ) -> Result<Self, RowError> {
        let end = offset.checked_add(rows).ok_or(RowError::Damaged(name))?;
        if bits.is_some_and(|bits| bits.len() < end.div_ceil(8)) {
            return Err(RowError::Damaged(name));
        }
        Ok(Validity { bits, offset })
    }

    #[inline(always)]
    fn has(&self, row: usize) -> bool {
        let at = self.offset + row;
        self.bits
            .is_none_or(|bits| bits[at / 8] & (1 << (at % 8)) != 0)
    }
}

/// Arrow's positions: one more than there are rows.
#[derive(Clone, Copy)]
struct Positions<'a> {
    name: &'static str,
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Positions<'a> {
    fn new(
        name: &'static str,
        bytes: &'a [u8],
        offset: usize,
        rows: usize,
    ) -> Result<Self, RowError> {
        let needed = offset
            .checked_add(rows)
            .and_then(|end| end.checked_add(1))
            .and_then(|count| count.checked_mul(POSITION_BYTES));
        // Arrow allows no positions at all for no rows.
        if rows > 0 && needed.is_none_or(|needed| bytes.len() < needed) {
            return Err(RowError::Damaged(name));
        }
        Ok(Positions {
            name,
            bytes,
            offset,
        })
    }

    #[inline(always)]
    fn at(&self, index: usize) -> usize {
        let start = index * POSITION_BYTES;
        let bytes = [
            self.bytes[start],
            self.bytes[start + 1],
            self.bytes[start + 2],
            self.bytes[start + 3],
        ];
        // A negative one becomes too great for any buffer.
        i32::from_ne_bytes(bytes) as usize
    }

    #[inline(always)]
    fn range(&self, row: usize) -> std::ops::Range<usize> {
        let index = self.offset + row;
        self.at(index)..self.at(index + 1)
    }
}

/// A column of bytes or of text.
#[derive(Clone, Copy)]
pub struct BinaryRows<'a> {
    validity: Validity<'a>,
    positions: Positions<'a>,
    data: &'a [u8],
}

impl<'a> BinaryRows<'a> {
    pub fn new(
        name: &'static str,
        validity: Option<&'a [u8]>,
        positions: &'a [u8],
        data: &'a [u8],
        offset: usize,
        rows: usize,
    ) -> Result<Self, RowError> {
        Ok(BinaryRows {
            validity: Validity::new(name, validity, offset, rows)?,
            positions: Positions::new(name, positions, offset, rows)?,
            data,
        })
    }

    #[inline(always)]
    pub fn get(&self, row: usize) -> Result<Option<&'a [u8]>, RowError> {
        if !self.validity.has(row) {
            return Ok(None);
        }
        self.data
            .get(self.positions.range(row))
            .map(Some)
            .ok_or(RowError::Damaged(self.positions.name))
    }
}

/// A column of numbers of `SIZE` bytes.
#[derive(Clone, Copy)]
pub struct FixedRows<'a, const SIZE: usize> {
    validity: Validity<'a>,
    data: &'a [u8],
    offset: usize,
}

impl<'a, const SIZE: usize> FixedRows<'a, SIZE> {
    pub fn new(
        name: &'static str,
        validity: Option<&'a [u8]>,
        data: &'a [u8],
        offset: usize,
        rows: usize,
    ) -> Result<Self, RowError> {
        let validity = Validity::new(name, validity, offset, rows)?;
        if (offset + rows)
            .checked_mul(SIZE)
            .is_none_or(|bytes| data.len() < bytes)
        {
            return Err(RowError::Damaged(name));
        }
        Ok(FixedRows {
            validity,
            data,
            offset,
        })
    }

    #[inline(always)]
    fn bytes(&self, row: usize) -> Option<[u8; SIZE]> {
        if !self.validity.has(row) {
            return None;
        }
        let start = (self.offset + row) * SIZE;
        self.data.get(start..start + SIZE)?.try_into().ok()
    }
}

impl FixedRows<'_, 4> {
    #[inline(always)]
    pub fn get(&self, row: usize) -> Option<i32> {
        self.bytes(row).map(i32::from_ne_bytes)
    }
}

impl FixedRows<'_, 8> {
    #[inline(always)]
    pub fn get(&self, row: usize) -> Option<i64> {
        self.bytes(row).map(i64::from_ne_bytes)
    }
}

/// A column of lists of headers: two columns of all names and all values, and where each row's begin.
#[derive(Clone, Copy)]
pub struct HeaderRows<'a> {
    validity: Validity<'a>,
    positions: Positions<'a>,
    names: BinaryRows<'a>,
    values: BinaryRows<'a>,
    count: usize,
}

impl<'a> HeaderRows<'a> {
    /// `count` is the length of `names` and `values`.
    pub fn new(
        validity: Option<&'a [u8]>,
        positions: &'a [u8],
        offset: usize,
        rows: usize,
        names: BinaryRows<'a>,
        values: BinaryRows<'a>,
        count: usize,
    ) -> Result<Self, RowError> {
        Ok(HeaderRows {
            validity: Validity::new("headers", validity, offset, rows)?,
            positions: Positions::new("headers", positions, offset, rows)?,
            names,
            values,
            count,
        })
    }

    /// Puts the row's headers into `out`, whose content is replaced.
    pub fn get(
        &self,
        row: usize,
        out: &mut Vec<(&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<(), RowError> {
        out.clear();
        if !self.validity.has(row) {
            return Ok(());
        }
        let range = self.positions.range(row);
        if range.start > range.end || range.end > self.count {
            return Err(RowError::Damaged("headers"));
        }
        for index in range {
            let name = self.names.get(index)?.ok_or(RowError::HeaderWithoutKey)?;
            out.push((name, self.values.get(index)?));
        }
        Ok(())
    }
}
