//! Quipu's folder of keys and lists, for its owner alone.
//!
//! The folder has mode 0700 and its files 0600. A folder or file that others than its owner can use
//! is refused. A file is replaced as a whole: written beside, flushed to the disk, renamed. A
//! process holds the folder's lock while it changes a file, so `quipu invite` may run beside
//! `quipu serve`.

use crate::error::{LinkError, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// A folder of keys and lists.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

/// Files are at most this long: a longer one was not written by us.
const LONGEST: u64 = 1 << 20;

/// Keeps, while it lives, all others from changing the folder's files.
#[derive(Debug)]
pub struct Locked {
    /// Unlocked as it is closed.
    _file: File,
}

impl Folder {
    /// The folder at a path, made if it is not there.
    ///
    /// # Errors
    /// If it cannot be made, or others than its owner may look into it.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(&path)
            .map_err(LinkError::file("make the folder", &path))?;
        let metadata = fs::metadata(&path).map_err(LinkError::file("look at", &path))?;
        check_private(&path, &metadata, "chmod 700")?;
        Ok(Self(path))
    }

    /// The folder's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Keeps others from changing files, and waits for a process that does.
    ///
    /// # Errors
    /// If the system cannot lock files.
    pub fn lock(&self) -> Result<Locked> {
        let path = self.file("lock");
        let file = private_options()
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(LinkError::file("open", &path))?;
        file.lock().map_err(LinkError::file("lock", &path))?;
        Ok(Locked { _file: file })
    }

    /// The content of a file, or `None` if there is no such file.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.file(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LinkError::file("open", &path)(error)),
        };
        let metadata = file.metadata().map_err(LinkError::file("look at", &path))?;
        check_private(&path, &metadata, "chmod 600")?;
        let mut bytes = Vec::new();
        file.take(LONGEST + 1)
            .read_to_end(&mut bytes)
            .map_err(LinkError::file("read", &path))?;
        if bytes.len() as u64 > LONGEST {
            return Err(LinkError::bad_file(
                &path,
                "is too long to be one of Quipu's",
            ));
        }
        Ok(Some(bytes))
    }

    /// As [`Folder::read`], for lines of text; none if there is no such file.
    pub(crate) fn read_lines(&self, name: &str) -> Result<Vec<String>> {
        let bytes = self.read(name)?.unwrap_or_default();
        let text = String::from_utf8(bytes)
            .map_err(|_| LinkError::bad_file(&self.file(name), "is not a text"))?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Replaces a file, or makes it.
    pub(crate) fn write(&self, name: &str, bytes: &[u8], _locked: &Locked) -> Result<()> {
        let (path, beside) = (self.file(name), self.file(&format!("{name}.new")));
        // A file that a crash has left may have another mode.
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(LinkError::file("remove", &beside)(error));
            }
            _ => {}
        }
        let mut file = private_options()
            .create_new(true)
            .open(&beside)
            .map_err(LinkError::file("make", &beside))?;
        file.write_all(bytes)
            .and_then(|()| file.sync_all())
            .map_err(LinkError::file("write", &beside))?;
        fs::rename(&beside, &path).map_err(LinkError::file("replace", &path))?;
        // Without this, a crash of the system may bring the file before back, and with it a client
        // that was revoked.
        #[cfg(unix)]
        match File::open(&self.0).and_then(|folder| folder.sync_all()) {
            // Some file systems have nothing like it.
            Err(error)
                if !matches!(
                    error.kind(),
                    ErrorKind::InvalidInput | ErrorKind::Unsupported
                ) =>
            {
                return Err(LinkError::file("write", &self.0)(error));
            }
            _ => {}
        }
        Ok(())
    }

    /// Replaces a file by lines.
    pub(crate) fn write_lines(
        &self,
        name: &str,
        lines: impl Iterator<Item = String>,
        locked: &Locked,
    ) -> Result<()> {
        let text: String = lines.map(|line| line + "\n").collect();
        self.write(name, text.as_bytes(), locked)
    }
}

/// Options for files that are made if need be: for writing, by their owner alone.
pub(crate) fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(unix)]
fn check_private(path: &Path, metadata: &fs::Metadata, advice: &str) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(LinkError::NotPrivate {
        path: path.to_owned(),
        problem: format!(
            "has mode {mode:03o}, so that others may use it: run `{advice} {}` if nobody has",
            path.display()
        ),
    })
}

#[cfg(not(unix))]
fn check_private(_: &Path, _: &fs::Metadata, _: &str) -> Result<()> {
    // A user's own folders are private by their parents' rules.
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        let metadata = fs::metadata(path).expect("a file of the test");
        metadata.permissions().mode() & 0o777
    }

    #[test]
    fn files_are_for_their_owner_alone_and_replaced_as_a_whole() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(parent.path().join("a/b")).unwrap();
        assert_eq!(mode(folder.path()), 0o700);
        assert_eq!(folder.read("list").unwrap(), None);
        assert!(folder.read_lines("list").unwrap().is_empty());
        let locked = folder.lock().unwrap();
        // As a crash may have left it.
        fs::write(folder.file("list.new"), "half").unwrap();
        folder.write("list", b"one\ntwo\n", &locked).unwrap();
        assert_eq!(mode(&folder.file("list")), 0o600);
        assert_eq!(mode(&folder.file("lock")), 0o600);
        assert!(!folder.file("list.new").exists());
        assert_eq!(folder.read_lines("list").unwrap(), ["one", "two"]);
    }

    #[test]
    fn what_others_may_read_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(parent.path().join("keys")).unwrap();
        let locked = folder.lock().unwrap();
        folder.write("key", b"secret", &locked).unwrap();
        for bad in [0o640, 0o604, 0o620] {
            fs::set_permissions(folder.file("key"), fs::Permissions::from_mode(bad)).unwrap();
            let error = folder.read("key").unwrap_err();
            assert!(matches!(error, LinkError::NotPrivate { .. }), "{error}");
            assert!(error.to_string().contains("chmod 600"), "{error}");
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let error = Folder::open(folder.path()).unwrap_err();
        assert!(error.to_string().contains("chmod 700"), "{error}");
    }

    #[test]
    fn files_that_are_not_ours_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(parent.path().join("keys")).unwrap();
        let locked = folder.lock().unwrap();
        folder.write("list", &[0xff, 0xfe], &locked).unwrap();
        assert!(folder.read_lines("list").is_err());
        folder.write("list", &vec![b'a'; 1 << 21], &locked).unwrap();
        assert!(folder.read("list").is_err());
    }
}
