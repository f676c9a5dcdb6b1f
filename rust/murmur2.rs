//! Murmur2 as Kafka's clients use it to choose a partition for a key.
//!
//! It is Austin Appleby's 32-bit MurmurHash2 (public domain) with a seed of Kafka's. Every client must agree on it, or the records
//! of one key are spread over two partitions; the test's vectors are those of the Java client's own tests.

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;
const SHIFT: u32 = 24;

/// The hash as Java's `int`.
pub fn murmur2(data: &[u8]) -> i32 {
    // Java arrays have int lengths, so truncation concerns no key that a client could send.
    let mut hash = SEED ^ data.len() as u32;
    let words = data.chunks_exact(4);
    let tail = words.remainder();
    for word in words {
        let mut mixed =
            u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(MULTIPLIER);
        mixed ^= mixed >> SHIFT;
        hash = hash.wrapping_mul(MULTIPLIER) ^ mixed.wrapping_mul(MULTIPLIER);
    }
    if !tail.is_empty() {
        for (position, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * position);
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    (hash ^ (hash >> 15)) as i32
}

#[cfg(test)]
mod tests {
    use super::murmur2;

    #[test]
    fn as_java() {
        let vectors: [(&[u8], i32); 6] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (
                b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            (b"abc", 479_470_107),
        ];
        for (data, hash) in vectors {
            assert_eq!(murmur2(data), hash, "{data:?}");
        }
    }
}
