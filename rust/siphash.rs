//! SipHash with 128 bits of output (Aumasson and Bernstein, 2012), here with one round a word and three at the end.
//!
//! A hash with a secret: who does not know the key cannot make two inputs that collide. Compaction takes two keys with one hash for the
//! same key and drops the older record, so a hash that anybody can compute would let one producer delete the records of another.

/// The secret; one for each use, from the system's randomness.
#[derive(Clone, Copy)]
pub struct SipHash {
    key: (u64, u64),
}

impl SipHash {
    pub fn new(key: (u64, u64)) -> Self {
        Self { key }
    }

    pub fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        let word = || RandomState::new().hash_one(0);
        Self::new((word(), word()))
    }

    /// 128 bits, as two words.
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> (u64, u64) {
        hash::<1, 3>(self.key, bytes)
    }
}

#[derive(Clone, Copy)]
struct State([u64; 4]);

impl State {
    #[inline(always)]
    fn round(&mut self) {
        let [a, b, c, d] = &mut self.0;
        *a = a.wrapping_add(*b);
        *b = b.rotate_left(13) ^ *a;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*d);
        *d = d.rotate_left(16) ^ *c;
        *a = a.wrapping_add(*d);
        *d = d.rotate_left(21) ^ *a;
        *c = c.wrapping_add(*b);
        *b = b.rotate_left(17) ^ *c;
        *c = c.rotate_left(32);
    }

    #[inline(always)]
    fn take<const ROUNDS: usize>(&mut self, word: u64) {
        self.0[3] ^= word;
        for _ in 0..ROUNDS {
            self.round();
        }
        self.0[0] ^= word;
    }

    #[inline(always)]
    fn end<const ROUNDS: usize>(&mut self) -> u64 {
        for _ in 0..ROUNDS {
            self.round();
        }
        self.0.iter().fold(0, |all, word| all ^ word)
    }
}

/// The last `count` bytes, less than eight, as the low bytes of a word. A copy of so few would cost as much as two rounds.
#[inline(always)]
fn tail(bytes: &[u8], count: usize) -> u64 {
    match bytes.last_chunk::<8>() {
        Some(_) if count == 0 => 0,
        Some(eight) => u64::from_le_bytes(*eight) >> (64 - 8 * count),
        None => bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

#[inline(always)]
fn hash<const WORD: usize, const END: usize>(key: (u64, u64), bytes: &[u8]) -> (u64, u64) {
    let mut state = State([
        key.0 ^ 0x736f_6d65_7073_6575,
        key.1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
        key.0 ^ 0x6c79_6765_6e65_7261,
        key.1 ^ 0x7465_6462_7974_6573,
    ]);
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    for word in words {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        state.take::<WORD>(u64::from_le_bytes(eight));
    }
    state.take::<WORD>(tail(bytes, rest.len()) | (bytes.len() as u64) << 56);
    state.0[2] ^= 0xee;
    let first = state.end::<END>();
    state.0[1] ^= 0xdd;
    (first, state.end::<END>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first vectors of the authors' own (`vectors_sip128`, SipHash-2-4, key 00 01 .. 0f, input 00 01 ..).
    #[test]
    fn the_authors_vectors() {
        let key = (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        let input: Vec<u8> = (0..16).collect();
        let bytes = |length: usize| {
            let (first, second) = hash::<2, 4>(key, &input[..length]);
            let mut bytes = first.to_le_bytes().to_vec();
            bytes.extend(second.to_le_bytes());
            bytes
        };
        let vectors = [
            (0, "a3817f04ba25a8e66df67214c7550293"),
            (1, "da87c1d86b99af44347659119b22fc45"),
            (2, "8177228da4a45dc7fca38bdef60affe4"),
            (7, "a1f1ebbed8dbc153c0b84aa61ff08239"),
            (8, "3b62a9ba6258f5610f83e264f31497b4"),
            (9, "264499060ad9baabc47f8b02bb6d71ed"),
            (15, "5493e99933b0a8117e08ec0f97cfc3d9"),
        ];
        for (length, wanted) in vectors {
            let hex: String = bytes(length)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(hex, wanted, "{length} bytes");
        }
    }

    #[test]
    fn another_secret_gives_other_hashes() {
        let key = b"key";
        assert_ne!(SipHash::random().hash(key), SipHash::random().hash(key));
    }
}
