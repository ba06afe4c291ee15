//! The kernels that `quipu kernel` shows and `quipu serve` has: those of the guide,
//! `docs/kernels.md`, as they are there.

#![expect(
    dead_code,
    reason = "kernels are printed here, and launched by clients"
)]

use quipu::kernel::print::{self, BuildError, Module};
use quipu::prelude::*;
use quipu::serve::Kernels;
use std::ops::{Add, Mul};

/// A kernel that is known by name.
#[derive(Debug, Clone, Copy)]
pub struct Registered {
    /// Its name.
    pub name: &'static str,
    /// Its purpose, in a line.
    pub summary: &'static str,
    /// Makes its source.
    pub module: fn() -> Result<Module, BuildError>,
}

/// All of them, in order of difficulty.
pub const REGISTERED: [Registered; 6] = [
    Registered {
        name: "saxpy",
        summary: "adds a multiple of one vector to another",
        module: print::module::<saxpy, _>,
    },
    Registered {
        name: "spread",
        summary: "a step of heat that spreads over a plate: a stencil in two dimensions",
        module: print::module::<spread, _>,
    },
    Registered {
        name: "parabola",
        summary: "squares of points of a line: a generic kernel with a device function and a struct",
        module: print::module::<parabola<f32>, _>,
    },
    Registered {
        name: "histogram",
        summary: "counts bytes, with atomics",
        module: print::module::<histogram, _>,
    },
    Registered {
        name: "block_sum",
        summary: "the sum of each block's part, with shared memory and barriers",
        module: print::module::<block_sum, _>,
    },
    Registered {
        name: "matrix_product",
        summary: "a matrix product by tiles",
        module: print::module::<matrix_product, _>,
    },
];

/// The same as `quipu serve` has them: clients that were built with one of them launch it natively.
pub fn served() -> Kernels {
    Kernels::new()
        .with::<saxpy, _>()
        .with::<spread, _>()
        .with::<parabola<f32>, _>()
        .with::<histogram, _>()
        .with::<block_sum, _>()
        .with::<matrix_product, _>()
}

/// The kernel of a name.
pub fn find(name: &str) -> Option<&'static Registered> {
    REGISTERED.iter().find(|kernel| kernel.name == name)
}

#[kernel]
fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y += a * x[i];
    }
}

/// One step: each element becomes the average of its four neighbours. Beyond the border it is as
/// warm as on it.
#[kernel]
fn spread(_acc: &impl Accelerator<2>, before: GlobalRef<f32, 2>, mut after: OwnElements<f32, 2>) {
    let last_row = before.extent()[0] - 1;
    let last_column = before.extent()[1] - 1;
    for (position, part) in after.rows() {
        let i = position[0];
        for (k, after) in part.iter_mut().enumerate() {
            let j = position[1] + k;
            let above = before[[i.saturating_sub(1), j]];
            let below = before[[(i + 1).min(last_row), j]];
            let left = before[[i, j.saturating_sub(1)]];
            let right = before[[i, (j + 1).min(last_column)]];
            *after = (above + below + left + right) / 4.0;
        }
    }
}

#[device]
fn square<T: Mul<Output = T> + Copy>(x: T) -> T {
    x * x
}

#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Line<T> {
    slope: T,
    offset: T,
}

#[device]
impl<T: Add<Output = T> + Mul<Output = T> + Copy> Line<T> {
    fn height(self, x: T) -> T {
        self.slope * x + self.offset
    }
}

#[kernel]
fn parabola<T: Add<Output = T> + Mul<Output = T>>(
    _acc: &impl Accelerator<1>,
    line: Line<T>,
    mut y: OwnElements<T>,
) {
    for (_, y) in y.each() {
        *y = square(line.height(*y));
    }
}

/// The number of times that each byte occurs.
#[kernel]
fn histogram(acc: &impl Accelerator<1>, bytes: &[u8], counts: Atomics<u32>) {
    for i in acc.elements(bytes.len()) {
        counts.add(bytes[i] as usize, 1);
    }
}

/// The sum of each block's part of `x`, in blocks of a power of two threads.
#[kernel]
async fn block_sum(
    acc: &impl BlockAccelerator<1>,
    x: &[u64],
    result: OwnBlock<u64>,
    #[shared(acc.extent(Block, Threads)[0])] mut sums: SharedWrite<u64>,
) {
    let thread = acc.index(Block, Threads)[0];
    let mut own = 0;
    for i in acc.elements(x.len()) {
        own += x[i];
    }
    sums.own()[0] = own;
    let mut half = acc.extent(Block, Threads)[0] / 2;
    while half > 0 {
        let read = acc.sync(sums).await;
        let other = if thread < half {
            read[thread + half]
        } else {
            0
        };
        sums = acc.sync(read).await;
        sums.own()[0] += other;
        half /= 2;
    }
    for result in result {
        *result = sums.own()[0];
    }
}

const TILE: usize = 16;

