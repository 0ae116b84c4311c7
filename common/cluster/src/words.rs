//! The words by which an index finds an object: hashes of its labels and of its tokens.

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::LazyLock;

/// It is unknown outside this process, so no client can store words with equal hashes.
static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Returns the hash of a word.
pub(crate) fn hash(word: impl Hash) -> u64 {
    SEED.hash_one(word)
}

/// Bytes that a filed word takes in an index: a slot of a map that is half full, and what the allocator adds.
pub(crate) const INDEX_ENTRY_BYTES: usize = 96;

/// Values of an object that one index files: 50 µs, under a lock for which queries wait.
pub(crate) const MAX_INDEXED_VALUES: usize = 512;

/// The words of an object that an index needs.
pub(crate) enum Words<H> {
    /// These hashes.
    Hashes(H),
    /// More than are filed.
    TooMany,
}
