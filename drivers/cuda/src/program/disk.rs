//! Compiled programs on disk: a file each, by source, options, and everything about device and driver that the compiler
//! depends on.
//!
//! `QUIPU_CACHE` says where: a folder, or `off`. Otherwise it is `quipu` in `XDG_CACHE_HOME` or in `~/.cache`. A file
//! that cannot be read or written, or is not what it should be, is as good as none.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What files begin with.
const MAGIC: &[u8] = b"quipu cuda program 1\n";

/// What a compiled program depends on.
pub(super) struct Key(String);

impl Key {
    pub(super) fn new(build: &str, options: &str, source: &str) -> Self {
        Self(format!("{build}\n{options}\n{source}"))
    }

    /// The key's 128-bit FNV-1a hash, which names its file (Fowler, Noll, Vo). The key itself is in the file, and compared.
    fn hash(&self) -> u128 {
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        let basis = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        self.0.bytes().fold(basis, |hash: u128, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(PRIME)
        })
    }

    fn name(&self) -> String {
        format!("{:032x}.bin", self.hash())
    }

    /// Enough of the hash to tell kernels of one name apart, for people.
    pub(super) fn short(&self) -> String {
        format!("{:08x}", self.hash() as u32)
    }
}

/// The folder, if there is to be one.
pub(super) fn folder() -> Option<PathBuf> {
    folder_of(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
}

fn folder_of(environment: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let root = match environment("QUIPU_CACHE") {
        Some(off) if off == "off" => return None,
        Some(folder) => PathBuf::from(folder),
        None => match environment("XDG_CACHE_HOME") {
            Some(caches) => PathBuf::from(caches).join("quipu"),
            None => PathBuf::from(environment("HOME")?)
                .join(".cache")
                .join("quipu"),
        },
    };
    Some(root.join("cuda"))
}

/// What was kept under a key.
pub(super) fn load(folder: &Path, key: &Key) -> Option<Vec<u8>> {
    let file = fs::read(folder.join(key.name())).ok()?;
    let rest = file.strip_prefix(MAGIC)?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (kept, binary) = rest.split_at_checked(length)?;
    (kept == key.0.as_bytes() && !binary.is_empty()).then(|| binary.to_vec())
}

/// Keeps a compiled program under a key: whole, or not at all.
pub(super) fn store(folder: &Path, key: &Key, binary: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let name = key.name();
    let thread = std::thread::current().id();
    let unfinished = folder.join(format!("{name}.{}.{thread:?}", std::process::id()));
    let written = (|| {
        let mut file = fs::File::create(&unfinished)?;
        file.write_all(MAGIC)?;
        file.write_all(&(key.0.len() as u64).to_le_bytes())?;
        file.write_all(key.0.as_bytes())?;
        file.write_all(binary)?;
        fs::rename(&unfinished, folder.join(&name))
    })();
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("quipu-cuda-disk-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn what_is_kept_is_found_by_its_whole_key() {
        let folder = fresh("found");
        let key = Key::new("device", "--fmad=false", "void f() {}");
        assert_eq!(load(&folder, &key), None);
        store(&folder, &key, b"binary").unwrap();
        assert_eq!(load(&folder, &key).as_deref(), Some(&b"binary"[..]));
        for other in [
            Key::new("other device", "--fmad=false", "void f() {}"),
            Key::new("device", "", "void f() {}"),
            Key::new("device", "--fmad=false", "void g() {}"),
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
        for length in 0..whole.len() - b"binary".len() + 1 {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(load(&folder, &key), None, "{length} bytes of it");
        }
        let other = Key::new("device", "", "tampered");
        fs::write(&path, fs::read(&path).unwrap()).unwrap();
        assert_eq!(load(&folder, &other), None);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_environment_says_where() {
        let with = |pairs: &'static [(&'static str, &'static str)]| {
            folder_of(|name| {
                let pair = pairs.iter().find(|(known, _)| *known == name);
                pair.map(|(_, value)| OsString::from(value))
            })
        };
        assert_eq!(with(&[("QUIPU_CACHE", "off"), ("HOME", "/h")]), None);
        assert_eq!(with(&[]), None);
        for (pairs, path) in [
            (&[("QUIPU_CACHE", "/c"), ("HOME", "/h")][..], "/c/cuda"),
            (&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")], "/x/quipu/cuda"),
            (&[("HOME", "/h")], "/h/.cache/quipu/cuda"),
        ] {
            assert_eq!(with(pairs), Some(PathBuf::from(path)));
        }
    }
}
