//! The pipeline as data: its planes, its tiles, its stages, and which rows each stage reads and
//! writes.
//!
//! A *plane* is one buffer: rows of equal length, of one element type. A plane of colours keeps
//! each row's red, green and blue next to each other, as three runs of `pitch` elements: so any
//! band of rows is one contiguous range of the buffer, and the inner loops still run over one
//! colour at a time. A *tile* is a band of rows. A *stage* turns tiles of some planes into a tile
//! of one plane.
//!
//! ```text
//! source ─ unpack ─ denoise ─┬─ luminance ─┬─ histogram ═ curve ────────┐
//!                            │             ├────────────────────────────┤
//!                            │             └─ edges ────────────────────┼─────────┐
//!                            ├─ blur rows ─ blur columns ─┐             │         │
//!                            ├────────────────────────────┴─ sharpen ─ tone map ─ compose ─ result
//!                            └─ glow rows ─ glow columns ─────────────────────────┘
//! ```
//!
//! Most stages need only the tile's own rows. Denoise, edges and the two column stages need a
//! *halo*: rows of the neighbouring tiles, as the stage before wrote them, fewer at the image's
//! borders, where the kernels repeat the outermost row. Curve needs the histograms of all tiles:
//! it is the one point at which everything meets.
//!
//! Invariants, which the tests hold on to:
//!
//! * every element of every plane but the source is written by exactly one (stage, tile);
//! * the planes that a stage reads are written by stages before it in [`Stage::ALL`], so enqueuing
//!   stage after stage in that order is correct on an in-order queue;
//! * a stage never reads the plane it writes.

use std::ops::Range;

use super::image::Size;

/// Rows of an image above and below a tile that denoise needs.
pub(crate) const DENOISE_RADIUS: usize = 2;
/// Pixels on each side that the blur for sharpening needs.
pub(crate) const BLUR_RADIUS: usize = 6;
/// Pixels on each side that the glow of bright lights needs.
pub(crate) const GLOW_RADIUS: usize = 24;
/// Entries of a histogram and of the tone curve.
pub(crate) const BINS: usize = 256;

/// The fewest rows of a tile when their number is left to the plan, unless devices would go
/// without.
const DEFAULT_TILE_ROWS: usize = 64;
/// The fewest rows of a tile even then: halos would be most of the moved bytes.
const FEWEST_TILE_ROWS: usize = 8;
/// Tiles that there should be for each device.
const TILES_PER_DEVICE: usize = 2;
/// The most tiles when their number is left to the plan.
const DEFAULT_MOST_TILES: usize = 256;

/// The type of a plane's elements; each takes four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    /// `f32`: samples, brightness, factors.
    Float,
    /// `u32`: packed pixels, counts.
    Word,
}

impl Element {
    /// Bytes of an element of either kind.
    pub(crate) const BYTES: usize = 4;
}

/// A buffer of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Plane {
    /// The input's packed pixels.
    Source,
    /// Red, green and blue from 0 to 1, as stored in the file.
    Samples,
    /// Denoised colours in linear light.
    Denoised,
    /// Brightness as seen: the square root of linear luminance.
    Luminance,
    /// One histogram of the luminance per tile: row `i` is that of tile `i`.
    Histograms,
    /// The tone curve: one row.
    Curve,
    /// The strength of edges, from 0 to 1.
    Edges,
    /// Denoised colours, blurred along the rows.
    BlurredRows,
    /// Denoised colours, blurred along rows and columns.
    Blurred,
    /// Sharpened colours in linear light.
    Sharpened,
    /// The light of bright spots, spread along the rows.
    GlowRows,
    /// The light of bright spots, spread along rows and columns.
    Glow,
    /// Sharpened colours after the tone curve.
    Toned,
    /// The output's packed pixels.
    Result,
}

