//! The report of the demo: the work of each device, the check of the result, and its path.
//!
//! A [`Report`] is plain data, filled in by the code that ran the pipeline, and printed through
//! [`Display`](fmt::Display). Nothing is measured here.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use quipu_cli::table::align;
use quipu_cli::units::{bytes, counted, duration};

use super::image::{Difference, Size, unpack};
use super::plan::{Geometry, Stage};

/// The work of one device.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeviceShare {
    /// Its name.
    pub(crate) name: String,
    /// The number of commands that it ran: a stage on a tile each.
    pub(crate) commands: usize,
    /// The number of different tiles that they were on.
    pub(crate) tiles: usize,
    /// The stages that it had a part in.
    pub(crate) stages: Vec<Stage>,
    /// The time that it computed, over all its units.
    pub(crate) busy: Duration,
    /// Bytes that were brought to its memory.
    pub(crate) bytes_in: u64,
    /// Bytes that were taken from its memory.
    pub(crate) bytes_out: u64,
}

/// A device that took no part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Its name.
    pub(crate) name: String,
    /// The reason.
    pub(crate) why: String,
}

impl LeftOut {
    pub(crate) fn new(device: &quipu::Device, why: String) -> Self {
        Self {
            name: format!("{}, {}", device.name(), device.driver_name()),
            why,
        }
    }
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.name, self.why)
    }
}

/// Something that was written to disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// Its description, in a few words.
    pub(crate) what: &'static str,
    /// Its path.
    pub(crate) path: PathBuf,
}

/// The whole run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Report {
    /// The image's size.
    pub(crate) size: Size,
    /// The way in which it was cut.
    pub(crate) geometry: Geometry,
    /// The work of each device.
    pub(crate) devices: Vec<DeviceShare>,
    /// Devices that took no part.
    pub(crate) left_out: Vec<LeftOut>,
    /// From the first command to the last one's end.
    pub(crate) elapsed: Duration,
    /// The time of the sequential version.
    pub(crate) sequential: Duration,
    /// The difference, if the result differs from that of the sequential version.
    pub(crate) difference: Option<Difference>,
    /// The files that were written.
    pub(crate) written: Vec<Written>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let commands: usize = self.devices.iter().map(|device| device.commands).sum();
        writeln!(
            f,
            "{}: {} stages on {} of up to {}, {} on {}",
            self.size,
            Stage::ALL.len(),
            counted(self.geometry.tile_count() as u64, "tile"),
            counted(self.geometry.tile_rows as u64, "row"),
            counted(commands as u64, "command"),
            counted(self.devices.len() as u64, "device"),
        )?;
        writeln!(f)?;

        let mut rows = vec![
            [
                "device", "commands", "tiles", "busy", "in", "out", "share", "stages",
            ]
            .map(String::from),
        ];
        for device in &self.devices {
            rows.push([
                device.name.clone(),
                device.commands.to_string(),
                device.tiles.to_string(),
                duration(ns(device.busy)),
                bytes(device.bytes_in),
                bytes(device.bytes_out),
                share(device.commands, commands),
                stages(&device.stages),
            ]);
        }
        let mut left = [false; 8];
        (left[0], left[7]) = (true, true);
        f.write_str(&align(&rows, left))?;
        for LeftOut { name, why } in &self.left_out {
            writeln!(f, "left out: {name}: {why}")?;
        }
        writeln!(f)?;

        writeln!(
            f,
            "took {}; the sequential version {}",
            duration(ns(self.elapsed)),
            duration(ns(self.sequential))
        )?;
        match self.difference {
            None => writeln!(
                f,
                "correct: equal to the sequential version in every bit of {} pixels",
                self.size.width() * self.size.height()
            )?,
            Some(Difference {
                x,
                y,
                here,
                there,
                count,
            }) => writeln!(
                f,
                "WRONG: {} from the sequential version, first in column {x}, row {y}: \
                 {:?} instead of {:?}",
                match count {
                    1 => "1 pixel differs".to_owned(),
                    count => format!("{count} pixels differ"),
                },
                unpack(here),
                unpack(there)
            )?,
        }
        let widest = self.written.iter().map(|w| w.what.chars().count()).max();
        for Written { what, path } in &self.written {
            let width = widest.unwrap_or_default();
            writeln!(f, "wrote {what:<width$}  {}", path.display())?;
        }
        Ok(())
    }
}

