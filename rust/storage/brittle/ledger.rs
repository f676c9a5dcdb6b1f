//! The changes that a power cut would take back from files that the kernel has.
//!
//! The content of a file is durable as of its last fsync. For what came since, its [`Node`] keeps how long the file
//! was, and the bytes that were overwritten or cut off; appended bytes, which are nearly all, cost nothing. Names are
//! durable as of the last fsync of their folder. For what came since, the ledger keeps the changes in their order, and
//! a removed or replaced file stays open.
//!
//! A power cut undoes all of it, from the newest to the oldest. Or a part: file systems write by themselves, too, so a
//! file may have kept more of its end, and of the changes of names the older ones are in the journal. By the same
//! right, a change that would take too much room to undo counts as written.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::storage::{File, Mode, RealStorage, Storage};

/// How many bytes of a file are kept to be brought back.
const SAVED_BYTES_MAX: u64 = 16 << 20;
/// How many changes of names are kept, and so how many removed files stay open,
const CHANGES_MAX: usize = 64;
/// and how long these are together.
const KEPT_BYTES_MAX: u64 = 256 << 20;

/// The content of a file at one moment, as what has to be undone to have it again.
struct Undo {
    /// The number of the fsync before which it was the content.
    number: u64,
    length: u64,
    /// The least length since: what lies behind was either not there, or is in `saved`.
    floor: u64,
    /// Bytes before the floor of their time, in the order in which they went.
    saved: Vec<(u64, Vec<u8>)>,
    saved_bytes: u64,
}

impl Undo {
    fn at(number: u64, length: u64) -> Self {
        Self {
            number,
            length,
            floor: length,
            saved: Vec::new(),
            saved_bytes: 0,
        }
    }

    /// Keeps what lies between two positions.
    fn save(&mut self, file: &dyn File, from: u64, to: u64) -> io::Result<()> {
        let to = to.min(self.floor);
        if from >= to {
            return Ok(());
        }
        let mut bytes = vec![0; (to - from) as usize];
        let read = file.read_at(&mut bytes, from)?;
        bytes.truncate(read);
        self.saved_bytes += read as u64;
        self.saved.push((from, bytes));
        Ok(())
    }

    /// Brings the content back.
    fn apply(&self, file: &dyn File) -> io::Result<()> {
        file.set_length(file.length()?.min(self.floor))?;
        for (position, bytes) in self.saved.iter().rev() {
            file.write_at(bytes, *position)?;
        }
        file.set_length(self.length)
    }
}

/// One file that was opened for writing.
pub struct Node(Mutex<State>);

struct State {
    /// The length that programs see.
    length: u64,
    /// The oldest is what is durable; one more for each fsync since that has not succeeded.
    undos: Vec<Undo>,
    /// How many fsyncs have begun.
    syncs: u64,
}

impl Node {
    fn durable(length: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            length,
            undos: vec![Undo::at(0, length)],
            syncs: 0,
        })))
    }

    pub(super) fn write(&self, file: &dyn File, bytes: &[u8], position: u64) -> io::Result<()> {
        let mut state = self.0.lock();
        let end = position + bytes.len() as u64;
        state.save(file, position, end)?;
        let written = file.write_at(bytes, position);
        state.length = match written {
            Ok(()) => state.length.max(end),
            Err(_) => file.length()?,
        };
        written
    }

    pub(super) fn set_length(&self, file: &dyn File, length: u64) -> io::Result<()> {
        let mut state = self.0.lock();
        let end = state.length;
        state.save(file, length, end)?;
        file.set_length(length)?;
        state.length = length;
        if let Some(undo) = state.undos.last_mut() {
            undo.floor = undo.floor.min(length);
        }
        Ok(())
    }

    pub(super) fn sync(&self, file: &dyn File) -> io::Result<()> {
        let number = self.begin_sync();
        file.sync_data()?;
        self.synced(number);
        Ok(())
    }

    /// An fsync begins: its end proves nothing about writes that come from now on.
    fn begin_sync(&self) -> u64 {
        let mut state = self.0.lock();
        state.syncs += 1;
        let undo = Undo::at(state.syncs, state.length);
        state.undos.push(undo);
        state.syncs
    }

    fn synced(&self, number: u64) {
        self.0.lock().undos.retain(|undo| undo.number >= number);
    }

    fn is_durable(&self) -> bool {
        let state = self.0.lock();
        let is_same = |undo: &Undo| {
            undo.length == state.length && undo.floor == state.length && undo.saved.is_empty()
        };
        state.undos.iter().all(is_same)
    }

    /// Brings the content back that is durable, and perhaps some of what was appended.
    fn lose_power(&self, path: &Path, choice: &mut dyn FnMut(u64) -> u64) -> io::Result<()> {
        let mut state = self.0.lock();
        let file = RealStorage.open(path, Mode::Write)?;
        let durable = state.undos[0].length;
        let is_longer = |undo: &Undo| undo.saved.is_empty() && undo.floor >= durable;
        if state.undos.iter().all(is_longer) && state.length >= durable {
            state.length = durable + choice(state.length - durable);
            file.set_length(state.length)?;
        } else {
            for undo in state.undos.iter().rev() {
                undo.apply(&*file)?;
            }
            state.length = durable;
        }
        state.undos = vec![Undo::at(0, state.length)];
        state.syncs = 0;
        Ok(())
    }
}

