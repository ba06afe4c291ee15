//! The page: the seeds' figures redrawn from our numbers. One file, no script, nothing loaded.
//!
//! Two kinds of figure for every unit in the report: our values over the cases with one bar per
//! worker count, as the seeds draw them; and for every worker count our value beside every
//! reference. Bars carry their minimum and maximum; a scale whose values span more than a factor
//! of fifty is logarithmic.

use std::fmt::Write;

use crate::harness::table::number;
use crate::harness::{Report, Row, counted};

const COLOURS: [&str; 8] = [
    "#1f6f8b", "#e07a1f", "#5b8c3a", "#a83f6f", "#7a63b8", "#8a6d3b", "#3d9b94", "#b33a3a",
];
const BAR: f64 = 18.0;
const GAP: f64 = 26.0;
const LEFT: f64 = 76.0;
/// The last label is written slantwise beyond the axis.
const RIGHT: f64 = 150.0;
const HEIGHT: f64 = 260.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 110.0;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:70rem;\
padding:0 1rem;color:#1c2329;background:#fff}h1{font-size:1.5rem}h2{font-size:1.1rem;\
margin-top:2rem}.figure{overflow-x:auto}svg text{font:12px system-ui,sans-serif;fill:#1c2329}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums}th,td{padding:.2rem .7rem;\
border-bottom:1px solid #d8dee3;text-align:right}th:first-child,td:first-child{text-align:left}\
.met{color:#2c6e2f}.missed{color:#a32020;font-weight:600}.legend span{margin-right:1.2rem}\
.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.4em}";

/// One bar: its value and, where known, its extremes.
#[derive(Clone, Copy)]
struct Bar {
    value: f64,
    extremes: Option<(f64, f64)>,
}

/// A figure: for every case one bar (or none) of every series.
struct Figure {
    title: String,
    unit: String,
    cases: Vec<String>,
    series: Vec<String>,
    bars: Vec<Vec<Option<Bar>>>,
}

impl Figure {
    fn new(title: String, unit: &str) -> Self {
        Figure {
            title,
            unit: unit.into(),
            cases: Vec::new(),
            series: Vec::new(),
            bars: Vec::new(),
        }
    }

    /// Adds a bar unless one is there already: rows repeat our value beside each reference.
    fn add(&mut self, case: &str, series: &str, bar: Bar) {
        let position = |list: &mut Vec<String>, name: &str| {
            list.iter()
                .position(|each| each == name)
                .unwrap_or_else(|| {
                    list.push(name.into());
                    list.len() - 1
                })
        };
        let case = position(&mut self.cases, case);
        let series = position(&mut self.series, series);
        self.bars.resize_with(self.cases.len(), Vec::new);
        for bars in &mut self.bars {
            bars.resize(self.series.len(), None);
        }
        self.bars[case][series].get_or_insert(bar);
    }
}

/// Draws a report as a self-contained page.
pub fn to_html(report: &Report) -> String {
    let mut page = String::new();
    let title = escape(&report.benchmark);
    let machine = escape(&report.machine.summary());
    push(
        &mut page,
        format_args!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>quipu bench {title}</title><style>{STYLE}</style></head>\n\
         <body><h1>quipu bench {title}</h1><p>{machine}</p>\n"
        ),
    );
    for figure in figures(&report.rows) {
        draw(&mut page, &figure);
    }
    gates(&mut page, report);
    numbers(&mut page, &report.rows);
    for note in &report.notes {
        push(&mut page, format_args!("<p>{}</p>\n", escape(note)));
    }
    page.push_str("</body></html>\n");
    page
}

fn figures(rows: &[Row]) -> Vec<Figure> {
    let mut units: Vec<&str> = Vec::new();
    let mut workers: Vec<usize> = rows.iter().map(|row| row.workers).collect();
    workers.sort_unstable();
    workers.dedup();
    for row in rows {
        if !units.contains(&row.unit.as_str()) {
            units.push(&row.unit);
        }
    }
    let mut figures = Vec::new();
    for unit in units {
        let of_unit = || rows.iter().filter(|row| row.unit == unit);
        let mut ours = Figure::new(format!("By number of workers, {unit}"), unit);
        for &count in &workers {
            for row in of_unit().filter(|row| row.workers == count) {
                ours.add(&row.case, &counted(count, "worker"), own(row));
            }
        }
        if ours.series.len() > 1 {
            figures.push(ours);
        }
        for &count in &workers {
            let title = format!(
                "Beside the references, {}, {unit}",
                counted(count, "worker")
            );
            let mut beside = Figure::new(title, unit);
            for row in of_unit().filter(|row| row.workers == count) {
                beside.add(&row.case, &row.device, own(row));
                if let (Some(name), Some(value)) = (&row.reference, row.reference_value) {
                    let bar = Bar {
                        value,
                        extremes: None,
                    };
                    beside.add(&row.case, name, bar);
                }
            }
            if !beside.cases.is_empty() {
                figures.push(beside);
            }
        }
    }
    figures
}

