//! Reports: rows for the table and the files, gates and notes for the reader.
//!
//! Values are kept to six significant digits. The JSON form is stable: `benchmark`, `machine` and
//! `rows`, every row with the same eleven keys in the order of [`Row`]'s fields; `reference`,
//! `reference_value` and `ratio` are `null` where there is no reference. Gates and notes are
//! printed only.

use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::harness::statistics::six_digits;
use crate::harness::{Machine, Options, Summary, median, pairwise_ratio, to_table};

/// One measured case, beside one reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The case.
    pub case: String,
    /// The device it ran on.
    pub device: String,
    /// The number of workers that the device had.
    pub workers: usize,
    /// The median over the runs.
    pub value: f64,
    /// The unit of all values in this row; `x` for speed-ups.
    pub unit: String,
    /// The smallest of the runs.
    pub min: f64,
    /// The largest of the runs.
    pub max: f64,
    /// The number of runs that were kept.
    pub runs: usize,
    /// The reference.
    pub reference: Option<String>,
    /// The reference's median.
    pub reference_value: Option<f64>,
    /// The median over the rounds of value divided by the same round's reference value.
    pub ratio: Option<f64>,
}

impl Row {
    /// A row without a reference.
    pub fn new(
        case: impl Into<String>,
        device: impl Into<String>,
        workers: usize,
        unit: impl Into<String>,
        samples: &[f64],
    ) -> Self {
        let summary = Summary::of(samples);
        Row {
            case: case.into(),
            device: device.into(),
            workers,
            value: six_digits(summary.median),
            unit: unit.into(),
            min: six_digits(summary.min),
            max: six_digits(summary.max),
            runs: summary.runs,
            reference: None,
            reference_value: None,
            ratio: None,
        }
    }

    /// The row beside a reference: `pairs` are the samples of the row and of the reference, round
    /// by round.
    #[must_use]
    pub fn beside(mut self, reference: impl Into<String>, pairs: (&[f64], &[f64])) -> Self {
        self.reference = Some(reference.into());
        self.reference_value = Some(six_digits(median(pairs.1))).filter(|value| value.is_finite());
        self.ratio = pairwise_ratio(pairs.0, pairs.1).map(six_digits);
        self
    }

    /// The distance between the extremes as a fraction of the median.
    pub fn spread(&self) -> f64 {
        let summary = Summary {
            median: self.value,
            min: self.min,
            max: self.max,
            runs: self.runs,
        };
        summary.spread()
    }
}

/// A promise of the project, and whether this run keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// The promise.
    pub what: String,
    /// The limit, in words.
    pub target: String,
    /// The measured value.
    pub measured: f64,
    /// The unit of both.
    pub unit: String,
    /// True if the promise is kept.
    pub met: bool,
}

impl Gate {
    /// Promises that a value is at most `limit`.
    pub fn at_most(what: impl Into<String>, measured: f64, limit: f64, unit: &str) -> Self {
        Gate {
            what: what.into(),
            target: format!("at most {limit}"),
            measured,
            unit: unit.into(),
            met: measured <= limit,
        }
    }

    /// Promises that a value is at least `limit`.
    pub fn at_least(what: impl Into<String>, measured: f64, limit: f64, unit: &str) -> Self {
        Gate {
            what: what.into(),
            target: format!("at least {limit}"),
            measured,
            unit: unit.into(),
            met: measured >= limit,
        }
    }
}

/// Everything that one benchmark found out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The benchmark's name.
    pub benchmark: String,
    /// The machine.
    pub machine: Machine,
    /// The measured cases.
    pub rows: Vec<Row>,
    /// Promises, kept or not. Printed, not stored.
    #[serde(skip)]
    pub gates: Vec<Gate>,
    /// Remarks for the reader. Printed, not stored.
    #[serde(skip)]
    pub notes: Vec<String>,
}

impl Report {
    /// An empty report about this machine.
    pub fn new(benchmark: impl Into<String>) -> Self {
        Report {
            benchmark: benchmark.into(),
            machine: Machine::describe(),
            rows: Vec::new(),
            gates: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The stable JSON form, with a line break at the end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self)
            .expect("a report is strings, numbers and lists: nothing in it can fail to encode");
        text.push('\n');
        text
    }
}

