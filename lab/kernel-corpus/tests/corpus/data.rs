//! Structs, tuples, arrays, slices.

use super::{Passed, check, division};
use quipu_kernel::{
    Accelerator, Block, BlockAccelerator, Extent, Grid, KernelData, OwnElements, SharedWrite,
    Threads, Vector, device, kernel,
};
use quipu_kernel_ir::{Dialect, IndexWidth, Options};
use quipu_kernel_testing::{Argument, Launch};

#[derive(
    Clone, Copy, Debug, PartialEq, bytemuck::NoUninit, bytemuck::AnyBitPattern, KernelData,
)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Vector3 {
    x: f32,
    y: f32,
    z: f32,
}

#[derive(
    Clone, Copy, Debug, PartialEq, bytemuck::NoUninit, bytemuck::AnyBitPattern, KernelData,
)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Particle {
    position: Vector3,
    velocity: Vector3,
    history: [f32; 2],
}

#[derive(Clone, Copy, bytemuck::AnyBitPattern, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
pub(super) struct Pair<T>(T, T);

// SAFETY: two floats have no padding.
unsafe impl bytemuck::NoUninit for Pair<f32> {}

const GRAVITY: Vector3 = Vector3 {
    x: 0.0,
    y: -9.81,
    z: 0.0,
};

#[kernel(crate = quipu_kernel)]
fn step(
    _acc: &impl Accelerator<1>,
    dt: f32,
    scale: Pair<f32>,
    mut particles: OwnElements<Particle>,
) {
    for (i, p) in particles.each() {
        p.velocity.y += GRAVITY.y * dt;
        let moved = Vector3 {
            x: p.position.x + p.velocity.x * dt * scale.0,
            y: p.position.y + p.velocity.y * dt * scale.1,
            ..p.position
        };
        p.history[i % 2] = p.position.x;
        p.position = moved;
        let Vector3 { x, y: height, .. } = p.position;
        if height < 0.0 {
            *p = Particle {
                position: Vector3 { x, y: 0.0, z: 1.0 },
                velocity: GRAVITY,
                history: [x, height],
            };
        }
    }
}

#[test]
fn runs_step() {
    let zero = Vector3 {
        x: 0.0,
        y: 1.0,
        z: 0.0,
    };
    let mut particles = vec![
        Particle {
            position: zero,
            velocity: zero,
            history: [0.0; 2],
        };
        10
    ];
    particles[3].position.y = -3.0;
    check!(step => (0.1f32, Pair(1.0, 2.0), &mut particles), division(2, 5, 1));
    assert_eq!(particles[3].position.z, 1.0);
}

/// Aligned by more than its fields are, with space after one of them.
#[derive(
    Clone, Copy, Debug, PartialEq, bytemuck::NoUninit, bytemuck::AnyBitPattern, KernelData,
)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C, align(16))]
pub(super) struct Body {
    position: [f32; 3],
    mass: f32,
}

#[derive(
    Clone, Copy, Debug, PartialEq, bytemuck::NoUninit, bytemuck::AnyBitPattern, KernelData,
)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Pulled {
    heaviest: Body,
    mass: f32,
    /// The struct ends where it is aligned.
    rest: [f32; 3],
}

#[kernel(crate = quipu_kernel)]
async fn pulls(
    acc: &impl BlockAccelerator<1>,
    sun: Body,
    bodies: &[Body],
    mut y: OwnElements<Pulled>,
    #[shared(4)] mut tile: SharedWrite<Body>,
) {
    let thread = acc.index(Block, Threads)[0];
    tile.own()[0] = bodies[thread];
    let read = acc.sync(tile).await;
    for (i, y) in y.each() {
        let mut pulled = Pulled {
            heaviest: sun,
            mass: 0.0,
            rest: [i as f32; 3],
        };
        for body in &read[..] {
            pulled.mass += body.mass;
            if body.mass > pulled.heaviest.mass {
                pulled.heaviest = *body;
            }
        }
        *y = pulled;
    }
}

