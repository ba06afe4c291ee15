//! Sources as an operator writes them: `name=path`, with the known facts about each.

use super::{Format, Pixels, Source};
use std::path::Path;
use std::str::FromStr;

/// The word in place of a path if frames are to be made by a formula.
const SYNTHETIC: &str = "synthetic";

impl FromStr for Source {
    type Err = String;

    /// Reads
    /// `name=path[,format=jpeg|raw|file][,width=N][,height=N][,pixels=gray|rgb|rgba|yuv420][,rate=N][,loop=no]`.
    /// The path `synthetic` stands for a generator. Without a format, files that end in `.mjpeg`,
    /// `.mjpg`, `.jpeg` and `.jpg` are JPEG, others with a width and a height are raw, and the rest
    /// are one frame.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let (name, path) = first
            .split_once('=')
            .filter(|(name, path)| !name.is_empty() && !path.is_empty())
            .ok_or_else(|| {
                format!("'{first}' is not name=path, as in camera=/data/street.mjpeg")
            })?;
        let (mut width, mut height, mut rate) = (None, None, None);
        let (mut format, mut pixels, mut repeats) = (None, Pixels::Rgb, true);
        for part in parts {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("'{part}' is not key=value"))?;
            let number = || -> Result<u32, String> {
                value.parse().map_err(|_| format!("'{value}' is no {key}"))
            };
            match key {
                "width" => width = Some(number()?),
                "height" => height = Some(number()?),
                "rate" => {
                    let parsed: Result<f64, _> = value.parse();
                    rate = Some(parsed.map_err(|_| format!("'{value}' is no rate"))?);
                }
                "format" => format = Some(value),
                "pixels" => {
                    pixels = match value {
                        "gray" => Pixels::Gray,
                        "rgb" => Pixels::Rgb,
                        "rgba" => Pixels::Rgba,
                        "yuv420" => Pixels::Yuv420,
                        _ => {
                            return Err(format!(
                                "'{value}' is none of the pixels gray, rgb, rgba and yuv420"
                            ));
                        }
                    }
                }
                "loop" => {
                    repeats = match value {
                        "yes" => true,
                        "no" => false,
                        _ => return Err(format!("'{value}' is neither yes nor no")),
                    }
                }
                _ => {
                    return Err(format!(
                        "'{key}' is none of width, height, format, pixels, rate and loop"
                    ));
                }
            }
        }
        let raw = || match (width, height) {
            (Some(width), Some(height)) => Ok(Format::Raw {
                width,
                height,
                pixels,
            }),
            _ => Err("raw video needs a width and a height".to_owned()),
        };
        let mut source = if path == SYNTHETIC {
            let (width, height) = (width.unwrap_or(640), height.unwrap_or(480));
            let jpeg = match format {
                None | Some("jpeg") => true,
                Some("raw") if pixels == Pixels::Rgb => false,
                _ => return Err("a synthetic source is of format jpeg, or raw in rgb".to_owned()),
            };
            Self::synthetic(name, width, height, jpeg)
        } else {
            let ending = Path::new(path)
                .extension()
                .and_then(|ending| ending.to_str());
            let ending = ending.unwrap_or_default().to_ascii_lowercase();
            let is_jpeg = ["mjpeg", "mjpg", "jpeg", "jpg"].contains(&ending.as_str());
            let format = match format {
                Some("jpeg") => Format::Jpeg,
                Some("raw") => raw()?,
                Some("file") => Format::Opaque,
                Some(other) => {
                    return Err(format!(
                        "'{other}' is none of the formats jpeg, raw and file"
                    ));
                }
                None if is_jpeg => Format::Jpeg,
                None if width.is_some() || height.is_some() => raw()?,
                None => Format::Opaque,
            };
            Self::file(name, path, format)
        };
        source.rate = rate;
        source.repeats = repeats;
        source.check()?;
        Ok(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Origin;

    #[test]
    fn sources_are_read_as_they_are_written() {
        let source: Source = "camera=/data/street.MJPG,rate=29.97,loop=no"
            .parse()
            .unwrap();
        assert_eq!(source.name(), "camera");
        assert_eq!(source.path(), Some(Path::new("/data/street.MJPG")));
        assert_eq!((source.format, source.rate), (Format::Jpeg, Some(29.97)));
        assert!(!source.repeats);
        let source: Source = "a=b.yuv,width=3,height=5,pixels=yuv420".parse().unwrap();
        let Format::Raw { pixels, .. } = source.format else {
            panic!("raw");
        };
        assert_eq!(pixels.bytes(3, 5), 15 + 2 * 6);
        let source: Source = "t=synthetic,format=raw,width=8,height=4".parse().unwrap();
        assert!(matches!(
            source.origin,
            Origin::Generator {
                width: 8,
                height: 4
            }
        ));
        assert_eq!(source.path(), None);
        let source: Source = "x=some.bin".parse().unwrap();
        assert_eq!(source.format, Format::Opaque);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_does() {
        for (text, says) in [
            ("", "name=path"),
            ("camera", "name=path"),
            ("=x", "name=path"),
            ("a=b,width", "key=value"),
            ("a=b,width=-1", "no width"),
            ("a=b,size=1", "none of width"),
            ("a=b,width=1", "a width and a height"),
            ("a=b,width=0,height=1", "have to be"),
            ("a=b,format=mp4", "none of the formats"),
            ("a=b,pixels=bgr", "none of the pixels"),
            ("a=b,rate=fast", "no rate"),
            ("a=b,rate=0", "not between"),
            ("a=b,rate=nan", "not between"),
            ("a=b,loop=maybe", "neither"),
            ("a=synthetic,format=raw,pixels=gray", "synthetic"),
            ("a=synthetic,width=65536", "at most 65535"),
            (
                "a=synthetic,format=raw,width=65536,height=65536",
                "too large",
            ),
        ] {
            let error = text.parse::<Source>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
