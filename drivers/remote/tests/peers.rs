//! Nodes that are used together: bytes and ends go from one to the other, straight if they can, and
//! by way of the client if not; and nobody can tell by what comes out.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_conformance::{Fixture, Watchdog, fixture, folding, graph, run};
use quipu_link::timer::{ManualTimer, Timer};
use quipu_protocol::{CONTENT, FEATURES, SENT_CONTENT};
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Event, MemoryRef, Queue, QueueOptions, Request,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use support::pair::Pair;
use support::relay::{Held, Way};
use support::{pool, simulated};

fn watchdog(what: &str) -> Watchdog {
    Watchdog::start(Duration::from_secs(1800), what.to_owned())
}

/// A node with a pool, and one with a pool and an accelerator.
fn mixed(seed: u64) -> Pair {
    let mut devices = pool(1);
    devices.extend(simulated(1));
    Pair::new([pool(1), devices], seed)
}

/// A pool here, and both nodes.
fn fixture_of(pair: &Arc<Pair>) -> impl Fixture + use<> {
    let pair = pair.clone();
    fixture::of("two nodes together", move || {
        let mut devices = pool(1);
        devices.extend(pair.devices());
        Ok(devices)
    })
    .without_priorities()
    .with_longest_chain(2000)
}

#[test]
fn random_graphs_over_two_nodes() {
    let _watchdog = watchdog("random graphs over two nodes");
    let pair = Arc::new(mixed(1));
    graph::random_graphs(300, 81, &fixture_of(&pair));
    assert!(pair.bytes().1 > 0);
}

#[test]
fn suite_over_two_nodes() {
    let _watchdog = watchdog("the suite over two nodes");
    run(&fixture_of(&Arc::new(mixed(2))));
}

#[test]
fn random_graphs_lose_nothing_when_the_way_between_nodes_is_cut_at_any_byte() {
    let _watchdog = watchdog("random graphs over cut ways between nodes");
    let mut pair = mixed(3);
    for rig in &mut pair.rigs {
        // A way that is lost is soon made again.
        rig.timer = Arc::new(Hasty::default());
        rig.peer_patience = Duration::from_secs(1);
    }
    let pair = Arc::new(pair);
    pair.set_peers(Way::Cutting(8, 14));
    let cuts = || -> usize { pair.peers.iter().map(|relay| relay.cuts()).sum() };
    let mut seed = 82;
    while cuts() < 300 {
        graph::random_graphs(100, seed, &fixture_of(&pair));
        seed += 1;
    }
}

#[cfg(target_os = "linux")]
#[test]
fn random_graphs_lose_nothing_when_every_connection_is_cut_at_any_byte() {
    let _watchdog = watchdog("random graphs over ways that are all cut");
    let pair = Arc::new(mixed(9));
    let own = pair.clone();
    let fixture = fixture::of("two nodes, all connections cut", move || {
        // The first words of a session are not resumed: whoever connects is told that it failed.
        own.clients.iter().for_each(|relay| relay.set(Way::Open));
        let devices = own.devices();
        let cutting = Way::Cutting(10, 16);
        own.clients.iter().for_each(|relay| relay.set(cutting));
        own.set_peers(Way::Cutting(8, 14));
        Ok([pool(1), devices].concat())
    })
    .without_priorities()
    .with_longest_chain(2000);
    let cuts = || -> usize { pair.clients.iter().map(|relay| relay.cuts()).sum() };
    let mut seed = 84;
    while cuts() < 20 {
        graph::random_graphs(200, seed, &fixture);
        seed += 1;
    }
}

/// A clock on which minutes have passed whenever somebody looks.
#[derive(Debug, Default)]
struct Hasty(AtomicU64);

impl Timer for Hasty {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.fetch_add(200, Ordering::SeqCst))
    }

    fn park_until(&self, _: Duration) {
        std::thread::yield_now();
    }
}

/// Replaces the first number by 31 times it and n, after these.
fn fold(queue: &Queue, memory: &MemoryRef, n: u64, waits: &[Event]) -> Event {
    try_fold(queue, memory, n, waits).unwrap()
}

/// The same, where the device may be known to be lost by now.
fn try_fold(
    queue: &Queue,
    memory: &MemoryRef,
    n: u64,
    waits: &[Event],
) -> quipu_scheduler::Result<Event> {
    let accesses = [Access::whole(memory, AccessMode::ReadWrite)];
    let request = Request {
        accesses: &accesses,
        waits,
        ..Request::default()
    };
    queue.launch(folding(n), 1, &request)
}

