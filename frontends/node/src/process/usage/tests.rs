//! What sessions are seen to have, and the ends of those that have too much.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard};

#[test]
fn all_processes_of_a_group_count_and_what_they_share_counts_once() {
    // Three: the shell, and a shell whose parent is gone, with what it has started.
    let (mut shell, _tell, _says) = shell("sh -c '(sleep 1000; true) &'; read line");
    let group = shell.id().cast_signed();
    let count = || members([group].into_iter()).remove(&group).unwrap();
    // They are read one after the other, and what has just been started grows yet.
    let agree = || {
        let members = count();
        std::thread::yield_now();
        let bytes = members.bytes();
        (members.processes.len(), members.threads) == (3, 3)
            && bytes > 0
            && (1..=bytes).contains(&bytes_together(&members.processes))
    };
    assert!((0..10_000).any(|_| agree()));
    // SAFETY: it takes numbers, of a group that this has started.
    unsafe { libc::kill(-group, libc::SIGKILL) };
    shell.wait().unwrap();
    while !count().processes.is_empty() {
        std::thread::yield_now();
    }
    assert!(tasks() > 0);
}

/// A shell with this script, in a group of its own, that has said that it is there.
fn shell(script: &str) -> (Child, ChildStdin, BufReader<ChildStdout>) {
    let mut shell = Command::new("sh")
        .args(["-c", &format!("echo there; {script}")])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (tell, says) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
    let mut says = BufReader::new(says);
    assert_eq!(line(&mut says), "there\n");
    (shell, tell, says)
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line
}

#[test]
fn nobody_but_who_starts_processes_without_end_is_touched() {
    // A process that was stopped is told when it goes on.
    let stopped = "trap 'echo stopped' CONT; echo ready; read line; echo $line";
    let (other, mut tell_other, mut other_says) = shell(stopped);
    assert_eq!(line(&mut other_says), "ready\n");
    let count = PROCESSES + 100;
    let forks = format!("read line; for one in $(seq {count}); do sleep 1000 & done; wait");
    let (bad, mut tell_bad, mut bad_says) = shell(&forks);
    let processes = Arc::new(super::super::parent::tests::processes_of([other, bad]));
    let looked_at = Arc::downgrade(&processes);
    let looking = std::thread::spawn(move || watch(&looked_at));
    writeln!(tell_bad, "go on").unwrap();
    // The end: all that could say something are gone.
    assert_eq!(line(&mut bad_says), "");
    writeln!(tell_other, "done").unwrap();
    assert_eq!(line(&mut other_says), "done\n");
    for (_, session) in locked(&processes.sessions).drain() {
        session.reap().unwrap();
    }
    looking.join().unwrap();
}

#[test]
fn of_a_client_that_has_too_much_the_largest_session_ends_and_nobody_elses() {
    let seen = |client: u8, processes: u64, buffers: u64| Seen {
        client: Fingerprint::of_bytes([client; 32]),
        has: [processes, buffers, many()],
        most: [100, 50, 20],
    };
    let ended = |all: &[Seen]| {
        let mut ended: Vec<_> = beyond_together(all).into_iter().collect();
        ended.sort_unstable();
        ended
    };
    let all = [
        seen(1, MEMORY + 99, 50),
        seen(2, MEMORY + 10, 0),
        seen(2, MEMORY + 91, 50),
        seen(3, 0, 20),
        seen(3, 0, 30),
    ];
    assert_eq!(ended(&all), [(2, MEMORY_TOGETHER)]);
    let mut all = [seen(1, 0, 50), seen(2, 0, 21), seen(2, 0, 30)];
    assert_eq!(ended(&all), [(2, MEMORY_TOGETHER)]);
    // Threads count, too, and a session that has the most of two things ends once.
    all[0].has[2] += 1000;
    all[2].has[2] += 21;
    assert_eq!(ended(&all), [(2, MEMORY_TOGETHER)]);
    all[2].has[1] = 0;
    assert_eq!(ended(&all), [(2, THREADS_TOGETHER)]);
    all[2].has[2] -= 1;
    assert!(ended(&all).is_empty());
    assert!(ended(&[]).is_empty());
}

