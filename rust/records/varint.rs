//! Variable-length integers: seven bits a byte, low bits first, zigzag for signed ones (as in Protocol Buffers).
//!
//! A 32-bit number takes at most five bytes and a 64-bit number ten; longer is an error. As in Kafka the surplus bits
//! of a last byte are dropped instead of refused.

/// Why no number could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarintError {
    /// The bytes end before the number does.
    Ends,
    /// The number goes on after its greatest length.
    TooLong,
}

impl VarintError {
    pub fn problem(self) -> &'static str {
        match self {
            VarintError::Ends => "the bytes end inside the number",
            VarintError::TooLong => "the number does not end after its greatest length",
        }
    }
}

/// Reads a signed 32-bit number at `at`; gives it and the position after it.
#[inline(always)]
pub fn read_i32(bytes: &[u8], at: usize) -> Result<(i32, usize), VarintError> {
    match bytes.get(at) {
        Some(&byte) if byte < 0x80 => Ok((unzigzag_i32(u32::from(byte)), at + 1)),
        _ => {
            let (raw, next) = read_long(bytes, at, 5)?;
            Ok((unzigzag_i32(raw as u32), next))
        }
    }
}

/// Reads a signed 64-bit number at `at`; gives it and the position after it.
#[inline(always)]
pub fn read_i64(bytes: &[u8], at: usize) -> Result<(i64, usize), VarintError> {
    match bytes.get(at) {
        Some(&byte) if byte < 0x80 => Ok((unzigzag_i64(u64::from(byte)), at + 1)),
        _ => {
            let (raw, next) = read_long(bytes, at, 10)?;
            Ok((unzigzag_i64(raw), next))
        }
    }
}

fn read_long(bytes: &[u8], at: usize, bytes_max: usize) -> Result<(u64, usize), VarintError> {
    let mut raw = 0_u64;
    for (index, &byte) in bytes
        .get(at..)
        .unwrap_or_default()
        .iter()
        .take(bytes_max)
        .enumerate()
    {
        raw |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Ok((raw, at + index + 1));
        }
    }
    Err(if bytes.len().saturating_sub(at) < bytes_max {
        VarintError::Ends
    } else {
        VarintError::TooLong
    })
}

/// Appends a signed 32-bit number.
#[inline]
pub fn write_i32(out: &mut Vec<u8>, value: i32) {
    write_raw(out, u64::from(zigzag_i32(value)));
}

/// Appends a signed 64-bit number.
#[inline]
pub fn write_i64(out: &mut Vec<u8>, value: i64) {
    write_raw(out, zigzag_i64(value));
}

#[inline]
fn write_raw(out: &mut Vec<u8>, mut raw: u64) {
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

/// The bytes that `write_i32` appends.
#[inline]
pub fn size_i32(value: i32) -> usize {
    size_raw(u64::from(zigzag_i32(value)))
}

/// The bytes that `write_i64` appends.
#[inline]
pub fn size_i64(value: i64) -> usize {
    size_raw(zigzag_i64(value))
}

#[inline]
fn size_raw(raw: u64) -> usize {
    let bits = 64 - (raw | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

#[inline(always)]
pub fn unzigzag_i32(raw: u32) -> i32 {
    ((raw >> 1) ^ (raw & 1).wrapping_neg()) as i32
}

#[inline(always)]
pub fn unzigzag_i64(raw: u64) -> i64 {
    ((raw >> 1) ^ (raw & 1).wrapping_neg()) as i64
}

#[inline(always)]
fn zigzag_i32(value: i32) -> u32 {
    ((value << 1) ^ (value >> 31)) as u32
}

#[inline(always)]
fn zigzag_i64(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_at_the_edges() {
        for (value, bytes) in [
            (0, &[0x00][..]),
            (-1, &[0x01]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 0x01]),
            (8191, &[0xfe, 0x7f]),
            (8192, &[0x80, 0x80, 0x01]),
            (i32::MAX, &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i32::MIN, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ] {
            let mut out = Vec::new();
            write_i32(&mut out, value);
            assert_eq!(out, bytes, "{value}");
            assert_eq!(read_i32(bytes, 0), Ok((value, bytes.len())));
        }
    }

    #[test]
    fn numbers_that_do_not_end() {
        assert_eq!(read_i32(&[], 0), Err(VarintError::Ends));
        assert_eq!(read_i32(&[0xff; 4], 0), Err(VarintError::Ends));
        assert_eq!(read_i32(&[0xff; 5], 0), Err(VarintError::TooLong));
        assert_eq!(read_i64(&[0xff; 9], 0), Err(VarintError::Ends));
        assert_eq!(read_i64(&[0xff; 10], 0), Err(VarintError::TooLong));
        assert_eq!(read_i64(&[0], 5), Err(VarintError::Ends));
    }

    proptest! {
        #[test]
        fn every_number_reads_as_it_was_written(small: i32, large: i64, shift in 0..64_u32) {
            let (small, large) = (small >> (shift / 2), large >> shift);
            let mut out = vec![0xaa];
            write_i32(&mut out, small);
            write_i64(&mut out, large);
            let (read, next) = read_i32(&out, 1).unwrap();
            prop_assert_eq!((read, next - 1), (small, size_i32(small)));
            let (read, end) = read_i64(&out, next).unwrap();
            prop_assert_eq!((read, end - next), (large, size_i64(large)));
            prop_assert_eq!(end, out.len());
        }
    }
}