fn folded(value: u64, n: u64) -> u64 {
    value.wrapping_mul(31).wrapping_add(n)
}

fn transfer(queue: &Queue, memory: &MemoryRef, bytes: &mut [u8], is_read: bool) -> Event {
    // SAFETY: whoever calls this waits before he looks at the bytes.
    let host = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
    let row = memory.size();
    match is_read {
        true => queue.read(Access::whole(memory, AccessMode::Read), host, row, &[], &[]),
        false => queue.write(
            host,
            Access::whole(memory, AccessMode::Overwrite),
            row,
            &[],
            &[],
        ),
    }
    .unwrap()
}

/// A context of two nodes, and a queue of the first device of each.
struct Together {
    context: Context,
    queues: [Queue; 2],
}

impl Together {
    fn new(pair: &Pair) -> Self {
        Self::of(&pair.devices())
    }

    fn of(devices: &[Device]) -> Self {
        let context = Context::new(devices).unwrap();
        let queues = [0, 1].map(|side: usize| {
            context
                .queue(&devices[side], QueueOptions::default())
                .unwrap()
        });
        Self { context, queues }
    }

    /// A buffer whose bytes are on the first node.
    fn memory(&self, bytes: &mut [u8]) -> MemoryRef {
        let memory = self.context.memory(bytes.len() as u64).unwrap();
        transfer(&self.queues[0], &memory, bytes, false)
            .wait()
            .unwrap();
        memory
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at * 7) >> 3) as u8).collect()
}

/// A buffer that goes from node to node, so often; what it is then, and what it should be.
fn hops(together: &Together, size: usize, count: u64) -> (Vec<u8>, Vec<u8>) {
    let mut bytes = pattern(size);
    let memory = together.memory(&mut bytes);
    let mut expected = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    for hop in 0..count {
        fold(&together.queues[(hop as usize + 1) % 2], &memory, hop, &[]);
        expected = folded(expected, hop);
    }
    together.queues[0].flush();
    together.queues[1].flush();
    bytes[..8].copy_from_slice(&expected.to_le_bytes());
    let mut back = vec![0; size];
    let last = &together.queues[count as usize % 2];
    transfer(last, &memory, &mut back, true).wait().unwrap();
    (back, bytes)
}

#[test]
fn bytes_go_from_node_to_node_and_not_by_way_of_the_client() {
    let _watchdog = watchdog("bytes from node to node");
    for device in 0..2 {
        let devices = || match device {
            0 => pool(1),
            _ => simulated(1),
        };
        let pair = Pair::new([devices(), devices()], 4);
        let together = Together::new(&pair);
        const SIZE: usize = 5 << 20;
        let (back, expected) = hops(&together, SIZE, 1);
        assert!(back == expected);
        let before = pair.bytes();
        let (back, expected) = hops(&together, SIZE, 6);
        assert!(back == expected);
        let after = pair.bytes();
        let (client, peers) = (after.0 - before.0, after.1 - before.1);
        // There and back, and some words.
        let bulk = 2 * SIZE as u64;
        assert!(client < bulk + bulk / 8, "{client} bytes by the client");
        assert!(peers > 6 * SIZE as u64, "{peers} bytes from node to node");
        assert!(peers < 6 * SIZE as u64 + bulk / 8, "{peers} bytes");
    }
}

