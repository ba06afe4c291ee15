//! The table on the terminal: one aligned line per row, then gates and notes.

use std::fmt::Write;

use crate::harness::{Report, Row, counted};

/// Columns whose text is aligned left; numbers are aligned right.
const LEFT: [bool; 11] = [
    true, true, false, false, false, false, false, true, true, false, false,
];

const HEADER: [&str; 11] = [
    "case",
    "device",
    "workers",
    "median",
    "min",
    "max",
    "spread",
    "unit",
    "reference",
    "its median",
    "ratio",
];

/// Writes a report as text: title, table, gates, notes.
pub fn to_table(report: &Report) -> String {
    let lines: Vec<[String; 11]> = std::iter::once(HEADER.map(String::from))
        .chain(report.rows.iter().map(|row| {
            [
                row.case.clone(),
                row.device.clone(),
                row.workers.to_string(),
                number(row.value),
                number(row.min),
                number(row.max),
                format!("{:.0} %", row.spread() * 100.0),
                row.unit.clone(),
                row.reference.clone().unwrap_or_else(|| "-".into()),
                row.reference_value.map_or_else(|| "-".into(), number),
                row.ratio.map_or_else(|| "-".into(), number),
            ]
        }))
        .collect();
    let mut text = format!("{} on {}\n", report.benchmark, report.machine.summary());
    text.push_str(&align(&lines));
    for gate in &report.gates {
        let verdict = if gate.met { "met   " } else { "MISSED" };
        let measured = number(gate.measured);
        writeln!(
            text,
            "{verdict}  {}: {measured} {} (target: {})",
            gate.what, gate.unit, gate.target
        )
        .expect("writing to a string cannot fail");
    }
    for note in &report.notes {
        writeln!(text, "note    {note}").expect("writing to a string cannot fail");
    }
    text
}

/// A row on its own, before the others of its table are known.
pub(crate) fn to_line(row: &Row) -> String {
    let Row { case, device, .. } = row;
    let (value, unit) = (number(row.value), &row.unit);
    let workers = match row.workers {
        0 => String::new(),
        count => format!(", {}", counted(count, "worker")),
    };
    let beside = match (&row.reference, row.reference_value) {
        (Some(reference), Some(its)) => format!(", {reference}: {}", number(its)),
        _ => String::new(),
    };
    format!("{case}, {device}{workers}: {value} {unit}{beside}")
}

fn align(lines: &[[String; 11]]) -> String {
    let width = |column: usize| {
        let lengths = lines.iter().map(|line| line[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let widths: [usize; 11] = std::array::from_fn(width);
    let mut text = String::new();
    for line in lines {
        let mut printed = String::new();
        for (column, cell) in line.iter().enumerate() {
            let padding = " ".repeat(widths[column] - cell.chars().count());
            if column > 0 {
                printed.push_str("  ");
            }
            if LEFT[column] {
                printed.push_str(cell);
                printed.push_str(&padding);
            } else {
                printed.push_str(&padding);
                printed.push_str(cell);
            }
        }
        text.push_str(printed.trim_end());
        text.push('\n');
    }
    text
}

/// Three significant digits or more: `0.0123`, `1.23`, `12.3`, `12345`.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    let digits = if !value.is_finite() {
        return "-".into();
    } else if size >= 1000.0 || size == 0.0 {
        0
    } else if size >= 10.0 {
        1
    } else if size >= 0.1 {
        2
    } else {
        4
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Gate;

    #[test]
    fn columns_line_up() {
        let mut report = Report::new("graphs");
        let samples = [1.5, 12_345.0];
        report
            .rows
            .push(Row::new("chain, 1 µs", "cpu", 16, "ns/task", &samples));
        report.rows.push(
            Row::new("a much longer case", "sim", 1, "x", &samples)
                .beside("rayon", (&samples, &samples)),
        );
        report
            .gates
            .push(Gate::at_most("chain", 30.0, 25.0, "ns/task"));
        report.notes.push("a remark".into());
        let text = to_table(&report);
        let lines: Vec<&str> = text.lines().collect();
        let column = |line: &str, word: &str| {
            let byte = line.find(word).expect("the word is in the line");
            line[..byte].chars().count()
        };
        assert_eq!(column(lines[1], "device"), column(lines[2], "cpu"));
        assert_eq!(column(lines[1], "device"), column(lines[3], "sim"));
        assert_eq!(column(lines[1], "unit"), column(lines[2], "ns/task"));
        assert_eq!(column(lines[1], "reference"), column(lines[3], "rayon"));
        assert!(
            lines[4].starts_with("MISSED  chain: 30.0 ns/task"),
            "{text}"
        );
        assert_eq!(lines[5], "note    a remark");
    }

    #[test]
    fn a_row_on_its_own_says_what_it_is_of() {
        let row = Row::new("1 kernel", "cpu", 2, "µs/batch", &[12.34]);
        assert_eq!(to_line(&row), "1 kernel, cpu, 2 workers: 12.3 µs/batch");
        let row = Row::new("a trip", "node", 0, "µs", &[8.0]).beside("TLS alone", (&[8.0], &[4.0]));
        assert_eq!(to_line(&row), "a trip, node: 8.00 µs, TLS alone: 4.00");
    }

    #[test]
    fn numbers_keep_three_digits() {
        assert_eq!(number(0.01234), "0.0123");
        assert_eq!(number(1.234), "1.23");
        assert_eq!(number(12.34), "12.3");
        assert_eq!(number(12_345.6), "12346");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(f64::NAN), "-");
    }
}
