//! Several parts of the language at a time, in kernels as people write them for a purpose.

use super::{Passed, check, division};
use quipu_kernel::{
    Accelerator, Block, BlockAccelerator, Complex, Grid, KernelData, OwnBlock, OwnElements, Philox,
    SharedAtomics, SharedWrite, Threads, device, kernel,
};
use quipu_kernel_testing::Argument;

#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::NoUninit, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(u32)]
enum Token {
    Number,
    Plus,
    Times,
    End,
}

#[derive(
    Clone, Copy, Debug, PartialEq, bytemuck::NoUninit, bytemuck::AnyBitPattern, KernelData,
)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Machine {
    stack: [u32; 4],
    depth: u32,
    steps: u32,
}

#[device(crate = quipu_kernel)]
impl Machine {
    /// True if there is room for the value; otherwise nothing has changed.
    fn push(&mut self, value: u32) -> bool {
        if self.depth as usize >= 4 {
            return false;
        }
        self.stack[self.depth as usize] = value;
        self.depth += 1;
        true
    }

    fn pop(&mut self) -> u32 {
        if self.depth == 0 {
            return 0;
        }
        self.depth -= 1;
        self.stack[self.depth as usize]
    }
}

#[device(crate = quipu_kernel)]
fn token_of(code: u8) -> Token {
    match code {
        0..=9 => Token::Number,
        b'+' => Token::Plus,
        b'*' => Token::Times,
        _ => Token::End,
    }
}

/// A calculator per row of a text: enums, labels, methods that change a struct, closures,
/// sub-slices and shadowing.
#[kernel(crate = quipu_kernel)]
fn calculates(
    _acc: &impl Accelerator<1>,
    texts: &[u8],
    width: usize,
    limit: u32,
    mut machines: OwnElements<Machine>,
) {
    for (i, machine) in machines.each() {
        let text = &texts[i * width..(i + 1) * width];
        let (mut left, mut failed) = (limit, false);
        let combine = |token: Token, a: u32, b: u32| match token {
            Token::Plus => a.wrapping_add(b),
            Token::Times => a.wrapping_mul(b),
            _ => 0,
        };
        'text: for code in text.iter() {
            let code = *code;
            let token = token_of(code);
            loop {
                if left == 0 {
                    failed = true;
                    break 'text;
                }
                left -= 1;
                match token {
                    Token::End => break 'text,
                    Token::Number => {
                        if !machine.push(code as u32) {
                            // No room: the two on top are one, and once more.
                            let (b, a) = (machine.pop(), machine.pop());
                            machine.push(a ^ b);
                            continue;
                        }
                    }
                    other => {
                        let (b, a) = (machine.pop(), machine.pop());
                        let value = combine(other, a, b);
                        machine.push(value);
                    }
                }
                break;
            }
        }
        let steps = limit - left;
        machine.steps = if failed { u32::MAX } else { steps };
    }
}

#[test]
fn runs_calculates() {
    let texts: Vec<u8> = [
        [1, 2, b'+', 3, b'*', b';'],
        [9, 9, 9, 9, 5, b'*'],
        [b'+', b'+', b'+', 7, 8, b'*'],
        [b';'; 6],
    ]
    .concat();
    let empty = Machine {
        stack: [0; 4],
        depth: 0,
        steps: 0,
    };
    let mut machines = vec![empty; 4];
    check!(calculates => (&texts, 6_usize, 100, &mut machines), division(2, 2, 1));
    assert_eq!((machines[0].stack[0], machines[0].depth), (9, 1));
    assert_eq!(machines[0].steps, 6);
    assert_eq!(machines[3], empty_after(empty, 1));
    let mut machines = vec![empty; 4];
    check!(calculates => (&texts, 6_usize, 3, &mut machines), division(1, 4, 1));
    assert_eq!(machines[0].steps, u32::MAX);
}

fn empty_after(machine: Machine, steps: u32) -> Machine {
    Machine { steps, ..machine }
}

/// A distance of two values: a trait with a constant and a type that is generic.
#[device(crate = quipu_kernel)]
trait Metric {
    const SCALE: f32;
    fn between(&self, a: Complex<f32>, b: Complex<f32>) -> f32;
}

#[derive(Clone, Copy, bytemuck::NoUninit, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Weighted {
    weight: f32,
}

impl Passed for Weighted {
    fn argument(&self) -> Argument {
        Argument::uniform(*self)
    }
}

#[device(crate = quipu_kernel)]
impl Metric for Weighted {
    const SCALE: f32 = 2.0;

    fn between(&self, a: Complex<f32>, b: Complex<f32>) -> f32 {
        let difference = a - b;
        self.weight * Self::SCALE * difference.norm_sqr()
    }
}

/// The nearest of random points in shared memory, counted in the block: generics, complex and
/// random numbers, loops around barriers, atomics, tuples that are kept.
#[kernel(crate = quipu_kernel)]
async fn nearest<M: Metric, const ROUNDS: usize>(
    acc: &impl BlockAccelerator<1>,
    metric: M,
    seed: u32,
    mut found: OwnElements<[u32; 2]>,
    totals: OwnBlock<u32>,
    #[shared(acc.extent(Block, Threads)[0])] mut points: SharedWrite<[f32; 2]>,
    #[shared(ROUNDS)] counts: SharedAtomics<u32>,
) {
    let (thread, threads) = (acc.index(Block, Threads)[0], acc.extent(Block, Threads)[0]);
    let mut words = Philox::new(seed as u64, acc.index(Grid, Threads)[0] as u64);
    let own = Complex::new(
        (words.next_u32() % 64) as f32,
        (words.next_u32() % 64) as f32,
    );
    let mut best = (f32::MAX, 0_usize);
    for round in 0..ROUNDS {
        points.own()[0] = [
            (words.next_u32() % 64) as f32,
            (words.next_u32() % 64) as f32,
        ];
        let read = acc.sync(points).await;
        for k in 0..threads {
            let [real, imaginary] = read[(thread + k) % threads];
            let distance = metric.between(own, Complex::new(real, imaginary));
            if distance < best.0 {
                best = (distance, round * threads + k);
                counts.add(round, 1);
            }
        }
        points = acc.sync(read).await;
    }
    for (_, found) in found.each() {
        *found = [best.0 as u32, best.1 as u32];
    }
    for total in totals {
        *total = 0;
        for round in 0..counts.len() {
            *total += counts.load(round) << (4 * round);
        }
    }
}

#[test]
fn runs_nearest() {
    let metric = Weighted { weight: 0.5 };
    for (blocks, threads) in [(2, 5), (2, 16)] {
        let (mut found, mut totals) = (vec![[0; 2]; blocks * threads], vec![0; blocks]);
        check!(nearest::<Weighted, 3> => (metric, 11_u32, &mut found, &mut totals), division(blocks, threads, 1), threads as u64);
        assert!(totals.iter().all(|total| *total > 0), "{totals:?}");
    }
}