#[test]
fn a_chain_across_nodes_goes_on_while_no_client_is_there() {
    let _watchdog = watchdog("a chain without a client");
    let pair = Pair::new([pool(1), pool(1)], 5);
    let together = Together::new(&pair);
    let [left, right] = &together.queues;
    let (back, expected) = hops(&together, 64, 5);
    assert_eq!(back, expected);
    let mut bytes = pattern(64);
    let memory = together.memory(&mut bytes);
    let mut expected = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    // Others, which nothing but waits orders: an event of each node is a placeholder on the other.
    let others = [0, 1].map(|_| together.context.memory(64).unwrap());
    // What goes to the right does not arrive, until both nodes have all commands.
    pair.peers[1].hold(Held::All);
    const HOPS: u64 = 60;
    let mut events = Vec::new();
    for hop in 0..HOPS {
        let queue = &together.queues[(hop as usize + 1) % 2];
        events.push(fold(queue, &memory, hop, &[]));
        expected = folded(expected, hop);
    }
    let mut last = events[0].clone();
    for wait in 0..HOPS {
        let side = wait as usize % 2;
        last = fold(&together.queues[side], &others[side], wait, &[last]);
    }
    left.flush();
    right.flush();
    // A hop is three commands: one launches, one sends, one receives. All but the first that sends
    // wait for what is held.
    while pair.held() < 4 * HOPS - 1 {
        std::thread::yield_now();
    }
    pair.clients.iter().for_each(|relay| relay.set(Way::Closed));
    pair.peers[1].hold(Held::Nothing);
    while pair.held() > 0 {
        std::thread::yield_now();
    }
    assert!(!last.is_complete());
    pair.clients.iter().for_each(|relay| relay.set(Way::Open));
    last.wait().unwrap();
    let mut back = [0; 64];
    transfer(left, &memory, &mut back, true).wait().unwrap();
    assert_eq!(back[..8], expected.to_le_bytes());
}

#[test]
fn only_what_is_in_use_goes_from_node_to_node() {
    let _watchdog = watchdog("contents from node to node");
    let pair = Pair::new([pool(1), simulated(1)], 8);
    let together = Together::new(&pair);
    let (back, expected) = hops(&together, 64, 2);
    assert_eq!(back, expected);
    const SIZE: usize = 4 << 20;
    const USED: usize = 1000;
    let mut bytes = pattern(SIZE);
    let data = together.memory(&mut bytes);
    let size = together.memory(&mut USED.to_le_bytes());
    data.set_content_size(Some(size)).unwrap();
    let before = pair.bytes();
    let right = &together.queues[1];
    fold(right, &data, 5, &[]).wait().unwrap();
    let after = pair.bytes();
    let (client, peers) = (after.0 - before.0, after.1 - before.1);
    assert!(
        peers > USED as u64 && peers < 20 * USED as u64,
        "{peers} bytes from node to node"
    );
    assert!(client < 20 * USED as u64, "{client} bytes by the client");
    data.set_content_size(None).unwrap();
    let mut back = vec![1; SIZE];
    transfer(right, &data, &mut back, true).wait().unwrap();
    let first = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert_eq!(back[..8], folded(first, 5).to_le_bytes());
    assert!(back[8..USED] == bytes[8..USED]);
    assert!(back[USED..].iter().all(|byte| *byte == 0));
}

/// The bytes that a node should have of which so much is in use, once its first number was
/// replaced.
fn in_use(bytes: &[u8], used: u64, n: u64) -> Vec<u8> {
    let used = usize::try_from(used).unwrap_or(usize::MAX).min(bytes.len());
    let mut expected = bytes.to_vec();
    expected[used..].fill(0);
    let first = u64::from_le_bytes(expected[..8].try_into().unwrap());
    expected[..8].copy_from_slice(&folded(first, n).to_le_bytes());
    expected
}

/// A buffer of the first node's of which so much is in use, as that node says.
fn with_content(together: &Together, bytes: &mut [u8], used: u64) -> MemoryRef {
    let data = together.memory(bytes);
    let size = together.memory(&mut used.to_le_bytes());
    data.set_content_size(Some(size)).unwrap();
    data
}

/// All of a buffer, as the second node has it.
fn all_of(together: &Together, data: &MemoryRef) -> Vec<u8> {
    data.set_content_size(None).unwrap();
    let mut back = vec![1; data.size() as usize];
    let read = transfer(&together.queues[1], data, &mut back, true);
    read.wait().unwrap();
    back
}

#[test]
fn how_much_is_in_use_is_found_out_while_no_client_is_there() {
    let _watchdog = watchdog("contents without a client");
    for device in 0..2 {
        let devices = || match device {
            0 => pool(1),
            _ => simulated(1),
        };
        let pair = Pair::new([devices(), devices()], 10);
        let together = Together::new(&pair);
        let (back, expected) = hops(&together, 64, 2);
        assert_eq!(back, expected);
        const SIZE: usize = 300_000;
        let mut bytes = pattern(SIZE);
        let other = together.memory(&mut pattern(8));
        for used in [1000, 0, 100_000, SIZE as u64 - 1, SIZE as u64, u64::MAX] {
            let data = with_content(&together, &mut bytes, used);
            pair.peers[1].hold(Held::All);
            let last = fold(&together.queues[1], &data, 7, &[]);
            together.queues[1].flush();
            // The first node has all that it is to do, and the second one that receives, and what
            // waits for it.
            fold(&together.queues[0], &other, 1, &[]).wait().unwrap();
            while pair.held() < 2 {
                std::thread::yield_now();
            }
            pair.clients.iter().for_each(|relay| relay.set(Way::Closed));
            pair.peers[1].hold(Held::Nothing);
            while pair.held() > 0 {
                std::thread::yield_now();
            }
            assert!(!last.is_complete());
            pair.clients.iter().for_each(|relay| relay.set(Way::Open));
            last.wait().unwrap();
            let back = all_of(&together, &data);
            assert!(back == in_use(&bytes, used, 7), "{used} bytes");
        }
    }
}