/// The stages' names if they are few, else how many they are.
fn stages(stages: &[Stage]) -> String {
    let all = Stage::ALL.len();
    match stages.len() {
        0 => "none".to_owned(),
        count if count == all => format!("all {all}"),
        count @ 4.. => format!("{count} of {all}"),
        _ => {
            let names: Vec<&str> = stages.iter().map(|stage| stage.name()).collect();
            names.join(", ")
        }
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A part of a whole in percent.
fn share(part: usize, whole: usize) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => format!("{:.1} %", 100.0 * part as f64 / whole as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let size = Size::new(64, 33).unwrap();
        Report {
            size,
            geometry: Geometry::new(size, Some(11), 1),
            devices: vec![
                DeviceShare {
                    name: "cpu".to_owned(),
                    commands: 27,
                    tiles: 3,
                    stages: Stage::ALL.to_vec(),
                    busy: Duration::from_micros(12_345),
                    bytes_in: 0,
                    bytes_out: 0,
                },
                DeviceShare {
                    name: "sim0 µ-accelerator".to_owned(),
                    commands: 10,
                    tiles: 1,
                    stages: vec![Stage::Denoise, Stage::Edges],
                    busy: Duration::from_nanos(999_600),
                    bytes_in: 1 << 20,
                    bytes_out: 1000,
                },
            ],
            left_out: Vec::new(),
            elapsed: Duration::from_millis(50),
            sequential: Duration::from_secs(2),
            difference: None,
            written: vec![
                Written {
                    what: "the picture",
                    path: PathBuf::from("quipu-demo.png"),
                },
                Written {
                    what: "its timeline",
                    path: PathBuf::from("quipu-demo.svg"),
                },
            ],
        }
    }

    #[test]
    fn the_report_is_aligned_and_complete() {
        let expected = "\
64x33: 13 stages on 3 tiles of up to 11 rows, 37 commands on 2 devices

device              commands  tiles     busy        in       out   share  stages
cpu                       27      3  12.3 ms       0 B       0 B  73.0 %  all 13
sim0 µ-accelerator        10      1  1.00 ms  1.00 MiB  0.98 KiB  27.0 %  denoise, edges

took 50.0 ms; the sequential version 2.00 s
correct: equal to the sequential version in every bit of 2112 pixels
wrote the picture   quipu-demo.png
wrote its timeline  quipu-demo.svg
";
        assert_eq!(report().to_string(), expected);
    }

    #[test]
    fn who_was_left_out_is_said_below_the_table() {
        let mut report = report();
        report.left_out.push(LeftOut {
            name: "a GPU, opencl".to_owned(),
            why: "it is of no use".to_owned(),
        });
        let text = report.to_string();
        let expected = "denoise, edges\nleft out: a GPU, opencl: it is of no use\n\ntook";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn a_wrong_result_is_said_plainly() {
        let mut report = report();
        report.difference = Some(Difference {
            x: 4,
            y: 2,
            here: super::super::image::pack(1, 2, 3),
            there: super::super::image::pack(4, 5, 6),
            count: 7,
        });
        let text = report.to_string();
        assert!(text.contains(
            "WRONG: 7 pixels differ from the sequential version, first in column 4, row 2: \
             [1, 2, 3] instead of [4, 5, 6]"
        ));
        assert!(!text.contains("correct"));
    }

    #[test]
    fn a_device_that_did_nothing_has_no_share() {
        assert_eq!(share(0, 0), "-");
        assert_eq!(stages(&[]), "none");
        assert_eq!(stages(&Stage::ALL[..5]), "5 of 13");
    }
}
