//! The operating system's files.

use std::fs::{self, OpenOptions};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use rustix::io::{Errno, ReadWriteFlags};

use super::access;
use super::{Entry, File, Metadata, Mode, Storage};

#[derive(Clone, Copy, Debug, Default)]
pub struct RealStorage;

struct RealFile(Arc<OwnedFd>);

impl File for RealFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pread(self.0.as_fd(), &mut buffer[done..], position + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    fn read_cached(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let mut rest = [IoSliceMut::new(&mut buffer[done..])];
            let from = position + done as u64;
            match rustix::io::preadv2(self.0.as_fd(), &mut rest, from, ReadWriteFlags::NOWAIT) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(read) => done += read,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return self.read_at(buffer, position),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pwrite(self.0.as_fd(), &bytes[done..], position + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(self.0.as_fd(), length)?)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(self.0.as_fd())?.st_size as u64)
    }

    fn sync_data(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        return Ok(rustix::fs::fdatasync(self.0.as_fd())?);
        #[cfg(not(target_os = "linux"))]
        return Ok(rustix::fs::fsync(self.0.as_fd())?);
    }

    fn descriptor(&self) -> io::Result<Arc<OwnedFd>> {
        Ok(Arc::clone(&self.0))
    }
}

impl Storage for RealStorage {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>> {
        let file = match mode {
            Mode::Read => fs::File::open(path)?,
            Mode::Write => OpenOptions::new().read(true).write(true).open(path)?,
            Mode::Create => access::open_or_create(path)?,
            Mode::Replace => access::open_empty(path)?,
        };
        Ok(Arc::new(RealFile(Arc::new(file.into()))))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(Entry {
                    name,
                    is_directory: entry.file_type()?.is_dir(),
                });
            }
        }
        Ok(entries)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let metadata = fs::metadata(path)?;
        Ok(Metadata {
            length: metadata.len(),
            is_directory: metadata.is_dir(),
            modified_ms: metadata.mtime() * 1000 + metadata.mtime_nsec() / 1_000_000,
        })
    }

    fn set_modified(&self, path: &Path, modified_ms: i64) -> io::Result<()> {
        let modified = Timespec {
            tv_sec: modified_ms.div_euclid(1000),
            tv_nsec: modified_ms.rem_euclid(1000) * 1_000_000,
        };
        let times = Timestamps {
            last_access: modified,
            last_modification: modified,
        };
        Ok(utimensat(CWD, path, &times, AtFlags::empty())?)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        access::create_folder(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        fs::File::open(directory)?.sync_all()
    }

    fn can_sync_all(&self) -> bool {
        tells_failed_syncs()
    }

    #[cfg(target_os = "linux")]
    fn sync_all(&self, directory: &Path) -> io::Result<()> {
        Ok(rustix::fs::syncfs(fs::File::open(directory)?)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn sync_all(&self, _directory: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Before Linux 5.8 syncfs(2) says nothing of pages that could not be written.
fn tells_failed_syncs() -> bool {
    let system = rustix::system::uname();
    let mut numbers = system
        .release()
        .to_bytes()
        .split(|byte| !byte.is_ascii_digit())
        .map(|digits| std::str::from_utf8(digits).ok()?.parse::<u32>().ok());
    let mut number = || numbers.next().flatten();
    cfg!(target_os = "linux") && (number(), number()) >= (Some(5), Some(8))
}
