//! The picture of the run: which device computed which stage on which tile, and when.
//!
//! A [`Timeline`] is plain data; [`Timeline::to_svg`] draws it as one self-contained SVG file. Each
//! device is a band of rows: as many for computing as it computed tiles at the same time, then one
//! thin row per copy engine that was busy at once. Colours stand for stages, grey for copies;
//! pointing at a box names it. Boxes too narrow to be seen are merged with their neighbours of the
//! same colour, so that the file stays small however many commands there were.
//!
//! The picture that `quipu trace` makes is another: it shows any program, by kinds of command in the
//! lanes of its devices. All of the pipeline would be of one kind there, and so of one colour.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::image::ImageError;
use super::plan::Stage;
use super::report::duration;
use quipu_cli::escape;

/// The activity of a device in a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// It ran a stage on a tile.
    Compute {
        /// The stage.
        stage: Stage,
        /// The tile's number.
        tile: usize,
    },
    /// Bytes were brought to its memory, or taken from it.
    Copy {
        /// The number of bytes.
        bytes: u64,
        /// To its memory, not from it.
        inward: bool,
    },
}

/// Something a device did, and when, since the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The device, as a place in [`Timeline::devices`].
    pub(crate) device: usize,
    /// Its activity.
    pub(crate) activity: Activity,
    /// The time at which it began.
    pub(crate) start: Duration,
    /// The time at which it ended; not before it began.
    pub(crate) end: Duration,
}

/// A run to draw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timeline {
    /// Its subject, for the title.
    pub(crate) title: String,
    /// The devices' names, from top to bottom.
    pub(crate) devices: Vec<String>,
    /// Their spans of activity, in any order. Spans of devices that are not listed are left out.
    pub(crate) spans: Vec<Span>,
}

/// A box of the drawing, in pixels along the time axis.
struct Block {
    left: f64,
    right: f64,
    colour: usize,
    tip: String,
    merged: usize,
}

const WIDTH: f64 = 1400.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 56.0;
const COMPUTE_ROW: f64 = 18.0;
const COPY_ROW: f64 = 8.0;
const DEVICE_GAP: f64 = 14.0;
/// Boxes narrower than this are merged with their neighbours.
const NARROW: f64 = 0.6;

/// A colour per stage, in the order of [`Stage::ALL`], then that of copies.
const COLOURS: [&str; Stage::ALL.len() + 1] = [
    "#c9b08a", "#c0392b", "#e0b03c", "#8e9f3c", "#111111", "#4f7d4b", "#3b9c94", "#1f6f78",
    "#d9772b", "#7a6bb8", "#55479b", "#b0578d", "#2f5f9e", "#9aa0a8",
];
const COPIES: usize = Stage::ALL.len();

impl Timeline {
    /// Draws the run to the file at `path`, replacing an existing file.
    pub(crate) fn write(&self, path: &Path) -> Result<(), ImageError> {
        fs::write(path, self.to_svg()).map_err(|source| ImageError::Write {
            path: path.to_owned(),
            source,
        })
    }