#[test]
fn runs_pulls_with_aligned_structs() {
    assert_eq!((size_of::<Body>(), align_of::<Body>()), (16, 16));
    assert_eq!((size_of::<Pulled>(), align_of::<Pulled>()), (32, 16));
    let sun = Body {
        position: [1.0, 2.0, 3.0],
        mass: 2.5,
    };
    let bodies: Vec<_> = (0..4)
        .map(|k| Body {
            position: [k as f32; 3],
            mass: k as f32,
        })
        .collect();
    let nothing = Pulled {
        heaviest: sun,
        mass: 0.0,
        rest: [0.0; 3],
    };
    let mut y = vec![nothing; 12];
    check!(pulls => (sun, &bodies, &mut y), division(3, 4, 1));
    assert_eq!(y[7].heaviest, bodies[3]);
    assert_eq!((y[7].mass, y[7].rest), (6.0, [7.0; 3]));
}

/// In one byte, of which not all are a value.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    bytemuck::NoUninit,
    bytemuck::CheckedBitPattern,
    bytemuck::Zeroable,
    KernelData,
)]
#[kernel_data(crate = quipu_kernel)]
#[repr(u8)]
enum State {
    Solid,
    Liquid = 3,
    Gas = 200,
}

#[derive(
    Clone, Copy, Debug, PartialEq, bytemuck::NoUninit, bytemuck::CheckedBitPattern, KernelData,
)]
#[kernel_data(crate = quipu_kernel)]
#[repr(i16)]
enum Turn {
    Left = -300,
    None = 0,
    Right = 7,
}

#[derive(
    Clone, Copy, Debug, PartialEq, bytemuck::NoUninit, bytemuck::CheckedBitPattern, KernelData,
)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Cell {
    heat: f32,
    turn: Turn,
    first: State,
    second: State,
}

macro_rules! checked_elements {
    ($($element:ty),*) => {$(
        impl Passed for &mut Vec<$element> {
            fn argument(&self) -> Argument {
                Argument::buffer(self)
            }

            fn compare(&self, launch: &Launch, at: usize) {
                type Bytes = [u8; size_of::<$element>()];
                super::compare::<Bytes>(bytemuck::cast_slice(self), &launch.elements(at));
            }

            fn reset(self, argument: &Argument) {
                if let Argument::Elements { bytes, .. } = argument {
                    let elements = bytes.chunks_exact(size_of::<$element>());
                    *self = elements.map(bytemuck::checked::pod_read_unaligned).collect();
                }
            }
        }
    )*};
}

checked_elements!(State, Cell);

#[device(crate = quipu_kernel)]
fn warmed(state: State) -> State {
    match state {
        State::Solid => State::Liquid,
        State::Liquid | State::Gas => State::Gas,
    }
}

/// Enums in buffers, in block-shared arrays, in arrays and structs, and as numbers.
#[kernel(crate = quipu_kernel)]
async fn states(
    acc: &impl BlockAccelerator<1>,
    x: &[State],
    given: &[Cell],
    mut y: OwnElements<State>,
    mut cells: OwnElements<Cell>,
    #[shared(4)] mut tile: SharedWrite<State>,
    #[shared(4)] mut pairs: SharedWrite<[State; 2]>,
) {
    let thread = acc.index(Block, Threads)[0];
    let own = x[acc.index(Grid, Threads)[0]];
    tile.own()[0] = own;
    pairs.own()[0] = [warmed(own), own];
    let (tile, pairs) = acc.sync((tile, pairs)).await;
    let next = tile[(thread + 1) % 4];
    for (i, y) in y.each() {
        *y = match (*y, next) {
            (State::Gas, _) => x[i],
            (_, State::Solid) => State::Liquid,
            (_, other) => warmed(other),
        };
    }
    for (i, cell) in cells.each() {
        let [first, second] = pairs[(thread + 2) % 4];
        let mut new = given[i];
        if i % 2 == 1 {
            new.second = first;
        }
        new.turn = match cell.turn {
            Turn::Left => Turn::None,
            Turn::None => Turn::Right,
            Turn::Right => Turn::Left,
        };
        new.heat += second as u8 as f32 + cell.turn as i16 as f32;
        *cell = Cell {
            heat: new.heat * 0.5,
            ..new
        };
    }
}

/// Data where the names of types are those of others.
mod renamed {
    #![allow(non_camel_case_types, dead_code, unused_imports)]

    use quipu_kernel::KernelData;

