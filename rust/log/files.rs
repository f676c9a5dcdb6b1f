//! Open files under a limit: ten thousand partitions have thirty thousand files, a process has twenty thousand descriptors.
//!
//! Only `.log` files keep a descriptor (indexes are read or written and closed again), opened at the first use. Past the cache's limit the
//! one that was not used for longest is closed, by the clock algorithm: a queue in which a file that was used since it was queued gets
//! a second round. Using an open file costs one uncontended lock and one store. Whoever holds the open file keeps it open: eviction only
//! drops the cache's hold.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Mutex, RwLock};

use super::error::{Context, Result};
use super::home::Home;
use super::names::{Kind, Suffix, file_name};
use crate::storage::{File, Mode, Storage};
use crate::wire::piece::{self, Source};

/// A partition's folder: it may be renamed while files in it are in use.
pub struct Folder {
    pub storage: Arc<dyn Storage>,
    path: RwLock<Arc<Path>>,
    /// Hears of errors that readers of its files meet.
    home: OnceLock<Weak<Home>>,
}

impl Folder {
    pub fn new(storage: Arc<dyn Storage>, path: &Path) -> Arc<Self> {
        Arc::new(Self {
            storage,
            path: RwLock::new(path.into()),
            home: OnceLock::new(),
        })
    }

    /// As `new`, for a folder of the data directory `home`.
    pub fn of(home: &Arc<Home>, path: &Path) -> Arc<Self> {
        let folder = Self::new(Arc::clone(&home.storage), path);
        let _ = folder.home.set(Arc::downgrade(home));
        folder
    }

    pub fn path(&self) -> Arc<Path> {
        Arc::clone(&self.path.read())
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn file(&self, base_offset: i64, kind: Kind, suffix: Suffix) -> PathBuf {
        self.join(&file_name(base_offset, kind, suffix))
    }

    /// Renames the folder on disk; files that are opened from now on are found there.
    pub fn rename(&self, to: &Path) -> io::Result<()> {
        self.storage.rename(&self.path(), to)?;
        *self.path.write() = to.into();
        Ok(())
    }

    /// Makes the names of its files durable.
    pub fn sync(&self) -> Result<()> {
        let path = self.path();
        self.storage.sync_directory(&path).context("sync", &path)
    }

    /// Makes the bytes of the file at `path` durable.
    pub fn sync_file(&self, path: &Path) -> Result<()> {
        let file = self.storage.open(path, Mode::Write).context("open", path)?;
        file.sync_data().context("sync", path)
    }
}

/// The process's open segment files.
pub struct FileCache {
    open: AtomicUsize,
    open_max: AtomicUsize,
    clock: Mutex<VecDeque<Weak<SegmentFile>>>,
}

impl FileCache {
    pub fn new(open_max: usize) -> Arc<Self> {
        Arc::new(Self {
            open: AtomicUsize::new(0),
            open_max: AtomicUsize::new(open_max),
            clock: Mutex::new(VecDeque::new()),
        })
    }

    /// The one that all logs of the process share; its limit is half of the process's descriptors (RLIMIT_NOFILE).
    pub fn global() -> &'static Arc<Self> {
        static CACHE: OnceLock<Arc<FileCache>> = OnceLock::new();
        CACHE.get_or_init(|| FileCache::new(half_of_descriptors()))
    }

    /// Raises the process's soft limit of descriptors to its hard limit, and takes half of that. The command `serve` does so; a
    /// library and a broker inside another program must not (a program that uses `select` breaks above 1024).
    pub fn raise_descriptor_limit() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // Refused only where the limit cannot be raised: then half of what there is has to do.
        let _ = setrlimit(Resource::Nofile, raised);
        Self::global()
            .open_max
            .store(half_of_descriptors(), Ordering::Relaxed);
    }

    /// How many segment files are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    fn added(&self, file: &Weak<SegmentFile>) {
        self.open.fetch_add(1, Ordering::Relaxed);
        let mut evicted = Vec::new();
        let mut clock = self.clock.lock();
        clock.push_back(Weak::clone(file));
        if clock.len() > 2 * self.open() + 64 {
            // What left its log or was closed is still queued; it goes before it is more than what is open.
            clock.retain(|file| file.upgrade().is_some_and(|file| file.is_open()));
        }
        let mut second_chances = clock.len();
        while self.open() > self.open_max.load(Ordering::Relaxed) {
            let Some(candidate) = clock.pop_front() else {
                break;
            };
            let Some(file) = candidate.upgrade() else {
                continue;
            };
            if second_chances > 0 && file.used.swap(false, Ordering::Relaxed) {
                second_chances -= 1;
                clock.push_back(candidate);
                continue;
            }
            evicted.push(file.release());
        }
        // Closing is a system call: not under the lock.
        drop(clock);
        drop(evicted);
    }
}

