//! The tiled stages against the sequential pipeline: every bit, however the image is cut.

use clap::Parser;
use proptest::prelude::*;

use super::cast::Cast;
use super::image::{Image, Size, pack};
use super::plan::{BINS, Element, Geometry, Plane, Stage, Tile};
use super::run::Pipeline;
use super::stages::{Planes, StageParams};
use super::{Options, Progress, scene, sequential};
use quipu::prelude::*;
use std::cell::Cell;
use std::sync::{Arc, Mutex};

/// The planes on one thread, and their content once all stages were run.
struct Pictures {
    params: StageParams,
    queue: Queue,
    planes: Planes,
    floats: Vec<Vec<f32>>,
    words: Vec<Vec<u32>>,
}

impl Pictures {
    /// Planes in which anything read before it is written shows in the result.
    fn new(image: &Image, params: StageParams) -> Self {
        let platform = Platform::builder().opencl(false).cuda(false);
        let device = platform.without_nodes().build().unwrap();
        let device = device.device("serial").unwrap();
        let context = device.context().unwrap();
        let (queue, planes) = (
            context.queue(&device).unwrap(),
            Planes::new(&context, params.geometry).unwrap(),
        );
        for plane in Plane::ALL {
            let whole = planes.whole(plane);
            match plane.element() {
                _ if plane == Plane::Source => {
                    let to = planes.words(&whole).unwrap();
                    drop(queue.write(&to, image.pixels().to_vec()).unwrap());
                }
                Element::Float => {
                    queue
                        .fill(&planes.floats(&whole).unwrap(), f32::NAN)
                        .unwrap();
                }
                Element::Word => {
                    queue
                        .fill(&planes.words(&whole).unwrap(), 0xDEAD_BEEF)
                        .unwrap();
                }
            }
        }
        Self {
            params,
            queue,
            planes,
            floats: Vec::new(),
            words: Vec::new(),
        }
    }

    fn run(&mut self, stage: Stage, tile: &Tile) {
        let enqueued = self.planes.enqueue(&self.queue, stage, tile, &self.params);
        enqueued.unwrap();
    }

    /// Fetches their content.
    fn read(mut self) -> Self {
        for plane in Plane::ALL {
            let whole = self.planes.whole(plane);
            let (mut floats, mut words) = (Vec::new(), Vec::new());
            match plane.element() {
                Element::Float => {
                    let from = self.planes.floats(&whole).unwrap();
                    floats = self.queue.read(&from).unwrap().wait().unwrap();
                }
                Element::Word => {
                    let from = self.planes.words(&whole).unwrap();
                    words = self.queue.read(&from).unwrap().wait().unwrap();
                }
            }
            self.floats.push(floats);
            self.words.push(words);
        }
        self.queue.wait().unwrap();
        self
    }

    /// A plane of one channel holds these values, bit for bit.
    #[track_caller]
    fn assert_values(&self, plane: Plane, expected: &[f32]) {
        self.assert_channel(plane, 0, expected.iter().copied());
    }

    /// A plane of colours holds these, bit for bit.
    #[track_caller]
    fn assert_colours(&self, plane: Plane, expected: &[sequential::Colour]) {
        for channel in 0..3 {
            self.assert_channel(
                plane,
                channel,
                expected.iter().map(|colour| colour[channel]),
            );
        }
    }

    #[track_caller]
    fn assert_channel(
        &self,
        plane: Plane,
        channel: usize,
        expected: impl ExactSizeIterator<Item = f32>,
    ) {
        let geometry = &self.params.geometry;
        let width = geometry.row_width(plane);
        assert_eq!(expected.len(), width * geometry.row_count(plane));
        for (i, expected) in expected.enumerate() {
            let (x, y) = (i % width, i / width);
            let place = y * geometry.row_elements(plane) + channel * geometry.pitch(plane) + x;
            let value = self.floats[plane.index()][place];
            assert_eq!(
                value.to_bits(),
                expected.to_bits(),
                "{plane:?}, channel {channel}, ({x}, {y}): {value} instead of {expected}, {geometry:?}"
            );
        }
    }

    fn result(self, size: Size) -> Image {
        Image::new(size, self.words[Plane::Result.index()].clone())
    }
}

fn params(size: Size, tile_rows: usize) -> StageParams {
    StageParams::new(Geometry::new(size, Some(tile_rows), 1))
}