fn own(row: &Row) -> Bar {
    Bar {
        value: row.value,
        extremes: Some((row.min, row.max)),
    }
}

/// Maps values to heights above the axis.
struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Axis {
    fn of(figure: &Figure) -> Self {
        let bars = || figure.bars.iter().flatten().flatten();
        let high = bars()
            .map(|bar| {
                bar.extremes
                    .map_or(bar.value, |(_, max)| max.max(bar.value))
            })
            .filter(|value| value.is_finite())
            .fold(0.0, f64::max);
        let low = bars()
            .map(|bar| bar.value)
            .filter(|value| *value > 0.0)
            .fold(f64::INFINITY, f64::min);
        if low.is_finite() && high / low > 50.0 {
            Axis {
                low: 10f64.powf(low.log10().floor()),
                high: 10f64.powf(high.log10().ceil()),
                logarithmic: true,
            }
        } else {
            Axis {
                low: 0.0,
                high: if high > 0.0 { high * 1.08 } else { 1.0 },
                logarithmic: false,
            }
        }
    }

    fn height(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(self.low) / self.low).log10() / (self.high / self.low).log10()
        } else {
            value / self.high
        };
        share.clamp(0.0, 1.0) * HEIGHT
    }

    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.high / self.low).log10().round() as i32;
            return (0..=decades)
                .map(|power| self.low * 10f64.powi(power))
                .collect();
        }
        let rough = self.high / 5.0;
        let decade = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * decade)
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        let count = (self.high / step).floor() as usize;
        (0..=count).map(|index| index as f64 * step).collect()
    }
}

fn draw(page: &mut String, figure: &Figure) {
    let axis = Axis::of(figure);
    let group = figure.series.len() as f64 * BAR;
    let width = LEFT + figure.cases.len() as f64 * (group + GAP) + GAP + RIGHT;
    let base = TOP + HEIGHT;
    push(
        page,
        format_args!("<h2>{}</h2>\n<p class=\"legend\">", escape(&figure.title)),
    );
    for (index, series) in figure.series.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let name = escape(series);
        push(
            page,
            format_args!("<span><i style=\"background:{colour}\"></i>{name}</span>"),
        );
    }
    let total = base + BOTTOM;
    push(
        page,
        format_args!(
            "</p>\n<div class=\"figure\"><svg width=\"{width:.0}\" height=\"{total:.0}\" \
         role=\"img\" aria-label=\"{}\">\n",
            escape(&figure.title)
        ),
    );
    for tick in axis.ticks() {
        let y = base - axis.height(tick);
        push(
            page,
            format_args!(
                "<line x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#d8dee3\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
                width - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                tick_text(tick)
            ),
        );
    }
    push(
        page,
        format_args!(
            "<text x=\"4\" y=\"{:.0}\" transform=\"rotate(-90 12 {:.0})\">{}</text>\n",
            TOP + HEIGHT / 2.0,
            TOP + HEIGHT / 2.0,
            escape(&figure.unit)
        ),
    );
    for (case_index, (case, bars)) in figure.cases.iter().zip(&figure.bars).enumerate() {
        let left = LEFT + GAP + case_index as f64 * (group + GAP);
        for (index, bar) in bars.iter().enumerate() {
            let Some(bar) = bar else { continue };
            let name = format!(
                "{case}, {}: {} {}",
                figure.series[index],
                number(bar.value),
                figure.unit
            );
            let colour = COLOURS[index % COLOURS.len()];
            draw_bar(page, &axis, left + index as f64 * BAR, colour, &name, *bar);
        }
        let x = left + group / 2.0;
        let y = base + 16.0;
        push(
            page,
            format_args!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" transform=\"rotate(28 {x:.1} {y:.1})\">{}</text>\n",
                escape(case)
            ),
        );
    }
    push(
        page,
        format_args!(
            "<line x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{base}\" y2=\"{base}\" stroke=\"#1c2329\"/></svg></div>\n",
            width - RIGHT
        ),
    );
}

