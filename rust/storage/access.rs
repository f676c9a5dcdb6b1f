//! Who may read what is created: the owner, and everybody to whom the folder around it is open.
//!
//! Logs hold what users wrote, and the coordination tree holds credentials. So a new file is for its owner alone (0600, folders 0700), whatever
//! the umask is. The owner of a data directory opens it to a group or to everybody with chmod (0750, 0755): the process of another user reads
//! the logs then, a backup for instance. New files and folders follow: they take the group's and others' bits of the folder in which they are
//! created, without the right to write.
//!
//! A file that exists keeps its mode. One that replaces another by a rename is new.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const OWN_FILE: u32 = 0o600;
const OWN_FOLDER: u32 = 0o700;
/// Read, for group and others.
const SHARED_FILE: u32 = 0o044;
/// Read and enter, for group and others; and the bit by which new files belong to the folder's group.
const SHARED_FOLDER: u32 = 0o2055;

/// Opens a file for reading and writing; it is created if it does not exist.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match options.open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        opened => return opened,
    }
    match options.create_new(true).mode(OWN_FILE).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // Another thread was quicker.
            OpenOptions::new().read(true).write(true).open(path)
        }
        Err(error) => Err(error),
        Ok(file) => {
            open_to_others(path, &file)?;
            Ok(file)
        }
    }
}

/// Opens a file that is empty: a new one, or what is left of an earlier one.
pub fn open_empty(path: &Path) -> io::Result<File> {
    let file = open_or_create(path)?;
    if file.metadata()?.len() > 0 {
        file.set_len(0)?;
    }
    open_to_others(path, &file)?;
    Ok(file)
}

/// Creates a folder, which must not exist; its parent must.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(OWN_FOLDER).create(path)?;
    let mode = OWN_FOLDER | around(path)? & SHARED_FOLDER;
    if mode != OWN_FOLDER {
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(())
}

fn open_to_others(path: &Path, file: &File) -> io::Result<()> {
    let mode = OWN_FILE | around(path)? & SHARED_FILE;
    if file.metadata()?.mode() & 0o777 != mode {
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// The mode of the folder in which `path` lies.
fn around(path: &Path) -> io::Result<u32> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    Ok(fs::metadata(parent.unwrap_or(Path::new(".")))?.mode())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::Path;
    use std::sync::Arc;

    use crate::storage::{Mode, RealStorage, Storage};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn new_files_and_folders_follow_the_folder_around_them() {
        for (around, file, folder) in [
            (0o700, 0o600, 0o700),
            (0o711, 0o600, 0o711),
            (0o750, 0o640, 0o750),
            (0o755, 0o644, 0o755),
            (0o777, 0o644, 0o755),
            (0o2770, 0o640, 0o2750),
        ] {
            let root = tempfile::tempdir().unwrap();
            set(root.path(), around);
            let storage: Arc<dyn Storage> = Arc::new(RealStorage);
            let path = |name: &str| root.path().join(name);
            storage.open(&path("created"), Mode::Create).unwrap();
            storage.open(&path("replaced"), Mode::Replace).unwrap();
            storage.replace(&path("renamed"), b"x").unwrap();
            storage.create_directory(&path("t-0")).unwrap();
            storage.open(&path("t-0/log"), Mode::Create).unwrap();
            for name in ["created", "replaced", "renamed", "t-0/log"] {
                assert_eq!(mode(&path(name)), file, "{name} in {around:o}");
            }
            assert_eq!(mode(&path("t-0")), folder, "in {around:o}");
        }
    }

    #[test]
    fn what_exists_keeps_its_mode_until_it_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        set(root.path(), 0o700);
        let path = root.path().join("a");
        let storage: Arc<dyn Storage> = Arc::new(RealStorage);
        fs::write(&path, "old").unwrap();
        set(&path, 0o664);
        let file = storage.open(&path, Mode::Create).unwrap();
        assert_eq!((file.length().unwrap(), mode(&path)), (3, 0o664));
        // What an earlier crash left.
        fs::write(root.path().join("a.tmp"), "left").unwrap();
        set(&root.path().join("a.tmp"), 0o666);
        storage.replace(&path, b"new").unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}
