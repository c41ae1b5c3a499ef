//! The file of `--audit`, with room on its disk made ahead: a request must not go on when its row could find none.

use std::fs::File;
use std::io::{self, Write};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};

/// The room that is kept, in bytes: what is left of it when no more can be had, half at least, takes the rows of requests that are
/// under way, some 5,000. It stays allocated beyond the end of the file.
const ROOM: u64 = 4 * 1024 * 1024;

/// Where rows go.
pub trait Sink: Write + Send {
    /// Sees to it that rows which are written soon will find room.
    ///
    /// # Errors
    /// There is none left for more than what is under way: no further request may go on.
    fn make_room(&mut self) -> io::Result<()>;
}

/// A file of which some room is allocated beyond its end.
#[derive(Debug)]
pub struct AuditFile {
    file: File,
    /// How much of it; without bound where nothing can be allocated, as on a pipe.
    left: u64,
}

impl AuditFile {
    /// # Errors
    /// The file takes no rows: its disk or the user's share of it is full.
    pub fn new(file: File) -> io::Result<Self> {
        let mut this = Self { file, left: 0 };
        this.make_room()?;
        Ok(this)
    }
}

impl Sink for AuditFile {
    fn make_room(&mut self) -> io::Result<()> {
        if self.left >= ROOM / 2 {
            return Ok(());
        }
        let too_long = |_| io::Error::from(io::ErrorKind::FileTooLarge);
        let end = i64::try_from(self.file.metadata()?.len()).map_err(too_long)?;
        self.left = match fallocate(&self.file, FallocateFlags::FALLOC_FL_KEEP_SIZE, end, ROOM.cast_signed()) {
            Ok(()) => ROOM,
            // A pipe, a device, or a file system that cannot. A device that takes nothing says so to nothing, too.
            Err(Errno::ESPIPE | Errno::ENODEV | Errno::EOPNOTSUPP | Errno::ENOSYS) => {
                self.file.write(&[]).map(|_| u64::MAX)?
            }
            Err(errno) => return Err(errno.into()),
        };
        Ok(())
    }
}

impl Write for AuditFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.left = self.left.saturating_sub(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn room_is_made_ahead_and_again() {
        let path = std::env::temp_dir().join(format!("audit-{}", std::process::id()));
        let mut file = AuditFile::new(File::options().append(true).create(true).open(&path).unwrap()).unwrap();
        let allocated = |file: &AuditFile| file.file.metadata().unwrap().blocks() * 512;
        let before = (file.file.metadata().unwrap().len(), allocated(&file));
        let row = vec![b'x'; (ROOM / 2) as usize + 1];
        file.write_all(&row).unwrap();
        file.make_room().unwrap();
        let after = allocated(&file);
        std::fs::remove_file(path).unwrap();
        assert_eq!((before.0, file.left), (0, ROOM));
        assert!(before.1 >= ROOM && after >= ROOM + ROOM / 2, "{before:?} {after}");
    }

    #[test]
    fn a_full_device_is_noticed_without_a_row() {
        let refused = AuditFile::new(File::options().append(true).open("/dev/full").unwrap()).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ENOSPC));
        AuditFile::new(File::options().append(true).open("/dev/null").unwrap()).unwrap();
    }
}
