//! Compiled programs on disk: a file each, by source, options, and all properties of device and
//! driver that the compiler depends on.
//!
//! Each driver has a folder of its own in [`quipu_environment::cache_root`]. A file that cannot be
//! read or written, or is malformed, is as good as none. So is a folder that is another user's, or
//! that other users may write, because a program from there is run as it is.
//!
//! A file is the magic line, the lengths of key and binary and the binary's checksum in
//! little-endian, the key, the binary.

use quipu_environment::Misused;
use quipu_scheduler::hash;
use quipu_scheduler::panics::quietly;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// The first bytes of a file.
const MAGIC: &[u8] = b"quipu program 4\n";
/// Bytes that the files have together, but for those since the folder was last looked through; the
/// oldest go first.
const MOST_BYTES: u64 = 256 << 20;
/// One in so many keys has the folder looked through. A folder of thousands of files takes longer
/// than a small program to compile.
const LOOKED_THROUGH_BY: u128 = 32;
/// A larger file always has the folder looked through.
const LARGE: u64 = MOST_BYTES / 64;

/// The facts that a compiled program depends on.
#[derive(PartialEq, Eq)]
pub struct Key(Vec<u8>);

impl Key {
    /// The key of a source, compiled with options, for a device and by a compiler that `build`
    /// describes.
    #[must_use]
    pub fn new(build: &str, options: &str, source: impl AsRef<[u8]>) -> Self {
        Self([build.as_bytes(), options.as_bytes(), source.as_ref()].join(&b'\n'))
    }

    /// The file's name: the key's hash. The key itself is in the file, and compared.
    fn name(&self) -> String {
        format!("{:032x}.bin", self.hash())
    }

    fn hash(&self) -> u128 {
        hash::of_bytes(&self.0)
    }

    /// Enough of the hash to tell kernels of one name apart, for people.
    #[must_use]
    pub fn short(&self) -> String {
        format!("{:08x}", self.hash() as u32)
    }
}

/// The folder of a driver of this name, if there is to be one.
///
/// # Errors
/// If `QUIPU_CACHE` makes no sense.
pub fn folder(driver: &str) -> Result<Option<PathBuf>, Misused> {
    Ok(quipu_environment::cache_root()?.map(|root| root.join(driver)))
}

/// The program that is kept under a key.
#[must_use]
pub fn load(folder: &Path, key: &Key) -> Option<Vec<u8>> {
    if let Err(error) = check(folder) {
        if error.kind() != io::ErrorKind::NotFound {
            quietly(
                || tracing::debug!(%error, folder = %folder.display(), "compiled programs there are not used"),
            );
        }
        return None;
    }
    let file = fs::read(folder.join(key.name())).ok()?;
    let rest = file.strip_prefix(MAGIC)?;
    let (key_length, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (checksum, rest) = rest.split_first_chunk::<16>()?;
    let key_length = usize::try_from(u64::from_le_bytes(*key_length)).ok()?;
    let (kept, binary) = rest.split_at_checked(key_length)?;
    let is_whole = kept == key.0
        && !binary.is_empty()
        && binary.len() as u64 == u64::from_le_bytes(*length)
        && hash::of_bytes(binary) == u128::from_le_bytes(*checksum);
    is_whole.then(|| binary.to_vec())
}

/// Keeps a compiled program under a key: whole, or not at all.
///
/// # Errors
/// The system's error of the folder or the file; an error if the folder is not this user's alone to
/// write.
pub fn store(folder: &Path, key: &Key, binary: &[u8]) -> io::Result<()> {
    create(folder)?;
    check(folder)?;
    let name = key.name();
    let unfinished = folder.join(unfinished_name(&name));
    // It must be a new one: a file that another program has put there is neither followed nor
    // written to.
    let mut file = fs::File::create_new(&unfinished)?;
    let written = (|| {
        file.write_all(MAGIC)?;
        file.write_all(&(key.0.len() as u64).to_le_bytes())?;
        file.write_all(&(binary.len() as u64).to_le_bytes())?;
        file.write_all(&hash::of_bytes(binary).to_le_bytes())?;
        file.write_all(&key.0)?;
        file.write_all(binary)?;
        // Not waited for: a file that a loss of power leaves has another checksum.
        fs::rename(&unfinished, folder.join(&name))
    })();
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
        return written;
    }
    if key.hash().is_multiple_of(LOOKED_THROUGH_BY) || binary.len() as u64 > LARGE {
        bound(folder, MOST_BYTES)?;
    }
    Ok(())
}

/// A name that no other thread or process has.
fn unfinished_name(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_nanos());
    format!("{name}.{}.{now}.{number}", std::process::id())
}

