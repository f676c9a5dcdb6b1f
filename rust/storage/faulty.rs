//! A disk in memory that breaks on purpose.
//!
//! It keeps two states: what programs see, and what would survive a power cut. They differ by the writes to each file since its last
//! `sync_data`, and by the changes of names since the last `sync_directory` of their folder. [`FaultyStorage::power_cut`] picks, by a seed, one of the states
//! that a real disk may come back with: any of a file's unsynced writes may have reached it or not, the last of them in part; of the
//! unsynced name changes a prefix did (file systems journal them in order).
//!
//! [`FaultyStorage::break_at`] makes a coming operation fail, write a part and fail, or report success and do nothing.
//! [`FaultyStorage::lose_power_after`] lets a number of changes through and nothing after them. [`FaultyStorage::stop_at`] has a coming write
//! wait, for what other threads do meanwhile.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::{Entry, File, Metadata, Mode, Storage};

/// An operation on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Open,
    Read,
    Write,
    SetLength,
    SyncData,
    Rename,
    Remove,
    CreateDirectory,
    SyncDirectory,
    SyncAll,
}

impl Operation {
    /// True if the operation makes a difference to what a power cut leaves. Opening a file that has
    /// to be created is counted too.
    fn is_change(self) -> bool {
        !matches!(self, Self::Open | Self::Read)
    }
}

/// The message of [`Fault::Panic`].
pub const PANIC: &str = "a panic on purpose";

/// How it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An error, nothing done.
    Fail(ErrorKind),
    /// As `Fail`, with the system's number of the error.
    Errno(i32),
    /// Half of a write is done, then an error. As `Fail` for anything else.
    Tear,
    /// As `Tear`, with the error of a full disk.
    Full,
    /// Success is reported, nothing done.
    Forget,
    /// A mistake in the code that asked for it: half of a write is done, then a panic.
    Panic,
}

/// A plan for the operations to come.
#[derive(Clone, Copy, Debug)]
struct Break {
    operation: Option<Operation>,
    skip: u64,
    fault: Fault,
    /// It stays broken, as a disk does.
    lasting: bool,
}

/// How long tests wait for a write.
const REACHED_WITHIN: Duration = Duration::from_secs(60);

/// A write that waits: see [`FaultyStorage::stop_at`]. It goes on when this is dropped.
pub struct Stopped(Arc<Gate>);

#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    is_reached: bool,
    is_open: bool,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock();
        state.is_reached = true;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |state| !state.is_open);
    }
}

impl Stopped {
    /// Returns when a write waits here. Panics if none comes.
    pub fn wait_until_reached(&self) {
        let mut state = self.0.state.lock();
        let is_late = self
            .0
            .changed
            .wait_while_for(&mut state, |state| !state.is_reached, REACHED_WITHIN)
            .timed_out();
        assert!(!is_late, "no write comes");
    }

    /// Lets the write go on.
    pub fn go_on(self) {}
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.state.lock().is_open = true;
        self.0.changed.notify_all();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Directory,
    File(usize),
}

