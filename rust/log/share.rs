//! One partition by itself: for programs that are no broker and know no data directory, only a folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::config::LogConfig;
use super::directory::LogDirectory;
use super::error::{Context, LogError, Result};
use super::home::Home;
use super::log::Log;
use super::names::TopicPartition;

/// One log of a directory, for a program that wants no more than that. Such programs in one process share the directory and its lock; the last
/// that closes its log closes the directory.
pub struct Borrowed {
    pub log: Arc<Log>,
    directory: Arc<LogDirectory>,
    /// Its log is closed.
    returned: bool,
}

type Shared = BTreeMap<PathBuf, (Arc<LogDirectory>, usize)>;

static SHARED: Mutex<Shared> = Mutex::new(BTreeMap::new());

/// See [`LogDirectory::repair`]; for the folder of one partition whose data directory nobody uses. Returns its start and end offset.
pub fn repair(path: &Path, config: LogConfig) -> Result<(i64, i64)> {
    let (parent, partition) = split(path)?;
    let directory = LogDirectory::open(Home::real(&parent), Duration::from_secs(1))?;
    let repaired = directory
        .repair(&partition, config)
        .map(|log| (log.start_offset(), log.end_offset()));
    directory.close(true, 1)?;
    repaired
}

/// The data directory and the partition of a folder.
fn split(path: &Path) -> Result<(PathBuf, TopicPartition)> {
    let absolute = std::path::absolute(path).context("find", path)?;
    let name = absolute
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let not_a_partition = |why| LogError::NotAPartition(path.to_owned(), why);
    let partition = TopicPartition::parse_folder_name(name).map_err(not_a_partition)?;
    let parent = absolute
        .parent()
        .ok_or_else(|| not_a_partition("it is in no folder"))?;
    Ok((
        std::fs::canonicalize(parent).context("find", parent)?,
        partition,
    ))
}

impl Borrowed {
    /// Opens the partition in the folder `path` for appends, and creates it if it does not exist; its parent must. Locks the parent, as a broker does.
    /// `Locked` if the log is open in this process already.
    pub fn open(path: &Path, config: LogConfig) -> Result<Self> {
        let (parent, partition) = split(path)?;
        let mut shared = SHARED.lock();
        let directory = match shared.get(&parent) {
            Some((directory, _)) => Arc::clone(directory),
            None => LogDirectory::open(Home::real(&parent), Duration::from_millis(200))?,
        };
        let opened = if directory.get(&partition).is_some() {
            Err(LogError::Locked(path.to_owned()))
        } else if directory.has_folder(path).context("look at", path)? {
            directory.load(&partition, config)
        } else {
            directory
                .create(std::slice::from_ref(&partition), &config, 1)
                .and_then(|logs| {
                    logs.into_iter()
                        .next()
                        .ok_or_else(|| LogError::NotAPartition(path.to_owned(), "it was not made"))
                })
        };
        match opened {
            Ok(log) => {
                shared
                    .entry(parent)
                    .or_insert_with(|| (Arc::clone(&directory), 0))
                    .1 += 1;
                Ok(Self {
                    log,
                    directory,
                    returned: false,
                })
            }
            Err(error) => {
                if !shared.contains_key(&parent) {
                    // Nothing was changed: as clean as it was.
                    let _ = directory.close(directory.was_clean(), 1);
                }
                Err(error)
            }
        }
    }

    /// Closes the log cleanly.
    pub fn close(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.returned, true) {
            return Ok(());
        }
        let mut shared = SHARED.lock();
        let closed = self.directory.close_log(&self.log.partition);
        let last = match shared.get_mut(self.directory.path()) {
            Some((_, count)) => {
                *count -= 1;
                *count == 0
            }
            None => false,
        };
        if last {
            shared.remove(self.directory.path());
            return closed.and(self.directory.close(true, 1));
        }
        closed
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let _ = self.close();
    }
}
