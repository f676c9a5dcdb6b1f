//! The state that the logs of one data directory share: the disk, the limit on open files, whether
//! the disk still holds, and what waits for deletion.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};

use super::error::{LogError, Result};
use super::files::FileCache;
use crate::storage::{RealStorage, Storage, brittle};
use crate::traffic::Topics;

/// A write into the page cache takes microseconds, and less than 4 ns a byte; longer than this beyond that, the kernel made it wait for the disk.
const SLOW_WRITE: Duration = if cfg!(test) {
    // A machine that pauses is no slow disk: tests say themselves when theirs is.
    Duration::from_secs(60)
} else {
    Duration::from_millis(2)
};

/// The action that is said to have failed where the folder of a partition cannot be made.
pub const CREATE_FOLDER: &str = "create the folder";

type Checkpoint = Box<dyn Fn() -> Result<()> + Send + Sync>;
type OnFailure = Box<dyn Fn() + Send + Sync>;

pub struct Home {
    /// Where its logs count what goes through them.
    pub traffic: Arc<Topics>,
    pub storage: Arc<dyn Storage>,
    pub cache: Arc<FileCache>,
    pub path: PathBuf,
    /// Writes the recovery points of all logs; set by whoever keeps them in a file.
    checkpoint: OnceLock<Checkpoint>,
    failed: AtomicBool,
    reason: Mutex<String>,
    /// Called once, by the thread that met the failure.
    on_failure: OnceLock<OnFailure>,
    /// A full disk takes the directory out of use too.
    full_fails: AtomicBool,
    /// Threads may be started for work that nobody waits for. Not in tests that must be repeatable.
    pub(super) background: bool,
    /// The last append waited for the disk.
    slow: AtomicBool,
    /// A log was truncated to before its start since the start offsets were written.
    start_moved_back: AtomicBool,
    /// A high watermark moved since the checkpoint thread looked.
    moved: AtomicBool,
    wake: (Mutex<()>, Condvar),
    /// Deleted files and folders that the opening could not remove, each with its error.
    leftovers: Mutex<Vec<(PathBuf, io::Error)>>,
}

impl Home {
    pub fn new(storage: Arc<dyn Storage>, cache: Arc<FileCache>, path: &Path) -> Arc<Self> {
        Arc::new(Self::build(storage, cache, path, true, Arc::default()))
    }

    /// One whose logs do nothing that they are not asked for.
    pub fn quiet(storage: Arc<dyn Storage>, path: &Path) -> Arc<Self> {
        let cache = FileCache::new(16);
        Arc::new(Self::build(storage, cache, path, false, Arc::default()))
    }

    fn build(
        storage: Arc<dyn Storage>,
        cache: Arc<FileCache>,
        path: &Path,
        background: bool,
        traffic: Arc<Topics>,
    ) -> Self {
        Self {
            traffic,
            background,
            storage,
            cache,
            path: path.to_owned(),
            checkpoint: OnceLock::new(),
            failed: AtomicBool::new(false),
            reason: Mutex::new(String::new()),
            on_failure: OnceLock::new(),
            full_fails: AtomicBool::new(false),
            slow: AtomicBool::new(false),
            start_moved_back: AtomicBool::new(false),
            moved: AtomicBool::new(false),
            wake: (Mutex::new(()), Condvar::new()),
            leftovers: Mutex::default(),
        }
    }

    /// The operating system's files under the process's limit.
    pub fn real(path: &Path) -> Arc<Self> {
        let cache = Arc::clone(FileCache::global());
        let storage = Arc::new(RealStorage);
        Arc::new(Self::build(storage, cache, path, true, Arc::default()))
    }

    /// The same of a broker, whose traffic is counted together, and whose disk may be one that breaks on purpose.
    pub fn of_broker(path: &Path, traffic: Arc<Topics>) -> Arc<Self> {
        let cache = Arc::clone(FileCache::global());
        let storage = brittle::of_directory(path);
        Arc::new(Self::build(storage, cache, path, true, traffic))
    }