/// Older nodes, and one that is older than the other: the client asks nothing of one that it has
/// not.
#[test]
fn nodes_that_lack_features_are_used_all_the_same() {
    let _watchdog = watchdog("nodes that lack features");
    const SIZE: usize = 300_000;
    let mut bytes = pattern(SIZE);
    for lacks in [SENT_CONTENT, SENT_CONTENT | CONTENT, FEATURES] {
        for lacking in [[lacks, 0], [0, lacks], [lacks, lacks]] {
            let side = std::cell::Cell::new(0);
            let pair = Pair::with([pool(1), simulated(1)], 12, |options| {
                options.lacks = lacking[side.replace(1)];
            });
            let together = Together::new(&pair);
            let (back, expected) = hops(&together, 64, 2);
            assert_eq!(back, expected);
            for used in [1000, 0, 100_000, SIZE as u64 - 1, SIZE as u64, u64::MAX] {
                let data = with_content(&together, &mut bytes, used);
                fold(&together.queues[1], &data, 7, &[]).wait().unwrap();
                let back = all_of(&together, &data);
                assert!(back == in_use(&bytes, used, 7), "{used} bytes, {lacking:?}");
            }
        }
    }
}

#[test]
fn what_is_in_use_goes_by_way_of_the_client_where_nodes_do_not_reach_each_other() {
    let _watchdog = watchdog("contents by way of the client");
    let mut pair = Pair::new([pool(1), simulated(1)], 11);
    pair.set_peers(Way::Closed);
    for rig in &mut pair.rigs {
        rig.peer_patience = Duration::from_millis(20);
    }
    let together = Together::new(&pair);
    const SIZE: usize = 3 << 20;
    let mut bytes = pattern(SIZE);
    for used in [1000, 0, 400_000, SIZE as u64] {
        let data = with_content(&together, &mut bytes, used);
        let before = pair.bytes().0;
        fold(&together.queues[1], &data, 7, &[]).wait().unwrap();
        let client = pair.bytes().0 - before;
        assert!(
            client < 2 * used + 20_000,
            "{client} bytes by the client for {used}"
        );
        let back = all_of(&together, &data);
        assert!(back == in_use(&bytes, used, 7), "{used} bytes");
    }
    assert_eq!(pair.bytes().1, 0);
}

#[test]
fn nodes_that_never_reach_each_other_are_used_together_all_the_same() {
    let _watchdog = watchdog("nodes that never reach each other");
    let mut pair = Pair::new([pool(1), simulated(1)], 6);
    pair.set_peers(Way::Closed);
    for rig in &mut pair.rigs {
        rig.peer_patience = Duration::from_millis(20);
    }
    let together = Together::new(&pair);
    let before = pair.bytes();
    const SIZE: usize = 3 << 20;
    let (back, expected) = hops(&together, SIZE, 5);
    assert!(back == expected);
    let after = pair.bytes();
    assert!(after.0 - before.0 > 12 * SIZE as u64);
    assert_eq!(after.1, before.1);
}

#[test]
fn a_way_that_is_lost_is_made_again_after_a_while() {
    let _watchdog = watchdog("a way that is made again");
    let timer = Arc::new(ManualTimer::default());
    let mut pair = Pair::new([pool(1), pool(1)], 7);
    for rig in &mut pair.rigs {
        rig.timer = timer.clone();
    }
    let together = Together::new(&pair);
    const SIZE: usize = 1 << 20;
    // How many bytes go from node to node for six hops.
    let six = || {
        let before = pair.bytes().1;
        let (back, expected) = hops(&together, SIZE, 6);
        assert!(back == expected);
        pair.bytes().1 - before
    };
    assert!(six() >= 6 * SIZE as u64);
    // Nobody takes a loss for one while the connection may still be in the making.
    timer.advance(2 * support::PATIENCE);
    pair.set_peers(Way::Closed);
    assert_eq!(six(), 0);
    pair.set_peers(Way::Open);
    // It is not tried again and again.
    assert_eq!(six(), 0);
    timer.advance(Duration::from_secs(2));
    // Until it is there, bytes go as before.
    while six() < 6 * SIZE as u64 {}
}

