//! The file system as a trait: what the log asks of a disk, and nothing more.
//!
//! The log never touches `std::fs`. It gets a [`Storage`], so that tests can hand it one that fails, tears or forgets any
//! operation ([`faulty`]) and everybody else the real one ([`real`]). Tests of a running broker have the real one break
//! ([`brittle`]). All pass the same contract suite.
//!
//! What the trait promises is what POSIX promises, no more: a write is visible to every reader at once; it survives a power cut only after
//! [`File::sync_data`]; a name (created, renamed, removed) survives only after [`Storage::sync_directory`] of its folder.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

pub mod access;
pub mod brittle;
#[cfg(test)]
mod contract;
pub mod faulty;
pub mod real;

pub use faulty::FaultyStorage;
pub use real::RealStorage;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It must exist; writes fail.
    Read,
    /// It must exist.
    Write,
    /// It is created empty if it does not exist.
    Create,
    /// It is created, or emptied.
    Replace,
}

/// The file or folder that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    pub length: u64,
    pub is_directory: bool,
    /// Time of the last change of the content, milliseconds since 1970.
    pub modified_ms: i64,
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub name: String,
    pub is_directory: bool,
}

/// An open file. Any number of threads may use it at once; positions are always explicit.
pub trait File: Send + Sync {
    /// Fills `buffer` from `position` on; fewer bytes than asked for only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// As `read_at` without waiting for the disk: fewer bytes also where the next ones are not in memory. It waits where a file system cannot say.
    fn read_cached(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.read_at(buffer, position)
    }

    /// Writes all of `bytes`. After an error any part of them may be in the file.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()>;

    fn set_length(&self, length: u64) -> io::Result<()>;

    fn length(&self) -> io::Result<u64>;

    /// Returns when content and length would survive a power cut (fdatasync).
    fn sync_data(&self) -> io::Result<()>;

    /// The descriptor, for `sendfile`; an error where there is none (a file in memory).
    fn descriptor(&self) -> io::Result<Arc<OwnedFd>>;
}

/// A file system.
pub trait Storage: Send + Sync + 'static {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>>;

    /// Names in no particular order. Names that are not UTF-8 are left out: none of ours is.
    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>>;

    fn metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// Sets the time of the last change of a file's content, milliseconds since 1970.
    fn set_modified(&self, path: &Path, modified_ms: i64) -> io::Result<()>;

    /// Its parent must exist, and itself must not.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Replaces `to` atomically if it is a file.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// It must be empty.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;

    /// Returns when the names in `directory` would survive a power cut.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// How far the clock of the machine that has the files is ahead of this process's, in milliseconds.
    fn clock_ahead_ms(&self) -> i64 {
        0
    }

    /// True if there is `sync_all`, and it tells when something could not be written.
    fn can_sync_all(&self) -> bool;

    /// Returns when everything on the file system of `directory` would survive a power cut: what its other users wrote, too.
    fn sync_all(&self, directory: &Path) -> io::Result<()>;
}

impl dyn Storage {
    pub fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The whole content of a file of at most `bytes_max` bytes.
    pub fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        let file = self.open(path, Mode::Read)?;
        let length = file.length()?;
        if length > bytes_max {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "{} has {length} bytes, more than {bytes_max}",
                    path.display()
                ),
            ));
        }
        let mut bytes = vec![0; length as usize];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Puts `bytes` in the place of the file at `path`: readers, and whoever starts after a crash, see the old content or the new, never a mixture.
    /// Write, fsync, rename, fsync of the folder.
    pub fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.replace_unsynced(path, bytes, true)?;
        match path.parent() {
            Some(parent) => self.sync_directory(parent),
            None => Ok(()),
        }
    }

    /// As [`replace`](Self::replace), but the folder is not synced (after a power cut the old content may be back) and, unless `sync`, neither
    /// is the content: then only a crash of the process is survived for sure.
    pub fn replace_unsynced(&self, path: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = Path::new(&temporary);
        let file = self.open(temporary, Mode::Replace)?;
        file.write_at(bytes, 0)?;
        if sync {
            file.sync_data()?;
        }
        drop(file);
        self.rename(temporary, path)
    }
}
