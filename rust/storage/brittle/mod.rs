//! The operating system's files, as tests of a running broker want them: operations fail where a rule says so, and the
//! power may go.
//!
//! [`FaultyStorage`](super::FaultyStorage) is a disk in memory, for the tests of the log. A broker needs files that a
//! kernel sends from, so this storage hands everything on to [`RealStorage`] and keeps two things beside it: the
//! [`rules`] that a test has made, and the [`ledger`] of what would not survive a power cut.
//!
//! It also has the clock of the machine, which may jump.
//!
//! A [`BrittleDisk`] stands for one data directory. The opening of a broker's data directory asks [`of_directory`] for
//! its storage, once. Where no brittle disk stands for the directory that is the real storage, and nothing here costs
//! anything.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::{Entry, File, Metadata, Mode, RealStorage, Storage};
use ledger::{Ledger, Node};
use rules::{Deed, Operation, Place, Rule, Rules};

pub mod ledger;
pub mod rules;
#[cfg(test)]
mod tests;

/// The directories for which a brittle disk stands.
static DISKS: Mutex<Vec<(PathBuf, Weak<Disk>)>> = Mutex::new(Vec::new());

/// The storage of a data directory: a brittle disk's if one stands for it, else the real one.
pub fn of_directory(path: &Path) -> Arc<dyn Storage> {
    let disks = DISKS.lock();
    let found = disks.iter().find(|(directory, _)| directory == path);
    match found.and_then(|(_, disk)| disk.upgrade()) {
        Some(disk) => Arc::new(BrittleStorage::of(&disk)),
        None => Arc::new(RealStorage),
    }
}

/// A disk that may break: its rules hold, and its ledger goes on, however often the directory is opened.
#[derive(Clone, Default)]
pub struct BrittleDisk(Arc<Disk>);

#[derive(Default)]
struct Disk {
    rules: Rules,
    ledger: Ledger,
    /// Counts power cuts: what was opened before one is gone. Every operation holds it, so that the power goes between
    /// two of them.
    life: RwLock<u64>,
    /// The machine's wall clock is ahead by so much.
    clock_ahead_ms: AtomicI64,
}

impl BrittleDisk {
    /// A disk that stands for no directory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Has the logs that are opened in `directory` from now on lie on this disk, and on no other one.
    pub fn stand_for(&self, directory: &Path) {
        let mut disks = DISKS.lock();
        disks.retain(|(path, disk)| {
            path != directory && disk.strong_count() > 0 && !std::ptr::eq(disk.as_ptr(), &*self.0)
        });
        disks.push((directory.to_owned(), Arc::downgrade(&self.0)));
    }

    /// Forgets what would not survive a power cut: the directory is gone, or has been left alone for long.
    pub fn forget(&self) {
        DISKS
            .lock()
            .retain(|(_, disk)| !std::ptr::eq(disk.as_ptr(), &*self.0));
        self.0.ledger.forget();
    }

    /// A rule for the operations to come.
    pub fn add(&self, rule: Arc<Rule>) {
        self.0.rules.add(rule);
    }

    /// Ends a rule.
    pub fn remove(&self, rule: &Arc<Rule>) {
        self.0.rules.remove(rule);
    }

    /// The power goes and comes back: what was not synced is gone, but for what `choice` saves, which must return a
    /// number up to the one that it is given. What was opened before answers with errors from now on.
    pub fn lose_power(&self, choice: &mut dyn FnMut(u64) -> u64) -> io::Result<()> {
        let mut life = self.0.life.write();
        *life += 1;
        self.0.ledger.lose_power(choice)
    }

    /// The machine's wall clock jumps to so many milliseconds ahead of this process's.
    pub fn set_clock_ahead_ms(&self, ahead_ms: i64) {
        self.0.clock_ahead_ms.store(ahead_ms, Ordering::Relaxed);
    }

    /// The storage of whoever opens the directory now.
    #[cfg(test)]
    pub fn storage(&self) -> BrittleStorage {
        BrittleStorage::of(&self.0)
    }
}

/// The files of a [`BrittleDisk`] between two power cuts.
pub struct BrittleStorage {
    disk: Arc<Disk>,
    life: u64,
}

impl Disk {
    fn on(&self, life: u64) -> io::Result<RwLockReadGuard<'_, u64>> {
        let now = self.life.read();
        match *now == life {
            true => Ok(now),
            false => Err(io::Error::other("opened before the power was lost")),
        }
    }
}

impl BrittleStorage {
    fn of(disk: &Arc<Disk>) -> Self {
        let life = *disk.life.read();
        Self {
            disk: Arc::clone(disk),
            life,
        }
    }