    pub(super) type u8 = u64;
    pub(super) type u16 = core::primitive::u8;
    pub(super) type u64 = core::primitive::u16;
    pub(super) type i64 = core::primitive::u8;
    pub(super) type i128 = core::primitive::u8;
    pub(super) type usize = core::primitive::u8;
    pub(super) type bool = ();
    pub(super) type str = ();
    pub(super) enum Option {
        Some,
        None,
    }
    pub(super) use Option::{None, Some};

    #[derive(Clone, Copy, Debug, PartialEq, KernelData)]
    #[kernel_data(crate = quipu_kernel)]
    #[repr(u16)]
    pub(super) enum Side {
        Left = 256,
        Right = 512,
    }

    #[derive(Clone, Copy, Debug, PartialEq, KernelData)]
    #[kernel_data(crate = quipu_kernel)]
    #[repr(C)]
    pub(super) struct Sided {
        pub(super) side: Side,
        pub(super) at: u64,
    }

    #[derive(Clone, Copy, Debug, PartialEq, KernelData)]
    #[kernel_data(crate = quipu_kernel)]
    pub(super) struct Nothing;
}

#[test]
fn data_is_of_the_types_that_repr_means() {
    use renamed::{Nothing, Side, Sided};
    const { assert!(!Side::HAS_ZERO && !Sided::HAS_ZERO && Nothing::HAS_ZERO) };
    for (number, is_value) in [(0_u16, false), (1, false), (256, true), (512, true)] {
        let bytes = number.to_ne_bytes();
        assert_eq!(<Side as KernelData>::is_value(&bytes), is_value, "{number}");
        let [low, high] = bytes;
        assert_eq!(
            <Sided as KernelData>::is_value(&[low, high, 9, 9]),
            is_value,
            "{number}"
        );
    }
    let right = Sided {
        side: Side::Right,
        at: 7,
    };
    let mut left = Sided {
        side: Side::Left,
        at: 0,
    };
    for at in 0..2 {
        KernelData::set_word(&mut left, at, KernelData::word(&right, at));
    }
    assert_eq!((left, KernelData::word(&right, 0)), (right, 512));
}

#[test]
fn runs_states_with_enums_in_memory() {
    assert_eq!((size_of::<State>(), size_of::<Cell>()), (1, 8));
    let all = [State::Solid, State::Liquid, State::Gas];
    let turns = [Turn::Left, Turn::None, Turn::Right];
    let x: Vec<_> = (0..12).map(|i| all[i * i % 3]).collect();
    let given: Vec<_> = (0..12)
        .map(|i| Cell {
            heat: i as f32,
            turn: Turn::None,
            first: State::Solid,
            second: all[i % 3],
        })
        .collect();
    let mut y: Vec<_> = (0..12).map(|i| all[i % 3]).collect();
    let mut cells = given.clone();
    for (i, cell) in cells.iter_mut().enumerate() {
        cell.turn = turns[i % 3];
    }
    check!(states => (&x, &given, &mut y, &mut cells), division(3, 4, 1));
    // Two with a liquid neighbour; and what is a gas is what was read.
    assert_eq!(y[..3], [State::Gas, State::Gas, State::Liquid]);
    let expected = Cell {
        heat: 0.5,
        turn: Turn::Right,
        first: State::Solid,
        second: State::Liquid,
    };
    assert_eq!(cells[1], expected);
}

#[kernel(crate = quipu_kernel)]
fn tuples(_acc: &impl Accelerator<1>, x: &[i32], mut y: OwnElements<i32>) {
    for (i, y) in y.each() {
        let (mut a, b) = (x[i], x[i] * 2);
        let pair = (a, (b, 3u8));
        let (c, (d, e)) = pair;
        (a, _) = (c + d, 0);
        let mut t = (a, 1.5f32);
        t.0 += e as i32;
        t.1 *= 2.0;
        let (mut p, mut q) = (a, b);
        (p, q) = (q, p);
        std::mem::swap(&mut p, &mut q);
        *y = t.0 + t.1 as i32 + pair.1.0 + p - q;
    }
}

#[test]
fn runs_tuples() {
    let x: Vec<i32> = (0..10).collect();
    let mut y = vec![0; 10];
    check!(tuples => (&x, &mut y), division(2, 5, 1));
}

