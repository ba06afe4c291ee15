//! The folders that sessions' compilers write to.
//!
//! They are in one folder of the node's process, with a file that the process keeps locked as long
//! as it lives. A node that starts removes such folders of its user whose lock is free: their nodes
//! were killed. A lock says so also in a container, where the number of a process does not.
//!
//! A session's code has made what is in its folder, and may still run as the folder is removed. So
//! the removal
//!
//! * touches only folders that this process has made;
//! * opens each folder by the descriptor of the one that it is in, and follows no link: nobody can
//!   put a link to another folder in its place in between;
//! * takes folders out of each other before it empties them: how deep they are decides neither how
//!   many descriptors that takes nor how much of a stack;
//! * gives itself the right to look into each, and goes on where something cannot be removed.

use crate::locked;
use quipu_protocol::message::SessionId;
use quipu_scheduler::panics::quietly;
use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, chmod, flock, fstat, openat, renameat,
    unlinkat,
};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The beginning of the names of processes' folders. The number of the process follows, and
/// letters.
const PREFIX: &str = "quipu-scratch-";

/// The file in it that its process keeps locked.
const LOCK: &CStr = c"lock";

/// A process's folder.
struct Base {
    path: PathBuf,
    /// Unlocked as it is closed.
    _lock: OwnedFd,
}

/// The folders of this process that are there.
struct Made {
    base: Option<Base>,
    sessions: Vec<PathBuf>,
}

static MADE: Mutex<Made> = Mutex::new(Made {
    base: None,
    sessions: Vec::new(),
});

/// Takes the lock of a process's folder; none if somebody has it, or there is no such file.
fn lock(folder: impl AsFd, flags: OFlags) -> Option<OwnedFd> {
    let flags = flags | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(folder, LOCK, flags, Mode::RUSR | Mode::WUSR).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    // Whoever had it may have removed it.
    let is_there = fstat(&file).is_ok_and(|file| file.st_nlink > 0);
    is_there.then_some(file)
}

impl Base {
    fn new() -> io::Result<Self> {
        let random = ring::rand::SystemRandom::new();
        for _ in 0..TRIES {
            let mut letters = [0; 6];
            ring::rand::SecureRandom::fill(&random, &mut letters)
                .map_err(|_| io::Error::other("the system gives no random numbers"))?;
            let letters: String = letters.iter().map(|byte| format!("{byte:02x}")).collect();
            let name = format!("{PREFIX}{}-{letters}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::DirBuilder::new().mode(0o700).create(&path)?;
            let folder = std::fs::File::open(&path)?;
            // A node that starts just now may have found it before it was locked.
            if let Some(lock) = lock(&folder, OFlags::CREATE) {
                return Ok(Self { path, _lock: lock });
            }
        }
        Err(io::Error::other("others lock the node's temporary folders"))
    }
}

/// The number of folders that are made before that is given up.
const TRIES: usize = 8;

/// Makes a folder for what a session's compilers write.
pub(super) fn make(id: SessionId) -> io::Result<PathBuf> {
    // Not the session's name, which others need not know.
    let name: String = id.0[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    let mut made = locked(&MADE);
    let make_in = |base: &Base| {
        let path = base.path.join(&name);
        let folder = std::fs::DirBuilder::new().mode(0o700).create(&path);
        folder.map(|()| path)
    };
    let folder = match made.base.as_ref().map(make_in) {
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Some(Ok(path)) => path,
        // There is none yet; or somebody has tidied up.
        Some(Err(_)) | None => make_in(made.base.insert(Base::new()?))?,
    };
    made.sessions.push(folder.clone());
    Ok(folder)
}

/// Removes such a folder with all that is in it, and the process's if that was the last. Does
/// nothing if it was removed before.
///
/// # Errors
/// The first of what could not be removed. All else is.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    let mut made = locked(&MADE);
    let Some(own) = made.sessions.iter().position(|path| path == folder) else {
        return Ok(());
    };
    made.sessions.swap_remove(own);
    drop(made);
    let removed = remove_all(folder);
    let mut made = locked(&MADE);
    let base = match made.sessions.is_empty() {
        true => made.base.take(),
        false => None,
    };
    drop(made);
    removed.and(base.map_or(Ok(()), |base| remove_all(&base.path)))
}

/// Removes the folders that sessions' processes of this process's nodes have for what their
/// compilers write: for a program that ends without dropping its nodes, as by an interrupt.
pub fn remove_scratch() {
    let mut made = locked(&MADE);
    let (sessions, base) = (std::mem::take(&mut made.sessions), made.base.take());
    drop(made);
    let base = base.as_ref().map(|base| &base.path);
    for folder in sessions.iter().chain(base) {
        // Nobody is left to hear of what cannot be removed.
        let _ = remove_all(folder);
    }
}

/// Removes the folders of this user's nodes that were killed.
pub(super) fn collect() {
    let folders = std::fs::read_dir(std::env::temp_dir());
    for entry in folders.into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(folder) = openat(CWD, entry.path(), flags, Mode::empty()) else {
            continue;
        };
        // SAFETY: it takes nothing.
        let user = unsafe { libc::geteuid() };
        let is_own = fstat(&folder).is_ok_and(|folder| folder.st_uid == user);
        let Some(_lock) = is_own.then(|| lock(&folder, OFlags::empty())).flatten() else {
            continue;
        };
        if let Err(error) = remove_all(&entry.path()) {
            quietly(|| tracing::debug!(%error, "files of a killed node's sessions are left"));
        }
    }
}