impl Plane {
    /// All planes, in the order in which they are written.
    pub(crate) const ALL: [Self; 14] = [
        Self::Source,
        Self::Samples,
        Self::Denoised,
        Self::Luminance,
        Self::Histograms,
        Self::Curve,
        Self::Edges,
        Self::BlurredRows,
        Self::Blurred,
        Self::Sharpened,
        Self::GlowRows,
        Self::Glow,
        Self::Toned,
        Self::Result,
    ];

    /// Its place in [`Plane::ALL`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// The type of its elements.
    pub(crate) fn element(self) -> Element {
        match self {
            Self::Source | Self::Histograms | Self::Result => Element::Word,
            _ => Element::Float,
        }
    }

    /// Runs of `pitch` elements in a row: 3 for colours, else 1.
    pub(crate) fn channels(self) -> usize {
        match self {
            Self::Samples
            | Self::Denoised
            | Self::BlurredRows
            | Self::Blurred
            | Self::Sharpened
            | Self::GlowRows
            | Self::Glow
            | Self::Toned => 3,
            _ => 1,
        }
    }
}

/// A band of rows of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    /// Its number, from the top.
    pub(crate) index: usize,
    /// Its rows: never empty.
    pub(crate) rows: Range<usize>,
}

/// Some rows of a plane that a stage reads or writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// The plane.
    pub(crate) plane: Plane,
    /// The rows.
    pub(crate) rows: Range<usize>,
}

/// The image's size and how it is cut into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Pixels in a row.
    pub(crate) width: usize,
    /// Rows.
    pub(crate) height: usize,
    /// Rows of a tile; the last tile may have fewer.
    pub(crate) tile_rows: usize,
}

impl Geometry {
    /// Tiles of `tile_rows` rows, or of as many as make a reasonable number of tiles for so many
    /// devices.
    pub(crate) fn new(size: Size, tile_rows: Option<usize>, devices: usize) -> Self {
        let height = size.height();
        let tile_rows = tile_rows
            .unwrap_or_else(|| {
                let for_all = height / (TILES_PER_DEVICE * devices.max(1));
                let fewest = DEFAULT_TILE_ROWS.min(for_all.max(FEWEST_TILE_ROWS));
                fewest.max(height.div_ceil(DEFAULT_MOST_TILES))
            })
            .clamp(1, height);
        Self {
            width: size.width(),
            height,
            tile_rows,
        }
    }

    /// The number of tiles.
    pub(crate) fn tile_count(&self) -> usize {
        self.height.div_ceil(self.tile_rows)
    }

    /// Tile number `index`, which is below [`Geometry::tile_count`].
    pub(crate) fn tile(&self, index: usize) -> Tile {
        let start = index * self.tile_rows;
        Tile {
            index,
            rows: start..(start + self.tile_rows).min(self.height),
        }
    }

    /// All tiles from the top.
    pub(crate) fn tiles(&self) -> impl ExactSizeIterator<Item = Tile> + use<> {
        let geometry = *self;
        (0..geometry.tile_count()).map(move |index| geometry.tile(index))
    }

    /// Elements in one channel of a row of `plane` that mean something.
    pub(crate) fn row_width(&self, plane: Plane) -> usize {
        match plane {
            Plane::Histograms | Plane::Curve => BINS,
            _ => self.width,
        }
    }

    /// Elements from one channel of a row to the next. Packed pixels have no padding, so that they
    /// are an [`Image`](super::image::Image)'s own; the others start each run on a cache line of
    /// 64 bytes, if the plane's first element does.
    pub(crate) fn pitch(&self, plane: Plane) -> usize {
        match plane {
            Plane::Source | Plane::Result => self.width,
            _ => self.row_width(plane).next_multiple_of(16),
        }
    }

    /// Elements of a whole row of `plane`, all its channels.
    pub(crate) fn row_elements(&self, plane: Plane) -> usize {
        self.pitch(plane) * plane.channels()
    }

    /// Rows of `plane`.
    pub(crate) fn row_count(&self, plane: Plane) -> usize {
        match plane {
            Plane::Histograms => self.tile_count(),
            Plane::Curve => 1,
            _ => self.height,
        }
    }