fn tiled_planes(image: &Image, params: StageParams) -> Pictures {
    let mut planes = Pictures::new(image, params);
    for stage in Stage::ALL {
        for tile in stage.tiles(&params.geometry) {
            planes.run(stage, &tile);
        }
    }
    planes.read()
}

fn tiled(image: &Image, params: StageParams) -> Image {
    tiled_planes(image, params).result(image.size())
}

#[track_caller]
fn assert_same(image: &Image, params: StageParams) {
    let planes = tiled_planes(image, params);
    let steps = sequential::steps(image, &params, &|| ());
    planes.assert_colours(Plane::Denoised, &steps.denoised.pixels);
    planes.assert_values(Plane::Luminance, &steps.luminance.pixels);
    planes.assert_values(Plane::Curve, &steps.curve);
    planes.assert_values(Plane::Edges, &steps.edges.pixels);
    planes.assert_colours(Plane::Blurred, &steps.blurred.pixels);
    planes.assert_colours(Plane::Sharpened, &steps.sharpened.pixels);
    planes.assert_colours(Plane::Glow, &steps.glow.pixels);
    planes.assert_colours(Plane::Toned, &steps.toned.pixels);

    let expected = sequential::process(image, &params, &|| ());
    let difference = planes.result(image.size()).difference(&expected);
    assert_eq!(difference, None, "{image:?}, {:?}", params.geometry);
}

fn size(width: usize, height: usize) -> Size {
    Size::new(width, height).unwrap()
}

#[test]
fn odd_sizes_are_equal() {
    for (width, height) in [
        (1, 1),
        (1, 9),
        (9, 1),
        (3, 7),
        (8, 8),
        (64, 33),
        (17, 65),
        (130, 5),
    ] {
        let image = scene::generate(size(width, height));
        for tile_rows in [1, 2, 5, 64] {
            assert_same(&image, params(image.size(), tile_rows));
        }
    }
}

#[test]
fn flat_images_are_equal() {
    for colour in [pack(0, 0, 0), pack(255, 255, 255), pack(255, 0, 0)] {
        let image = Image::new(size(10, 11), vec![colour; 110]);
        assert_same(&image, params(image.size(), 3));
    }
}

/// The pipeline does something: each part of it shows in the result when it is turned off.
#[test]
fn every_stage_shows_in_the_result() {
    let image = scene::generate(size(96, 64));
    let all = params(image.size(), 16);
    let result = tiled(&image, all);
    let without = |change: fn(&mut StageParams)| {
        let mut params = all;
        change(&mut params);
        tiled(&image, params)
    };
    for (name, other) in [
        ("denoise", without(|p| p.denoise_selectivity = 1e9)),
        ("curve", without(|p| p.curve_strength = 0.0)),
        ("glow", without(|p| p.composition.glow_amount = 0.0)),
        ("sharpen", without(|p| p.sharpen_amount = 0.0)),
        ("edges", without(|p| p.composition.edge_amount = 0.0)),
        ("vignette", without(|p| p.composition.vignette = 0.0)),
    ] {
        assert!(
            result.difference(&other).is_some(),
            "{name} changes nothing"
        );
    }
}

#[test]
fn the_histograms_count_every_pixel_and_the_curve_rises() {
    let image = scene::generate(size(50, 41));
    let params = params(image.size(), 7);
    let mut planes = Pictures::new(&image, params);
    for stage in &Stage::ALL[..=Stage::Curve.index()] {
        for tile in stage.tiles(&params.geometry) {
            planes.run(*stage, &tile);
        }
    }
    let planes = planes.read();
    let histograms = &planes.words[Plane::Histograms.index()];
    assert_eq!(histograms.iter().sum::<u32>(), 50 * 41);
    assert_eq!(histograms[..BINS].iter().sum::<u32>(), 50 * 7);
    let curve = &planes.floats[Plane::Curve.index()];
    assert!(curve.is_sorted());
    assert_eq!(curve[0], 0.0);
    assert_eq!(curve[BINS - 1], 1.0);
}

