//! The machine a figure was measured on. Facts that the system does not tell are left out.

use serde::{Deserialize, Serialize};

/// The description that goes into every report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The operating system, as Rust names it.
    pub operating_system: String,
    /// The instruction set, as Rust names it.
    pub architecture: String,
    /// Cores that this process may use.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cores: Option<usize>,
    /// The processor's model name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu: Option<String>,
    /// Main memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_bytes: Option<u64>,
}

impl Machine {
    /// Describes the machine this process runs on.
    pub fn describe() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Machine {
            operating_system: std::env::consts::OS.into(),
            architecture: std::env::consts::ARCH.into(),
            cores: std::thread::available_parallelism()
                .ok()
                .map(std::num::NonZero::get),
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            memory_bytes: field(&read("/proc/meminfo"), "MemTotal").and_then(|total| {
                let kibibytes: u64 = total.strip_suffix("kB")?.trim().parse().ok()?;
                kibibytes.checked_mul(1024)
            }),
        }
    }

    /// One line for people.
    pub fn summary(&self) -> String {
        let mut parts = vec![
            self.cpu
                .clone()
                .unwrap_or_else(|| format!("{} processor", self.architecture)),
        ];
        match self.cores {
            Some(1) => parts.push("1 core".into()),
            Some(cores) => parts.push(format!("{cores} cores")),
            None => {}
        }
        if let Some(bytes) = self.memory_bytes {
            parts.push(format!("{:.0} GiB", bytes as f64 / (1u64 << 30) as f64));
        }
        parts.push(self.operating_system.clone());
        parts.join(", ")
    }
}

/// The value of the first `name : value` line.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_whole_name() {
        let text = "model\t: 207\nmodel name\t: A: Processor\nmodel name\t: another\n";
        assert_eq!(field(text, "model name").as_deref(), Some("A: Processor"));
        assert_eq!(field("", "model name"), None);
    }

    #[test]
    fn unknown_fields_are_left_out() {
        let bare = Machine {
            operating_system: "plan9".into(),
            architecture: "vax".into(),
            ..Machine::default()
        };
        let json = serde_json::to_value(&bare).expect("plain data");
        assert_eq!(
            json,
            serde_json::json!({"operating_system": "plan9", "architecture": "vax"})
        );
        assert_eq!(bare.summary(), "vax processor, plan9");
    }

    #[test]
    fn this_machine_has_a_core() {
        assert!(Machine::describe().cores.is_none_or(|cores| cores >= 1));
    }
}