#[test]
fn no_client_makes_the_files_of_anothers_session_wait_for_those_of_all_its_own() {
    let [many, one] = [1, 2].map(|byte| Fingerprint::of_bytes([byte; 32]));
    let mut all = vec![(many, None); 64];
    all.push((one, None));
    let mut now = Instant::now();
    let mut turns = Vec::new();
    while let Some(turn) = next(&all, now) {
        // Each look takes a while.
        now += LOOKING / 4;
        all[turn].1 = Some(now);
        turns.push(turn);
        if turns.len() == 300 {
            break;
        }
    }
    let of_one = (0..turns.len()).filter(|turn| turns[*turn] == 64);
    let of_one: Vec<usize> = of_one.collect();
    assert!(of_one[0] <= 1);
    assert!(of_one.windows(2).all(|two| two[1] - two[0] <= 6));
    // And each of the others has its turn.
    assert!((0..64).all(|session| turns.contains(&session)));
    all.iter_mut().for_each(|(_, looked)| *looked = Some(now));
    assert_eq!(next(&all, now), None);
    assert_eq!(next(&[], now), None);
}

#[test]
fn processes_that_have_very_many_files_open_have_too_many() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let child = fork(|| {
        for _ in 0..500 {
            // SAFETY: it takes a number.
            unsafe { libc::dup(0) };
        }
    });
    let has_all =
        || std::fs::read_dir(format!("/proc/{child}/fd")).is_ok_and(|all| all.count() > 500);
    while !has_all() {
        std::thread::yield_now();
    }
    let look = |times| unlinked(&vec![child; times], folder.path());
    assert!(look(1).is_ok());
    assert!(look(OPEN / 500 + 1).is_err_and(|text| text.contains("open files")));
    end(child);
}

#[test]
fn a_folder_of_too_many_files_or_bytes_is_overfull() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    std::fs::create_dir(&path).unwrap();
    let overfull = |processes: &[u32]| {
        let unlinked = unlinked(processes, folder.path()).unwrap();
        is_overfull(folder.path(), &unlinked)
    };
    assert!(!overfull(&[]));
    // One with holes: it takes no room.
    let file = std::fs::File::create(path.join("large")).unwrap();
    file.set_len(WRITTEN.0 + 1).unwrap();
    assert!(overfull(&[]));
    // Nor does it leave by being unlinked while it is open.
    std::fs::remove_file(path.join("large")).unwrap();
    assert!(!overfull(&[]));
    let own = [std::process::id(); 2];
    assert!(overfull(&own));
    file.set_len(1).unwrap();
    assert!(!overfull(&own));
    // What is kept free for a file is taken, though it holds nothing.
    let kept = std::fs::File::create(path.join("kept")).unwrap();
    // SAFETY: it takes numbers, of a file that is open.
    let is_kept =
        unsafe { libc::fallocate(kept.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, 1 << 20) == 0 };
    let kept = kept.metadata().unwrap();
    assert_eq!(kept.len(), 0);
    // Not every file system keeps room.
    assert!(!is_kept || taken(&kept) >= 1 << 20);
    for number in 0..WRITTEN.1 {
        std::fs::File::create(path.join(number.to_string())).unwrap();
    }
    assert!(overfull(&[]));
}

/// Held by tests that start processes, or open files that have no name: a process would inherit
/// those of other tests.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    locked(&ALONE)
}

/// Starts a process that does this, and then nothing.
fn fork(act: impl FnOnce()) -> u32 {
    // SAFETY: the child has the allocator, which the system's library hands it unlocked, and
    // takes no other lock.
    let child = unsafe { libc::fork() };
    if child == 0 {
        act();
        loop {
            // SAFETY: it takes nothing.
            unsafe { libc::pause() };
        }
    }
    assert!(child > 0);
    child.unsigned_abs()
}

fn end(child: u32) {
    let child = child.cast_signed();
    // SAFETY: they take numbers, of a process that this has started, and a null pointer asks
    // for no status.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
}

/// New memory of a process, or a file's.
fn map(bytes: usize, flags: libc::c_int, file: Option<&std::fs::File>) {
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let file = file.map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: nobody else knows of it.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, both, flags, file, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
}

const PAGE: usize = 4096;

