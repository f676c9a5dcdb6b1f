use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::rules::{Deed, Operation, Rule};
use super::{BrittleDisk, BrittleStorage, of_directory};
use crate::storage::{File, Mode, Storage};

struct Machine {
    folder: tempfile::TempDir,
    disk: BrittleDisk,
}

impl Machine {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            disk: BrittleDisk::new(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The worst that may come back.
    fn lose_power(&self) {
        self.disk.lose_power(&mut |_| 0).unwrap();
    }

    fn content(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.path(name)).ok()
    }

    /// A file with this content, all of it durable.
    fn durable(&self, storage: &BrittleStorage, name: &str, content: &[u8]) -> Arc<dyn File> {
        let file = storage.open(&self.path(name), Mode::Create).unwrap();
        file.write_at(content, 0).unwrap();
        file.sync_data().unwrap();
        storage
            .sync_directory(self.path(name).parent().unwrap())
            .unwrap();
        file
    }
}

fn rule(operation: Operation, deed: Deed, after: u64, times: Option<u64>) -> Arc<Rule> {
    Rule::new(operation, Some("t".to_owned()), Some(1), deed, after, times)
}

fn fails(errno: i32) -> Deed {
    Deed {
        errno: Some(errno),
        ..Deed::default()
    }
}

#[test]
fn content_is_as_of_the_last_fsync() {
    let machine = Machine::new();
    let storage = machine.disk.storage();
    let file = machine.durable(&storage, "a", b"0123456789");
    file.write_at(b"abc", 10).unwrap();
    file.write_at(b"xyz", 2).unwrap();
    file.set_length(4).unwrap();
    file.write_at(b"longer than it was", 3).unwrap();
    file.set_length(1).unwrap();
    file.set_length(30).unwrap();
    machine.lose_power();
    assert_eq!(machine.content("a").unwrap(), b"0123456789");
    assert!(file.read_at(&mut [0], 0).is_err());
    assert!(storage.open(&machine.path("a"), Mode::Read).is_err());
    // What came back is durable.
    let file = machine
        .disk
        .storage()
        .open(&machine.path("a"), Mode::Write)
        .unwrap();
    file.write_at(b"more", 10).unwrap();
    machine.lose_power();
    assert_eq!(machine.content("a").unwrap(), b"0123456789");
}

#[test]
fn a_part_of_what_was_appended_may_be_there() {
    let machine = Machine::new();
    let storage = machine.disk.storage();
    let file = machine.durable(&storage, "a", b"kept");
    file.write_at(b"-perhaps", 4).unwrap();
    machine.disk.lose_power(&mut |most| most.min(3)).unwrap();
    assert_eq!(machine.content("a").unwrap(), b"kept-pe");
}

#[test]
fn two_files_of_one_name_are_known_apart_and_two_openers_of_one_file_are_not() {
    let machine = Machine::new();
    let storage = machine.disk.storage();
    let file = machine.durable(&storage, "a", b"1");
    let other = storage.open(&machine.path("a"), Mode::Write).unwrap();
    file.write_at(b"2", 1).unwrap();
    other.sync_data().unwrap();
    drop(other);
    file.write_at(b"3", 2).unwrap();
    drop(file);
    machine.lose_power();
    assert_eq!(machine.content("a").unwrap(), b"12");
}

#[test]
fn names_are_as_of_the_last_fsync_of_their_folder() {
    let machine = Machine::new();
    let storage = machine.disk.storage();
    for name in ["removed", "replaced", "renamed"] {
        machine.durable(&storage, name, name.as_bytes());
    }
    storage.create_directory(&machine.path("folder")).unwrap();
    storage.sync_directory(machine.folder.path()).unwrap();
    machine.durable(&storage, "folder/inside", b"inside");

    storage.remove_file(&machine.path("removed")).unwrap();
    let file = storage
        .open(&machine.path("new.tmp"), Mode::Replace)
        .unwrap();
    file.write_at(b"new content", 0).unwrap();
    storage
        .rename(&machine.path("new.tmp"), &machine.path("replaced"))
        .unwrap();
    storage
        .rename(&machine.path("renamed"), &machine.path("other"))
        .unwrap();
    storage
        .rename(&machine.path("folder"), &machine.path("moved"))
        .unwrap();
    storage.remove_file(&machine.path("moved/inside")).unwrap();
    storage.remove_directory(&machine.path("moved")).unwrap();
    storage.create_directory(&machine.path("created")).unwrap();
    machine.lose_power();

    for name in ["removed", "replaced", "renamed"] {
        assert_eq!(machine.content(name).unwrap(), name.as_bytes(), "{name}");
    }
    assert_eq!(machine.content("folder/inside").unwrap(), b"inside");
    for name in ["new.tmp", "other", "moved", "created"] {
        assert!(!machine.path(name).exists(), "{name}");
    }
}