enum Change {
    Put(PathBuf, Item),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

impl Change {
    fn is_in(&self, directory: &Path) -> bool {
        match self {
            Change::Put(path, _) | Change::Remove(path) => path.parent() == Some(directory),
            Change::Rename(from, to) => [from, to]
                .iter()
                .any(|path| path.parent() == Some(directory)),
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Item>) {
        match self {
            Change::Put(path, item) => {
                names.insert(path.clone(), *item);
            }
            Change::Remove(path) => {
                names.remove(path);
            }
            Change::Rename(from, to) => {
                let moved: Vec<PathBuf> = names
                    .keys()
                    .filter(|path| path.starts_with(from))
                    .cloned()
                    .collect();
                for path in moved {
                    let Some(item) = names.remove(&path) else {
                        continue;
                    };
                    let rest = path.strip_prefix(from).unwrap_or(Path::new(""));
                    // Joining an empty path would add a slash.
                    let target = if rest.as_os_str().is_empty() {
                        to.clone()
                    } else {
                        to.join(rest)
                    };
                    names.insert(target, item);
                }
            }
        }
    }
}

enum Unsynced {
    Write(u64, Vec<u8>),
    SetLength(u64),
}

impl Unsynced {
    /// `part`: how many bytes of a write get through.
    fn apply(&self, content: &mut Vec<u8>, part: usize) {
        match self {
            Unsynced::SetLength(length) => content.resize(*length as usize, 0),
            Unsynced::Write(position, bytes) => {
                let bytes = &bytes[..part.min(bytes.len())];
                let end = *position as usize + bytes.len();
                if !bytes.is_empty() {
                    content.resize(content.len().max(end), 0);
                    content[*position as usize..end].copy_from_slice(bytes);
                }
            }
        }
    }
}

#[derive(Default)]
struct Node {
    content: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Unsynced>,
    modified_ms: i64,
}

struct Disk {
    nodes: Vec<Node>,
    names: BTreeMap<PathBuf, Item>,
    durable_names: BTreeMap<PathBuf, Item>,
    changes: Vec<Change>,
    breaks: Vec<Break>,
    /// How many writes go by before one waits.
    gates: Vec<(u64, Arc<Gate>)>,
    /// How many changes were made or refused,
    change_count: u64,
    /// and the number of the first one that the power does not suffice for.
    power_until: u64,
    /// Counts power cuts: what was open before one is gone.
    life: u64,
    clock_ms: i64,
}

/// See the module. Clones share the disk.
#[derive(Clone)]
pub struct FaultyStorage(Arc<Mutex<Disk>>);

impl Default for FaultyStorage {
    fn default() -> Self {
        Self::new()
    }
}

impl FaultyStorage {
    /// A disk with an empty folder `/`.
    pub fn new() -> Self {
        let names = BTreeMap::from([(PathBuf::from("/"), Item::Directory)]);
        Self(Arc::new(Mutex::new(Disk {
            nodes: Vec::new(),
            durable_names: names.clone(),
            names,
            changes: Vec::new(),
            breaks: Vec::new(),
            gates: Vec::new(),
            change_count: 0,
            power_until: u64::MAX,
            life: 0,
            clock_ms: 0,
        })))
    }

    /// After `skip` more operations of that kind (of any kind for None), one breaks; with `lasting`, all from there on.
    pub fn break_at(&self, operation: Option<Operation>, skip: u64, fault: Fault, lasting: bool) {
        self.0.lock().breaks.push(Break {
            operation,
            skip,
            fault,
            lasting,
        });
    }

    /// After `skip` more writes, one waits, with the disk free for others; when it goes on, it is as if it came then.
    pub fn stop_at(&self, skip: u64) -> Stopped {
        let gate = Arc::<Gate>::default();
        self.0.lock().gates.push((skip, Arc::clone(&gate)));
        Stopped(gate)
    }

    /// Nothing breaks any more. What the power did not suffice for stays undone.
    pub fn repair(&self) {
        let mut disk = self.0.lock();
        disk.breaks.clear();
        disk.power_until = u64::MAX;
    }

    /// How many changes were asked for so far: writes, fsyncs, new names.
    pub fn changes(&self) -> u64 {
        self.0.lock().change_count
    }

    /// The power goes after that many more changes: everything then fails, also reads, until [`power_cut`](Self::power_cut) says what is left.
    pub fn lose_power_after(&self, changes: u64) {
        let mut disk = self.0.lock();
        disk.power_until = disk.change_count + changes;
    }

    /// True if the power is gone.
    pub fn is_dead(&self) -> bool {
        let disk = self.0.lock();
        disk.change_count > disk.power_until
    }