#[kernel(crate = quipu_kernel)]
fn arrays<const N: usize>(_acc: &impl Accelerator<1>, x: &[i32], mut y: OwnElements<i32>) {
    for (i, y) in y.each() {
        let mut sorted = [0; N];
        for k in 0..N {
            sorted[k] = x[(i * 7 + k * 3) % x.len()];
        }
        for k in 1..N {
            let mut at = k;
            while at > 0 && sorted[at - 1] > sorted[at] {
                sorted.swap(at - 1, at);
                at -= 1;
            }
        }
        let grid = [[1, 2, 3], [4, 5, i as i32]];
        let middle = &sorted[1..N - 1];
        let rest = &x[i..];
        let mut copy = sorted;
        copy[0] = -1;
        copy[1..3].fill(9);
        let [first, second, ..] = [copy[0], copy[1], 3];
        *y = middle[0] * 100
            + middle.len() as i32
            + grid[i % 2][2]
            + rest[0]
            + first
            + second
            + sorted[0];
    }
}

#[test]
fn runs_arrays() {
    let x: Vec<i32> = (0..30).map(|i| (i * 17) % 23).collect();
    let mut y = vec![0; 30];
    check!(arrays::<5> => (&x, &mut y), division(2, 5, 3));
}

const WEIGHTS: [f32; 5] = [0.0625, 0.25, 0.375, 0.25, 0.0625];
const STEPS: [[i8; 3]; 2] = [[-1, 2, i8::MIN], [4, -5, 6]];
const FLAGS: [bool; 4] = [true, false, false, true];
const LIMITS: [f64; 3] = [f64::NEG_INFINITY, 0.5, f64::NAN];

struct Tables<const N: usize>;

impl<const N: usize> Tables<N> {
    const SQUARES: [usize; N] = {
        let mut squares = [0; N];
        let mut i = 0;
        while i < N {
            squares[i] = i * i;
            i += 1;
        }
        squares
    };
}

#[device(crate = quipu_kernel)]
fn weight(at: usize) -> f32 {
    WEIGHTS[at % WEIGHTS.len()]
}

#[kernel(crate = quipu_kernel)]
fn tables<const N: usize>(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
    let primes = [2u32, 3, 5, 7, 11];
    let rows = STEPS;
    for (i, y) in y.each() {
        let mut sum = 0.0;
        for k in 0..WEIGHTS.len() {
            sum += WEIGHTS[k] * x[(i + k) % x.len()];
        }
        for row in STEPS {
            sum += row[i % 3] as f32;
        }
        let row = &rows[i % 2];
        for step in &row[1..] {
            sum += *step as f32;
        }
        if FLAGS[i % 4] && LIMITS[i % 3] < 1.0 {
            sum += primes[i % 5] as f32;
        }
        let mut changed = WEIGHTS;
        changed[i % 5] = 4.0;
        *y =
            sum + weight(i) + Tables::<N>::SQUARES[i % N] as f32 + changed[1] + primes.len() as f32;
    }
}

#[test]
fn runs_tables() {
    let x: Vec<f32> = (0..30u8).map(f32::from).collect();
    let mut y = vec![0.0; 30];
    check!(tables::<7> => (&x, &mut y), division(2, 5, 3));
    let module = tables::<7>(&x, &mut y).module().unwrap();
    let options = Options::new(Dialect::Cuda, IndexWidth::Bits32);
    let printed = module.print(Dialect::Cuda, &options).unwrap();
    let expected = "= {{0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f}};";
    assert_eq!(
        printed.source.matches("static __constant__ ").count(),
        5,
        "{}",
        printed.source
    );
    assert_eq!(
        printed.source.matches(expected).count(),
        1,
        "{}",
        printed.source
    );
}

#[device(crate = quipu_kernel)]
trait Operator {
    fn apply(self, a: u32, b: u32) -> u32;
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
struct Sum;

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
struct Product {}

#[device(crate = quipu_kernel)]
impl Operator for Sum {
    fn apply(self, a: u32, b: u32) -> u32 {
        a + b
    }
}

#[device(crate = quipu_kernel)]
impl Operator for Product {
    fn apply(self, a: u32, b: u32) -> u32 {
        a * b
    }
}

#[device(crate = quipu_kernel)]
fn both<A: Operator, B: Operator>(a: A, b: B, x: u32) -> u32 {
    b.apply(a.apply(x, 3), x)
}

#[kernel(crate = quipu_kernel)]
fn operators(_acc: &impl Accelerator<1>, mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let product = Product {};
        *y += both(Sum, product, i as u32) + product.apply(Sum.apply(*y, 2), 2);
    }
}

