//! Slices that are not in the page cache: the loop never waits for a disk.
//!
//! `sendfile` blocks when a page must be read. So the next part of a slice is probed first, with reads of one byte that do not wait
//! (`preadv2` with RWF_NOWAIT), one in each stretch as long as the kernel's usual read-ahead. A part that is not all there is read by an I/O
//! thread, at most 1 MiB at a time, and sent when that thread has woken the hub. A file system that cannot probe counts as cold: every part
//! then takes the way over the thread, which is slower but never blocks the loop.

use std::io::IoSliceMut;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::{Errno, ReadWriteFlags};

use crate::io::{IoPool, Wake};
use crate::wire::piece::FileSlice;

/// What an I/O thread brings in at a time.
pub const COLD_BYTES_MAX: u64 = 1 << 20;
/// The distance between probed bytes; the kernel reads ahead in stretches of this size.
const PROBE_STEP_BYTES: u64 = 128 << 10;
const PAGE_BYTES: u64 = 4096;
/// A disk serves few readers well at once, and one cold consumer should not stop another.
const THREADS: usize = 2;
const SCRATCH_BYTES: usize = 128 << 10;

/// A part that an I/O thread brought in.
pub struct Warmed {
    pub connection: u64,
    pub bytes: u64,
}

pub struct Cold {
    pool: IoPool,
    done: Arc<Mutex<Vec<Warmed>>>,
    wake: Arc<Wake>,
}

impl Cold {
    pub fn new(wake: Arc<Wake>) -> std::io::Result<Self> {
        Ok(Self {
            pool: IoPool::new("cold-read", THREADS)?,
            done: Arc::default(),
            wake,
        })
    }

    /// Has a thread read `slice` (at most `COLD_BYTES_MAX`), so that it is in the page cache; the hub is woken when it is.
    /// An error of the disk is left for `sendfile` to meet.
    pub fn bring(&self, connection: u64, slice: FileSlice) {
        let (done, wake) = (Arc::clone(&self.done), Arc::clone(&self.wake));
        self.pool.submit(move || {
            let bytes = slice.length;
            read_through(&slice);
            done.lock().push(Warmed { connection, bytes });
            wake.signal();
        });
    }

    /// What was brought in since the last call.
    pub fn drain(&self) -> Vec<Warmed> {
        std::mem::take(&mut *self.done.lock())
    }
}

/// Whether sending `slice` would not wait for the disk, as far as a sample tells.
pub fn is_warm(slice: &FileSlice) -> bool {
    let Ok(descriptor) = slice.file.descriptor() else {
        return true;
    };
    let end = slice.position + slice.length;
    let mut position = slice.position;
    loop {
        let mut byte = [0u8];
        let mut vector = [IoSliceMut::new(&mut byte)];
        match rustix::io::preadv2(&*descriptor, &mut vector, position, ReadWriteFlags::NOWAIT) {
            Err(Errno::AGAIN | Errno::OPNOTSUPP) => return false,
            // Past the end, or a broken file: sendfile will say so without waiting.
            Ok(0) | Err(_) => return true,
            Ok(_) => {}
        }
        if position / PAGE_BYTES >= (end - 1) / PAGE_BYTES {
            return true;
        }
        position = (position + PROBE_STEP_BYTES).min(end - 1);
    }
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
