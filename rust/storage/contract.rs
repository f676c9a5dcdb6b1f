//! The contract that every storage must keep, run against the real one, the brittle one and the one in memory.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use super::brittle::BrittleDisk;
use super::{Entry, FaultyStorage, Mode, RealStorage, Storage};

fn on_each(test: impl Fn(&dyn Storage, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    test(&RealStorage, folder.path());
    let folder = tempfile::tempdir().unwrap();
    test(&BrittleDisk::new().storage(), folder.path());
    test(&FaultyStorage::new(), Path::new("/"));
}

fn names(storage: &dyn Storage, directory: &Path) -> Vec<String> {
    let mut entries = storage.list(directory).unwrap();
    entries.sort();
    entries
        .into_iter()
        .map(|Entry { name, is_directory }| name + if is_directory { "/" } else { "" })
        .collect()
}

#[test]
fn bytes_are_read_as_they_were_written() {
    on_each(|storage, root| {
        let path = root.join("a");
        assert_eq!(
            storage.open(&path, Mode::Read).err().unwrap().kind(),
            ErrorKind::NotFound
        );
        assert_eq!(
            storage.open(&path, Mode::Write).err().unwrap().kind(),
            ErrorKind::NotFound
        );
        let file = storage.open(&path, Mode::Create).unwrap();
        file.write_at(b"hello", 0).unwrap();
        file.write_at(b"world", 10).unwrap();
        file.write_at(b"J", 0).unwrap();
        assert_eq!(storage.read(&path, 100).unwrap(), b"Jello\0\0\0\0\0world");
        let mut buffer = [0; 4];
        assert_eq!(file.read_at(&mut buffer, 13).unwrap(), 2);
        assert_eq!(file.read_at(&mut buffer, 100).unwrap(), 0);
        // Fewer bytes if the others are not in memory, which what was just written mostly is.
        let mut read_cached = |position| {
            let read = file.read_cached(&mut buffer, position).unwrap();
            (buffer[..read].to_vec(), read)
        };
        assert!((0..100).any(|_| read_cached(1).0 == b"ello"));
        assert!((0..100).any(|_| read_cached(13).0 == b"ld"));
        assert_eq!(read_cached(100).1, 0);
        file.set_length(3).unwrap();
        assert_eq!(storage.read(&path, 100).unwrap(), b"Jel");
        file.set_length(5).unwrap();
        assert_eq!(storage.read(&path, 100).unwrap(), b"Jel\0\0");
        file.sync_data().unwrap();
        let again = storage.open(&path, Mode::Create).unwrap();
        assert_eq!((file.length().unwrap(), again.length().unwrap()), (5, 5));
        assert_eq!(storage.metadata(&path).unwrap().length, 5);
        assert!(
            storage
                .open(&path, Mode::Read)
                .unwrap()
                .write_at(b"x", 0)
                .is_err()
        );
        storage.open(&path, Mode::Replace).unwrap();
        assert_eq!(again.length().unwrap(), 0);
        assert_eq!(storage.read(&path, 0).unwrap(), b"");
    });
}

#[test]
fn names_change_at_once() {
    on_each(|storage, root| {
        let folder = root.join("folder");
        storage.create_directory(&folder).unwrap();
        assert_eq!(
            storage.create_directory(&folder).unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
        assert!(storage.create_directory(&root.join("no/where")).is_err());
        assert!(storage.open(&root.join("no/where"), Mode::Create).is_err());
        for name in ["a", "b"] {
            storage
                .open(&folder.join(name), Mode::Create)
                .unwrap()
                .write_at(name.as_bytes(), 0)
                .unwrap();
        }
        assert_eq!(names(storage, &folder), ["a", "b"]);
        let open = storage.open(&folder.join("b"), Mode::Write).unwrap();
        storage
            .rename(&folder.join("a"), &folder.join("b"))
            .unwrap();
        assert_eq!(names(storage, &folder), ["b"]);
        assert_eq!(storage.read(&folder.join("b"), 10).unwrap(), b"a");
        // What is open stays readable when its name goes.
        let mut byte = [0];
        assert_eq!((open.read_at(&mut byte, 0).unwrap(), byte), (1, *b"b"));
        storage.rename(&folder, &root.join("moved")).unwrap();
        assert_eq!(names(storage, root), ["moved/"]);
        assert_eq!(storage.read(&root.join("moved/b"), 10).unwrap(), b"a");
        assert!(storage.remove_directory(&root.join("moved")).is_err());
        storage.remove_file(&root.join("moved/b")).unwrap();
        assert_eq!(
            storage
                .remove_file(&root.join("moved/b"))
                .unwrap_err()
                .kind(),
            ErrorKind::NotFound
        );
        storage.remove_directory(&root.join("moved")).unwrap();
        assert_eq!(names(storage, root), [""; 0]);
        assert!(!storage.exists(&root.join("moved")).unwrap());
        storage.sync_directory(root).unwrap();
    });
}

#[test]
fn all_at_once_is_durable() {
    on_each(|storage, root| {
        assert!(storage.can_sync_all());
        storage.create_directory(&root.join("folder")).unwrap();
        let path = root.join("folder/file");
        let file = storage.open(&path, Mode::Create).unwrap();
        file.write_at(b"content", 0).unwrap();
        storage.sync_all(root).unwrap();
        assert!(storage.sync_all(&root.join("nothing")).is_err());
        assert_eq!(storage.read(&path, 10).unwrap(), b"content");
    });
    let storage = FaultyStorage::new();
    let dyn_storage: &dyn Storage = &storage;
    dyn_storage.create_directory(Path::new("/folder")).unwrap();
    let path = Path::new("/folder/file");
    let file = dyn_storage.open(path, Mode::Create).unwrap();
    file.write_at(b"content", 0).unwrap();
    dyn_storage.sync_all(Path::new("/")).unwrap();
    file.write_at(b"lost", 7).unwrap();
    // Nothing unsynced comes through.
    storage.power_cut(&mut |below| usize::from(below == 3));
    assert_eq!(dyn_storage.read(path, 20).unwrap(), b"content");
}

#[test]
fn replacing_leaves_nothing_beside() {
    on_each(|storage, root| {
        let path = root.join("table");
        for content in [&b"one"[..], b"a longer two", b""] {
            storage.replace(&path, content).unwrap();
            assert_eq!(storage.read(&path, 100).unwrap(), content);
        }
        assert_eq!(names(storage, root), ["table"]);
        assert_eq!(storage.read(&path, 100).unwrap(), b"");
    });
}

#[test]
fn the_power_takes_what_was_not_synced() {
    let (storage, path) = (FaultyStorage::new(), Path::new("/a"));
    let file = storage.open(path, Mode::Create).unwrap();
    file.write_at(b"kept", 0).unwrap();
    file.sync_data().unwrap();
    storage.sync_directory(Path::new("/")).unwrap();
    file.write_at(b"lost", 4).unwrap();
    storage.open(Path::new("/b"), Mode::Create).unwrap();
    let (mut seen, mut number) = (std::collections::BTreeSet::new(), 0usize);
    // Every state that the disk may come back with is a prefix, and both ends of the range come up.
    for _ in 0..50 {
        let copy = FaultyStorage::new();
        let file = copy.open(path, Mode::Create).unwrap();
        file.write_at(b"kept", 0).unwrap();
        file.sync_data().unwrap();
        copy.sync_directory(Path::new("/")).unwrap();
        file.write_at(b"lost", 4).unwrap();
        copy.open(Path::new("/b"), Mode::Create).unwrap();
        copy.power_cut(&mut |below| {
            number = number
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (number >> 33) % below
        });
        assert!(file.read_at(&mut [0], 0).is_err());
        let storage: Arc<dyn Storage> = Arc::new(copy);
        let content = storage.read(path, 100).unwrap();
        assert!(b"keptlost".starts_with(&content) && content.len() >= 4);
        seen.insert((content.len(), storage.exists(Path::new("/b")).unwrap()));
    }
    assert!(
        seen.contains(&(4, false)) && seen.contains(&(8, true)) && seen.len() > 4,
        "{seen:?}"
    );
}

#[test]
fn the_time_of_the_last_change_can_be_set() {
    on_each(|storage, root| {
        let path = root.join("a");
        storage.open(&path, Mode::Create).unwrap();
        for modified_ms in [0, 1, 1_700_000_000_123] {
            storage.set_modified(&path, modified_ms).unwrap();
            assert_eq!(storage.metadata(&path).unwrap().modified_ms, modified_ms);
        }
        let missing = storage.set_modified(&root.join("b"), 0);
        assert_eq!(missing.err().unwrap().kind(), ErrorKind::NotFound);
    });
}