    /// Draws the run.
    pub(crate) fn to_svg(&self) -> String {
        let end = self.drawn().map(|span| span.end).max();
        let end = end.unwrap_or_default().as_secs_f64().max(1e-9);
        let scale = (WIDTH - LEFT - RIGHT) / end;

        let mut body = String::new();
        let mut y = TOP;
        for (device, name) in self.devices.iter().enumerate() {
            let top = y;
            for (copies, height) in [(false, COMPUTE_ROW), (true, COPY_ROW)] {
                let of_kind = self.spans.iter().filter(|span| {
                    span.device == device
                        && matches!(span.activity, Activity::Copy { .. }) == copies
                });
                for row in rows(of_kind.copied().collect()) {
                    for block in merge(&row, scale) {
                        draw(&mut body, &block, y, height - 2.0);
                    }
                    y += height;
                }
            }
            // A device that did nothing still has its row.
            y = y.max(top + COMPUTE_ROW);
            let middle = (top + y) / 2.0 + 3.0;
            let name = escape::markup(name);
            put(
                &mut body,
                format_args!(
                    "<text x=\"{:.0}\" y=\"{middle:.0}\" text-anchor=\"end\" class=\"name\">{name}</text>\n\
                     <line x1=\"12\" x2=\"{:.0}\" y1=\"{2:.1}\" y2=\"{2:.1}\" class=\"rule\"/>\n",
                    LEFT - 12.0,
                    WIDTH - RIGHT,
                    y + DEVICE_GAP / 2.0 - 1.0,
                ),
            );
            y += DEVICE_GAP;
        }

        let mut axis = String::new();
        let step = round_step(end / 8.0);
        for tick in 0..=(end / step) as usize {
            let time = tick as f64 * step;
            put(
                &mut axis,
                format_args!(
                    "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.1}\" y2=\"{y:.1}\" class=\"grid\"/>\n\
                     <text x=\"{0:.1}\" y=\"{2:.1}\" text-anchor=\"middle\">{3}</text>\n",
                    LEFT + time * scale,
                    TOP - 6.0,
                    y + 12.0,
                    duration(Duration::from_secs_f64(time)),
                ),
            );
        }
        let legend = self.legend(y + 36.0);
        let height = y + 84.0;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" \
             width=\"{WIDTH:.0}\" height=\"{height:.0}\">\n\
             <style>\n\
             text {{ font: 12px system-ui, sans-serif; fill: #444a54; }}\n\
             .title {{ font-size: 17px; font-weight: 600; fill: #20242b; }}\n\
             .name {{ font-size: 13px; fill: #20242b; }}\n\
             .grid {{ stroke: #e3e0d8; stroke-width: 1; }}\n\
             .rule {{ stroke: #d2cdc0; stroke-width: 1; }}\n\
             </style>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fbfaf6\"/>\n\
             <text x=\"12\" y=\"30\" class=\"title\">{title}</text>\n\
             {axis}{body}{legend}</svg>\n",
            title = escape::markup(&self.title),
        )
    }

    /// The spans of listed devices.
    fn drawn(&self) -> impl Iterator<Item = &Span> {
        let devices = self.devices.len();
        self.spans.iter().filter(move |span| span.device < devices)
    }

    /// Samples of the colours that occur, in two lines.
    fn legend(&self, top: f64) -> String {
        let occurs = |index: usize| self.drawn().any(|span| colour(span) == index);
        let entries: Vec<usize> = (0..COLOURS.len()).filter(|&index| occurs(index)).collect();
        let columns = COLOURS.len().div_ceil(2);
        let mut legend = String::new();
        for (place, &index) in entries.iter().enumerate() {
            let name = Stage::ALL.get(index).map_or("copy", |stage| stage.name());
            let column = (WIDTH - LEFT - RIGHT) / columns as f64;
            let x = LEFT + column * (place % columns) as f64;
            let y = top + 20.0 * (place / columns) as f64;
            put(
                &mut legend,
                format_args!(
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{}\"/>\
                     <text x=\"{:.1}\" y=\"{:.1}\">{name}</text>\n",
                    COLOURS[index],
                    x + 18.0,
                    y + 10.5,
                ),
            );
        }
        legend
    }
}

/// Spreads spans over as few rows as they fit in without overlap.
fn rows(mut spans: Vec<Span>) -> Vec<Vec<Span>> {
    spans.sort_by_key(|span| (span.start, span.end));
    let mut rows: Vec<Vec<Span>> = Vec::new();
    for span in spans {
        let free = rows
            .iter_mut()
            .find(|row| row.last().is_none_or(|last| last.end <= span.start));
        match free {
            Some(row) => row.push(span),
            None => rows.push(vec![span]),
        }
    }
    rows
}

/// The boxes of a row.
fn merge(row: &[Span], scale: f64) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for span in row {
        let left = LEFT + span.start.as_secs_f64() * scale;
        let right = LEFT + span.end.as_secs_f64() * scale;
        let colour = colour(span);
        if let Some(last) = blocks.last_mut()
            && last.colour == colour
            && left - last.right < NARROW
            && (right - left < NARROW || last.right - last.left < NARROW)
        {
            last.right = right.max(last.right);
            last.merged += 1;
        } else {
            blocks.push(Block {
                left,
                right,
                colour,
                tip: tip(span),
                merged: 1,
            });
        }
    }
    blocks
}

