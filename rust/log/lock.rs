//! `.lock`: one process per data directory, Kafka included.
//!
//! Java's `FileChannel.tryLock` takes an fcntl lock (F_SETLK), so we do too. Such a lock belongs to the process, not to the descriptor: a
//! second open in the same process would succeed, and closing any descriptor of the file would drop the lock. So the file is opened once
//! per process, which a table of held paths takes care of.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

use super::error::{Context, LogError, Result};
use crate::storage::access;

static HELD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

pub struct DirectoryLock {
    path: PathBuf,
    file: Option<OwnedFd>,
}

impl DirectoryLock {
    /// Takes the lock of `directory`, without waiting. `Locked` if anybody has it.
    pub fn take(directory: &Path) -> Result<Self> {
        let directory = std::fs::canonicalize(directory).context("find", directory)?;
        let mut held = HELD.lock();
        if held.contains(&directory) {
            return Err(LogError::Locked(directory));
        }
        let path = directory.join(".lock");
        let file: OwnedFd = access::open_or_create(&path).context("open", &path)?.into();
        match fcntl_lock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::ACCESS | Errno::AGAIN) => return Err(LogError::Locked(directory)),
            Err(error) => return Err(std::io::Error::from(error)).context("lock", &path),
        }
        held.insert(directory.clone());
        Ok(Self {
            path: directory,
            file: Some(file),
        })
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        let mut held = HELD.lock();
        // Closed before anybody else may open it: closing any descriptor of the file drops the process's lock.
        drop(self.file.take());
        held.remove(&self.path);
    }
}