#[test]
fn what_happened_in_a_folder_is_undone_where_the_folder_is_now() {
    let machine = Machine::new();
    let storage = machine.disk.storage();
    storage.create_directory(&machine.path("before")).unwrap();
    storage.sync_directory(machine.folder.path()).unwrap();
    machine.durable(&storage, "before/old", b"old");
    storage
        .open(&machine.path("before/new"), Mode::Create)
        .unwrap();
    storage.remove_file(&machine.path("before/old")).unwrap();
    storage
        .rename(&machine.path("before"), &machine.path("after"))
        .unwrap();
    storage.sync_directory(machine.folder.path()).unwrap();
    machine.lose_power();
    assert_eq!(machine.content("after/old").unwrap(), b"old");
    assert!(!machine.path("after/new").exists());
    assert!(!machine.path("before").exists());
}

#[test]
#[cfg(target_os = "linux")]
fn the_ledger_keeps_few_files_open() {
    let machine = Machine::new();
    let storage = machine.disk.storage();
    let open = || {
        let all = std::fs::read_dir("/proc/self/fd").unwrap();
        let targets = all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        targets
            .filter(|target| target.starts_with(machine.folder.path()))
            .count()
    };
    for number in 0..300 {
        let path = machine.path(&number.to_string());
        machine.durable(&storage, &number.to_string(), b"content");
        storage.remove_file(&path).unwrap();
        storage.open(&path, Mode::Create).unwrap();
    }
    assert!((1..=64).contains(&open()), "{}", open());
    machine.disk.forget();
    assert_eq!(open(), 0);
    machine.lose_power();
    assert_eq!(machine.content("0").unwrap(), b"");
}

#[test]
fn a_rule_is_for_the_records_of_a_partition() {
    let machine = Machine::new();
    let storage = machine.disk.storage();
    for folder in ["t-1", "t-2"] {
        storage.create_directory(&machine.path(folder)).unwrap();
    }
    let no_space = fails(rustix::io::Errno::NOSPC.raw_os_error());
    let full = rule(Operation::Write, no_space, 1, Some(2));
    machine.disk.add(Arc::clone(&full));
    let others = ["t-1/0.index", "t-2/0.log", "checkpoint"];
    for name in others {
        machine.durable(&storage, name, b"x");
    }
    let file = storage
        .open(&machine.path("t-1/0.log"), Mode::Create)
        .unwrap();
    let write = || file.write_at(b"half", 0).err().map(|error| error.kind());
    assert_eq!(write(), None);
    assert_eq!(write(), Some(std::io::ErrorKind::StorageFull));
    assert!(!full.is_spent());
    assert!(write().is_some());
    assert_eq!(write(), None);
    assert!(full.is_spent());
    assert_eq!((full.hits(), full.wait(2, Duration::ZERO)), (2, 2));
    assert_eq!(full.wait(3, Duration::ZERO), 2);
}

#[test]
fn a_read_that_is_to_fail_is_no_read_of_memory() {
    let machine = Machine::new();
    let storage = machine.disk.storage();
    storage.create_directory(&machine.path("t-1")).unwrap();
    let file = machine.durable(&storage, "t-1/0.log", b"records");
    let broken = rule(
        Operation::Read,
        fails(rustix::io::Errno::IO.raw_os_error()),
        0,
        None,
    );
    machine.disk.add(Arc::clone(&broken));
    let mut buffer = [0; 7];
    assert_eq!(file.read_cached(&mut buffer, 0).unwrap(), 0);
    assert!(file.read_at(&mut buffer, 0).is_err());
    machine.disk.remove(&broken);
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 7);
    assert_eq!(broken.hits(), 1);
}

#[test]
fn an_fsync_fails_or_is_lost() {
    let machine = Machine::new();
    let storage = machine.disk.storage();
    storage.create_directory(&machine.path("t-1")).unwrap();
    storage.sync_directory(machine.folder.path()).unwrap();
    let file = machine.durable(&storage, "t-1/0.log", b"1");
    assert!(storage.can_sync_all());
    machine.disk.add(rule(
        Operation::Sync,
        fails(rustix::io::Errno::IO.raw_os_error()),
        0,
        Some(1),
    ));
    assert!(!storage.can_sync_all());
    file.write_at(b"2", 1).unwrap();
    assert!(file.sync_data().is_err());
    machine.disk.add(rule(
        Operation::Sync,
        Deed {
            is_lost: true,
            ..Deed::default()
        },
        0,
        Some(1),
    ));
    file.sync_data().unwrap();
    machine.lose_power();
    assert_eq!(machine.content("t-1/0.log").unwrap(), b"1");
}

#[test]
fn a_disk_stands_for_its_directory() {
    let machine = Machine::new();
    let (here, path) = (machine.folder.path(), machine.path("a"));
    let write = |storage: &dyn Storage| {
        let file = storage.open(&path, Mode::Create).unwrap();
        file.write_at(b"x", 0).unwrap();
    };
    machine.disk.stand_for(Path::new("/elsewhere"));
    write(&*of_directory(here));
    machine.lose_power();
    assert!(path.exists());
    std::fs::remove_file(&path).unwrap();
    // The last one does.
    let another = BrittleDisk::new();
    another.stand_for(here);
    machine.disk.stand_for(here);
    write(&*of_directory(here));
    machine.lose_power();
    assert!(!path.exists());
    machine.disk.forget();
    write(&*of_directory(here));
    machine.lose_power();
    assert!(path.exists());
}