    /// Sets what [`recovery_point_moved_back`](Self::recovery_point_moved_back) does. Once.
    pub fn set_checkpoint(&self, write: impl Fn() -> Result<()> + Send + Sync + 'static) {
        let _ = self.checkpoint.set(Box::new(write));
    }

    /// A log was truncated. What is appended next may lie before the recovery point in the file, and a recovery that starts there would not look
    /// at it: so the file is written first.
    pub fn recovery_point_moved_back(&self) -> Result<()> {
        self.checkpoint.get().map_or(Ok(()), |write| write())
    }

    /// Notes a deleted file or folder that this opening could not remove. It costs space, and nothing else.
    pub fn note_leftover(&self, path: &Path, removed: io::Result<()>) {
        if let Err(error) = removed {
            self.leftovers.lock().push((path.to_owned(), error));
        }
    }

    /// The leftovers noted since the last call, each with its error.
    pub fn take_leftovers(&self) -> Vec<(PathBuf, io::Error)> {
        std::mem::take(&mut self.leftovers.lock())
    }

    /// A log starts earlier than it did. The checkpoint of start offsets may say more, and whatever is before that would be gone at the next start.
    pub fn note_start_moved_back(&self) {
        self.start_moved_back.store(true, Ordering::Release);
    }

    pub fn take_start_moved_back(&self) -> bool {
        self.start_moved_back.swap(false, Ordering::AcqRel)
    }