/// A tile's rows divided further give the same, stage by stage.
#[test]
fn divisible_stages_may_be_divided() {
    let image = scene::generate(size(21, 40));
    let params = params(image.size(), 16);
    let expected = tiled(&image, params);
    let mut planes = Pictures::new(&image, params);
    for stage in Stage::ALL {
        for tile in stage.tiles(&params.geometry) {
            if stage.is_divisible() {
                for row in tile.rows.clone().rev() {
                    let part = Tile {
                        index: tile.index,
                        rows: row..row + 1,
                    };
                    planes.run(stage, &part);
                }
            } else {
                planes.run(stage, &tile);
            }
        }
    }
    assert_eq!(
        planes.read().result(image.size()).difference(&expected),
        None
    );
}

#[derive(clap::Parser)]
struct Command {
    #[command(flatten)]
    options: Options,
}

#[test]
fn options_have_defaults_and_are_checked() {
    let parse = |arguments: &[&str]| {
        let arguments = ["demo"].iter().chain(arguments);
        Command::try_parse_from(arguments).map(|command| command.options)
    };
    let options = parse(&[]).unwrap();
    assert_eq!(options.size, size(1920, 1080));
    assert_eq!(options.output.to_str(), Some("quipu-demo.png"));
    assert_eq!(options.timeline.to_str(), Some("quipu-demo.svg"));
    assert!(options.input.is_none() && options.tile_rows.is_none() && !options.split);
    assert!(!options.no_nodes && !options.session);

    let options = parse(&["--size", "20x10", "--tile-rows", "3", "--split"]).unwrap();
    let source = options.source().unwrap();
    assert_eq!(source.size(), size(20, 10));
    assert_eq!(options.geometry(source.size(), 1).tile_count(), 4);
    let dark = Image::new(source.size(), vec![pack(0, 0, 0); 200]);
    assert_eq!(
        options.picture(&source, dark).pixels()[0],
        source.pixels()[0]
    );

    assert!(parse(&["--input", "a.png"]).is_ok());
    for bad in [
        ["--size", "0x5"],
        ["--size", "wide"],
        ["--tile-rows", "0"],
        ["--size=5x5", "--input=a.png"],
    ] {
        assert!(parse(&bad).is_err(), "{bad:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn tiled_equals_sequential(
        (width, height, pixels) in (1usize..=40, 1usize..=40).prop_flat_map(|(w, h)| {
            (Just(w), Just(h), prop::collection::vec(any::<[u8; 3]>(), w * h))
        }),
        tile_rows in 1usize..=41,
        smooth in any::<bool>(),
    ) {
        let size = size(width, height);
        let pixels = pixels.into_iter().map(|[r, g, b]| {
            // Noise at full range exercises the clamps, noise in a narrow one the filters.
            if smooth { pack(100 + r / 8, 90 + g / 8, 80 + b / 8) } else { pack(r, g, b) }
        });
        assert_same(&Image::new(size, pixels.collect()), params(size, tile_rows));
    }
}

#[test]
fn nodes_can_have_all_kernels() {
    super::kernels::served().check().unwrap();
}

/// The demo's reports of its progress.
#[derive(Default)]
struct Told(Mutex<Vec<(String, u64, u64)>>);

impl Progress for Told {
    fn begin(&self, what: &str, steps: u64) {
        self.0.lock().unwrap().push((what.to_owned(), steps, 0));
    }

    fn step(&self) {
        self.0.lock().unwrap().last_mut().unwrap().2 += 1;
    }
}

#[test]
fn the_steps_that_are_told_are_all_there_are() {
    let image = scene::generate(size(40, 30));
    let params = params(image.size(), 9);
    let done = Cell::new(0);
    sequential::process(&image, &params, &|| done.set(done.get() + 1));
    assert_eq!(done.get(), sequential::STEPS);

    let told = Arc::new(Told::default());
    let progress: Arc<dyn Progress> = told.clone();
    let cast = Cast::here(&image, false, &*progress).unwrap();
    // The devices that run the kernels natively are always there.
    assert!(cast.devices.len() >= 4, "{:?}", cast.devices);
    let pixels = Pipeline::new(cast, params.geometry)
        .unwrap()
        .process(&image, &params, &progress)
        .unwrap();
    let expected = sequential::process(&image, &params, &|| ());
    assert_eq!(Image::new(image.size(), pixels), expected);
    // Those of commands are told by others, perhaps a little later.
    let commands = 12 * params.geometry.tile_count() as u64 + 1;
    let running = || told.0.lock().unwrap().last().unwrap().clone();
    while running().2 < commands {
        std::thread::yield_now();
    }
    assert_eq!(
        running(),
        ("running the pipeline".to_owned(), commands, commands)
    );
}