/// Prints the table and writes the files that the options name.
///
/// # Errors
/// If the output is gone, or a file cannot be written (the message names it).
pub fn publish(
    report: &Report,
    options: &Options,
    output: &mut dyn Write,
) -> Result<(), BenchError> {
    output.write_all(to_table(report).as_bytes())?;
    let store = |path: &Path, text: String| {
        std::fs::write(path, text).map_err(|source| BenchError::Write {
            path: path.to_path_buf(),
            source,
        })
    };
    if let Some(path) = &options.json {
        store(path, report.to_json())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn example() -> Report {
        let mut report = Report::new("in-order");
        let (ours, theirs) = ([99.0, 103.1, 120.4], [1.9, 1.9, 1.9]);
        report.rows.push(
            Row::new("100000 kernels", "cpu", 2, "ns/kernel", &ours)
                .beside("bare call", (&ours, &theirs)),
        );
        report
            .rows
            .push(Row::new("1000 kernels", "cpu", 1, "ns/kernel", &ours));
        report
            .gates
            .push(Gate::at_most("per kernel", 103.1, 25.0, "ns"));
        report
    }

    #[test]
    fn the_json_form_has_exactly_the_stable_keys() {
        let text = example().to_json();
        let json: Value = serde_json::from_str(&text).expect("it is JSON");
        let keys = |value: &Value| -> Vec<String> {
            let object = value.as_object().expect("an object");
            object.keys().cloned().collect()
        };
        let mut top = keys(&json);
        top.sort();
        assert_eq!(top, ["benchmark", "machine", "rows"]);
        let mut expected = [
            "case",
            "device",
            "workers",
            "value",
            "unit",
            "min",
            "max",
            "runs",
            "reference",
            "reference_value",
            "ratio",
        ];
        expected.sort_unstable();
        for row in json["rows"].as_array().expect("a list of rows") {
            let mut found = keys(row);
            found.sort();
            assert_eq!(found, expected);
        }
        let row = &json["rows"][0];
        assert_eq!(row["case"], "100000 kernels");
        assert_eq!(row["workers"], 2);
        assert_eq!(row["value"], 103.1);
        assert_eq!(row["min"], 99.0);
        assert_eq!(row["max"], 120.4);
        assert_eq!(row["runs"], 3);
        assert_eq!(row["reference"], "bare call");
        assert_eq!(row["reference_value"], 1.9);
        let ratio = row["ratio"].as_f64().expect("a number");
        assert!((ratio - 103.1 / 1.9).abs() < 1e-3);
        assert_eq!(json["rows"][1]["reference"], json!(null));
        assert_eq!(json["rows"][1]["ratio"], json!(null));
    }

    #[test]
    fn the_json_form_reads_back() {
        let report = example();
        let back: Report = serde_json::from_str(&report.to_json()).expect("our own form");
        assert_eq!(back.rows, report.rows);
        assert_eq!(back.machine, report.machine);
        assert!(back.gates.is_empty(), "gates are printed, not stored");
    }

    #[test]
    fn gates_compare_with_their_limits() {
        assert!(Gate::at_most("a", 25.0, 25.0, "ns").met);
        assert!(!Gate::at_most("a", 25.1, 25.0, "ns").met);
        assert!(Gate::at_least("a", 0.95, 0.95, "x").met);
        assert!(!Gate::at_least("a", 0.94, 0.95, "x").met);
        assert!(
            !Gate::at_most("a", f64::NAN, 1.0, "x").met,
            "no figure, no promise kept"
        );
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let options = Options {
            json: Some("no such folder/report.json".into()),
            ..Options::default()
        };
        let mut output = Vec::new();
        let error = publish(&example(), &options, &mut output).expect_err("there is no folder");
        assert!(error.to_string().contains("no such folder"), "{error}");
        assert!(
            !output.is_empty(),
            "the table comes first, so nothing is lost"
        );
    }
}