fn half_of_descriptors() -> usize {
    use rustix::process::{Resource, getrlimit};
    let limit = getrlimit(Resource::Nofile)
        .current
        .unwrap_or(1 << 20)
        .min(1 << 20);
    (limit as usize / 2).max(16)
}

/// A segment's `.log` file: a path that is opened on use.
pub struct SegmentFile {
    this: Weak<Self>,
    folder: Arc<Folder>,
    pub base_offset: i64,
    /// Held while the file is opened or renamed: nobody looks for it in between.
    suffix: RwLock<Suffix>,
    writable: bool,
    handle: Mutex<Option<Arc<dyn File>>>,
    used: AtomicBool,
    /// Set when the name goes away: then the open file is all there is.
    pinned: OnceLock<Arc<dyn File>>,
    cache: Arc<FileCache>,
}

impl SegmentFile {
    pub fn new(
        folder: Arc<Folder>,
        base_offset: i64,
        suffix: Suffix,
        writable: bool,
        cache: Arc<FileCache>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            folder,
            base_offset,
            suffix: RwLock::new(suffix),
            writable,
            handle: Mutex::new(None),
            used: AtomicBool::new(false),
            pinned: OnceLock::new(),
            cache,
        })
    }

    pub fn path(&self) -> PathBuf {
        self.path_as(*self.suffix.read())
    }

    pub fn is_writable(&self) -> bool {
        self.writable
    }

    fn path_as(&self, suffix: Suffix) -> PathBuf {
        self.folder.file(self.base_offset, Kind::Log, suffix)
    }

    /// The open file, opened now if it is not.
    pub fn file(&self) -> io::Result<Arc<dyn File>> {
        if let Some(file) = &*self.handle.lock() {
            self.used.store(true, Ordering::Relaxed);
            return Ok(Arc::clone(file));
        }
        if let Some(file) = self.pinned.get() {
            return Ok(Arc::clone(file));
        }
        // Opening may wait for the disk: no lock meanwhile. Who comes second drops its own.
        let file = self.open()?;
        {
            let mut handle = self.handle.lock();
            if let Some(other) = &*handle {
                return Ok(Arc::clone(other));
            }
            *handle = Some(Arc::clone(&file));
        }
        self.used.store(true, Ordering::Relaxed);
        self.cache.added(&self.this);
        Ok(file)
    }

    fn open(&self) -> io::Result<Arc<dyn File>> {
        let mode = if self.writable {
            Mode::Write
        } else {
            Mode::Read
        };
        let suffix = self.suffix.read();
        match self.folder.storage.open(&self.path_as(*suffix), mode) {
            // Its folder was renamed since we looked.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self
                .folder
                .storage
                .open(&self.path_as(*suffix), mode)
                .map_err(|_| error),
            other => other,
        }
    }

    /// Keeps the file open until the last hold of it ends, whatever the cache does: its name is about to be removed.
    pub fn pin(&self) -> io::Result<()> {
        let file = self.file()?;
        self.pinned.get_or_init(|| file);
        Ok(())
    }

    pub fn is_open(&self) -> bool {
        self.handle.lock().is_some()
    }

    /// Drops the cache's hold; the next use opens the file again.
    pub fn close(&self) {
        drop(self.release());
    }

    fn release(&self) -> Option<Arc<dyn File>> {
        let file = self.handle.lock().take();
        if file.is_some() {
            self.cache.open.fetch_sub(1, Ordering::Relaxed);
        }
        file
    }

    /// Renames the file on disk.
    pub fn set_suffix(&self, suffix: Suffix) -> io::Result<()> {
        let mut current = self.suffix.write();
        self.folder
            .storage
            .rename(&self.path_as(*current), &self.path_as(suffix))?;
        *current = suffix;
        Ok(())
    }
}

impl Drop for SegmentFile {
    fn drop(&mut self) {
        self.close();
    }
}

/// A range of a segment's bytes: whole record batches, except that the last may be cut. It holds the segment's file, so it stays readable
/// when the segment leaves the log (its files stay for `file.delete.delay.ms`).
#[derive(Clone)]
pub struct FileSlice {
    pub file: Arc<SegmentFile>,
    pub position: u64,
    pub length: u64,
}

impl FileSlice {
    /// The bytes; fewer only if the file was truncated meanwhile.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.length as usize];
        let read = self.file.file()?.read_at(&mut bytes, self.position)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

impl Source for SegmentFile {
    fn descriptor(&self) -> io::Result<Arc<OwnedFd>> {
        self.file()?.descriptor()
    }

    fn failed(&self, error: &io::Error) {
        if let Some(home) = self.folder.home.get().and_then(Weak::upgrade) {
            let source = io::Error::from_raw_os_error(error.raw_os_error().unwrap_or_default());
            let _ = home.guard_read::<()>(Err(source).context("read", &self.path()));
        }
    }
}

impl From<FileSlice> for piece::FileSlice {
    fn from(slice: FileSlice) -> Self {
        Self {
            file: slice.file,
            position: slice.position,
            length: slice.length,
        }
    }
}