    /// Elements of the whole of `plane`: the length of its buffer.
    pub(crate) fn plane_elements(&self, plane: Plane) -> usize {
        self.row_count(plane) * self.row_elements(plane)
    }

    /// The range of an access in its plane's buffer, in elements.
    pub(crate) fn elements(&self, access: &Access) -> Range<usize> {
        let row = self.row_elements(access.plane);
        access.rows.start * row..access.rows.end * row
    }

    /// The range of an access in its plane's buffer, in bytes.
    #[cfg(test)]
    pub(crate) fn bytes(&self, access: &Access) -> Range<usize> {
        let elements = self.elements(access);
        elements.start * Element::BYTES..elements.end * Element::BYTES
    }

    /// Bytes of all planes together.
    pub(crate) fn total_bytes(&self) -> usize {
        let elements: usize = Plane::ALL
            .map(|plane| self.plane_elements(plane))
            .iter()
            .sum();
        elements * Element::BYTES
    }
}

/// A step of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Stage {
    /// Packed pixels to samples from 0 to 1.
    Unpack,
    /// A bilateral filter of 5x5 pixels, then linear light. Halo of [`DENOISE_RADIUS`].
    Denoise,
    /// Colours to brightness as seen.
    Luminance,
    /// Counts the brightnesses of a tile.
    Histogram,
    /// All histograms to one tone curve: contrast-limited equalisation. A global reduction.
    Curve,
    /// Sobel's edge detector on the brightness. Halo of 1.
    Edges,
    /// A Gaussian along the rows.
    BlurRows,
    /// A Gaussian along the columns. Halo of [`BLUR_RADIUS`].
    BlurColumns,
    /// Unsharp mask: adds the detail that the blur took away.
    Sharpen,
    /// Takes the light above a threshold and spreads it along the rows.
    GlowRows,
    /// Spreads it along the columns. Halo of [`GLOW_RADIUS`].
    GlowColumns,
    /// Applies the tone curve, keeping the hue.
    ToneMap,
    /// Adds the glow, draws the edges, darkens the corners, and packs the pixels.
    Compose,
}

impl Stage {
    /// All stages, each after the ones it depends on.
    pub(crate) const ALL: [Self; 13] = [
        Self::Unpack,
        Self::Denoise,
        Self::Luminance,
        Self::Histogram,
        Self::Curve,
        Self::Edges,
        Self::BlurRows,
        Self::BlurColumns,
        Self::Sharpen,
        Self::GlowRows,
        Self::GlowColumns,
        Self::ToneMap,
        Self::Compose,
    ];

