//! Compiled programs on disk: a file each, by source, options, and all properties of device and driver that the compiler
//! depends on.
//!
//! `QUIPU_CACHE` names the folder, or is `off`. Otherwise it is `quipu` in `XDG_CACHE_HOME` or in `~/.cache`. A file that
//! cannot be read or written, or is malformed, is as good as none. So is a folder that is another user's, or that other
//! users may write, because a program from there is run as it is. Each driver has a folder of its own in there.
//!
//! A file is the magic line, the lengths of key and binary and the binary's checksum in little-endian, the key,
//! the binary.

use quipu_environment::{CACHE, Cache, Misused};
use quipu_scheduler::panics::quietly;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// The first bytes of a file.
const MAGIC: &[u8] = b"quipu program 4\n";
/// Bytes that the files have together, but for those since the folder was last looked through; the oldest go first.
const MOST_BYTES: u64 = 256 << 20;
/// One in so many keys has the folder looked through. A folder of thousands of files takes longer than a small program to
/// compile.
const LOOKED_THROUGH_BY: u128 = 32;
/// A larger file always has the folder looked through.
const LARGE: u64 = MOST_BYTES / 64;

/// The steps of the 128-bit FNV-1a hash (Fowler, Noll, Vo), on words in place of bytes, mixed at the end.
fn hash(bytes: &[u8]) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let basis = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let step = |hash: u128, word: u64| (hash ^ u128::from(word)).wrapping_mul(PRIME);
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let rest = rest.iter().map(|byte| u64::from(*byte));
    let hash = words.chain(rest).fold(basis, step);
    // A word's upper bits have only reached the hash's upper bits.
    let mixed = (hash ^ hash >> 64).wrapping_mul(PRIME);
    mixed ^ mixed >> 64
}

/// The facts that a compiled program depends on.
#[derive(PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The key of a source, compiled with options, for a device and by a compiler that `build` describes.
    #[must_use]
    pub fn new(build: &str, options: &str, source: &str) -> Self {
        Self(format!("{build}\n{options}\n{source}"))
    }

    /// The file's name: the key's hash. The key itself is in the file, and compared.
    fn name(&self) -> String {
        format!("{:032x}.bin", self.hash())
    }

    fn hash(&self) -> u128 {
        hash(self.0.as_bytes())
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
    folder_of(driver, |name| {
        std::env::var_os(name).filter(|value| !value.is_empty())
    })
}

fn folder_of(
    driver: &str,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<PathBuf>, Misused> {
    let of_user = || match environment("XDG_CACHE_HOME") {
        Some(caches) => Some(PathBuf::from(caches).join("quipu")),
        None => Some(
            PathBuf::from(environment("HOME")?)
                .join(".cache")
                .join("quipu"),
        ),
    };
    let root = match CACHE.get_from(&environment)? {
        Some(Cache::Off) => None,
        Some(Cache::Folder(folder)) => Some(folder),
        None => of_user(),
    };
    Ok(root.map(|root| root.join(driver)))
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
    let is_whole = kept == key.0.as_bytes()
        && !binary.is_empty()
        && binary.len() as u64 == u64::from_le_bytes(*length)
        && hash(binary) == u128::from_le_bytes(*checksum);
    is_whole.then(|| binary.to_vec())
}

/// Keeps a compiled program under a key: whole, or not at all.
///
/// # Errors
/// The system's error of the folder or the file; an error if the folder is not this user's alone to write.
pub fn store(folder: &Path, key: &Key, binary: &[u8]) -> io::Result<()> {
    create(folder)?;
    check(folder)?;
    let name = key.name();
    let unfinished = folder.join(unfinished_name(&name));
    // It must be a new one: a file that another program has put there is neither followed nor written to.
    let mut file = fs::File::create_new(&unfinished)?;
    let written = (|| {
        file.write_all(MAGIC)?;
        file.write_all(&(key.0.len() as u64).to_le_bytes())?;
        file.write_all(&(binary.len() as u64).to_le_bytes())?;
        file.write_all(&hash(binary).to_le_bytes())?;
        file.write_all(key.0.as_bytes())?;
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

/// Removes the oldest files, until the others have `most` bytes.
fn bound(folder: &Path, most: u64) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Another process may just have removed it.
        let Ok(about) = entry.metadata() else {
            continue;
        };
        if about.is_file() {
            let written = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            files.push((written, about.len(), entry.path()));
        }
    }
    files.sort_unstable();
    let mut bytes: u64 = files.iter().map(|(_, length, _)| length).sum();
    for (_, length, path) in files {
        if bytes <= most {
            break;
        }
        if fs::remove_file(path).is_ok() {
            bytes -= length;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let keys = (0..).map(|number: u32| Key::new("device", "", &number.to_string()));
        let (mut kept, mut gone) = (0, 0);
        for key in keys {
            store(&folder, &key, b"binary").unwrap();
            let old = folder.join("old.bin");
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
        fs::File::create(folder.join("old.bin"))
            .and_then(|file| {
                file.set_len(MOST_BYTES)?;
                file.set_modified(SystemTime::UNIX_EPOCH)
            })
            .unwrap();
        store(&folder, &Key::new("device", "", "large"), &large).unwrap();
        assert!(!folder.join("old.bin").exists());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn each_bit_changes_a_hash_throughout() {
        let text = *b"sixteen and five more";
        for bit in 0..8 * text.len() {
            let mut other = text;
            other[bit / 8] ^= 1 << (bit % 8);
            let differing = hash(&text) ^ hash(&other);
            assert_ne!(differing as u32, 0, "bit {bit}");
        }
    }

    #[test]
    fn the_environment_says_where() {
        const VARIABLE: &str = CACHE.name();
        let with = |pairs: &'static [(&'static str, &'static str)]| {
            folder_of("opencl", |name| {
                let pair = pairs.iter().find(|(known, _)| *known == name);
                pair.map(|(_, value)| OsString::from(value))
            })
        };
        assert_eq!(with(&[(VARIABLE, "off"), ("HOME", "/h")]), Ok(None));
        assert_eq!(with(&[]), Ok(None));
        for (pairs, path) in [
            (&[(VARIABLE, "/c"), ("HOME", "/h")][..], "/c/opencl"),
            (
                &[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")],
                "/x/quipu/opencl",
            ),
            (&[("HOME", "/h")], "/h/.cache/quipu/opencl"),
        ] {
            assert_eq!(with(pairs), Ok(Some(PathBuf::from(path))));
        }
    }
}
