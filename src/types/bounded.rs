//! Reading what may be too long.

use std::fs::File;
use std::io::{self, Read};

/// The content of an open file, from where it stands. Memory for it is asked for once.
///
/// # Errors
/// Any that reading gives, and [`io::ErrorKind::FileTooLarge`] for more than so many MiB.
pub fn read_bounded(file: &File, mebibytes: u32) -> io::Result<Vec<u8>> {
    let most = u64::from(mebibytes) << 20;
    // One byte more, by which the end is seen without a larger buffer.
    let length = file.metadata()?.len().min(most) + 1;
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    let read = file.take(most + 1).read_to_end(&mut bytes)?;
    if read as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {mebibytes} MiB")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_too_many_is_refused() {
        let path = std::env::temp_dir().join(format!("bounded-{}", std::process::id()));
        let read = |length: usize| {
            std::fs::write(&path, vec![7; length]).unwrap();
            let read = read_bounded(&File::open(&path).unwrap(), 1);
            std::fs::remove_file(&path).unwrap();
            read.map(|bytes| bytes.len()).map_err(|error| error.to_string())
        };
        assert_eq!([read(1 << 20), read((1 << 20) + 1)], [Ok(1 << 20), Err("longer than 1 MiB".to_owned())]);
    }

    #[test]
    fn a_file_that_tells_no_length_is_read() {
        let read = read_bounded(&File::open("/proc/self/status").unwrap(), 1).unwrap();
        assert!(read.starts_with(b"Name:"));
    }
}