    /// True if the directory was taken out of use.
    pub fn is_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// An error once the directory was taken out of use.
    pub fn check(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) {
            return Err(LogError::Offline {
                path: self.path.clone(),
                reason: self.reason.lock().clone(),
            });
        }
        Ok(())
    }

    /// Why the directory is out of use; None while it is not.
    pub fn failure(&self) -> Option<String> {
        self.failed
            .load(Ordering::Acquire)
            .then(|| self.reason.lock().clone())
    }

    /// Takes the directory out of use: after an fsync that failed nobody knows what is on the disk (the kernel drops the pages and reports
    /// the error once), and a second fsync that succeeds proves nothing.
    pub fn fail(&self, error: &LogError) {
        let mut reason = self.reason.lock();
        if self.failed.load(Ordering::Acquire) {
            return;
        }
        *reason = error.to_string();
        self.failed.store(true, Ordering::Release);
        drop(reason);
        if let Some(call) = self.on_failure.get() {
            call();
        }
    }

    /// Has `call` called when the directory fails, by the thread that met the failure; at once if it has failed. Set once.
    pub fn on_failure(&self, call: impl Fn() + Send + Sync + 'static) {
        if self.on_failure.set(Box::new(call)).is_ok()
            && let (Some(_), Some(call)) = (self.failure(), self.on_failure.get())
        {
            call();
        }
    }

    /// A disk without space takes the directory out of use, too: for brokers whose partitions others can lead.
    pub fn fail_when_full(&self) {
        self.full_fails.store(true, Ordering::Release);
    }

    /// True if an error is more than the failure of one request: see [`guard`](Self::guard).
    pub fn is_failure(&self, error: &LogError) -> bool {
        match error {
            LogError::Io { action, source, .. } => {
                *action == "sync"
                    || !(has_run_out(source)
                        || (*action == CREATE_FOLDER && self.is_of_name(source)))
                    || (is_full(source) && self.full_fails.load(Ordering::Acquire))
            }
            _ => false,
        }
    }

    /// True if a creation failed for the name that it was given, while the directory itself is
    /// where it was.
    fn is_of_name(&self, error: &io::Error) -> bool {
        use rustix::io::Errno;
        let of_name = [
            Errno::NAMETOOLONG,
            Errno::INVAL,
            Errno::EXIST,
            Errno::NOENT,
            Errno::NOTDIR,
        ];
        of_name
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
            && self
                .storage
                .metadata(&self.path)
                .is_ok_and(|found| found.is_directory)
    }

    /// For what only reads: the file may be gone for good reasons, so the directory fails only where the device says that it is broken.
    pub fn guard_read<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error @ LogError::Io { source, .. }) = &result
            && is_of_device(source)
        {
            self.fail(error);
        }
        result
    }

    /// Passes `result` through; an error of the disk takes the directory out of use. Not one that says that something has run out (space,
    /// descriptors, memory): then nothing happened, and the next try may succeed. Except for an fsync: what it could not write is lost; and for
    /// space where [`fail_when_full`](Self::fail_when_full) says so.
    pub fn guard<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && self.is_failure(error)
        {
            self.fail(error);
        }
        result
    }

    /// Milliseconds since 1970, by the clock of the machine that has the logs.
    pub fn now_ms(&self) -> i64 {
        self.at(now_ms())
    }

    /// A time by this process's clock, by the clock of the machine that has the logs.
    pub fn at(&self, time_ms: i64) -> i64 {
        time_ms.saturating_add(self.storage.clock_ahead_ms())
    }

    /// True if appends should not run where waiting hurts. That ends with the first append (on an I/O
    /// thread) that does not wait.
    pub fn is_slow(&self) -> bool {
        self.slow.load(Ordering::Relaxed)
    }

    pub fn note_write(&self, bytes: usize, took: Duration) {
        let expected = SLOW_WRITE + Duration::from_nanos(4 * bytes as u64);
        self.slow.store(took > expected, Ordering::Relaxed);
    }

    /// A write that follows a failed one may fail too, and undoing it takes long: so that is not done
    /// where waiting hurts.
    pub fn note_failed_write(&self) {
        self.slow.store(true, Ordering::Relaxed);
    }

    /// A high watermark moved: the checkpoint is due.
    pub fn high_watermark_moved(&self) {
        if !self.moved.load(Ordering::Relaxed) && !self.moved.swap(true, Ordering::AcqRel) {
            let _held = self.wake.0.lock();
            self.wake.1.notify_all();
        }
    }

    /// Waits until a high watermark moved or `stop`; then true if one did.
    pub fn wait_for_move(&self, stop: &AtomicBool) -> bool {
        let mut held = self.wake.0.lock();
        while !self.moved.load(Ordering::Acquire) && !stop.load(Ordering::Acquire) {
            self.wake.1.wait(&mut held);
        }
        self.moved.load(Ordering::Acquire)
    }

    /// Waits for `interval`, less if `stop`.
    pub fn wait(&self, interval: Duration, stop: &AtomicBool) {
        let deadline = std::time::Instant::now() + interval;
        let mut held = self.wake.0.lock();
        while !stop.load(Ordering::Acquire)
            && !self.wake.1.wait_until(&mut held, deadline).timed_out()
        {}
    }

    pub fn take_moved(&self) -> bool {
        self.moved.swap(false, Ordering::AcqRel)
    }

    pub fn wake_all(&self) {
        let _held = self.wake.0.lock();
        self.wake.1.notify_all();
    }
}

/// True for errors by which a device or its file system says that it does not work, whatever the file.
pub fn is_of_device(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let of_device = [
        Errno::IO,
        Errno::NXIO,
        Errno::NODEV,
        Errno::ROFS,
        Errno::STALE,
        Errno::UCLEAN,
    ];
    of_device
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn is_full(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::NOSPC, Errno::DQUOT]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
        || matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        )
}

/// True for errors after which the disk is as good as before.
pub fn has_run_out(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let of_system = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    is_full(error)
        || of_system
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64)
}

/// A clock that costs nothing to read and moves every few milliseconds.
pub fn coarse_now() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::MonotonicCoarse;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let now = rustix::time::clock_gettime(clock);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