fn draw(body: &mut String, block: &Block, y: f64, height: f64) {
    // A sliver of background between two boxes, where there is room for it.
    let width = (block.right - block.left - 0.4).max(0.3);
    let more = match block.merged {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    put(
        body,
        format_args!(
            "<rect x=\"{:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height:.1}\" fill=\"{}\">\
             <title>{}{more}</title></rect>\n",
            block.left, COLOURS[block.colour], block.tip,
        ),
    );
}

fn colour(span: &Span) -> usize {
    match span.activity {
        Activity::Compute { stage, .. } => stage.index(),
        Activity::Copy { .. } => COPIES,
    }
}

/// The meaning of a box, in words.
fn tip(span: &Span) -> String {
    let took = duration(span.end.saturating_sub(span.start));
    let at = duration(span.start);
    match span.activity {
        Activity::Compute { stage, tile } => {
            format!("{}, tile {tile}: {took} from {at}", stage.name())
        }
        Activity::Copy { bytes, inward } => {
            let direction = if inward { "in" } else { "out" };
            let bytes = super::report::bytes(bytes);
            format!("copy {direction}, {bytes}: {took} from {at}")
        }
    }
}

/// The least of 1, 2 and 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * power >= step);
    factor.unwrap_or(10.0) * power
}

fn put(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments)
        .expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(device: usize, stage: Stage, start: u64, end: u64) -> Span {
        Span {
            device,
            activity: Activity::Compute { stage, tile: 3 },
            start: Duration::from_micros(start),
            end: Duration::from_micros(end),
        }
    }

    #[test]
    fn spans_that_overlap_are_on_different_rows() {
        let spans = vec![
            span(0, Stage::Unpack, 5, 9),
            span(0, Stage::Unpack, 0, 5),
            span(0, Stage::Denoise, 4, 7),
            span(0, Stage::Edges, 7, 8),
        ];
        let rows = rows(spans);
        let starts: Vec<Vec<u128>> = rows
            .iter()
            .map(|row| row.iter().map(|span| span.start.as_micros()).collect())
            .collect();
        assert_eq!(starts, [vec![0, 5], vec![4, 7]]);
    }

    #[test]
    fn each_span_has_a_box_and_each_stage_an_entry() {
        let copy = Span {
            activity: Activity::Copy {
                bytes: 2048,
                inward: true,
            },
            ..span(1, Stage::Unpack, 0, 500)
        };
        let timeline = Timeline {
            title: "a < b & \"c\"".to_owned(),
            devices: vec!["cpu".to_owned(), "sim0".to_owned(), "idle".to_owned()],
            spans: vec![
                span(0, Stage::Unpack, 0, 400),
                span(0, Stage::Denoise, 400, 900),
                copy,
                span(7, Stage::Compose, 0, 1),
            ],
        };
        let svg = timeline.to_svg();
        assert!(svg.contains("a &lt; b &amp; &quot;c&quot;"));
        assert!(svg.contains("<title>denoise, tile 3: 500 µs from 400 µs</title>"));
        assert!(svg.contains("<title>copy in, 2.00 KiB: 500 µs from 0</title>"));
        assert_eq!(svg.matches("<title>").count(), 3);
        for name in ["cpu", "sim0", "idle", "copy", "unpack"] {
            assert!(svg.contains(&format!(">{name}</text>")), "{name}");
        }
        assert!(!svg.contains(">compose</text>"), "its device is not listed");
    }

    #[test]
    fn many_narrow_boxes_become_few() {
        let spans = (0..50_000).map(|i| span(0, Stage::Edges, 2 * i, 2 * i + 1));
        let timeline = Timeline {
            title: String::new(),
            devices: vec!["cpu".to_owned()],
            spans: spans.collect(),
        };
        let svg = timeline.to_svg();
        assert!(svg.contains("and 49999 more"));
        assert_eq!(svg.matches("<title>").count(), 1);
    }

    #[test]
    fn a_run_without_spans_can_be_drawn() {
        let timeline = Timeline {
            title: "nothing".to_owned(),
            devices: Vec::new(),
            spans: Vec::new(),
        };
        assert!(timeline.to_svg().ends_with("</svg>\n"));
    }

    #[test]
    fn ticks_are_at_round_times() {
        for (step, expected) in [(1.0, 1.0), (1.1, 2.0), (0.03, 0.05), (6e-6, 1e-5)] {
            assert!((round_step(step) / expected - 1.0).abs() < 1e-9, "{step}");
        }
    }
}