    /// Its place in [`Stage::ALL`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Its name in tables, traces and pictures.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unpack => "unpack",
            Self::Denoise => "denoise",
            Self::Luminance => "luminance",
            Self::Histogram => "histogram",
            Self::Curve => "curve",
            Self::Edges => "edges",
            Self::BlurRows => "blur rows",
            Self::BlurColumns => "blur columns",
            Self::Sharpen => "sharpen",
            Self::GlowRows => "glow rows",
            Self::GlowColumns => "glow columns",
            Self::ToneMap => "tone map",
            Self::Compose => "compose",
        }
    }

    /// The tiles that this stage is run on: all, or for [`Stage::Curve`] a single one that stands
    /// for the whole image.
    pub(crate) fn tiles(self, geometry: &Geometry) -> Vec<Tile> {
        match self {
            Self::Curve => vec![Tile {
                index: 0,
                rows: 0..geometry.height,
            }],
            _ => geometry.tiles().collect(),
        }
    }

    /// True if a tile's rows may be divided further, and each part run as a tile of its own with
    /// the same index: so for all stages whose rows of output are rows of the image.
    #[cfg(test)]
    pub(crate) fn is_divisible(self) -> bool {
        !matches!(self, Self::Histogram | Self::Curve)
    }

    /// The rows that this stage reads for `tile`, in the order in which
    /// [`run`](super::stages::run) takes them.
    pub(crate) fn reads(self, geometry: &Geometry, tile: &Tile) -> Vec<Access> {
        let own = |plane| Access {
            plane,
            rows: tile.rows.clone(),
        };
        let halo = |plane, radius: usize| Access {
            plane,
            rows: tile.rows.start.saturating_sub(radius)
                ..(tile.rows.end + radius).min(geometry.height),
        };
        let whole = |plane| Access {
            plane,
            rows: 0..geometry.row_count(plane),
        };
        match self {
            Self::Unpack => vec![own(Plane::Source)],
            Self::Denoise => vec![halo(Plane::Samples, DENOISE_RADIUS)],
            Self::Luminance => vec![own(Plane::Denoised)],
            Self::Histogram => vec![own(Plane::Luminance)],
            Self::Curve => vec![whole(Plane::Histograms)],
            Self::Edges => vec![halo(Plane::Luminance, 1)],
            Self::BlurRows => vec![own(Plane::Denoised)],
            Self::BlurColumns => vec![halo(Plane::BlurredRows, BLUR_RADIUS)],
            Self::Sharpen => vec![own(Plane::Denoised), own(Plane::Blurred)],
            Self::GlowRows => vec![own(Plane::Denoised)],
            Self::GlowColumns => vec![halo(Plane::GlowRows, GLOW_RADIUS)],
            Self::ToneMap => vec![
                own(Plane::Sharpened),
                own(Plane::Luminance),
                whole(Plane::Curve),
            ],
            Self::Compose => vec![own(Plane::Toned), own(Plane::Edges), own(Plane::Glow)],
        }
    }

    /// The rows that this stage writes for `tile`: all of them, padding included or left alone.
    pub(crate) fn writes(self, tile: &Tile) -> Access {
        let rows = match self {
            Self::Histogram => tile.index..tile.index + 1,
            Self::Curve => 0..1,
            _ => tile.rows.clone(),
        };
        Access {
            plane: self.output(),
            rows,
        }
    }

    /// The plane that this stage writes.
    pub(crate) fn output(self) -> Plane {
        match self {
            Self::Unpack => Plane::Samples,
            Self::Denoise => Plane::Denoised,
            Self::Luminance => Plane::Luminance,
            Self::Histogram => Plane::Histograms,
            Self::Curve => Plane::Curve,
            Self::Edges => Plane::Edges,
            Self::BlurRows => Plane::BlurredRows,
            Self::BlurColumns => Plane::Blurred,
            Self::Sharpen => Plane::Sharpened,
            Self::GlowRows => Plane::GlowRows,
            Self::GlowColumns => Plane::Glow,
            Self::ToneMap => Plane::Toned,
            Self::Compose => Plane::Result,
        }
    }
}

