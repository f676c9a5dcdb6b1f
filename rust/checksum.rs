//! CRC-32C (Castagnoli), the checksum of a record batch from `attributes` to its end.

use crc_fast::{CrcAlgorithm, checksum};

/// The CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    // A 32-bit algorithm never sets the upper half.
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn check_value_of_the_polynomial() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(b""), 0);
    }
}
