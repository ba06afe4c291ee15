//! The rights of a client at a node, where they are less than all that the node gives.

use crate::error::LinkError;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// See the module. By default everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// The devices that it sees: a driver's name, or one with a number, as `cuda:0`. Empty: all.
    pub devices: Vec<String>,
    /// Bytes that its sessions may have together, in their buffers and in their processes.
    pub memory: Option<u64>,
    /// Sessions at once.
    pub sessions: Option<u32>,
    /// Cores of the machine that a session may keep busy.
    pub cores: Option<u32>,
    /// The time that a kernel may run, a native one without a pause, in whole seconds.
    pub run_time: Option<Duration>,
    /// True if its sessions may have to do with other nodes.
    pub peers: bool,
}

impl Default for Rights {
    fn default() -> Self {
        Self {
            devices: Vec::new(),
            memory: None,
            sessions: None,
            cores: None,
            run_time: None,
            peers: true,
        }
    }
}

impl Rights {
    /// True if nothing is kept from the client.
    #[must_use]
    pub fn are_all(&self) -> bool {
        *self == Self::default()
    }

    /// True if a client with these has all rights that others allow, but for the number of
    /// sessions, which counts as one begins.
    #[must_use]
    pub fn cover(&self, others: &Self) -> bool {
        fn is_within<T: PartialOrd>(most: Option<&T>, had: Option<&T>) -> bool {
            match (most, had) {
                (None, _) => true,
                (Some(most), Some(had)) => had <= most,
                (Some(_), None) => false,
            }
        }
        let has = |device: &String| {
            let driver = device.split(':').next().unwrap_or_default();
            self.devices
                .iter()
                .any(|own| own == device || own == driver)
        };
        let devices =
            self.devices.is_empty() || !others.devices.is_empty() && others.devices.iter().all(has);
        devices
            && is_within(self.memory.as_ref(), others.memory.as_ref())
            && is_within(self.cores.as_ref(), others.cores.as_ref())
            && is_within(self.run_time.as_ref(), others.run_time.as_ref())
            && (self.peers || !others.peers)
    }

    /// True if the client may see this device: its driver's name, and its number there.
    #[must_use]
    pub fn allow(&self, driver: &str, number: usize) -> bool {
        let is_it = |named: &String| match named.split_once(':') {
            Some((name, of_it)) => name == driver && of_it.parse() == Ok(number),
            None => named == driver,
        };
        self.devices.is_empty() || self.devices.iter().any(is_it)
    }
}

impl fmt::Display for Rights {
    /// One line without tabs, as lists keep it: `all`, or the rights with spaces between.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        if !self.devices.is_empty() {
            words.push(format!("devices={}", self.devices.join(",")));
        }
        words.extend(self.memory.map(|bytes| format!("memory={bytes}")));
        words.extend(self.sessions.map(|sessions| format!("sessions={sessions}")));
        words.extend(self.cores.map(|cores| format!("cores={cores}")));
        let run_time = self.run_time.map(|time| time.as_secs());
        words.extend(run_time.map(|seconds| format!("run-time={seconds}")));
        if !self.peers {
            words.push("peers=no".to_owned());
        }
        if words.is_empty() {
            return formatter.write_str("all");
        }
        formatter.write_str(&words.join(" "))
    }
}

impl FromStr for Rights {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        let parse = || {
            let mut rights = Self::default();
            if text == "all" {
                return Some(rights);
            }
            for word in text.split(' ') {
                let (name, value) = word.split_once('=')?;
                match name {
                    "devices" => {
                        for device in value.split(',') {
                            rights.devices.push(device_name(device)?);
                        }
                    }
                    "memory" => rights.memory = Some(value.parse().ok()?),
                    "sessions" => {
                        rights.sessions = Some(value.parse().ok().filter(|most| *most > 0)?);
                    }
                    "cores" => rights.cores = Some(value.parse().ok().filter(|cores| *cores > 0)?),
                    "run-time" => {
                        let seconds = value.parse().ok().filter(|seconds| *seconds > 0)?;
                        rights.run_time = Some(Duration::from_secs(seconds));
                    }
                    "peers" => {
                        rights.peers = matches!(value, "yes" | "no").then_some(value == "yes")?
                    }
                    _ => return None,
                }
            }
            Some(rights)
        };
        parse().ok_or_else(|| LinkError::BadText {
            what: "the rights",
            text: text.to_owned(),
            problem: "are none; write `all`, or of devices=cuda:0,cpu memory=BYTES sessions=N cores=N run-time=SECONDS peers=no those that are meant, with spaces between",
        })
    }
}

/// A driver's name, or one with a number.
fn device_name(text: &str) -> Option<String> {
    let (driver, number) = match text.split_once(':') {
        Some((driver, number)) => (driver, Some(number)),
        None => (text, None),
    };
    let is_name = !driver.is_empty() && driver.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_number = number.is_none_or(|number| number.parse::<usize>().is_ok());
    (is_name && is_number).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_as_it_was() {
        let some = Rights {
            devices: vec!["cuda:0".to_owned(), "cpu".to_owned()],
            memory: Some(8 << 30),
            sessions: Some(3),
            cores: Some(2),
            run_time: Some(Duration::from_secs(5)),
            peers: false,
        };
        assert_eq!(
            some.to_string(),
            "devices=cuda:0,cpu memory=8589934592 sessions=3 cores=2 run-time=5 peers=no"
        );
        for rights in [some, Rights::default()] {
            assert_eq!(rights.to_string().parse::<Rights>().unwrap(), rights);
        }
    }

    #[test]
    fn what_means_nothing_is_refused_and_never_taken_for_all() {
        for text in [
            "",
            " ",
            "all ",
            "devices=",
            "devices=a,",
            "devices=a:b",
            "memory=",
            "memory=-1",
            "sessions=0",
            "cores=0",
            "run-time=0",
            "peers=",
            "peers=maybe",
            "everything=yes",
            "devices=cpu  cores=1",
        ] {
            assert!(text.parse::<Rights>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn devices_are_named_by_driver_and_number() {
        let rights: Rights = "devices=cuda:1,cpu".parse().unwrap();
        for (driver, number, allowed) in [
            ("cuda", 1, true),
            ("cuda", 0, false),
            ("cuda", 11, false),
            ("cpu", 0, true),
            ("cpu", 7, true),
            ("opencl", 1, false),
        ] {
            assert_eq!(rights.allow(driver, number), allowed, "{driver}:{number}");
        }
        assert!(Rights::default().allow("anything", 3));
    }

    #[test]
    fn narrower_rights_do_not_cover_what_somebody_has() {
        let of = |text: &str| text.parse::<Rights>().unwrap();
        for (most, had) in [
            ("all", "all"),
            ("all", "devices=cuda:0 memory=5 peers=no"),
            ("devices=cuda,cpu", "devices=cuda:0"),
            ("memory=5", "memory=5 cores=2"),
            ("memory=5 cores=2 run-time=9", "memory=4 cores=1 run-time=9"),
            ("sessions=1", "all"),
            ("peers=no", "peers=no"),
        ] {
            assert!(of(most).cover(&of(had)), "{most}, {had}");
        }
        for (most, had) in [
            ("devices=cuda:0", "all"),
            ("devices=cuda:0", "devices=cuda"),
            ("devices=cuda:0", "devices=cuda:0,cpu"),
            ("memory=5", "all"),
            ("memory=5", "memory=6"),
            ("cores=1", "memory=6"),
            ("run-time=9", "run-time=10"),
            ("peers=no", "all"),
        ] {
            assert!(!of(most).cover(&of(had)), "{most}, {had}");
        }
    }
}
