//! A still picture of the lanes, for a report or the demo's end.
//!
//! One row per lane, no interaction. Its size depends on its width and the number of lanes, never
//! on the number of commands: neighbours of one colour that share a pixel become one rectangle.

use super::palette::{self, COLOURS};
use super::summary::headline;
use super::trace::{Command, Trace};
use crate::escape;
use crate::units::duration;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// The height of a lane, and of a device's heading.
const LANE: u32 = 16;
const HEAD: u32 = 22;
/// The room for the labels.
const GUTTER: u32 = 132;
/// The title, the legend and the axis.
const TOP: u32 = 26;
const LEGEND: u32 = 22;
const AXIS: u32 = 20;
const MARGIN: u32 = 12;
/// Below this, labels and lanes do not fit.
const LEAST_WIDTH: u32 = 320;

/// The look of a picture.
#[derive(Clone, Debug, Default)]
pub struct Look<'a> {
    /// Its width in pixels; 320 at least.
    pub width: u32,
    /// Its title, if it is not to be the trace's numbers.
    pub title: Option<&'a str>,
    /// Names of commands with a colour of their own, as in CSS. A command has such a name if its
    /// own is the same, or goes on with a space. All other commands have the colours of their
    /// kinds.
    pub names: &'a [(&'a str, &'a str)],
}

impl Look<'_> {
    /// The number of a command's colour: those of the kinds come first.
    fn colour(&self, command: &Command) -> usize {
        let is_named = |(name, _): &(&str, &str)| {
            let rest = command.name.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        match self.names.iter().position(is_named) {
            Some(named) => COLOURS.len() + named,
            None => palette::position(&command.kind),
        }
    }

    /// The name of a colour in the legend.
    fn name(&self, colour: usize) -> &str {
        match colour.checked_sub(COLOURS.len()) {
            Some(named) => self.names[named].0,
            None => COLOURS[colour].kind,
        }
    }
}

/// True if a colour is that of the core's own migrations.
fn is_migration(colour: usize) -> bool {
    COLOURS.get(colour).is_some_and(|of| of.kind == "migrate")
}

/// Draws a trace as an SVG picture. It suits light and dark surroundings. A rectangle tells its
/// command's name and time when it is pointed at.
#[must_use]
pub fn render_svg(trace: &Trace, look: &Look<'_>) -> String {
    let width = look.width.max(LEAST_WIDTH);
    let mut body = String::new();
    let mut y = TOP + LEGEND * legend(&mut body, trace, look, width);
    let (first_ns, last_ns) = trace.span_ns();
    let scale = Scale {
        first_ns,
        span_ns: (last_ns - first_ns).max(1),
        room: f64::from(width - GUTTER - MARGIN),
    };
    let lanes_top = y;
    let mut lanes: HashMap<(u32, u32), Vec<&Command>> = HashMap::new();
    for command in &trace.commands {
        lanes
            .entry((command.device, command.lane))
            .or_default()
            .push(command);
    }
    let mut rows = String::new();
    for device in &trace.devices {
        text(
            &mut rows,
            "head",
            MARGIN,
            y + HEAD - 7,
            &device.name,
            (width - 2 * MARGIN) / 7,
        );
        y += HEAD;
        for lane in &device.lanes {
            text(
                &mut rows,
                "label",
                MARGIN + 8,
                y + LANE - 4,
                &lane.name,
                (GUTTER - MARGIN - 12) / 6,
            );
            let commands = lanes
                .get(&(device.id, lane.id))
                .map_or(&[][..], Vec::as_slice);
            draw_lane(&mut rows, commands, look, &scale, y);
            y += LANE;
        }
    }
    axis(&mut body, &scale, lanes_top, y);
    body.push_str(&rows);
    document(trace, look, [width, y + AXIS + MARGIN], &body)
}

/// From time to pixels.
struct Scale {
    first_ns: u64,
    span_ns: u64,
    room: f64,
}

impl Scale {
    fn x(&self, ns: u64) -> f64 {
        f64::from(GUTTER) + (ns - self.first_ns) as f64 / self.span_ns as f64 * self.room
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = out.write_fmt(text);
}

/// A text of at most `most` characters.
fn text(out: &mut String, class: &str, x: u32, y: u32, label: &str, most: u32) {
    let most = most as usize;
    let mut label = label.to_owned();
    if label.chars().count() > most {
        label = label.chars().take(most.saturating_sub(1)).collect();
        label.push('…');
    }
    put(
        out,
        format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{}</text>\n",
            escape::markup(&label)
        ),
    );
}