/// Gives the owner of a folder all rights to it, and follows no link. Where that is not possible,
/// opening or emptying it fails.
fn own(parent: impl AsFd, name: &CString) {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(folder) = openat(parent, name, flags, Mode::empty()) {
        // Not every system changes the mode of what was opened so by its descriptor.
        let _ = chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), Mode::RWXU);
    }
}

/// Opens a folder, and no link to one, after its owner has got all rights to it.
fn open(parent: impl AsFd, name: &CString) -> rustix::io::Result<OwnedFd> {
    own(&parent, name);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(&parent, name, flags, Mode::empty())
}

/// Removes a folder with all that is in it.
fn remove_all(folder: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let root_name = CString::new(folder.as_os_str().as_bytes())?;
    let root = open(CWD, &root_name)?;
    let mut first = Ok(());
    let mut tried = |done: rustix::io::Result<()>| {
        if let Err(error) = done
            && error != Errno::NOENT
            && first.is_ok()
        {
            first = Err(error);
        }
    };
    // Folders whose parent is the root, none of which is empty yet. What is made meanwhile is left,
    // with the root.
    let mut moved = 0_u64;
    let mut next = Vec::new();
    empty(&root, &root, (&mut moved, &mut next), &mut tried);
    while let Some(name) = next.pop() {
        match open(&root, &name) {
            Ok(inner) => empty(&inner, &root, (&mut moved, &mut next), &mut tried),
            Err(error) => tried(Err(error)),
        }
        tried(unlinkat(&root, &name, AtFlags::REMOVEDIR));
    }
    tried(unlinkat(CWD, &root_name, AtFlags::REMOVEDIR));
    first.map_err(Into::into)
}