    /// Another disk with what programs see on this one, all of it durable.
    pub fn copy(&self) -> Self {
        let disk = self.0.lock();
        let nodes = disk.nodes.iter().map(|node| Node {
            content: node.content.clone(),
            durable: node.content.clone(),
            unsynced: Vec::new(),
            modified_ms: node.modified_ms,
        });
        let copy = Self::new();
        {
            let mut copied = copy.0.lock();
            copied.nodes = nodes.collect();
            copied.names = disk.names.clone();
            copied.durable_names = disk.names.clone();
            copied.clock_ms = disk.clock_ms;
        }
        copy
    }

    /// The power goes and comes back. Open files answer with errors from now on; `choice(n)` must return a number below `n`.
    pub fn power_cut(&self, choice: &mut dyn FnMut(usize) -> usize) {
        let mut disk = self.0.lock();
        disk.life += 1;
        disk.power_until = u64::MAX;
        for node in &mut disk.nodes {
            let unsynced = std::mem::take(&mut node.unsynced);
            let (last, all_of_it) = (unsynced.len().wrapping_sub(1), choice(3));
            for (at, change) in unsynced.iter().enumerate() {
                // All of it, none of it, or each by chance.
                let whole = match all_of_it {
                    0 => true,
                    1 => false,
                    _ => choice(2) == 0,
                };
                let part = match change {
                    Unsynced::Write(_, bytes) if at == last && all_of_it == 2 => {
                        choice(bytes.len() + 1)
                    }
                    _ if whole => usize::MAX,
                    Unsynced::Write(..) => 0,
                    Unsynced::SetLength(_) => continue,
                };
                change.apply(&mut node.durable, part);
            }
            node.content.clone_from(&node.durable);
        }
        let changes = std::mem::take(&mut disk.changes);
        let survived = choice(changes.len() + 1);
        let disk = &mut *disk;
        for change in &changes[..survived] {
            change.apply(&mut disk.durable_names);
        }
        disk.names.clone_from(&disk.durable_names);
    }
}

impl Disk {
    /// The fault that is to happen to this operation: None if it works.
    fn fault(&mut self, operation: Operation) -> Option<Fault> {
        if operation.is_change() {
            self.change_count += 1;
        }
        if self.change_count > self.power_until {
            return Some(Fault::Fail(ErrorKind::NotConnected));
        }
        for at in 0..self.breaks.len() {
            let plan = &mut self.breaks[at];
            if plan.operation.is_none_or(|planned| planned == operation) {
                if plan.skip > 0 {
                    plan.skip -= 1;
                    continue;
                }
                let fault = plan.fault;
                if !plan.lasting {
                    self.breaks.remove(at);
                }
                return Some(fault);
            }
        }
        None
    }

    /// Where a write has to wait first.
    fn gate(&mut self) -> Option<Arc<Gate>> {
        let at = self.gates.iter().position(|(skip, _)| *skip == 0);
        for (skip, _) in &mut self.gates {
            *skip = skip.saturating_sub(1);
        }
        at.map(|at| self.gates.remove(at).1)
    }

    /// Ok(true): do it; Ok(false): say so, but do nothing.
    fn may(&mut self, operation: Operation) -> io::Result<bool> {
        match self.fault(operation) {
            None => Ok(true),
            Some(Fault::Forget) => Ok(false),
            Some(Fault::Fail(kind)) => Err(kind.into()),
            Some(Fault::Errno(number)) => Err(io::Error::from_raw_os_error(number)),
            Some(Fault::Tear) => Err(io::Error::other("a torn operation")),
            Some(Fault::Full) => Err(ErrorKind::StorageFull.into()),
            Some(Fault::Panic) => panic!("{PANIC}"),
        }
    }

    /// For a change that is no operation of its own.
    fn change_may_happen(&mut self) -> io::Result<()> {
        self.change_count += 1;
        match self.change_count > self.power_until {
            true => Err(ErrorKind::NotConnected.into()),
            false => Ok(()),
        }
    }

