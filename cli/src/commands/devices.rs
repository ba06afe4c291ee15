//! `quipu devices`: lists the devices.

use crate::error::CommandError;
use crate::platform::platform_with;
use quipu::driver::MemorySpace;
use quipu::{BuiltInKernel, Device, DeviceProperties, Platform};
use quipu_cli::escape;
use quipu_cli::table::align;
use quipu_cli::units::bytes;
use quipu_scheduler::said::say;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The command's options.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// All properties of each device, and why drivers are not available.
    #[arg(long, short)]
    verbose: bool,

    /// Everything, as JSON.
    #[arg(long, conflicts_with = "verbose")]
    json: bool,

    /// List the devices of this paired node alone, by its name or address; can be given several
    /// times. Without it: the devices of this machine, and of the nodes that QUIPU_NODES or else
    /// the file `config` names. If neither names any: of all paired nodes.
    #[arg(long = "node", value_name = "NODE")]
    nodes: Vec<String>,
}

/// Prints the devices.
pub(crate) fn run(options: &Options) -> Result<(), CommandError> {
    let platform = platform_with(&options.nodes);
    let failed = failed_nodes(&platform);
    if platform.devices().is_empty() && !failed.is_empty() {
        return Err(CommandError::Nodes(failed));
    }
    let text = if options.json {
        format!("{:#}\n", to_json(&platform))
    } else if options.verbose {
        to_list(&platform)
    } else {
        to_table(&platform)
    };
    super::print(&text)?;
    // A node that was named has to be there.
    match (failed.is_empty(), options.nodes.is_empty()) {
        (true, _) => Ok(()),
        (false, false) => Err(CommandError::Nodes(failed)),
        (false, true) => {
            for reason in failed {
                say(format_args!(
                    "without a node: {}",
                    escape::terminal(&reason)
                ));
            }
            Ok(())
        }
    }
}

/// The lines on nodes that are not there, with the reasons.
pub(crate) fn failed_nodes(platform: &Platform) -> Vec<String> {
    let unavailable = platform.unavailable().iter();
    let nodes = unavailable.filter(|driver| driver.driver == "remote");
    nodes.map(|driver| driver.error.to_string()).collect()
}

/// A property of a device.
#[derive(Debug)]
enum Property {
    Text(String),
    Count(u64),
    /// Per dimension, slowest first.
    Extent([u64; 3]),
    Bytes(u64),
    Counts(Vec<u32>),
    Flag(bool),
    /// The system does not say.
    Unknown,
    /// The device has none.
    Absent,
}

impl Property {
    fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Count(count) | Self::Bytes(count) => json!(count),
            Self::Extent(extent) => json!(extent),
            Self::Counts(counts) => json!(counts),
            Self::Flag(flag) => json!(flag),
            Self::Unknown | Self::Absent => Value::Null,
        }
    }

    fn to_text(&self) -> String {
        match self {
            Self::Text(text) => escape::terminal(text).into_owned(),
            Self::Count(u64::MAX) => "no limit".to_owned(),
            Self::Count(count) => count.to_string(),
            Self::Extent([u64::MAX, u64::MAX, u64::MAX]) => "no limit".to_owned(),
            Self::Extent(extent) => extent.map(|count| count.to_string()).join(" x "),
            Self::Bytes(count) => bytes(*count),
            Self::Counts(counts) => {
                let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
                counts.join(", ")
            }
            Self::Flag(true) => "yes".to_owned(),
            Self::Flag(false) => "no".to_owned(),
            Self::Unknown => "unknown".to_owned(),
            Self::Absent => "none".to_owned(),
        }
    }
}

/// Everything that is known of a device, under the names that the JSON form has.
fn properties(device: &Device) -> Vec<(&'static str, Property)> {
    use Property::{Absent, Bytes, Count, Counts, Extent, Flag, Text, Unknown};
    // Taken apart by name, so that a new property is not forgotten here.
    let DeviceProperties {
        name,
        kind,
        vendor,
        multiprocessors,
        max_grid_blocks,
        max_grid_block_count,
        max_block_threads,
        max_block_thread_count,
        max_thread_elements,
        max_thread_element_count,
        shared_memory_per_block,
        global_memory,
        max_buffer,
        warp_sizes,
        clock_mhz,
        memory,
        domain,
        concurrent_commands,
        caller_runs,
        maps_host_memory: _,
        managed_memory,
    } = device.properties();
    let space = match memory {
        MemorySpace::Host => "host".to_owned(),
        MemorySpace::Own(number) => format!("{} {number}", device.driver_name()),
    };
    vec![
        ("id", Text(id(device))),
        ("name", Text(name.clone())),
        ("driver", Text(device.driver_name().to_owned())),
        ("kind", Text(kind.to_string())),
        ("vendor", Text(vendor.clone())),
        ("multiprocessors", Count((*multiprocessors).into())),
        (
            "clock_mhz",
            clock_mhz.map_or(Unknown, |mhz| Count(mhz.into())),
        ),
        ("memory_space", Text(space)),
        ("global_memory", Bytes(*global_memory)),
        ("free_memory", device.free_memory().map_or(Unknown, Bytes)),
        ("max_buffer", Bytes(*max_buffer)),
        ("shared_memory_per_block", Bytes(*shared_memory_per_block)),
        ("max_grid_blocks", Extent(*max_grid_blocks)),
        ("max_grid_block_count", Count(*max_grid_block_count)),
        ("max_block_threads", Extent(*max_block_threads)),
        ("max_block_thread_count", Count(*max_block_thread_count)),
        ("max_thread_elements", Extent(*max_thread_elements)),
        ("max_thread_element_count", Count(*max_thread_element_count)),
        (
            "warp_sizes",
            match &warp_sizes[..] {
                [] => Unknown,
                sizes => Counts(sizes.to_vec()),
            },
        ),
        ("concurrent_commands", Count((*concurrent_commands).into())),
        ("caller_runs", Flag(*caller_runs)),
        ("uses_host_memory", Flag(device.uses_host_memory())),
        ("managed_memory", Flag(*managed_memory)),
        (
            "built_in_kernels",
            match BuiltInKernel::list(&device.built_in_kernels()) {
                list if list.is_empty() => Absent,
                list => Text(list),
            },
        ),
        (
            "sync_domain",
            domain.map_or(Absent, |number| Count(number.into())),
        ),
    ]
}