fn draw_bar(page: &mut String, axis: &Axis, x: f64, colour: &str, name: &str, bar: Bar) {
    let base = TOP + HEIGHT;
    let height = axis.height(bar.value);
    push(
        page,
        format_args!(
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{colour}\">\
         <title>{}</title></rect>",
            base - height,
            BAR - 3.0,
            escape(name)
        ),
    );
    if let Some((min, max)) = bar.extremes {
        let middle = x + (BAR - 3.0) / 2.0;
        push(
            page,
            format_args!(
                "<line x1=\"{middle:.1}\" x2=\"{middle:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#1c2329\"/>",
                base - axis.height(min),
                base - axis.height(max)
            ),
        );
    }
    page.push('\n');
}

fn tick_text(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn gates(page: &mut String, report: &Report) {
    if report.gates.is_empty() {
        return;
    }
    page.push_str("<h2>Targets</h2>\n<table><tr><th>what</th><th>measured</th><th>target</th><th></th></tr>\n");
    for gate in &report.gates {
        let verdict = if gate.met { "met" } else { "missed" };
        push(
            page,
            format_args!(
                "<tr><td>{}</td><td>{} {}</td><td>{}</td><td class=\"{verdict}\">{verdict}</td></tr>\n",
                escape(&gate.what),
                number(gate.measured),
                escape(&gate.unit),
                escape(&gate.target)
            ),
        );
    }
    page.push_str("</table>\n");
}

fn numbers(page: &mut String, rows: &[Row]) {
    page.push_str(
        "<h2>Numbers</h2>\n<div class=\"figure\"><table><tr><th>case</th><th>device</th>\
         <th>workers</th><th>median</th><th>min</th><th>max</th><th>unit</th><th>runs</th>\
         <th>reference</th><th>its median</th><th>ratio</th></tr>\n",
    );
    for row in rows {
        let optional = |value: Option<f64>| value.map_or_else(String::new, number);
        push(
            page,
            format_args!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                escape(&row.case),
                escape(&row.device),
                row.workers,
                number(row.value),
                number(row.min),
                number(row.max),
                escape(&row.unit),
                row.runs,
                escape(row.reference.as_deref().unwrap_or("")),
                optional(row.reference_value),
                optional(row.ratio)
            ),
        );
    }
    page.push_str("</table></div>\n");
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text)
        .expect("writing to a string cannot fail");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("graphs <&>");
        for (case, workers, ours) in [("chain", 1, 20.0), ("chain", 2, 21.0), ("fan", 1, 30.0)] {
            for (reference, theirs) in [("rayon", 40.0), ("floor", 4.0)] {
                report.rows.push(
                    Row::new(case, "cpu", workers, "ns/task", &[ours])
                        .beside(reference, (&[ours], &[theirs])),
                );
            }
        }
        report
    }

    #[test]
    fn the_page_loads_nothing_and_escapes_names() {
        let page = to_html(&report());
        for banned in ["http:", "https:", "<script", "src=", "url(", "@import"] {
            assert!(!page.contains(banned), "the page contains {banned}");
        }
        assert!(page.contains("graphs &lt;&amp;&gt;"));
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }

    #[test]
    fn every_value_is_drawn_once_per_figure() {
        let page = to_html(&report());
        // By workers: chain with 1 and 2, fan with 1. Beside: (ours, rayon, floor) for chain and
        // fan with 1 worker, and for chain with 2.
        assert_eq!(page.matches("<rect").count(), 3 + 6 + 3);
        assert_eq!(page.matches("<svg").count(), 3);
    }

    #[test]
    fn the_axis_is_logarithmic_when_values_span_far() {
        let mut figure = Figure::new("t".into(), "ns");
        let bar = |value| Bar {
            value,
            extremes: None,
        };
        figure.add("a", "s", bar(2.0));
        figure.add("b", "s", bar(4.0));
        let linear = Axis::of(&figure);
        assert!(!linear.logarithmic);
        assert!((linear.height(4.0) / linear.height(2.0) - 2.0).abs() < 1e-9);
        figure.add("c", "s", bar(2000.0));
        let wide = Axis::of(&figure);
        assert!(wide.logarithmic);
        assert_eq!(wide.ticks(), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert!((wide.height(100.0) - HEIGHT / 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_report_of_zeros_is_drawn() {
        let mut report = Report::new("idle");
        report.rows.push(Row::new("idle", "cpu", 1, "µs/s", &[0.0]));
        let page = to_html(&report);
        assert!(page.contains("<rect"));
        assert!(!page.contains("NaN"));
    }
}
