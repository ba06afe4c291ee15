//! The device of a source.

use crate::lane::BuiltInDevice;
use crate::passed::Arguments;
use crate::signatures;
use crate::source::{Format, Frames, Pixels, Source};
use quipu_scheduler::BuiltInKernel;
use std::time::{Duration, Instant};

const NEXT: &str = "next_frame";
const FRAME: &str = "frame";
const INFO: &str = "stream_info";

/// See the module.
pub(crate) struct Stream {
    name: String,
    format: Format,
    frames: Frames,
    pace: Pace,
    opened: Instant,
    kernels: Vec<BuiltInKernel>,
}

/// The times of frames.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Frames per second; none if each is there as soon as it is asked for.
    rate: Option<f64>,
    /// The number of frames, if they do not begin anew.
    count: Option<u64>,
}

/// The answer to a reader at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// This frame.
    Frame(u64),
    /// It is not there for so long.
    Wait(Duration),
    /// There are no more.
    End,
}

impl Pace {
    /// The answer so long after the source was opened.
    fn answer(&self, position: u64, since: Duration) -> Answer {
        let end = |number: u64| match self.count {
            Some(count) if number >= count => Answer::End,
            _ => Answer::Frame(number),
        };
        let Some(rate) = self.rate else {
            return end(position);
        };
        // Frame n is there from n periods on. A position that is further ahead than the next frame
        // means the next.
        let live = (since.as_secs_f64() * rate) as u64;
        if let Some(count) = self.count
            && position.min(live) >= count
        {
            return Answer::End;
        }
        if position <= live {
            return end(live);
        }
        // A rate may be so small that no clock goes as far.
        let due = Duration::try_from_secs_f64((live + 1) as f64 / rate).unwrap_or(Duration::MAX);
        let left = due.saturating_sub(since);
        if left.is_zero() {
            return end(live + 1);
        }
        if self.count.is_some_and(|count| live + 1 >= count) {
            return Answer::End;
        }
        Answer::Wait(left)
    }
}

impl Stream {
    /// Opens a source.
    ///
    /// # Errors
    /// If something about it makes no sense, or its file cannot be read.
    pub(crate) fn open(source: Source) -> Result<Self, String> {
        source.check()?;
        let (name, format, rate) = (source.name.clone(), source.format, source.rate);
        let repeats = source.repeats;
        let frames = Frames::open(source)?;
        let count = (!repeats).then(|| frames.count());
        Ok(Self {
            name,
            format,
            frames,
            pace: Pace { rate, count },
            opened: Instant::now(),
            kernels: signatures(&[
                "next_frame(inout u64 position, out u8 frame, out u64 size)",
                "frame(value u64 number, out u8 frame, out u64 size)",
                "stream_info(out u64 info)",
            ]),
        })
    }

    /// The facts of the stream: bytes of the longest frame; the number of frames, zero if they
    /// begin anew; frames in a thousand seconds, zero if each is there when it is asked for; 1 for
    /// JPEG, 2 for pixels, 0 otherwise; and of pixels their width, height, and 1 gray, 3 RGB, 4
    /// RGBA, 2 YUV 4:2:0.
    fn info(&self) -> [u64; 7] {
        let (format, width, height, pixels) = match self.format {
            Format::Jpeg => (1, 0, 0, 0),
            Format::Raw {
                width,
                height,
                pixels,
            } => {
                let pixels = match pixels {
                    Pixels::Gray => 1,
                    Pixels::Yuv420 => 2,
                    Pixels::Rgb => 3,
                    Pixels::Rgba => 4,
                };
                (2, width.into(), height.into(), pixels)
            }
            Format::Opaque => (0, 0, 0, 0),
        };
        let rate = self
            .pace
            .rate
            .map_or(0, |rate| (rate * 1000.0).round() as u64);
        let count = self.pace.count.unwrap_or(0);
        [
            self.frames.longest(),
            count,
            rate,
            format,
            width,
            height,
            pixels,
        ]
    }

    /// Writes a frame; gives its length in bytes.
    fn write(
        &self,
        number: u64,
        arguments: &mut Arguments<'_>,
        to: usize,
    ) -> Result<usize, String> {
        self.frames
            .write(number % self.frames.count(), arguments.room(to))
    }
}