    fn ledger(&self) -> &Ledger {
        &self.disk.ledger
    }
}

struct BrittleFile {
    real: Arc<dyn File>,
    disk: Arc<Disk>,
    life: u64,
    /// The records of a partition; other files meet no rules.
    place: Option<Place>,
    path: PathBuf,
    /// None for a file that is only read.
    node: Option<Arc<Node>>,
}

impl BrittleFile {
    /// Has an operation meet the rules, and waits for as long as they say.
    fn meet(&self, operation: Operation) -> Option<Deed> {
        let place = self.place.as_ref()?;
        let deed = self.disk.rules.meet(operation, place)?;
        std::thread::sleep(deed.delay);
        Some(deed)
    }

    fn node(&self) -> io::Result<&Arc<Node>> {
        self.node
            .as_ref()
            .ok_or_else(|| io::ErrorKind::PermissionDenied.into())
    }
}

impl File for BrittleFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        if let Some(error) = self.meet(Operation::Read).and_then(|deed| deed.error()) {
            return Err(error);
        }
        let _on = self.disk.on(self.life)?;
        self.real.read_at(buffer, position)
    }

    fn read_cached(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        // Only the disk breaks: a page in memory would be read without it.
        let place = self.place.as_ref();
        if place.is_some_and(|place| self.disk.rules.is_due(Operation::Read, place)) {
            return Ok(0);
        }
        let _on = self.disk.on(self.life)?;
        self.real.read_cached(buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let node = self.node()?;
        let error = self.meet(Operation::Write).and_then(|deed| deed.error());
        let _on = self.disk.on(self.life)?;
        // A disk that fills up takes a part.
        let part = match error {
            None => bytes.len(),
            Some(_) => bytes.len() / 2,
        };
        node.write(&*self.real, &bytes[..part], position)?;
        error.map_or(Ok(()), Err)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let node = self.node()?;
        let _on = self.disk.on(self.life)?;
        node.set_length(&*self.real, length)
    }

    fn length(&self) -> io::Result<u64> {
        let _on = self.disk.on(self.life)?;
        self.real.length()
    }

    fn sync_data(&self) -> io::Result<()> {
        let deed = self.meet(Operation::Sync);
        let _on = self.disk.on(self.life)?;
        if let Some(deed) = deed {
            if let Some(error) = deed.error() {
                return Err(error);
            }
            if deed.is_lost {
                return Ok(());
            }
        }
        match &self.node {
            Some(node) => node.sync(&*self.real),
            None => self.real.sync_data(),
        }
    }

    fn descriptor(&self) -> io::Result<Arc<OwnedFd>> {
        let _on = self.disk.on(self.life)?;
        self.real.descriptor()
    }
}

impl Drop for BrittleFile {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            self.disk.ledger.closed(&self.path, node);
        }
    }
}

impl Storage for BrittleStorage {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>> {
        let _on = self.disk.on(self.life)?;
        let (real, node) = match mode {
            Mode::Read => (RealStorage.open(path, mode)?, None),
            _ => {
                let (real, node) = self.ledger().open(path, mode)?;
                (real, Some(node))
            }
        };
        Ok(Arc::new(BrittleFile {
            real,
            disk: Arc::clone(&self.disk),
            life: self.life,
            place: Place::of_file(path),
            path: path.to_owned(),
            node,
        }))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        let _on = self.disk.on(self.life)?;
        RealStorage.list(directory)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let _on = self.disk.on(self.life)?;
        RealStorage.metadata(path)
    }

    fn set_modified(&self, path: &Path, modified_ms: i64) -> io::Result<()> {
        let _on = self.disk.on(self.life)?;
        RealStorage.set_modified(path, modified_ms)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let _on = self.disk.on(self.life)?;
        self.ledger().create_directory(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _on = self.disk.on(self.life)?;
        self.ledger().rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let _on = self.disk.on(self.life)?;
        self.ledger().remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let _on = self.disk.on(self.life)?;
        self.ledger().remove_directory(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let _on = self.disk.on(self.life)?;
        self.ledger().sync_directory(directory)
    }

    fn clock_ahead_ms(&self) -> i64 {
        self.disk.clock_ahead_ms.load(Ordering::Relaxed)
    }

    /// False while a rule is about fsyncs: which files they are for must be seen.
    fn can_sync_all(&self) -> bool {
        RealStorage.can_sync_all() && !self.disk.rules.are_about(Operation::Sync)
    }

    fn sync_all(&self, directory: &Path) -> io::Result<()> {
        let _on = self.disk.on(self.life)?;
        self.ledger().sync_all(directory)
    }
}