#[kernel(crate = quipu_kernel)]
fn passed<O: Operator>(_acc: &impl Accelerator<1>, operator: O, mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = operator.apply(i as u32, 1);
    }
}

#[test]
fn runs_operators() {
    let mut y = vec![1; 20];
    check!(operators => (&mut y), division(2, 5, 2));
    assert_eq!(y[4], 1 + 7 * 4 + 6);
}

impl Passed for Sum {
    fn argument(&self) -> Argument {
        Argument::Uniform(Vec::new())
    }
}

impl Passed for Product {
    fn argument(&self) -> Argument {
        Argument::Uniform(Vec::new())
    }
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
struct Doubled;

impl Passed for Doubled {
    fn argument(&self) -> Argument {
        Argument::Uniform(Vec::new())
    }
}

#[kernel(crate = quipu_kernel)]
impl Doubled {
    fn of_all(self, _acc: &impl Accelerator<1>, more: u32, mut y: OwnElements<u32>) {
        for (_, y) in y.each() {
            *y = *y * 2 + more;
        }
    }
}

/// The length of its shared array is computed from what comes after a value without bits.
#[kernel(crate = quipu_kernel)]
async fn of_neighbours<O: Operator>(
    acc: &impl BlockAccelerator<1>,
    operator: O,
    per_thread: usize,
    mut y: OwnElements<u32>,
    #[shared(acc.extent(Block, Threads)[0] * per_thread)] mut numbers: SharedWrite<u32>,
) {
    for number in numbers.own() {
        *number = acc.index(Block, Threads)[0] as u32 + 1;
    }
    let numbers = acc.sync(numbers).await;
    for (i, y) in y.each() {
        *y = operator.apply(numbers[0], numbers[numbers.len() - per_thread]) + i as u32;
    }
}

#[test]
fn runs_values_without_bits() {
    let mut y = vec![1; 20];
    check!(passed => (Sum, &mut y), division(2, 5, 2));
    assert_eq!(y[4], 5);
    check!(passed => (Product {}, &mut y), division(2, 5, 2));
    assert_eq!(y[4], 4);
    let doubled = Doubled;
    check!(doubled.of_all => (3, &mut y), division(2, 5, 2));
    assert_eq!(y[4], 11);
    check!(of_neighbours => (Product {}, 2usize, &mut y), division(2, 5, 2), 10);
    assert_eq!(y[4], 9);
    let printed = passed(Sum, &mut y).module().unwrap();
    let options = Options::new(Dialect::Cuda, IndexWidth::Bits32);
    let printed = printed.print(Dialect::Cuda, &options).unwrap();
    assert!(!printed.source.contains("operator,"), "{}", printed.source);
}

#[device(crate = quipu_kernel)]
fn divided(a: u32, b: u32) -> ((u32, u32), u32) {
    ((a / b, a % b), a ^ b)
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
pub(super) struct Named {
    r#type: u32,
    r#struct: f32,
}

/// Assignments to parts, words of languages as names, conversions of positions.
#[kernel(crate = quipu_kernel)]
fn parts(_acc: &impl Accelerator<1>, r#loop: u32, mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let mut b = [0, 0];
        let mut a;
        let c;
        ((a, _), b[1]) = divided(*y + 100, r#loop);
        (b[0], (c, a)) = (a, divided(b[1], 7).0);
        let mut named = Named {
            r#type: c,
            r#struct: 0.5,
        };
        named.r#type += 1;
        let Named { r#type, .. } = named;
        let position: Vector<2> = [i, 3].into();
        let length: Extent<1> = i.into();
        let back: usize = length.into();
        let same: [usize; 2] = position.into();
        let unsigned = u64::from(a) + u64::from(same[0] == back);
        *y = a + 3 * b[0] + 5 * b[1] + 7 * r#type + unsigned as u32 + (named.r#struct * 4.0) as u32;
    }
}

#[test]
fn runs_parts() {
    let mut y: Vec<u32> = (0..20).collect();
    check!(parts => (9, &mut y), division(2, 5, 2));
    // 103 / 9 is 11, 103 ^ 9 is 110; 110 is 7 * 15 + 5.
    assert_eq!(y[3], 5 + 3 * 11 + 5 * 110 + 7 * 16 + 6 + 2);
}