/// Makes the folder, for this user alone.
fn create(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Looks whether the folder is this user's, and nobody else may write it.
#[cfg(unix)]
fn check(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let about = fs::metadata(folder)?;
    // SAFETY: it has no conditions, and cannot fail.
    let user = unsafe { libc::geteuid() };
    let problem = if about.uid() != user {
        "it is another user's"
    } else if about.mode() & 0o022 != 0 {
        "other users may write it; take that from them (chmod go-w)"
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

/// Looks whether the folder is there.
#[cfg(not(unix))]
fn check(folder: &Path) -> io::Result<()> {
    fs::metadata(folder).map(drop)
}

/// A file of this cache. The order is that of age, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kept {
    /// The time at which it was written.
    pub written: SystemTime,
    /// Its size.
    pub bytes: u64,
    /// Its place.
    pub path: PathBuf,
}

/// The files of this cache in a folder, also unfinished ones. A folder that is not there has none.
///
/// # Errors
/// The system's error of a folder that cannot be read.
pub fn kept(folder: &Path) -> io::Result<Vec<Kept>> {
    let mut files = Vec::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        // Another process may just have removed it.
        let Ok(about) = entry.metadata() else {
            continue;
        };
        if about.is_file() && is_ours(&entry.file_name()) {
            files.push(Kept {
                written: about.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                bytes: about.len(),
                path: entry.path(),
            });
        }
    }
    Ok(files)
}

/// True if a file has a name that [`store`] gives. `QUIPU_CACHE` may be a folder with other files.
fn is_ours(name: &OsStr) -> bool {
    let name = name.to_str().and_then(|name| name.split_once(".bin"));
    name.is_some_and(|(hash, _)| {
        hash.len() == 32 && hash.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// Removes the oldest files, until the others have `most` bytes.
fn bound(folder: &Path, most: u64) -> io::Result<()> {
    let mut files = kept(folder)?;
    files.sort_unstable();
    let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
    for file in files {
        if bytes <= most {
            break;
        }
        if fs::remove_file(file.path).is_ok() {
            bytes -= file.bytes;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file's name that no key here has.
    const OLD: &str = "00000000000000000000000000000000.bin";

    fn fresh(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("quipu-disk-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn what_is_kept_is_found_by_its_whole_key() {
        let folder = fresh("found");
        let key = Key::new("device", "-cl-std=CL1.2", "kernel void f() {}");
        assert_eq!(load(&folder, &key), None);
        store(&folder, &key, b"binary").unwrap();
        assert_eq!(load(&folder, &key).as_deref(), Some(&b"binary"[..]));
        for other in [
            Key::new("other device", "-cl-std=CL1.2", "kernel void f() {}"),
            Key::new("device", "", "kernel void f() {}"),
            Key::new("device", "-cl-std=CL1.2", "kernel void g() {}"),
        ] {
            assert_eq!(load(&folder, &other), None);
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_damaged_file_is_none() {
        let folder = fresh("damaged");
        let key = Key::new("device", "", "source");
        store(&folder, &key, b"binary").unwrap();
        let path = folder.join(key.name());
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(load(&folder, &key), None, "{length} bytes of it");
            let mut changed = whole.clone();
            changed[length] ^= 1;
            fs::write(&path, &changed).unwrap();
            assert_eq!(load(&folder, &key), None, "byte {length} is another");
        }
        fs::write(&path, &whole).unwrap();
        assert!(load(&folder, &key).is_some());
        let other = Key::new("device", "", "tampered");
        assert_eq!(load(&folder, &other), None);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_others_may_write_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let folder = fresh("others").join("within");
        let key = Key::new("device", "", "source");
        store(&folder, &key, b"binary").unwrap();
        let mode = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        for mode in [0o770, 0o702] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(load(&folder, &key), None);
            let error = store(&folder, &key, b"other").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(load(&folder, &key).as_deref(), Some(&b"binary"[..]));
        fs::remove_dir_all(folder.parent().unwrap()).unwrap();
    }

    #[test]
    fn the_oldest_files_go_and_none_is_left_unfinished() {
        let folder = fresh("bounded");
        let keys = ["a", "b", "c"].map(|source| Key::new("device", "", source));
        let old = |days: u64| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(days * 86400);
        for (days, key) in [1, 3, 2].into_iter().zip(&keys) {
            store(&folder, key, b"binary").unwrap();
            let file = fs::File::options()
                .write(true)
                .open(folder.join(key.name()));
            file.unwrap().set_modified(old(days)).unwrap();
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
        let length = fs::metadata(folder.join(keys[0].name())).unwrap().len();
        bound(&folder, 2 * length).unwrap();
        let there = keys.each_ref().map(|key| load(&folder, key).is_some());
        assert_eq!(there, [false, true, true]);
        bound(&folder, 2 * length - 1).unwrap();
        let there = keys.each_ref().map(|key| load(&folder, key).is_some());
        assert_eq!(there, [false, true, false]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn few_keys_have_a_folder_looked_through() {
        let folder = fresh("seldom");
        let keys = (0..).map(|number: u32| Key::new("device", "", number.to_string()));
        let (mut kept, mut gone) = (0, 0);
        for key in keys {
            store(&folder, &key, b"binary").unwrap();
            let old = folder.join(OLD);
            let file = fs::File::create(&old).unwrap();
            file.set_len(MOST_BYTES).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            store(&folder, &key, b"binary").unwrap();
            match old.exists() {
                true => kept += 1,
                false => gone += 1,
            }
            if gone == 4 {
                break;
            }
        }
        assert!(kept > 40 && kept < 1000, "{kept}");
        let large = vec![1; LARGE as usize + 1];
        fs::File::create(folder.join(OLD))
            .and_then(|file| {
                file.set_len(MOST_BYTES)?;
                file.set_modified(SystemTime::UNIX_EPOCH)
            })
            .unwrap();
        store(&folder, &Key::new("device", "", "large"), &large).unwrap();
        assert!(!folder.join(OLD).exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