/// Removes the files of a folder, and moves its folders to the root, under names that are counted.
fn empty(
    folder: &OwnedFd,
    root: &OwnedFd,
    (moved, next): (&mut u64, &mut Vec<CString>),
    tried: &mut impl FnMut(rustix::io::Result<()>),
) {
    let entries = match Dir::read_from(folder) {
        Ok(entries) => entries,
        Err(error) => return tried(Err(error)),
    };
    // All names first: those that are moved to the root are not to be met again.
    let names: Vec<_> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_owned())
        .filter(|name| !matches!(name.as_bytes(), b"." | b".."))
        .collect();
    for name in names {
        match unlinkat(folder, &name, AtFlags::empty()) {
            // Linux says so of a folder, and POSIX the other.
            Err(Errno::ISDIR | Errno::PERM) => {}
            done => {
                tried(done);
                continue;
            }
        }
        // A folder that cannot be changed cannot change its parent either.
        own(folder, &name);
        let to = loop {
            *moved += 1;
            let to = CString::new(format!("{moved}")).unwrap_or_default();
            match renameat(folder, &name, root, &to) {
                // There is something of that name.
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                done => break done.map(|()| to),
            }
        };
        match to {
            Ok(to) => next.push(to),
            Err(error) => tried(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_threads::Start;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn deep_folders_are_removed_on_a_small_stack_and_links_are_not_followed() {
        let kept = tempfile::tempdir().unwrap();
        std::fs::write(kept.path().join("file"), "kept").unwrap();
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("session");
        let deep = root.join(["d"; 1500].join("/"));
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("file"), "").unwrap();
        std::os::unix::fs::symlink(kept.path(), deep.join("link")).unwrap();
        let thread = std::thread::Builder::new().stack_size(1 << 16);
        let removed = thread.start(move || remove_all(&root)).unwrap();
        removed.join().unwrap().unwrap();
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
        assert!(kept.path().join("file").exists());
        // A link in the place of the folder is not followed either.
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(kept.path(), &link).unwrap();
        remove_all(&link).unwrap_err();
        assert!(kept.path().join("file").exists());
    }

    /// As a user who is not root, where these tests are root's: root needs no rights.
    fn as_somebody(test: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: they take numbers, and change this thread alone.
                unsafe {
                    libc::setfsgid(65534);
                    libc::setfsuid(65534);
                }
                test();
            });
            thread.join().unwrap();
        });
    }

    #[test]
    fn what_is_longer_than_a_path_or_hidden_from_its_owner_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        std::fs::set_permissions(parent.path(), PermissionsExt::from_mode(0o777)).unwrap();
        as_somebody(|| is_removed_beneath(parent.path()));
    }

    fn is_removed_beneath(parent: &Path) {
        let root = parent.join("session");
        // Names that are taken as folders move to the root.
        for taken in ["1/2/3", "2/1"] {
            std::fs::create_dir_all(root.join(taken)).unwrap();
        }
        std::fs::write(root.join("3"), "").unwrap();
        let name = CString::new([b'n'; 250]).unwrap();
        let mut inner = open(CWD, &CString::new(root.to_str().unwrap()).unwrap()).unwrap();
        for _ in 0..30 {
            rustix::fs::mkdirat(&inner, &name, Mode::RWXU).unwrap();
            inner = open(&inner, &name).unwrap();
        }
        let create = OFlags::CREATE | OFlags::WRONLY;
        openat(&inner, c"file", create, Mode::RUSR).unwrap();
        let hidden = root.join("hidden");
        std::fs::create_dir_all(hidden.join("inner")).unwrap();
        std::fs::write(hidden.join("inner/file"), "").unwrap();
        let fixed = root.join("fixed/inner");
        std::fs::create_dir_all(&fixed).unwrap();
        let modes = [
            (hidden.join("inner"), 0o300),
            (hidden, 0o300),
            (fixed, 0o500),
            (root.join("fixed"), 0o500),
            (root.clone(), 0o300),
        ];
        for (folder, mode) in modes {
            std::fs::set_permissions(folder, PermissionsExt::from_mode(mode)).unwrap();
        }
        remove_all(&root).unwrap();
        assert_eq!(std::fs::read_dir(parent).unwrap().count(), 0);
    }

    #[test]
    fn only_folders_that_were_made_here_are_removed_and_each_once() {
        let id = SessionId(std::array::from_fn(|byte| byte as u8));
        let folder = make(id).unwrap();
        let base = folder.parent().unwrap().to_owned();
        // As somebody else may name one.
        let other = base.with_file_name(format!("{PREFIX}{}-other", std::process::id()));
        std::fs::create_dir(&other).unwrap();
        remove(&other).unwrap();
        // Another node of this user's that starts finds that it is used.
        collect();
        assert!(folder.exists());
        remove(&folder).unwrap();
        assert!(!folder.exists());
        std::fs::create_dir_all(&folder).unwrap();
        remove(&folder).unwrap();
        remove_scratch();
        assert!(other.exists() && folder.exists());
        // Those of which nobody has the lock are of nodes that were killed.
        std::fs::write(base.join("lock"), "").unwrap();
        collect();
        assert!(other.exists() && !base.exists());
        std::fs::remove_dir(other).unwrap();
        // There is one when it is needed, whoever has tidied up.
        let folder = make(id).unwrap();
        remove_all(folder.parent().unwrap()).unwrap();
        let folder = make(id).unwrap();
        remove(&folder).unwrap();
    }
}
