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
        Err(Errno::AGAIN | Errno::OPNOTSUPP) => Probe::Absent,
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
    use std::io::Write;

    use rustix::fs::{Advice, fadvise};

    use super::*;

    #[test]
    fn a_hole_in_the_cache_is_seen() {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![7; 4 << 20]).unwrap();
        file.sync_all().unwrap();
        let descriptor: OwnedFd = file.into();
        let descriptor = Arc::new(descriptor);
        let part = |position: u64, length: u64| FileSlice {
            file: Arc::new(Arc::clone(&descriptor)),
            position,
            length,
        };
        assert!(is_warm(&part(0, 4 << 20)));
        fadvise(&*descriptor, 0, None, Advice::DontNeed).unwrap();
        assert!(!is_warm(&part(0, 1 << 20)) && !is_warm(&part(3 << 20, 2 << 20)));
        // A hole that no probe meets, with everything round it read page by page.
        fadvise(&*descriptor, 0, None, Advice::Random).unwrap();
        let hole = ((1 << 20) + (32 << 10))..((1 << 20) + (96 << 10));
        read_through(&part(0, hole.start));
        read_through(&part(hole.end, (4 << 20) - hole.end));
        assert!(is_warm(&part(0, 1 << 20)));
        if cached_pages(&descriptor, &part(0, 1)).is_some() {
            assert!(!is_warm(&part(0, 4 << 20)));
        }
        read_through(&part(hole.start, 1));
        assert!(!is_warm(&part(hole.start, 64 << 10)));
        read_through(&part(0, 4 << 20));
        // More is promised than there is: not a matter of the cache.
        assert!(is_warm(&part(3 << 20, 2 << 20)));
    }
}
