//! The checksums of records: CRC-32C (Castagnoli) of a batch of format 2, CRC-32 (IEEE 802.3, as in gzip) of a message of formats 0 and 1.

use crc_fast::{CrcAlgorithm, checksum};

/// The CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    // A 32-bit algorithm never sets the upper half.
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The CRC-32 of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32IsoHdlc, bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::{crc32, crc32c};

    #[test]
    fn check_values_of_the_polynomials() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(b""), 0);
    }
}
