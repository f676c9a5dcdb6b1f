//! Slices that are not in the page cache: the loop never waits for a disk.
//!
//! `sendfile` blocks when a page must be read. So the next part of a slice is looked for first: a read of its last byte that does not wait
//! (`preadv2` with RWF_NOWAIT), and the kernel's count of its pages in the cache (`cachestat`, since Linux 6.5: 2 us a MiB); where there is no
//! count, more such reads, one in each stretch as long as the kernel's usual read-ahead. A part that is not all there is read by an I/O
//! thread, at most 1 MiB at a time, and sent when that thread has woken the hub. A file system that cannot be read without waiting counts as
//! cold: every part then takes the way over the thread, which is slower but never blocks the loop.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::{Errno, ReadWriteFlags};

use crate::io::panics::Panicked;
use crate::io::{Wake, read_cold};
use crate::wire::piece::FileSlice;

/// What an I/O thread brings in at a time.
pub const COLD_BYTES_MAX: u64 = 1 << 20;
/// The distance between probed bytes; the kernel reads ahead in stretches of this size.
const PROBE_STEP_BYTES: u64 = 128 << 10;
const SCRATCH_BYTES: usize = 128 << 10;

/// A part that an I/O thread brought in.
pub struct Warmed {
    pub connection: u64,
    pub bytes: u64,
}

pub struct Cold {
    done: Arc<Mutex<Vec<Warmed>>>,
    wake: Arc<Wake>,
}

impl Cold {
    pub fn new(wake: Arc<Wake>) -> Self {
        Self {
            done: Arc::default(),
            wake,
        }
    }

    /// Has a thread read `slice` (at most `COLD_BYTES_MAX`), so that it is in the page cache; the hub is woken when it is.
    /// An error of the disk is left for `sendfile` to meet.
    pub fn bring(&self, connection: u64, slice: FileSlice) {
        let (done, wake) = (Arc::clone(&self.done), Arc::clone(&self.wake));
        let bytes = slice.length;
        let read = move || {
            read_through(&slice);
            Ok(())
        };
        // Even if that panicked: the bytes are where they were, and sending them may have to wait for the disk once.
        read_cold(read, move |_: Result<(), Panicked>| {
            done.lock().push(Warmed { connection, bytes });
            wake.signal();
        });
    }

    /// What was brought in since the last call.
    pub fn drain(&self) -> Vec<Warmed> {
        std::mem::take(&mut *self.done.lock())
    }
}

/// Whether sending `slice` would not wait for the disk, as far as can be told.
pub fn is_warm(slice: &FileSlice) -> bool {
    let Ok(descriptor) = slice.file.descriptor() else {
        return true;
    };
    let last = slice.position + slice.length.max(1) - 1;
    match probe(&descriptor, last) {
        Probe::Absent => return false,
        // A page that is being read is counted as well, but pages come in order, and the last one is there.
        Probe::There => {
            let page_bytes = rustix::param::page_size() as u64;
            let pages = last / page_bytes - slice.position / page_bytes + 1;
            if let Some(cached) = cached_pages(&descriptor, slice) {
                return cached >= pages;
            }
        }
        Probe::Beyond => {}
    }
    let mut position = slice.position;
    while position < last {
        match probe(&descriptor, position) {
            Probe::Absent => return false,
            Probe::Beyond => return true,
            Probe::There => position += PROBE_STEP_BYTES,
        }
    }
    true
}

enum Probe {
    There,
    Absent,
    /// Past the end, or a broken file: sendfile will say so without waiting.
    Beyond,
}

/// What a read of one byte finds if it does not wait.
fn probe(descriptor: &OwnedFd, position: u64) -> Probe {
    let mut byte = [0u8];
    let mut vector = [IoSliceMut::new(&mut byte)];
    match rustix::io::preadv2(descriptor, &mut vector, position, ReadWriteFlags::NOWAIT) {
        Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS) => Probe::Absent,
        Ok(0) | Err(_) => Probe::Beyond,
        Ok(_) => Probe::There,
    }
}