impl BuiltInDevice for Stream {
    fn name(&self) -> &str {
        &self.name
    }

    fn kernels(&self) -> &[BuiltInKernel] {
        &self.kernels
    }

    fn threads(&self) -> usize {
        1
    }

    fn wait(&self, kernel: &str, arguments: &Arguments<'_>) -> Duration {
        if kernel != NEXT {
            return Duration::ZERO;
        }
        match self.pace.answer(arguments.number(0), self.opened.elapsed()) {
            Answer::Wait(left) => left,
            Answer::Frame(_) | Answer::End => Duration::ZERO,
        }
    }

    fn run(&self, kernel: &str, arguments: &mut Arguments<'_>) -> Result<(), String> {
        let answer = match kernel {
            INFO => {
                let numbers = self.info().map(u64::to_ne_bytes);
                return arguments.write_numbers(0, &numbers);
            }
            FRAME => {
                let number = arguments.value(0);
                match self.pace.count {
                    Some(count) if number >= count => Answer::End,
                    _ => Answer::Frame(number),
                }
            }
            _ => {
                let (position, since) = (arguments.number(0), self.opened.elapsed());
                match self.pace.answer(position, since) {
                    // The driver ends, or a thread was a moment early: as if it were the time.
                    Answer::Wait(left) => self.pace.answer(position, since + left),
                    answer => answer,
                }
            }
        };
        let size = match answer {
            Answer::Frame(number) => {
                let size = self.write(number, arguments, 1)?;
                if kernel == NEXT {
                    arguments.write_numbers(0, &[number.wrapping_add(1).to_ne_bytes()])?;
                }
                size
            }
            Answer::Wait(_) | Answer::End => 0,
        };
        arguments.wrote(1, size);
        arguments.write_numbers(2, &[(size as u64).to_ne_bytes()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn without_a_rate_each_frame_is_there() {
        let pace = Pace {
            rate: None,
            count: Some(3),
        };
        assert_eq!(pace.answer(2, Duration::ZERO), Answer::Frame(2));
        assert_eq!(pace.answer(3, Duration::ZERO), Answer::End);
        assert_eq!(pace.answer(u64::MAX, Duration::ZERO), Answer::End);
        let pace = Pace {
            count: None,
            ..pace
        };
        assert_eq!(pace.answer(u64::MAX, 5 * MS), Answer::Frame(u64::MAX));
    }

    #[test]
    fn with_a_rate_who_is_early_waits_and_who_is_late_misses_frames() {
        let pace = Pace {
            rate: Some(10.0),
            count: None,
        };
        assert_eq!(pace.answer(0, Duration::ZERO), Answer::Frame(0));
        assert_eq!(pace.answer(1, Duration::ZERO), Answer::Wait(100 * MS));
        assert_eq!(pace.answer(1, 60 * MS), Answer::Wait(40 * MS));
        assert_eq!(pace.answer(1, 110 * MS), Answer::Frame(1));
        assert_eq!(pace.answer(1, 730 * MS), Answer::Frame(7));
        // Of a rate by which the next frame never comes.
        let rate = Some(1e-300);
        let pace = Pace { rate, ..pace };
        assert_eq!(pace.answer(1, MS), Answer::Wait(Duration::MAX - MS));
    }

    #[test]
    fn nobody_waits_for_longer_than_a_period_at_any_position() {
        let pace = Pace {
            rate: Some(10.0),
            count: None,
        };
        assert_eq!(pace.answer(u64::MAX, 730 * MS), Answer::Wait(70 * MS));
    }

    #[test]
    fn a_stream_with_a_rate_ends_too() {
        let pace = Pace {
            rate: Some(10.0),
            count: Some(2),
        };
        assert_eq!(pace.answer(1, Duration::ZERO), Answer::Wait(100 * MS));
        assert_eq!(pace.answer(1, 150 * MS), Answer::Frame(1));
        assert_eq!(pace.answer(2, 150 * MS), Answer::End);
        assert_eq!(pace.answer(0, 900 * MS), Answer::End);
    }
}