/// As by a forwarder between the nodes whose process was stopped: TCP sees nothing of it, and the
/// client reaches both nodes.
#[test]
fn bytes_that_are_not_passed_on_between_nodes_go_by_way_of_the_client() {
    let _watchdog = watchdog("a way between nodes that passes nothing on");
    let devices = [pool(1), pool(1)];
    let pair = Pair::with(devices, 7, |options| options.idle = Duration::from_secs(1));
    let together = Together::new(&pair);
    const SIZE: usize = 1 << 20;
    let are_right = || {
        let (back, expected) = hops(&together, SIZE, 6);
        back == expected
    };
    assert!(are_right());
    pair.peers.iter().for_each(|relay| relay.stop());
    assert!(are_right());
}

#[test]
fn the_loss_of_a_node_is_not_that_of_one_that_was_to_send_bytes_there() {
    let _watchdog = watchdog("bytes for a lost node");
    let pair = Pair::new([pool(1), pool(1)], 8);
    let together = Together::new(&pair);
    let [near, far] = &together.queues;
    // Its last bytes are on the first node, and there is a place for them on the second.
    let prepared = || {
        let memory = together.memory(&mut pattern(64));
        fold(far, &memory, 1, &[]);
        fold(near, &memory, 2, &[]).wait().unwrap();
        memory
    };
    let [first, second, other] = [prepared(), prepared(), prepared()];
    let Pair {
        rigs: [_kept, lost],
        ..
    } = pair;
    drop(lost);
    // The first may be under way when the loss is noticed. The second is not sent any more.
    for memory in [first, second] {
        let folded = try_fold(far, &memory, 3, &[]);
        folded.and_then(|event| event.wait()).unwrap_err();
        let lost = together.context.devices()[0].lost();
        assert!(lost.is_none(), "{lost:?}");
    }
    fold(near, &other, 4, &[]).wait().unwrap();
}

/// A node keeps what comes before its turn, so what is large does not.
#[test]
fn a_large_write_is_sent_when_its_turn_has_come_and_holds_up_nothing() {
    let _watchdog = watchdog("a large write before its turn");
    const LARGE: usize = 17 << 20;
    let pair = Pair::new([pool(1), pool(1)], 21);
    let devices = pair.devices();
    let context = Context::new(&devices).unwrap();
    let [there, beside, other] = [0, 0, 1].map(|device: usize| {
        context
            .queue(&devices[device], QueueOptions::default())
            .unwrap()
    });
    let [small, large, elsewhere] =
        [1 << 20, LARGE as u64, 64].map(|size| context.memory(size).unwrap());
    pair.clients[1].hold(Held::All);
    let before = other.fill(Access::whole(&elsewhere, AccessMode::Overwrite), &[7], &[]);
    let before = before.unwrap();
    let mut bytes = vec![3; LARGE];
    // SAFETY: kept, and not looked at, until all commands are over.
    let mut host = |length| unsafe { HostMemory::new(bytes.as_mut_ptr(), length, None) };
    let to = Access::whole(&large, AccessMode::Overwrite);
    let write = there.write(
        host(LARGE),
        to,
        LARGE as u64,
        &[],
        std::slice::from_ref(&before),
    );
    let write = write.unwrap();
    let to = Access::whole(&small, AccessMode::Overwrite);
    let second = beside.write(host(1 << 20), to, 1 << 20, &[], &[]).unwrap();
    second.wait().unwrap();
    // It would have been sent before.
    assert!(
        pair.clients[0].bytes() < 4 << 20,
        "{} bytes",
        pair.clients[0].bytes()
    );
    assert!(!write.is_complete());
    pair.clients[1].hold(Held::Nothing);
    write.wait().unwrap();
    assert!(pair.clients[0].bytes() > LARGE as u64);
}