/// How many of the pages that hold `slice` are in the page cache; None if the kernel does not tell.
fn cached_pages(descriptor: &OwnedFd, slice: &FileSlice) -> Option<u64> {
    /// System calls since number 424 have the same number on all architectures, but for those whose numbers begin elsewhere. libc has no name
    /// for this one on most.
    const CACHESTAT: Option<libc::c_long> = if cfg!(any(
        target_arch = "x86_64",
        target_arch = "x86",
        target_arch = "aarch64",
        target_arch = "arm",
        target_arch = "riscv64",
        target_arch = "s390x",
        target_arch = "powerpc64",
        target_arch = "loongarch64"
    )) && cfg!(not(target_abi = "x32"))
    {
        Some(451)
    } else {
        None
    };
    #[repr(C)]
    struct Range {
        start: u64,
        length: u64,
    }
    /// In pages.
    #[repr(C)]
    #[derive(Default)]
    struct Cached {
        all: u64,
        dirty: u64,
        written_back: u64,
        evicted: u64,
        recently_evicted: u64,
    }
    let number = CACHESTAT?;
    let range = Range {
        start: slice.position,
        length: slice.length,
    };
    let mut cached = Cached::default();
    // SAFETY: `cachestat(2)` reads the first structure and writes the second, both are laid out as it wants them and live until it returns.
    let result = unsafe {
        let flags: libc::c_uint = 0;
        libc::syscall(number, descriptor.as_raw_fd(), &range, &mut cached, flags)
    };
    (result == 0).then_some(cached.all)
}

