//! A client that computes, and looks whether all is as it left it, while others do their worst
//! beside it.

use super::{Client, Rig, buffer, command, fill, read};
use quipu_protocol::message::{Fill, Message, Operation};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Runs `worst` beside such a client of the rig's first key, which is busy when it begins, and goes
/// on after it. What the client found, if anything was not as it should be, is a panic.
pub(crate) fn beside(rig: &Rig, worst: impl FnOnce()) {
    let (over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let honest = scope.spawn(|| {
            let mut client = rig.client();
            client.send(&[buffer(1, BYTES), command(1, &[], fill(1, BYTES))]);
            let mut event = 2;
            while !over.load(Ordering::SeqCst) {
                round(&mut client, event, (event % 251) as u8);
                event += 2;
                rounds.fetch_add(1, Ordering::SeqCst);
            }
            for number in 0..10 {
                round(&mut client, event + 2 * number, 3);
            }
        });
        let busy = |more: u64| {
            let before = rounds.load(Ordering::SeqCst);
            while rounds.load(Ordering::SeqCst) < before + more && !honest.is_finished() {
                std::thread::yield_now();
            }
        };
        busy(3);
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(worst));
        busy(3);
        over.store(true, Ordering::SeqCst);
        honest
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

const BYTES: u64 = 4096;

/// Fills the buffer, and reads it back.
fn round(client: &mut Client, event: u64, with: u8) {
    let mut pattern = [0; 16];
    pattern[0] = with;
    let fill = Operation::Fill(Fill {
        buffer: 1,
        offset: 0,
        length: BYTES,
        pattern,
        pattern_length: 1,
    });
    client.send(&[
        command(event, &[], fill),
        command(event + 1, &[], read(1, 0, BYTES, 0)),
    ]);
    loop {
        let came = client.next(|message| match message {
            Message::ReadBytes(read) => Some(read.bytes.to_vec()),
            Message::Failed(failed) => panic!("{}", failed.text),
            _ => None,
        });
        if let Some(bytes) = came.unwrap() {
            assert_eq!(bytes, [with; BYTES as usize]);
            break;
        }
    }
    assert_eq!(client.end_of(event + 1), None);
    client.acknowledge();
}
