//! Histograms.

use crate::printed::{compare, run_printed};
use crate::{LENGTHS, allocate, buffer, numbers, on_each_device};
use quipu::prelude::*;
use quipu_algorithms::kernels::count_bins;
use quipu_algorithms::{Function, histogram};
use quipu_kernel_testing::Argument;

#[derive(Clone, Copy, KernelData)]
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
            // Of what is left of a division by 13, the last three have no bins. What was in them is gone.
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
fn prints() {
    let context = Platform::new().unwrap().context().unwrap();
    let queue = context.queue(&context.fastest()).unwrap();
    let x: Vec<u32> = numbers(100).collect();
    let from = buffer(&context, &x);
    let mut bins = allocate::<u32>(&context, 7);
    let division = WorkDivision::new(3, 4, 9).unwrap();
    let modulo = Modulo { divisor: 9 };
    let module = count_bins(modulo, &from, &mut bins).module().unwrap();
    queue
        .launch(division, count_bins(modulo, &from, &mut bins))
        .unwrap();
    let arguments = [
        Argument::uniform(9_u32),
        Argument::buffer(&x),
        Argument::buffer(&[0_u32; 7]),
    ];
    run_printed(&module, &division, &arguments, &[7], |launch| {
        let native = queue.read(&bins).unwrap().wait().unwrap();
        compare(&native, &launch.elements(2));
    });
}