fn read_through(slice: &FileSlice) {
    let Ok(descriptor) = slice.file.descriptor() else {
        return;
    };
    let mut scratch = vec![0u8; SCRATCH_BYTES];
    let (mut position, end) = (slice.position, slice.position + slice.length);
    while position < end {
        let count = (end - position).min(SCRATCH_BYTES as u64) as usize;
        match rustix::io::pread(&*descriptor, &mut scratch[..count], position) {
            Ok(0) => return,
            Ok(count) => position += count as u64,
            Err(Errno::INTR) => {}
            Err(error) => return slice.file.failed(&error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_void;
    use std::fs::File;
    use std::io::Write;
    use std::ops::Range;
    use std::os::fd::AsFd;
    use std::ptr::null_mut;

    use rustix::fs::{Advice, fadvise};
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    use super::*;

    const FILE_BYTES: u64 = 4 << 20;
    /// A look and an answer are apart in time: the kernel may drop a page between them, or bring one in that a probe asked for. An answer
    /// that is wrong this often is wrong.
    const TRIES_MAX: usize = 1000;

    /// A file, and what the kernel says of its pages. The tests ask it, since it need not drop a page when told, nor keep one.
    struct Pages {
        descriptor: Arc<OwnedFd>,
    }

    impl Pages {
        fn of(file: File) -> Self {
            // Reading a byte brings in its page, and no other.
            fadvise(&file, 0, None, Advice::Random).unwrap();
            Self {
                descriptor: Arc::new(file.into()),
            }
        }

        fn slice(&self, part: Range<u64>) -> FileSlice {
            FileSlice {
                file: Arc::new(Arc::clone(&self.descriptor)),
                position: part.start,
                length: part.end - part.start,
            }
        }

        /// Which pages are in the cache: `mincore(2)`, which the code under test does not use.
        fn look(&self) -> Vec<bool> {
            let bytes = FILE_BYTES as usize;
            let mut pages = vec![0u8; bytes.div_ceil(rustix::param::page_size())];
            // SAFETY: the mapping is new and nobody reads through it; `mincore` writes one byte for each of its pages.
            unsafe {
                let descriptor = self.descriptor.as_fd();
                let map = mmap(
                    null_mut(),
                    bytes,
                    ProtFlags::READ,
                    MapFlags::SHARED,
                    descriptor,
                    0,
                )
                .unwrap();
                let result = libc::mincore(map.cast::<c_void>(), bytes, pages.as_mut_ptr());
                munmap(map, bytes).unwrap();
                assert_eq!(result, 0);
            }
            pages.iter().map(|page| page & 1 == 1).collect()
        }

        /// Whether the kernel counts pages for `is_warm`.
        fn are_counted(&self) -> bool {
            cached_pages(&self.descriptor, &self.slice(0..1)).is_some()
        }

        /// What `is_warm` says of `part`, after having compared it with what is in the cache.
        fn is_warm(&self, part: Range<u64>) -> bool {
            let page_bytes = rustix::param::page_size() as u64;
            let end = part.end.min(FILE_BYTES);
            let pages = (part.start / page_bytes) as usize..end.div_ceil(page_bytes) as usize;
            let is_counted = part.end == end && self.are_counted();
            let mut last = None;
            for _ in 0..TRIES_MAX {
                let before = self.look();
                let warm = is_warm(&self.slice(part.clone()));
                let there = &before[pages.clone()];
                let right = if is_counted {
                    warm == there.iter().all(|page| *page)
                } else if warm {
                    // A hole between two probes is not seen.
                    there.first() == Some(&true)
                } else {
                    there.contains(&false)
                };
                if right {
                    return warm;
                }
                last = Some((warm, there.to_vec()));
            }
            panic!("{part:?} is_warm, and what is cached: {last:?}");
        }

        /// Reads `part` until it is in the cache.
        fn bring(&self, part: Range<u64>) {
            for _ in 0..TRIES_MAX {
                read_through(&self.slice(part.clone()));
                if self.is_warm(part.clone()) {
                    return;
                }
            }
            panic!("{part:?} was read {TRIES_MAX} times and is not in the cache");
        }
    }

    /// A file without bytes on the disk has no page in the cache that nobody asked for: a hole that is sure.
    #[test]
    fn a_hole_in_the_cache_is_seen() {
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.set_len(FILE_BYTES).unwrap();
        let pages = Pages::of(file);
        if !pages.are_counted() {
            // There are only probes, and a probe asks: it finds the page, since there is no disk to wait for.
            return;
        }
        assert!(!pages.is_warm(0..1 << 20) && !pages.is_warm(0..FILE_BYTES));
        // No probe meets it, and everything round it is there, page by page.
        let hole = ((1 << 20) + (32 << 10))..((1 << 20) + (96 << 10));
        pages.bring(0..hole.start);
        pages.bring(hole.end..FILE_BYTES);
        let page_bytes = rustix::param::page_size();
        let hole_pages = (hole.start as usize / page_bytes)..(hole.end as usize / page_bytes);
        assert!(!pages.look()[hole_pages].contains(&true));
        assert!(!pages.is_warm(0..FILE_BYTES));
        assert!(!pages.is_warm(hole.clone()));
        pages.bring(hole.start..hole.start + 1);
        assert!(!pages.is_warm(hole.clone()));
        pages.bring(0..FILE_BYTES);
        // More is promised than there is: not a matter of the cache.
        assert!((0..TRIES_MAX).any(|_| {
            pages.bring(0..FILE_BYTES);
            is_warm(&pages.slice(3 << 20..5 << 20))
        }));
    }

    /// Whatever the kernel dropped of a file that was written, and brought in of it: each answer is what is in the cache.
    #[test]
    fn answers_are_what_is_in_the_cache() {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![7; FILE_BYTES as usize]).unwrap();
        file.sync_all().unwrap();
        let pages = Pages::of(file);
        let mut state = 17u64;
        let mut below = |bound: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        for _ in 0..200 {
            let start = below(FILE_BYTES);
            // Some promise more than there is.
            let part = start..start + 1 + below(512 << 10);
            pages.is_warm(part.clone());
            let length = std::num::NonZeroU64::new(part.end - part.start);
            match below(3) {
                0 => fadvise(&*pages.descriptor, start, length, Advice::DontNeed).unwrap(),
                1 => read_through(&pages.slice(part.clone())),
                _ => {}
            }
            pages.is_warm(part);
        }
    }
}