impl State {
    fn save(&mut self, file: &dyn File, from: u64, to: u64) -> io::Result<()> {
        let (length, Some(undo)) = (self.length, self.undos.last_mut()) else {
            return Ok(());
        };
        if undo.saved_bytes + to.min(undo.floor).saturating_sub(from) > SAVED_BYTES_MAX {
            // The kernel has written it.
            self.undos = vec![Undo::at(self.syncs, length)];
            let undo = &mut self.undos[0];
            undo.floor = from.min(length);
            undo.length = undo.floor;
            return Ok(());
        }
        undo.save(file, from, to)
    }
}

/// A file whose name went, and which is open so that it can be brought back.
struct Kept {
    file: fs::File,
    node: Option<Arc<Node>>,
    length: u64,
    modified_ms: i64,
}

enum Change {
    Created(PathBuf),
    CreatedDirectory(PathBuf),
    Removed(PathBuf, Kept),
    RemovedDirectory(PathBuf),
    Renamed(PathBuf, PathBuf, Option<Kept>),
}

impl Change {
    fn is_in(&self, directory: &Path) -> bool {
        let is_in = |path: &PathBuf| path.parent() == Some(directory);
        match self {
            Self::Created(path)
            | Self::CreatedDirectory(path)
            | Self::Removed(path, _)
            | Self::RemovedDirectory(path) => is_in(path),
            Self::Renamed(from, to, _) => is_in(from) || is_in(to),
        }
    }

    fn kept_bytes(&self) -> u64 {
        match self {
            Self::Removed(_, kept) | Self::Renamed(_, _, Some(kept)) => kept.length,
            _ => 0,
        }
    }

    /// A folder around it has another name for good.
    fn moved(&mut self, from: &Path, to: &Path) {
        let move_one = |path: &mut PathBuf| {
            if let Ok(rest) = path.strip_prefix(from) {
                *path = joined(to, rest);
            }
        };
        match self {
            Self::Created(path)
            | Self::CreatedDirectory(path)
            | Self::Removed(path, _)
            | Self::RemovedDirectory(path) => move_one(path),
            Self::Renamed(one, other, _) => {
                move_one(one);
                move_one(other);
            }
        }
    }
}

/// Joining an empty path would add a slash.
fn joined(to: &Path, rest: &Path) -> PathBuf {
    match rest.as_os_str().is_empty() {
        true => to.to_owned(),
        false => to.join(rest),
    }
}

/// See the module.
#[derive(Default)]
pub struct Ledger(Mutex<Books>);

#[derive(Default)]
struct Books {
    nodes: BTreeMap<PathBuf, Arc<Node>>,
    changes: Vec<Change>,
}

impl Ledger {
    /// Opens a file for writing.
    pub(super) fn open(&self, path: &Path, mode: Mode) -> io::Result<(Arc<dyn File>, Arc<Node>)> {
        let mut books = self.0.lock();
        let is_new = !<dyn Storage>::exists(&RealStorage, path)?;
        if !is_new && mode == Mode::Replace {
            // What it had may be back after a power cut.
            let file = RealStorage.open(path, Mode::Write)?;
            books.node(path, &*file)?.set_length(&*file, 0)?;
        }
        let file = RealStorage.open(path, mode)?;
        if is_new {
            books.nodes.remove(path);
            books.note(Change::Created(path.to_owned()));
        }
        let node = books.node(path, &*file)?;
        Ok((file, node))
    }

    /// A file is closed: nothing is known of it that is not so again when it is opened, if all of it is durable.
    pub(super) fn closed(&self, path: &Path, node: Arc<Node>) {
        let mut books = self.0.lock();
        let is_last = Arc::strong_count(&node) == 2;
        let is_here = |known: &Arc<Node>| Arc::ptr_eq(known, &node);
        if is_last && node.is_durable() && books.nodes.get(path).is_some_and(is_here) {
            books.nodes.remove(path);
        }
    }