/// A device's selector. A node has chosen a part of it, so it may hold anything.
fn id(device: &Device) -> String {
    escape::terminal(&device.selector()).into_owned()
}

fn to_json(platform: &Platform) -> Value {
    let devices = platform.devices().iter().map(|device| {
        let fields = properties(device).into_iter();
        let fields = fields.map(|(name, property)| (name.to_owned(), property.to_json()));
        Value::Object(fields.collect::<Map<_, _>>())
    });
    let unavailable = platform.unavailable().iter();
    let unavailable = unavailable
        .map(|driver| json!({ "driver": driver.driver, "reason": driver.error.to_string() }));
    json!({
        "devices": devices.collect::<Vec<_>>(),
        "unavailable": unavailable.collect::<Vec<_>>(),
    })
}

fn to_table(platform: &Platform) -> String {
    let heading = ["device", "kind", "cores", "memory", "free", "name"];
    let mut rows = vec![heading.map(str::to_owned)];
    for device in platform.devices() {
        let properties = device.properties();
        rows.push([
            id(device),
            properties.kind.to_string(),
            properties.multiprocessors.to_string(),
            bytes(properties.global_memory),
            device.free_memory().map_or_else(|| "-".to_owned(), bytes),
            escape::terminal(&properties.name).into_owned(),
        ]);
    }
    let mut text = align(&rows, [true, true, false, false, false, true]);
    let missing = match platform.unavailable().len() {
        0 => return text,
        1 => "1 driver is".to_owned(),
        count => format!("{count} drivers are"),
    };
    text.push_str(&format!(
        "{missing} not available; `quipu devices --verbose` says why\n"
    ));
    text
}

fn to_list(platform: &Platform) -> String {
    let mut text = String::new();
    for device in platform.devices() {
        let _ = writeln!(text, "{}", id(device));
        for (name, property) in properties(device).iter().skip(1) {
            let name = name.replace('_', " ");
            let _ = writeln!(text, "  {name:<26}{}", property.to_text());
        }
        text.push('\n');
    }
    if platform.unavailable().is_empty() {
        text.push_str("Every driver of this build is available.\n");
        return text;
    }
    text.push_str("Drivers that are not available\n");
    for driver in platform.unavailable() {
        let reason = driver.error.to_string();
        let reason = escape::terminal(&reason);
        let _ = writeln!(text, "  {:<26}{reason}", driver.driver);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu::driver::{Driver, Notification};
    use std::sync::Arc;

    /// A driver that finds nothing to drive.
    struct Missing;

    // SAFETY: a command's code and memory are used while it is here, with the arguments resolved
    // for it.
    unsafe impl Driver for Missing {
        fn name(&self) -> &'static str {
            "missing"
        }

        fn devices(&self) -> Vec<DeviceProperties> {
            Vec::new()
        }

        fn notify(&self, _notification: Notification) {}
    }

    #[test]
    fn a_driver_that_is_missing_is_explained() {
        let platform = Platform::builder()
            .cuda(false)
            .opencl(false)
            .driver(Arc::new(Missing))
            .build_available();
        let table = to_table(&platform);
        assert!(table.ends_with("1 driver is not available; `quipu devices --verbose` says why\n"));
        let list = to_list(&platform);
        assert!(list.contains("missing"), "{list}");
        assert!(list.contains("found no device"), "{list}");
        let json = to_json(&platform);
        assert_eq!(json["unavailable"][0]["driver"], "missing");
    }

    #[test]
    fn columns_line_up() {
        let platform = crate::platform::platform();
        let table = to_table(&platform);
        let mut lines = table.lines();
        let heading = lines.next().expect("a heading");
        let column = heading.find("name").expect("a column of names");
        for (line, device) in lines.zip(platform.devices()) {
            assert_eq!(&line[column..], device.name(), "{table}");
        }
    }
}