    fn item(&self, path: &Path) -> io::Result<Item> {
        self.names
            .get(path)
            .copied()
            .ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    fn parent_exists(&self, path: &Path) -> io::Result<()> {
        match path.parent().map(|parent| self.item(parent)) {
            Some(Ok(Item::Directory)) | None => Ok(()),
            Some(Ok(Item::File(_))) => Err(ErrorKind::NotADirectory.into()),
            Some(Err(error)) => Err(error),
        }
    }
}

struct FaultyFile {
    disk: Arc<Mutex<Disk>>,
    node: usize,
    writable: bool,
    life: u64,
}

impl FaultyFile {
    fn with<T>(
        &self,
        operation: Operation,
        work: impl FnOnce(&mut Disk, bool) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut disk = self.disk.lock();
        if disk.life != self.life {
            return Err(io::Error::other("opened before the power cut"));
        }
        if !self.writable && matches!(operation, Operation::Write | Operation::SetLength) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let may = disk.may(operation)?;
        work(&mut disk, may)
    }
}

impl File for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.with(Operation::Read, |disk, _| {
            let content = disk.nodes[self.node]
                .content
                .get(position as usize..)
                .unwrap_or_default();
            let read = content.len().min(buffer.len());
            buffer[..read].copy_from_slice(&content[..read]);
            Ok(read)
        })
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let mut disk = self.disk.lock();
        if !disk.gates.is_empty()
            && let Some(gate) = disk.gate()
        {
            drop(disk);
            gate.pass();
            disk = self.disk.lock();
        }
        if disk.life != self.life {
            return Err(io::Error::other("opened before the power cut"));
        }
        if !self.writable {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let fault = disk.fault(Operation::Write);
        let (part, result) = match fault {
            None => (bytes.len(), Ok(())),
            Some(Fault::Forget) => (0, Ok(())),
            Some(Fault::Fail(kind)) => (0, Err(kind.into())),
            Some(Fault::Errno(number)) => (0, Err(io::Error::from_raw_os_error(number))),
            Some(Fault::Tear) => (bytes.len() / 2, Err(io::Error::other("a torn write"))),
            Some(Fault::Full) => (bytes.len() / 2, Err(ErrorKind::StorageFull.into())),
            Some(Fault::Panic) => (bytes.len() / 2, Err(io::Error::other(PANIC))),
        };
        if part > 0 {
            let change = Unsynced::Write(position, bytes[..part].to_vec());
            disk.clock_ms += 1;
            let now_ms = disk.clock_ms;
            let node = &mut disk.nodes[self.node];
            change.apply(&mut node.content, part);
            node.unsynced.push(change);
            node.modified_ms = now_ms;
        }
        assert!(fault != Some(Fault::Panic), "{PANIC}");
        result
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.with(Operation::SetLength, |disk, may| {
            if may {
                let node = &mut disk.nodes[self.node];
                let change = Unsynced::SetLength(length);
                change.apply(&mut node.content, usize::MAX);
                node.unsynced.push(change);
            }
            Ok(())
        })
    }

