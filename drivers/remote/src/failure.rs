//! What a node says went wrong, and that it is gone.

use quipu_core::{Error, ErrorKind};
use quipu_driver_vendor::Failure as _;
use quipu_wire::message::{Failed, Failure};

/// Why nothing more can be had of a node, or a command could not be sent.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The connection is lost. Says which node's, and why.
    Lost(String),
    /// There is no room for it now.
    Full(String),
    /// It makes no sense to the protocol.
    NotSent(String),
}

impl quipu_driver_vendor::Failure for Refusal {
    fn is_loss(&self) -> bool {
        matches!(self, Self::Lost(_))
    }

    fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    fn text(&self) -> String {
        let (Self::Lost(text) | Self::Full(text) | Self::NotSent(text)) = self;
        text.clone()
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.text())
    }
}

/// The core's error for what a node says of a command.
pub(crate) fn of_node(node: &str, failed: &Failed<'_>) -> Error {
    let [asked, free, capacity] = failed.numbers;
    let text = failed.text.to_owned();
    let or = |what: &str, else_: &str| {
        if what.is_empty() {
            else_.to_owned()
        } else {
            what.to_owned()
        }
    };
    let on_node = |what: &str| format!("{} on node '{node}'", or(what, "a command"));
    let device = || or(failed.what, "a device");
    match failed.failure {
        Failure::Cancelled => ErrorKind::Cancelled {
            what: on_node(failed.what),
        },
        Failure::Dependency => ErrorKind::Dependency {
            cause: ErrorKind::Device {
                device: format!("of node '{node}'"),
                what: "run what it depends on".to_owned(),
                message: text,
            }
            .into(),
        },
        Failure::Kernel => ErrorKind::Kernel {
            what: on_node(failed.what),
            message: text,
        },
        Failure::Panicked => ErrorKind::Panicked {
            what: on_node(failed.what),
            message: text,
        },
        Failure::DeviceLost => ErrorKind::DeviceLost {
            device: format!("{} on {node}", device()),
            reason: text,
        },
        Failure::OutOfMemory => ErrorKind::OutOfMemory {
            device: format!("{} on node '{node}'", device()),
            asked,
            free,
            capacity,
        },
        Failure::Unsupported => ErrorKind::Unsupported {
            driver: "remote",
            what: format!(
                "do that on node '{node}': {}",
                or(&text, "it does not say why")
            ),
            instead: "or use another device",
        },
        Failure::InvalidArgument | Failure::InvalidSize | Failure::Device | Failure::Other => {
            ErrorKind::Device {
                device: format!("of node '{node}'"),
                what: or(failed.what, "run a command"),
                message: text,
            }
        }
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cancelled_is_named_if_the_node_has_named_it() {
        let said = |what| {
            let failed = Failed {
                event: 3,
                cause: 0,
                failure: Failure::Cancelled,
                numbers: [0; 3],
                what,
                text: "",
            };
            let error = of_node("attic", &failed);
            assert!(error.is_cancelled());
            error.to_string()
        };
        assert_eq!(
            said("'sum' on 'a pool'"),
            "'sum' on 'a pool' on node 'attic' was cancelled before it started"
        );
        assert!(said("").starts_with("a command on node 'attic' was cancelled"));
    }
}