#[test]
fn a_file_that_is_mapped_and_neither_open_nor_found_counts_as_one_of_any_size() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a file");
    let make = || {
        let mut options = std::fs::File::options();
        options.read(true).write(true).create_new(true);
        let file = options.open(&path).unwrap();
        file.set_len(FILE).unwrap();
        map(PAGE, libc::MAP_SHARED, Some(&file));
        // Twice: it is one file.
        map(PAGE, libc::MAP_PRIVATE, Some(&file));
        drop(file);
        std::fs::remove_file(&path).unwrap();
    };
    let child = fork(|| (0..WRITTEN.0 / FILE + 1).for_each(|_| make()));
    // It says nothing when it has made them.
    let all = std::iter::repeat_with(|| unlinked(&[child], folder.path()).unwrap());
    let is_enough = |all: &HashMap<u64, u64>| all.len() as u64 > WRITTEN.0 / FILE;
    let all = all.into_iter().find(is_enough).unwrap();
    assert!(all.values().all(|bytes| *bytes == FILE));
    assert!(is_overfull(folder.path(), &all));
    let other = tempfile::tempdir().unwrap();
    assert!(unlinked(&[child], other.path()).unwrap().is_empty());
    end(child);
}

#[test]
fn a_process_whose_first_thread_has_ended_has_what_its_others_have() {
    let _alone = alone();
    const BYTES: u64 = 64 << 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("open");
    let file = std::fs::File::create_new(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let child = fork(|| {
        let kept = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        map(BYTES as usize, kept, None);
        let wait = || loop {
            std::thread::park();
        };
        quipu_threads::Start::start(std::thread::Builder::new(), wait).unwrap();
        // SAFETY: this thread ends, and nothing else.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    });
    let has_ended = || {
        let status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap();
        status.contains("State:\tZ")
    };
    while !has_ended() {
        std::thread::yield_now();
    }
    assert!(bytes_of(child) >= BYTES && bytes_together(&[child]) >= BYTES);
    assert_eq!(unlinked(&[child], folder.path()).unwrap().len(), 1);
    drop(file);
    end(child);
    assert_eq!(bytes_of(child), 0);
}

#[test]
fn who_does_not_let_others_look_is_found_out() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let child = fork(|| {
        // As a program that nobody may read.
        // SAFETY: it takes numbers.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
    });
    let look = || unlinked(&[child], folder.path());
    let looked = std::thread::scope(|scope| {
        let looking = || {
            // The system lets root see everything: what a thread may do is its own.
            let (header, none) = ([0x2008_0522_u32, 0], [0_u32; 6]);
            // SAFETY: header and sets are there until the call returns, as the system lays them
            // out.
            let set = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
            assert_eq!(set, 0);
            while look().is_ok() {
                std::thread::yield_now();
            }
            look()
        };
        scope.spawn(looking).join().unwrap()
    });
    assert!(looked.is_err_and(|text| text.contains("hides")));
    end(child);
    assert!(look().unwrap().is_empty());
}

#[test]
fn memory_that_says_where_memory_is_counts() {
    let _alone = alone();
    const BYTES: usize = 16 << 30;
    let child = fork(|| {
        let kept = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new memory, which is read.
        unsafe {
            let memory = libc::mmap(std::ptr::null_mut(), BYTES, libc::PROT_READ, kept, -1, 0);
            assert_ne!(memory, libc::MAP_FAILED);
            libc::madvise(memory, BYTES, libc::MADV_NOHUGEPAGE);
            // One page of each table, which is one of zeros.
            for at in (0..BYTES).step_by(2 << 20) {
                memory.cast::<u8>().add(at).read_volatile();
            }
        }
    });
    while bytes_of(child) < (BYTES / 512) as u64 {
        std::thread::yield_now();
    }
    end(child);
}

#[test]
fn who_has_the_system_end_others_first_is_ended() {
    let first = "echo 800 > /proc/self/oom_score_adj; echo ready; read line";
    let (other, mut tell_other, mut other_says) = shell(&format!("{first}; echo $line"));
    // It has a child with the lower one, and takes its own back.
    let adjust = |to: u32| format!("echo {to} > /proc/self/oom_score_adj");
    let steps_back = [first, &adjust(0), "sleep 1000 &", &adjust(800), "wait"];
    let (bad, mut tell_bad, mut bad_says) = shell(&steps_back.join("\n"));
    for says in [&mut other_says, &mut bad_says] {
        assert_eq!(line(says), "ready\n");
    }
    let processes = Arc::new(super::super::parent::tests::processes_of([other, bad]));
    let looked_at = Arc::downgrade(&processes);
    let looking = std::thread::spawn(move || watch(&looked_at));
    writeln!(tell_bad, "go on").unwrap();
    // The end: all that could say something are gone.
    assert_eq!(line(&mut bad_says), "");
    writeln!(tell_other, "done").unwrap();
    assert_eq!(line(&mut other_says), "done\n");
    for (_, session) in locked(&processes.sessions).drain() {
        session.reap().unwrap();
    }
    looking.join().unwrap();
}
