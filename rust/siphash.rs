//! SipHash 1-3 with 128 bits of output (Aumasson and Bernstein, 2012): a hash with a secret.
//!
//! Who does not know the key cannot make two inputs that collide. Compaction takes two keys with one
//! hash for the same key and drops the older record, so a hash that anybody can compute would let
//! one producer delete the records of another.

use std::hash::{BuildHasher, RandomState};

use siphasher::sip128::SipHasher13;

/// A hash with its secret; one for each use.
#[derive(Clone, Copy)]
pub struct SipHash {
    hasher: SipHasher13,
}

impl SipHash {
    pub fn new(key: (u64, u64)) -> Self {
        Self {
            hasher: SipHasher13::new_with_keys(key.0, key.1),
        }
    }

    /// A secret from the system's randomness.
    pub fn random() -> Self {
        let word = || RandomState::new().hash_one(0);
        Self::new((word(), word()))
    }

    /// 128 bits, as two words.
    #[inline]
    pub fn hash(&self, bytes: &[u8]) -> (u64, u64) {
        self.hasher.hash(bytes).as_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_decides() {
        let (one, other) = (SipHash::random(), SipHash::random());
        assert_eq!(one.hash(b"key"), one.hash(b"key"));
        assert_ne!(one.hash(b"key"), one.hash(b"kez"));
        assert_ne!(one.hash(b"key"), other.hash(b"key"));
    }
}