    pub(super) fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut books = self.0.lock();
        RealStorage.create_directory(path)?;
        books.note(Change::CreatedDirectory(path.to_owned()));
        Ok(())
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut books = self.0.lock();
        let replaced = books.keep(to)?;
        RealStorage.rename(from, to)?;
        books.move_nodes(from, to);
        books.note(Change::Renamed(from.to_owned(), to.to_owned(), replaced));
        Ok(())
    }

    pub(super) fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut books = self.0.lock();
        let kept = books.keep(path)?;
        RealStorage.remove_file(path)?;
        books.nodes.remove(path);
        if let Some(kept) = kept {
            books.note(Change::Removed(path.to_owned(), kept));
        }
        Ok(())
    }

    pub(super) fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let mut books = self.0.lock();
        RealStorage.remove_directory(path)?;
        books.note(Change::RemovedDirectory(path.to_owned()));
        Ok(())
    }

    pub(super) fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        // Held meanwhile, so that nothing changes that this may or may not be for.
        let mut books = self.0.lock();
        RealStorage.sync_directory(directory)?;
        books.settle(|change| change.is_in(directory));
        Ok(())
    }

    pub(super) fn sync_all(&self, directory: &Path) -> io::Result<()> {
        let mut books = self.0.lock();
        let begun: Vec<u64> = books.nodes.values().map(|node| node.begin_sync()).collect();
        RealStorage.sync_all(directory)?;
        for (node, number) in books.nodes.values().zip(begun) {
            node.synced(number);
        }
        books.settle(|_| true);
        Ok(())
    }

    /// Everything is durable.
    pub(super) fn forget(&self) {
        *self.0.lock() = Books::default();
    }

    /// Undoes what is not durable; see [`BrittleDisk::lose_power`](super::BrittleDisk::lose_power).
    pub(super) fn lose_power(&self, choice: &mut dyn FnMut(u64) -> u64) -> io::Result<()> {
        let mut books = self.0.lock();
        let survive = choice(books.changes.len() as u64) as usize;
        for change in books.changes.split_off(survive).into_iter().rev() {
            match books.undo(change) {
                // In a folder that is gone for good.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                other => other?,
            }
        }
        for (path, node) in std::mem::take(&mut *books).nodes {
            match node.lose_power(&path, choice) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                other => other?,
            }
        }
        Ok(())
    }
}

impl Books {
    fn node(&mut self, path: &Path, file: &dyn File) -> io::Result<Arc<Node>> {
        if let Some(node) = self.nodes.get(path) {
            return Ok(Arc::clone(node));
        }
        let node = Node::durable(file.length()?);
        self.nodes.insert(path.to_owned(), Arc::clone(&node));
        Ok(node)
    }

    /// Opens a file that is about to lose its name; None if there is none.
    fn keep(&mut self, path: &Path) -> io::Result<Option<Kept>> {
        let metadata = match RealStorage.metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        if metadata.is_directory {
            return Ok(None);
        }
        Ok(Some(Kept {
            file: fs::File::open(path)?,
            node: self.nodes.get(path).cloned(),
            length: metadata.length,
            modified_ms: metadata.modified_ms,
        }))
    }

    fn move_nodes(&mut self, from: &Path, to: &Path) {
        let is_inside = |(path, _): &(&PathBuf, &Arc<Node>)| path.starts_with(from);
        let moved: Vec<PathBuf> = self
            .nodes
            .iter()
            .filter(is_inside)
            .map(|one| one.0.clone())
            .collect();
        self.nodes.remove(to);
        for path in moved {
            if let (Some(node), Ok(rest)) = (self.nodes.remove(&path), path.strip_prefix(from)) {
                self.nodes.insert(joined(to, rest), node);
            }
        }
    }

    fn note(&mut self, change: Change) {
        self.changes.push(change);
        let mut kept: u64 = self.changes.iter().map(Change::kept_bytes).sum();
        while self.changes.len() > CHANGES_MAX || kept > KEPT_BYTES_MAX {
            kept -= self.changes.remove(0).kept_bytes();
        }
    }

    /// Some changes are durable. Those that are not have happened in folders with other names, if some of these are.
    fn settle(&mut self, is_durable: impl Fn(&Change) -> bool) {
        let mut pending: Vec<Change> = Vec::new();
        for change in self.changes.drain(..) {
            match change {
                Change::Renamed(from, to, _)
                    if is_durable(&Change::Renamed(from.clone(), to.clone(), None)) =>
                {
                    pending
                        .iter_mut()
                        .for_each(|earlier| earlier.moved(&from, &to));
                }
                change if is_durable(&change) => {}
                change => pending.push(change),
            }
        }
        self.changes = pending;
    }

    fn undo(&mut self, change: Change) -> io::Result<()> {
        match change {
            Change::Created(path) => {
                self.nodes.remove(&path);
                fs::remove_file(path)
            }
            Change::CreatedDirectory(path) => {
                self.nodes.retain(|inside, _| !inside.starts_with(&path));
                fs::remove_dir_all(path)
            }
            Change::Removed(path, kept) => self.bring_back(&path, kept),
            Change::RemovedDirectory(path) => RealStorage.create_directory(&path),
            Change::Renamed(from, to, replaced) => {
                fs::rename(&to, &from)?;
                self.move_nodes(&to, &from);
                replaced.map_or(Ok(()), |kept| self.bring_back(&to, kept))
            }
        }
    }

    fn bring_back(&mut self, path: &Path, mut kept: Kept) -> io::Result<()> {
        let mut file = crate::storage::access::open_empty(path)?;
        io::copy(&mut kept.file, &mut file)?;
        RealStorage.set_modified(path, kept.modified_ms)?;
        if let Some(node) = kept.node {
            self.nodes.insert(path.to_owned(), node);
        }
        Ok(())
    }
}