    fn length(&self) -> io::Result<u64> {
        self.with(Operation::Read, |disk, _| {
            Ok(disk.nodes[self.node].content.len() as u64)
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(Operation::SyncData, |disk, may| {
            if may {
                let node = &mut disk.nodes[self.node];
                node.durable.clone_from(&node.content);
                node.unsynced.clear();
            }
            Ok(())
        })
    }

    fn descriptor(&self) -> io::Result<Arc<OwnedFd>> {
        Err(ErrorKind::Unsupported.into())
    }
}

impl Storage for FaultyStorage {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>> {
        let mut disk = self.0.lock();
        disk.may(Operation::Open)?;
        disk.parent_exists(path)?;
        let node = match disk.item(path) {
            Ok(Item::Directory) => return Err(ErrorKind::IsADirectory.into()),
            Ok(Item::File(node)) => node,
            Err(_) if matches!(mode, Mode::Create | Mode::Replace) => {
                disk.change_may_happen()?;
                disk.nodes.push(Node::default());
                let node = disk.nodes.len() - 1;
                disk.change(Change::Put(path.to_owned(), Item::File(node)));
                node
            }
            Err(error) => return Err(error),
        };
        if mode == Mode::Replace && !disk.nodes[node].content.is_empty() {
            disk.change_may_happen()?;
            let truncated = Unsynced::SetLength(0);
            truncated.apply(&mut disk.nodes[node].content, usize::MAX);
            disk.nodes[node].unsynced.push(truncated);
        }
        let life = disk.life;
        Ok(Arc::new(FaultyFile {
            disk: Arc::clone(&self.0),
            node,
            writable: mode != Mode::Read,
            life,
        }))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        let mut disk = self.0.lock();
        disk.may(Operation::Read)?;
        if disk.item(directory)? != Item::Directory {
            return Err(ErrorKind::NotADirectory.into());
        }
        let inside = disk
            .names
            .iter()
            .filter(|(path, _)| path.parent() == Some(directory));
        Ok(inside
            .filter_map(|(path, item)| {
                let name = path.file_name()?.to_str()?.to_owned();
                Some(Entry {
                    name,
                    is_directory: *item == Item::Directory,
                })
            })
            .collect())
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let mut disk = self.0.lock();
        disk.may(Operation::Read)?;
        Ok(match disk.item(path)? {
            Item::Directory => Metadata {
                length: 0,
                is_directory: true,
                modified_ms: 0,
            },
            Item::File(node) => Metadata {
                length: disk.nodes[node].content.len() as u64,
                is_directory: false,
                modified_ms: disk.nodes[node].modified_ms,
            },
        })
    }

    fn set_modified(&self, path: &Path, modified_ms: i64) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.change_may_happen()?;
        match disk.item(path)? {
            Item::Directory => return Err(ErrorKind::IsADirectory.into()),
            Item::File(node) => disk.nodes[node].modified_ms = modified_ms,
        }
        Ok(())
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.0.lock();
        let may = disk.may(Operation::CreateDirectory)?;
        disk.parent_exists(path)?;
        if disk.item(path).is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if may {
            disk.change(Change::Put(path.to_owned(), Item::Directory));
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.0.lock();
        let may = disk.may(Operation::Rename)?;
        disk.item(from)?;
        disk.parent_exists(to)?;
        if may {
            disk.change(Change::Rename(from.to_owned(), to.to_owned()));
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.0.lock();
        let may = disk.may(Operation::Remove)?;
        match disk.item(path)? {
            Item::Directory => return Err(ErrorKind::IsADirectory.into()),
            Item::File(_) if may => disk.change(Change::Remove(path.to_owned())),
            Item::File(_) => {}
        }
        Ok(())
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.0.lock();
        let may = disk.may(Operation::Remove)?;
        if disk.item(path)? != Item::Directory {
            return Err(ErrorKind::NotADirectory.into());
        }
        if disk.names.keys().any(|other| other.parent() == Some(path)) {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        if may {
            disk.change(Change::Remove(path.to_owned()));
        }
        Ok(())
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let mut disk = self.0.lock();
        let may = disk.may(Operation::SyncDirectory)?;
        disk.item(directory)?;
        if may {
            let disk = &mut *disk;
            let changes = std::mem::take(&mut disk.changes);
            for change in changes {
                if change.is_in(directory) {
                    change.apply(&mut disk.durable_names);
                } else {
                    disk.changes.push(change);
                }
            }
        }
        Ok(())
    }

    fn can_sync_all(&self) -> bool {
        true
    }

    fn sync_all(&self, directory: &Path) -> io::Result<()> {
        let mut disk = self.0.lock();
        let may = disk.may(Operation::SyncAll)?;
        disk.item(directory)?;
        if may {
            let disk = &mut *disk;
            for node in &mut disk.nodes {
                node.durable.clone_from(&node.content);
                node.unsynced.clear();
            }
            for change in std::mem::take(&mut disk.changes) {
                change.apply(&mut disk.durable_names);
            }
        }
        Ok(())
    }
}