/// A run of pixels in one colour.
#[derive(Clone, Copy, PartialEq)]
struct Bar<'a> {
    from: f64,
    until: f64,
    colour: usize,
    failed: bool,
    /// Its first command.
    command: &'a Command,
}

fn draw_lane(out: &mut String, commands: &[&Command], look: &Look<'_>, scale: &Scale, y: u32) {
    put(
        out,
        format_args!(
            "<rect class=\"lane\" x=\"{GUTTER}\" y=\"{}\" width=\"{}\" height=\"1\"/>\n",
            y + LANE - 1,
            scale.room
        ),
    );
    let mut open: Option<Bar> = None;
    for command in commands {
        let from = scale.x(command.started_ns);
        let until = scale.x(command.ended_ns).max(from + 0.75);
        let bar = Bar {
            from,
            until,
            colour: look.colour(command),
            failed: command.failed.is_some(),
            command,
        };
        open = match open {
            // Thinner than a pixel, and close to the box before: the one that matters most gives
            // the colour.
            Some(last)
                if until - from < 1.5
                    && from - last.until < 1.0
                    && last.until - last.from < 1.5 =>
            {
                let more = if rank(&bar) > rank(&last) { bar } else { last };
                Some(Bar {
                    from: last.from,
                    until: until.max(last.until),
                    ..more
                })
            }
            // The same once more, without a gap that could be seen.
            Some(last)
                if (bar.colour, bar.failed) == (last.colour, last.failed)
                    && from - last.until < 0.25
                    && until - from < 1.5 =>
            {
                Some(Bar {
                    until: until.max(last.until),
                    ..last
                })
            }
            Some(last) => {
                draw_bar(out, &last, y);
                Some(bar)
            }
            None => Some(bar),
        };
    }
    if let Some(last) = open {
        draw_bar(out, &last, y);
    }
}

fn rank(bar: &Bar<'_>) -> u8 {
    if bar.failed {
        2
    } else {
        u8::from(is_migration(bar.colour))
    }
}

fn draw_bar(out: &mut String, bar: &Bar<'_>, y: u32) {
    // A gap between neighbours, when there is room for it.
    let wide = if bar.until - bar.from > 3.0 {
        bar.until - bar.from - 0.5
    } else {
        bar.until - bar.from
    };
    let tall = LANE - 4;
    let y = y + 1;
    let from = bar.from;
    put(
        out,
        format_args!(
            "<rect class=\"k{}\" x=\"{from:.2}\" y=\"{y}\" width=\"{wide:.2}\" height=\"{tall}\"",
            bar.colour
        ),
    );
    // A narrower one cannot be pointed at.
    if wide >= 3.0 {
        let time = duration(bar.command.duration_ns());
        let name = escape::markup(&bar.command.name);
        put(out, format_args!("><title>{name}: {time}</title></rect>\n"));
    } else {
        out.push_str("/>\n");
    }
    if is_migration(bar.colour) && wide >= 4.0 {
        put(
            out,
            format_args!(
                "<rect fill=\"url(#stripes)\" x=\"{from:.2}\" y=\"{y}\" width=\"{wide:.2}\" height=\"{tall}\"/>\n"
            ),
        );
    }
    if bar.failed {
        let wide = wide.max(2.0);
        put(
            out,
            format_args!(
                "<rect class=\"failed\" x=\"{from:.2}\" y=\"{y}\" width=\"{wide:.2}\" height=\"{tall}\"/>\n"
            ),
        );
    }
}

