//! Histograms.

use crate::tests::modes::{Input, Output, Value, everywhere};
use crate::tests::{LENGTHS, allocate, buffer, numbers, on_each_device};
use quipu::prelude::*;
use quipu_algorithms::kernels::{count_bins, count_bins_in_tables};
use quipu_algorithms::{Function, histogram};

#[derive(Clone, Copy, KernelData, bytemuck::NoUninit)]
#[repr(C)]
struct Modulo {
    divisor: u32,
}

#[device]
impl Function<u32, u32> for Modulo {
    fn apply(self, x: u32) -> u32 {
        x % self.divisor
    }
}

#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Even {
    width: f64,
}

#[device]
impl Function<f64, u32> for Even {
    fn apply(self, x: f64) -> u32 {
        (x / self.width) as u32
    }
}

#[test]
fn counts() {
    on_each_device(|context, queue| {
        for length in LENGTHS {
            let x: Vec<u32> = numbers(length).collect();
            let from = buffer(context, &x);
            // Of what is left of a division by 13, the last three have no bins. What was in them is
            // gone.
            let mut bins = buffer(context, &[77_u32; 10]);
            histogram(queue, Modulo { divisor: 13 }, &from, &mut bins).unwrap();
            let mut model = vec![0; 10];
            for x in x {
                if let Some(bin) = model.get_mut(x as usize % 13) {
                    *bin += 1;
                }
            }
            assert_eq!(queue.read(&bins).unwrap().wait().unwrap(), model);
        }
    });
}

#[test]
fn counts_floats() {
    on_each_device(|context, queue| {
        let x: Vec<f64> = numbers(50_000).map(|x| f64::from(x) * 0.001).collect();
        let from = buffer(context, &x);
        let mut bins = allocate(context, 1000);
        histogram(queue, Even { width: 40.0 }, &from, &mut bins).unwrap();
        let mut model = vec![0_u32; 1000];
        for x in x {
            model[(x / 40.0) as usize] += 1;
        }
        assert_eq!(queue.read(&bins).unwrap().wait().unwrap(), model);
    });
}

#[test]
fn counts_in_many_bins() {
    on_each_device(|context, queue| {
        let x: Vec<u32> = numbers(20_000).collect();
        let from = buffer(context, &x);
        let mut bins = allocate(context, 3000);
        histogram(queue, Modulo { divisor: 4000 }, &from, &mut bins).unwrap();
        let mut model = vec![0_u32; 4000];
        for x in x {
            model[x as usize % 4000] += 1;
        }
        assert_eq!(queue.read(&bins).unwrap().wait().unwrap(), model[..3000]);
    });
}

#[test]
fn tables_count_the_same_in_every_mode() {
    fn counts<const TABLES: usize>() {
        let x: Vec<u32> = numbers(103).collect();
        let (.., bins) = everywhere!(
            count_bins_in_tables<u32, Modulo, TABLES>, WorkDivision::new(3, 1, 37), [7];
            f = Value(Modulo { divisor: 9 }), x = Input(x.clone()), bins = Output(vec![0_u32; 7]),
        );
        let model: Vec<u32> = (0..7)
            .map(|bin| x.iter().filter(|&&x| x % 9 == bin).count() as u32)
            .collect();
        assert_eq!(bins.0, model);
    }
    counts::<1>();
    counts::<2>();
    counts::<4>();
}

#[test]
fn counts_the_same_in_every_mode() {
    let x: Vec<u32> = numbers(100).collect();
    let (.., bins) = everywhere!(
        count_bins<u32, Modulo>, WorkDivision::new(3, 4, 9), [7];
        f = Value(Modulo { divisor: 9 }), x = Input(x.clone()), bins = Output(vec![0_u32; 7]),
    );
    let model: Vec<u32> = (0..7)
        .map(|bin| x.iter().filter(|&&x| x % 9 == bin).count() as u32)
        .collect();
    assert_eq!(bins.0, model);
}
