//! Networks to test on, within one Linux machine: real sockets, real TCP, and faults that come when
//! a test says so.
//!
//! | module | contents |
//! |---|---|
//! | `machine` | a [`Machine`]: a network namespace, and threads and programs in it |
//! | `interface` | its network interfaces, as the system is asked for them |
//! | `switch` | a [`Switch`]: machines on cables (`veth`) at a bridge, each with a rate (`tbf`) |
//! | `relay` | a [`Relay`]: machines whose packets are passed on by this program, which delays, loses, damages and resets |
//! | `lane` | the arrival of a packet, by rate, delay and jitter: plain arithmetic |
//! | `packet` | packets for a relay: IPv4 and TCP |
//!
//! Time in it is real, since TCP's is: tests assert what comes about, and never when.
//!
//! Nothing of it outlives the process, however that ends. A namespace has no name: it is there as
//! long as somebody in it or a file of it is, and its interfaces with it. A program that was
//! started by [`Machine::command`] ends with the thread that started it. So there is nothing that a
//! next run would have to clean up, and runs beside each other share no names.
//!
//! It takes root, `/dev/net/tun`, and `ip` and `tc`: see [`lab_or_skip`].

#![cfg(target_os = "linux")]

mod interface;
mod lane;
mod machine;
mod packet;
mod relay;
mod switch;

pub use lane::Shape;
pub use machine::Machine;
pub use relay::{Link, Relay};
pub use switch::{Cable, Switch};

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::process::Command;

/// The variable that says, as `1`, that tests may leave out what needs a lab.
pub const WITHOUT: &str = "QUIPU_TEST_WITHOUT_NETWORK";

/// True if this machine gives a lab; false if it does not and `QUIPU_TEST_WITHOUT_NETWORK=1` says
/// that tests may leave out what needs one, which is then said loudly.
///
/// # Panics
/// If it does not, and they may not.
#[must_use]
pub fn lab_or_skip() -> bool {
    let Err(error) = try_out() else {
        return true;
    };
    assert!(
        std::env::var(WITHOUT).is_ok_and(|value| value == "1"),
        "no networks to test on: {error}\nThey take root, /dev/net/tun, and `ip` and `tc` (Debian: iproute2). Set {WITHOUT}=1 \
         to leave such tests out."
    );
    eprintln!("\n*** NOT TESTED: as on a network. {error}\n");
    false
}

/// Makes one of each that a lab is made of.
fn try_out() -> io::Result<()> {
    let machine = Machine::new()?;
    Relay::new(0)?.attach(&machine, Ipv4Addr::new(10, 0, 0, 1), Shape::default())?;
    let switch = Switch::new()?;
    switch.attach(&machine, Ipv4Addr::new(10, 0, 1, 1), Some(1_000_000_000))?;
    Ok(())
}

/// A path to an open file that other processes can follow.
fn path_of(file: &File) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

/// Runs a program that has nothing to say unless it fails.
fn run(mut command: Command) -> io::Result<()> {
    let problem = match command.output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(io::Error::other(format!("{command:?}: {problem}")))
}