/// Draws the colours that occur, and gives the number of lines.
fn legend(out: &mut String, trace: &Trace, look: &Look<'_>, width: u32) -> u32 {
    let colours = trace.commands.iter().map(|command| look.colour(command));
    let colours: BTreeSet<usize> = colours.collect();
    let failed = trace
        .commands
        .iter()
        .any(|command| command.failed.is_some());
    let mut entries: Vec<(String, &str)> = colours
        .iter()
        .map(|&colour| (format!("k{colour}"), look.name(colour)))
        .collect();
    if failed {
        entries.push(("failed".to_owned(), "failed"));
    }
    let (mut x, mut lines) = (MARGIN, 1);
    for (class, name) in entries {
        let wide = 30 + 7 * name.len() as u32;
        if x + wide > width - MARGIN {
            x = MARGIN;
            lines += 1;
        }
        let y = TOP + LEGEND * (lines - 1);
        put(
            out,
            format_args!(
                "<rect class=\"{class}\" x=\"{x}\" y=\"{}\" width=\"14\" height=\"10\"/>\n",
                y + 4
            ),
        );
        if name == "migrate" {
            put(
                out,
                format_args!(
                    "<rect fill=\"url(#stripes)\" x=\"{x}\" y=\"{}\" width=\"14\" height=\"10\"/>\n",
                    y + 4
                ),
            );
        }
        text(out, "label", x + 19, y + 13, name, 20);
        x += wide;
    }
    lines
}

/// Vertical lines at round times, and the times below.
fn axis(out: &mut String, scale: &Scale, top: u32, bottom: u32) {
    let wanted = (scale.room / 90.0).max(1.0);
    let mut step = 1_u64;
    // 1, 2, 5, 10, ...: the first that needs no more lines than wanted.
    let mut factors = [2.0, 2.5, 2.0].into_iter().cycle();
    while scale.span_ns as f64 / step as f64 > wanted {
        step = (step as f64 * factors.next().unwrap_or(2.0)) as u64;
    }
    for tick in (0..=scale.span_ns / step).map(|number| number * step) {
        let x = scale.x(scale.first_ns + tick);
        put(
            out,
            format_args!(
                "<rect class=\"grid\" x=\"{x:.2}\" y=\"{top}\" width=\"1\" height=\"{}\"/>\n",
                bottom - top
            ),
        );
        // The last one may not have the room.
        if x - f64::from(GUTTER) < scale.room - 36.0 || tick == 0 {
            put(
                out,
                format_args!(
                    "<text class=\"label\" x=\"{x:.2}\" y=\"{}\">{}</text>\n",
                    bottom + 15,
                    duration(tick)
                ),
            );
        }
    }
}

fn document(trace: &Trace, look: &Look<'_>, [width, height]: [u32; 2], body: &str) -> String {
    let title = match look.title {
        Some(title) => title.to_owned(),
        None => headline(trace),
    };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"title\">\n\
         <title id=\"title\">Timeline: {}</title>\n<style>\n",
        escape::markup(&title)
    );
    out.push_str("text{font:11px system-ui,'Segoe UI',Roboto,sans-serif}.head{font-weight:600;font-size:12px}\n");
    style(
        &mut out,
        ["#ffffff", "#1b222c", "#5d6877", "#e9ecf1", "#c4281c"],
        |colour| colour.light,
    );
    for (named, (_, colour)) in look.names.iter().enumerate() {
        let class = COLOURS.len() + named;
        put(&mut out, format_args!(".k{class}{{fill:{colour}}}\n"));
    }
    out.push_str("@media (prefers-color-scheme:dark){\n");
    style(
        &mut out,
        ["#14181f", "#e6eaf0", "#98a4b3", "#262d38", "#ff6b5e"],
        |colour| colour.dark,
    );
    out.push_str(
        "}\n</style>\n<defs><pattern id=\"stripes\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><rect class=\"stripe\" width=\"1.6\" height=\"5\"/></pattern></defs>\n\
         <rect class=\"back\" width=\"100%\" height=\"100%\"/>\n",
    );
    text(
        &mut out,
        "head",
        MARGIN,
        18,
        &title,
        (width - 2 * MARGIN) / 7,
    );
    out.push_str(body);
    out.push_str("</svg>\n");
    out
}

fn style(
    out: &mut String,
    [back, strong, soft, grid, bad]: [&str; 5],
    pick: fn(&palette::Colour) -> &'static str,
) {
    put(
        out,
        format_args!(
            ".back,.stripe{{fill:{back}}}.stripe{{fill-opacity:.5}}.head{{fill:{strong}}}.label{{fill:{soft}}}\n"
        ),
    );
    put(
        out,
        format_args!(
            ".grid,.lane{{fill:{grid}}}.failed{{fill:none;stroke:{bad};stroke-width:1.5}}\n"
        ),
    );
    for (position, colour) in COLOURS.iter().enumerate() {
        put(out, format_args!(".k{position}{{fill:{}}}", pick(colour)));
    }
    out.push('\n');
}