/// Of so many tiles, neighbours together, which each device has: as many as its weight says,
/// compared with the others', but at least one as long as there are any.
pub(crate) fn divide(tiles: usize, weights: &[usize]) -> Vec<Range<usize>> {
    let mut counts = vec![0_usize; weights.len()];
    for _ in 0..tiles {
        // Each in turn goes to the device that has the fewest for its weight (Sainte-Laguë's
        // method).
        let most_due = (0..weights.len()).max_by(|one, other| {
            let due = |device: usize| match counts[device] {
                0 => f64::INFINITY,
                count => weights[device] as f64 / (2 * count + 1) as f64,
            };
            // Of several, the first.
            due(*one).total_cmp(&due(*other)).then(other.cmp(one))
        });
        if let Some(device) = most_due {
            counts[device] += 1;
        }
    }
    let mut start = 0;
    let ranges = counts.into_iter().map(|count| {
        start += count;
        start - count..start
    });
    ranges.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(width: usize, height: usize, tile_rows: usize) -> Geometry {
        Geometry::new(Size::new(width, height).unwrap(), Some(tile_rows), 1)
    }

    #[test]
    fn every_device_has_its_share_of_the_tiles() {
        for (tiles, weights, expected) in [
            (17, &[2, 1, 1, 1, 1, 1][..], &[5, 3, 3, 2, 2, 2][..]),
            (9, &[2, 1], &[6, 3]),
            (3, &[4, 4, 1, 1, 1], &[1, 1, 1, 0, 0]),
            (0, &[1, 2], &[0, 0]),
            (20, &[1, 8], &[2, 18]),
        ] {
            let ranges = divide(tiles, weights);
            let counts: Vec<usize> = ranges.iter().map(ExactSizeIterator::len).collect();
            assert_eq!(counts, expected, "{tiles} tiles for {weights:?}");
            assert_eq!(ranges.into_iter().flatten().count(), tiles);
        }
    }

    #[test]
    fn there_are_tiles_for_all_devices() {
        let rows = |height, devices| {
            let geometry = Geometry::new(Size::new(10, height).unwrap(), None, devices);
            geometry.tile_rows
        };
        assert_eq!((rows(1080, 6), rows(1080, 20), rows(200, 6)), (64, 27, 16));
        assert_eq!((rows(100, 50), rows(5, 3), rows(32_768, 3)), (8, 5, 128));
    }

    #[test]
    fn indices_are_places() {
        for (i, plane) in Plane::ALL.into_iter().enumerate() {
            assert_eq!(plane.index(), i);
        }
        for (i, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage.index(), i);
        }
    }

    #[test]
    fn every_row_is_written_once_and_before_it_is_read() {
        for geometry in [
            geometry(1, 1, 1),
            geometry(3, 7, 2),
            geometry(64, 33, 5),
            geometry(20, 100, 64),
            geometry(20, 100, 1000),
        ] {
            let mut written: Vec<Vec<bool>> = Plane::ALL
                .iter()
                .map(|&plane| vec![plane == Plane::Source; geometry.row_count(plane)])
                .collect();
            for stage in Stage::ALL {
                for tile in stage.tiles(&geometry) {
                    assert!(!tile.rows.is_empty());
                    let output = stage.writes(&tile);
                    for read in stage.reads(&geometry, &tile) {
                        assert_ne!(read.plane, output.plane);
                        assert!(written[read.plane.index()][read.rows].iter().all(|&w| w));
                    }
                    for row in output.rows {
                        let row = &mut written[output.plane.index()][row];
                        assert!(!std::mem::replace(row, true), "{stage:?} writes twice");
                    }
                }
            }
            assert!(written.iter().flatten().all(|&w| w));
        }
    }

    #[test]
    fn halos_are_cut_off_at_the_borders() {
        let geometry = geometry(10, 100, 40);
        let rows =
            |stage: Stage, tile| stage.reads(&geometry, &geometry.tile(tile))[0].rows.clone();
        assert_eq!(rows(Stage::Denoise, 0), 0..42);
        assert_eq!(rows(Stage::Denoise, 1), 38..82);
        assert_eq!(rows(Stage::GlowColumns, 1), 16..100);
        assert_eq!(rows(Stage::Edges, 2), 79..100);
    }

    #[test]
    fn ranges_are_contiguous_bands() {
        let geometry = geometry(100, 50, 16);
        let access = Stage::Denoise.writes(&geometry.tile(1));
        assert_eq!(geometry.pitch(Plane::Denoised), 112);
        assert_eq!(geometry.elements(&access), 16 * 336..32 * 336);
        assert_eq!(geometry.bytes(&access), 64 * 336..128 * 336);
        assert_eq!(geometry.pitch(Plane::Source), 100);
        assert_eq!(geometry.plane_elements(Plane::Histograms), 4 * BINS);
    }

    #[test]
    fn the_default_cut_is_reasonable() {
        let count =
            |width, height| Geometry::new(Size::new(width, height).unwrap(), None, 1).tile_count();
        assert_eq!(count(1920, 1080), 17);
        assert_eq!(count(1, 1), 1);
        assert_eq!(count(1, 32768), 256);
    }
}