/// Elsewhere sessions end with their connections.
#[cfg(target_os = "linux")]
mod fenced {
    use super::*;
    use quipu_node::native::Name;
    use quipu_node::{Maker, Natives};
    use quipu_scheduler::operation::NativeKernel;
    use quipu_scheduler::{RawArgument, Result};
    use std::ops::Range;
    use support::Suite;

    /// The kernels of the suite, whose runs are counted.
    struct Counted(Suite, Arc<AtomicU64>);

    struct CountedKernel(Box<dyn NativeKernel>, Arc<AtomicU64>);

    impl NativeKernel for CountedKernel {
        fn name(&self) -> &'static str {
            self.0.name()
        }

        unsafe fn run(&self, arguments: &[RawArgument], groups: Range<u32>) -> Result<()> {
            self.1.fetch_add(1, Ordering::SeqCst);
            // SAFETY: `NativeKernel::run` asks its caller for the same.
            unsafe { self.0.run(arguments, groups) }
        }
    }

    impl Natives for Counted {
        fn find(&self, name: &Name) -> Option<Maker> {
            let (maker, runs) = (self.0.find(name)?, self.1.clone());
            Some(Arc::new(move |launch| {
                Ok(Box::new(CountedKernel(maker(launch)?, runs.clone())) as _)
            }))
        }
    }

    #[test]
    fn bytes_of_a_peer_that_come_when_their_session_is_fenced_are_nobodys() {
        let _watchdog = watchdog("bytes for a fenced session");
        const SIZE: usize = 4 << 20;
        let timer = Arc::new(ManualTimer::default());
        let runs = Arc::new(AtomicU64::new(0));
        let is_left = std::cell::Cell::new(true);
        let mut pair = Pair::with([pool(1), pool(1)], 31, |options| {
            // Time passes for nothing but patience.
            options.limits.run_time = Duration::ZERO;
            options.limits.compile_time = Duration::ZERO;
            if is_left.replace(false) {
                options.timer = timer.clone();
                options.natives = Arc::new(Counted(Suite::default(), runs.clone()));
            }
        });
        for rig in &mut pair.rigs {
            rig.reconnect = support::PATIENCE;
        }
        for round in 0..8 {
            runs.store(0, Ordering::SeqCst);
            let devices = pair.devices();
            let together = Together::of(&devices);
            let [left, right] = &together.queues;
            // The way from node to node is there, and used, when it is held.
            let (back, expected) = hops(&together, SIZE, 2);
            assert!(back == expected);
            let ran = runs.load(Ordering::SeqCst);
            assert!(ran > 0);
            let memory = together.memory(&mut pattern(SIZE));
            fold(right, &memory, 1, &[]).wait().unwrap();
            pair.peers[0].hold(Held::All);
            // The bytes are on their way to the left, where a kernel waits for them, and others for
            // its end.
            let kernels = [0, 1, 2].map(|n| fold(left, &memory, n, &[]));
            left.flush();
            while pair.rigs[0].node.status()().commands_held < 4 {
                std::thread::yield_now();
            }
            while pair.rigs[1].node.status()().commands_held == 0 {
                std::thread::yield_now();
            }
            pair.clients[0].set(Way::Closed);
            while timer.waiting() < 2 {
                std::thread::yield_now();
            }
            timer.advance(support::PATIENCE);
            while pair.rigs[0].node.sessions() > 0 {
                std::thread::yield_now();
            }
            pair.clients[0].set(Way::Open);
            // Somebody else's, where the session's was, perhaps.
            let other = pair.rigs[0].devices();
            let context = Context::new(&other).unwrap();
            let queue = context.queue(&other[0], QueueOptions::default()).unwrap();
            let own = context.memory(SIZE as u64).unwrap();
            queue
                .fill(Access::whole(&own, AccessMode::Overwrite), &[7], &[])
                .unwrap()
                .wait()
                .unwrap();
            pair.peers[0].hold(Held::Nothing);
            // The right is through with it, whatever has become of it.
            for event in &kernels {
                event.wait().unwrap_err();
            }
            while pair.rigs[1].node.status()().commands_held > 0
                || pair.rigs[0].node.session_bytes() > SIZE as u64
            {
                std::thread::yield_now();
            }
            let mut back = vec![0; SIZE];
            transfer(&queue, &own, &mut back, true).wait().unwrap();
            assert!(back.iter().all(|byte| *byte == 7), "round {round}");
            assert_eq!(runs.load(Ordering::SeqCst), ran, "round {round}");
        }
    }
}