/// `c = a * b`, in blocks of `TILE` by `TILE` threads of one element each. Beyond the borders are
/// zeros.
#[kernel]
async fn matrix_product(
    acc: &impl BlockAccelerator<2>,
    a: GlobalRef<f32, 2>,
    b: GlobalRef<f32, 2>,
    mut c: OwnElements<f32, 2>,
    #[shared(TILE * TILE)] mut a_tile: SharedWrite<f32>,
    #[shared(TILE * TILE)] mut b_tile: SharedWrite<f32>,
) {
    let (threads, elements) = (acc.extent(Block, Threads), acc.extent(Block, Elements));
    assert!(
        threads[0] == TILE && threads[1] == TILE && elements[0] == TILE && elements[1] == TILE,
        "launch it in blocks of TILE by TILE threads of one element"
    );
    let (rows, inner, columns) = (a.extent()[0], b.extent()[0], b.extent()[1]);
    let (row, column) = (acc.index(Grid, Threads)[0], acc.index(Grid, Threads)[1]);
    let (i, j) = (acc.index(Block, Threads)[0], acc.index(Block, Threads)[1]);

    let mut sum = 0.0;
    for tile in 0..inner.div_ceil(TILE) {
        let (across, down) = (tile * TILE + j, tile * TILE + i);
        a_tile.own()[0] = if row < rows && across < inner {
            a[[row, across]]
        } else {
            0.0
        };
        b_tile.own()[0] = if down < inner && column < columns {
            b[[down, column]]
        } else {
            0.0
        };

        let (a_read, b_read) = acc.sync((a_tile, b_tile)).await;
        for k in 0..TILE {
            sum += a_read[i * TILE + k] * b_read[k * TILE + j];
        }
        (a_tile, b_tile) = acc.sync((a_read, b_read)).await;
    }
    for (_, c) in c.each() {
        *c = sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu::kernel::print::{Dialect, IndexWidth, OpenClFeatures, Options};
    use quipu_kernel_names::native_name;
    use quipu_kernel_testing::{Argument, C99Program, Division, Launch};
    use quipu_node::Natives;

    #[test]
    fn they_are_those_of_the_guide() {
        // Comments have lines of each file's own width.
        let words = |text: &str| {
            let lines = text.lines();
            let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
            let words = lines.flat_map(str::split_whitespace);
            words.collect::<Vec<_>>().join(" ")
        };
        let guide = words(include_str!("../../docs/kernels.md"));
        let here = include_str!("kernels.rs");
        let (_, kernels) = here.split_once("\n#[kernel]\n").unwrap();
        let (kernels, _) = kernels.split_once("\n#[cfg(test)]\n").unwrap();
        let items: Vec<_> = kernels.split_inclusive("\n}\n").collect();
        assert!(items.len() > REGISTERED.len());
        for item in items {
            assert!(guide.contains(&words(item)), "{item}");
        }
    }

    /// Native runs of it are the guide's.
    #[test]
    fn the_matrix_product_is_right_as_printed() {
        let (rows, inner, columns) = (20, 35, 18);
        let left: Vec<f32> = (0..rows * inner).map(|i| (i % 7) as f32).collect();
        let right: Vec<f32> = (0..inner * columns).map(|i| (i % 5) as f32).collect();
        let module = (find("matrix_product").unwrap().module)().unwrap();
        let view = |elements: &[f32], rows: usize, columns: usize| {
            let extent = [rows as u64, columns as u64];
            Argument::view(elements, &extent, &[columns as u64, 1])
        };
        let arguments = vec![
            view(&left, rows, inner),
            view(&right, inner, columns),
            view(&vec![-1.0; rows * columns], rows, columns),
        ];
        let tile = TILE as u64;
        for width in [IndexWidth::Bits32, IndexWidth::Bits64] {
            let printed = module.print(Dialect::C99, &Options::new(Dialect::C99, width));
            let program = C99Program::compile(&printed.unwrap()).unwrap();
            let mut launch = Launch::new(
                Division::new([2, 2], [tile, tile], [1, 1]),
                arguments.clone(),
            );
            assert_eq!(program.run(&mut launch).unwrap(), None);
            let product = launch.elements::<f32>(2);
            for (at, &element) in product.iter().enumerate() {
                let (row, column) = (at / columns, at % columns);
                let expected: f32 = (0..inner)
                    .map(|k| left[row * inner + k] * right[k * columns + column])
                    .sum();
                assert_eq!(element, expected, "row {row}, column {column}");
            }
            assert_eq!(product.len(), rows * columns);
        }
    }

    #[test]
    fn a_node_has_all_of_them() {
        let served = served();
        served.check().unwrap();
        assert_eq!(served.len(), REGISTERED.len());
        for kernel in &REGISTERED {
            let name = native_name(&(kernel.module)().unwrap()).unwrap();
            assert!(served.find(&name).is_some(), "{}", kernel.name);
        }
    }

    #[test]
    fn each_is_found_by_its_own_name_and_printed_in_every_dialect() {
        let dialects = [
            Dialect::C99,
            Dialect::OpenCl(OpenClFeatures::USUAL),
            Dialect::Cuda,
        ];
        for kernel in &REGISTERED {
            let module = (find(kernel.name).unwrap().module)().unwrap();
            assert_eq!(module.kernel.function.name.to_string(), kernel.name);
            for dialect in dialects {
                for width in [IndexWidth::Bits32, IndexWidth::Bits64] {
                    let printed = module.print(dialect, &Options::new(dialect, width));
                    let printed = printed.unwrap_or_else(|error| panic!("{error}"));
                    assert!(printed.source.contains(&printed.entry));
                }
            }
        }
        assert!(find("sax").is_none());
    }
}
