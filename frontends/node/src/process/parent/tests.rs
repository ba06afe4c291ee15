//! Tests of the node's side of sessions' processes, and sessions for the tests of other modules.

use super::*;
use quipu_link::timer::SystemTimer;

#[test]
fn a_process_that_speaks_without_end_is_not_listened_to() {
    let (hosted, channel) = hosted_by(Command::new("true").spawn().unwrap());
    let processes = processes_of([]);
    let channel = Channel::over(channel);
    std::thread::scope(|scope| {
        let processes = &processes;
        scope.spawn(move || {
            processes.watch(SessionId([1; 16]), &hosted);
            assert_eq!(locked(&hosted.told).as_deref(), Some(TOO_MUCH_SAID));
        });
        // Until it is closed; if nobody ends it, it says that for very long.
        let says = |_: &u32| match channel.send(&[LOAD], None) {
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            Ok(()) => true,
        };
        let _ = (0..10_000_000_u32).find(|number| !says(number));
        drop(channel);
    });
}

#[test]
fn what_a_session_has_to_say_is_within_its_budget() {
    let processes = processes_of([]);
    let mut budget = processes.packets();
    let mut now = Duration::ZERO;
    for _ in 0..10_000 {
        now += Duration::from_millis(50);
        // Links, the end of the answer, and a quarter of a second's totals.
        assert!((0..4 + 1 + 1).all(|_| budget.take(now).is_ok()));
    }
}

#[test]
fn sessions_of_a_client_are_dialled_for_together() {
    let processes = processes_of([]);
    let [one, other] = [1, 2].map(|byte| Fingerprint::of_bytes([byte; 32]));
    let count = processes.dialled_for(one);
    assert!(Arc::ptr_eq(&count, &processes.dialled_for(one)));
    assert!(!Arc::ptr_eq(&count, &processes.dialled_for(other)));
    drop(count);
    processes.dialled_for(other);
    assert_eq!(locked(&processes.dialled).len(), 1);
}

#[test]
fn nobody_makes_the_node_forget_why_anothers_session_has_ended() {
    let mut over = Over::default();
    let [one, other] = [1, 2].map(|byte| Fingerprint::of_bytes([byte; 32]));
    let route = |number: u8| Route::to(SessionId([number; 16]));
    over.push(one, route(1), "why".to_owned());
    for number in 0..1000_u32 {
        over.push(other, route(number as u8), "another".to_owned());
    }
    assert_eq!(over.why(one, route(1)), Some("why"));
    assert_eq!(over.why(other, route(231)), Some("another"));
    assert_eq!(over.why(one, route(231)), None);
    for client in 0..1000_u32 {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&client.to_le_bytes());
        over.push(Fingerprint::of_bytes(key), route(1), String::new());
    }
    assert_eq!(over.0.len(), REMEMBERED.1);
}

/// So that sessions of different clients have no cache in common, and none where the sandbox
/// lets nobody write.
#[test]
fn a_session_writes_to_its_own_folder() {
    let scratch = Path::new("/scratch");
    let command = Spawn::own(["session"]).unwrap().command(scratch);
    let said: std::collections::HashMap<_, _> = command.get_envs().collect();
    let own = Some(scratch.as_os_str());
    for name in ["HOME", "XDG_CACHE_HOME", "POCL_CACHE_DIR", "TMPDIR"] {
        assert_eq!(said[name.as_ref() as &std::ffi::OsStr], own, "{name}");
    }
    for name in crate::process::OF_THE_NODE {
        assert_eq!(said[name.as_ref() as &std::ffi::OsStr], None, "{name}");
    }
}

/// Sessions whose keepers are these, of which each leads a group, and nothing that keeps them.
pub(in crate::process) fn processes_of(leaders: impl IntoIterator<Item = Child>) -> Processes {
    let processes = Processes::none(
        Spawn::own([""; 0]).unwrap(),
        Peering::default(),
        Arc::new(SystemTimer::default()),
    );
    for (leader, number) in leaders.into_iter().zip(1..) {
        let group = leader.id().cast_signed();
        let (hosted, _) = hosted_by(leader);
        hosted.group.set(group).unwrap();
        let begun = usage::Begun::of(group.unsigned_abs(), &hosted.scratch);
        hosted.begun.set(begun).unwrap();
        let route = Route::to(SessionId([number; 16]));
        locked(&processes.sessions).insert(route, Arc::new(hosted));
    }
    processes
}

/// A session whose keeper is this.
fn hosted_by(keeper: Child) -> (Hosted, OwnedFd) {
    let (ours, theirs) = Channel::pair().unwrap();
    let hosted = Hosted {
        client: Fingerprint::of_bytes([0; 32]),
        rights: Rights::default(),
        limits: Limits::default(),
        scratch: PathBuf::new(),
        is_suspect: AtomicBool::new(false),
        looked: Mutex::default(),
        is_told: AtomicBool::new(false),
        told: Mutex::default(),
        number: 0,
        answer: Mutex::default(),
        has_peers: false,
        channel: Arc::new(ours),
        kept: Mutex::default(),
        child: Mutex::new(Some(keeper)),
        group: OnceLock::new(),
        begun: OnceLock::new(),
        control: OnceLock::new(),
        totals: Mutex::default(),
        logged_as: None,
        dialled: Arc::default(),
    };
    (hosted, theirs)
}

#[test]
fn a_keeper_that_does_not_end_what_it_keeps_leaves_nothing_of_it_behind() {
    use std::io::{BufRead, BufReader, Read};
    // It hears of nothing, and what it keeps has a group of its own and has started others.
    let session = "sh -c 'echo there; sleep 1000; echo late' & wait";
    let mut keeper = Command::new("sh")
        .args(["-c", &format!("setsid sh -c \"{session}\" & wait")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(keeper.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "there\n");
    let (hosted, channel) = hosted_by(keeper);
    // As if it was gone already: nobody waits for it.
    drop(channel);
    hosted.give_up();
    hosted.reap().unwrap();
    // Until all are gone that may say something.
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn who_has_fewer_sessions_than_may_be_is_never_told_that_there_are_too_many() {
    const CLIENTS: u8 = 4;
    let own = Command::new("true").spawn().unwrap();
    let (hosted, _channel) = hosted_by(own);
    let hosted = Arc::new(hosted);
    let processes = processes_of([]);
    let limits = Limits {
        client_sessions: CLIENTS.into(),
        ..Limits::default()
    };
    let sessions_of = |thread: u8| {
        let id = SessionId([thread; 16]);
        for _ in 0..10_000 {
            let starting = processes.make_room(hosted.client, &limits);
            starting?.become_session(id, Arc::clone(&hosted));
            locked(&processes.sessions).remove(&Route::to(id));
        }
        Ok::<_, String>(())
    };
    std::thread::scope(|scope| {
        let sessions_of = &sessions_of;
        let threads: Vec<_> = (0..CLIENTS)
            .map(|thread| scope.spawn(move || sessions_of(thread)))
            .collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), Ok(()));
        }
    });
    assert!(locked(&processes.starting).is_empty());
    hosted.reap().unwrap();
}
