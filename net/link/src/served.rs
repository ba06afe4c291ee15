//! The process that serves a node from a folder: one at a time, with the node's address.
//!
//! A file is locked as long as that process lives, so one that was killed keeps no process from
//! serving again.

use crate::error::{LinkError, Result};
use crate::folder::{Folder, private_options};
use std::fs::{File, TryLockError};

/// The file that is locked. Nothing is in it: some systems let no process read a locked file.
const LOCKED: &str = "serving";

/// The file that says where the node is, and which process it is.
const ADDRESS: &str = "address";

/// Says, while it lives, that this process alone serves a node from a folder.
#[derive(Debug)]
pub struct Served {
    folder: Folder,
    /// Unlocked as it is closed.
    _file: File,
}

impl Folder {
    /// Keeps other processes from serving a node from here.
    ///
    /// # Errors
    /// If one does already, or the system cannot lock files.
    pub fn serve(&self) -> Result<Served> {
        let locked = self.lock()?;
        let file = self.try_lock_served()?.ok_or_else(|| {
            let known = self.read_lines(ADDRESS).unwrap_or_default();
            LinkError::Served {
                path: self.path().to_owned(),
                process: known.get(1).cloned().unwrap_or_else(|| "?".to_owned()),
            }
        })?;
        let served = Served {
            folder: self.clone(),
            _file: file,
        };
        self.write_lines(ADDRESS, lines(""), &locked)?;
        Ok(served)
    }

    /// The address of the node that is served from here now; none if there is none.
    ///
    /// # Errors
    /// If the folder's files cannot be read or locked.
    pub fn served_at(&self) -> Result<Option<String>> {
        let _locked = self.lock()?;
        if self.try_lock_served()?.is_some() {
            return Ok(None);
        }
        let mut known = self.read_lines(ADDRESS)?.into_iter();
        Ok(known.next().filter(|address| !address.is_empty()))
    }

    /// The file, locked; none if a process has it. With the folder locked, so that a process that
    /// only looks keeps no other from serving.
    fn try_lock_served(&self) -> Result<Option<File>> {
        let path = self.file(LOCKED);
        let file = private_options()
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(LinkError::file("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(LinkError::file("lock", &path)(error)),
        }
    }
}

impl Served {
    /// Notes where the node is, for invitations.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn note_address(&self, address: &str) -> Result<()> {
        let locked = self.folder.lock()?;
        self.folder.write_lines(ADDRESS, lines(address), &locked)
    }
}

/// The file's lines on this process's node.
fn lines(address: &str) -> impl Iterator<Item = String> {
    [address.to_owned(), std::process::id().to_string()].into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_serves_from_a_folder_and_another_is_told_which() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(parent.path().join("home")).unwrap();
        assert_eq!(folder.served_at().unwrap(), None);
        let served = folder.serve().unwrap();
        // It has not said where yet.
        assert_eq!(folder.served_at().unwrap(), None);
        served.note_address("lab:4760").unwrap();
        let at = || folder.served_at().unwrap();
        assert_eq!(at().as_deref(), Some("lab:4760"));
        let error = folder.serve().unwrap_err().to_string();
        let process = format!("process {} ", std::process::id());
        assert!(error.starts_with(&process), "{error}");
        // The first is not disturbed.
        assert_eq!(at().as_deref(), Some("lab:4760"));
        drop(served);
        assert_eq!(at(), None);
        let _served = folder.serve().unwrap();
        assert_eq!(at(), None);
    }
}
