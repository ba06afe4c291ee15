//! Extents and work divisions: arithmetic that does not overflow, and divisions that fit a device.

use proptest::prelude::*;
use quipu_kernel::{
    AcceleratorLimits, Extent, KernelError, KernelResources, Multiprocessor, Occupancy,
    PerDimension, Subdivision, Vector, WorkDivision,
};

fn sizes<const D: usize>(least: usize, most: usize) -> impl Strategy<Value = [usize; D]> {
    proptest::array::uniform(least..=most)
}

proptest! {
    #[test]
    fn linearise_and_delinearise_are_inverse(extent in sizes::<3>(0, 7)) {
        let extent = Extent::new(extent);
        let count = extent.count().unwrap();
        for number in 0..count {
            let position = extent.delinearise(number).unwrap();
            prop_assert!(extent.contains(position));
            prop_assert_eq!(extent.linearise(position), Some(number));
        }
        prop_assert_eq!(extent.delinearise(count), None);
    }

    #[test]
    fn what_is_outside_has_no_number(extent in sizes::<2>(0, usize::MAX), position in sizes::<2>(0, usize::MAX)) {
        let (extent, position) = (Extent::new(extent), Vector::new(position));
        match extent.linearise(position) {
            Some(number) => prop_assert_eq!(extent.delinearise(number), Some(position)),
            None => prop_assert!(!extent.contains(position) || extent.count().is_err()),
        }
    }

    #[test]
    fn an_automatic_division_covers_its_elements_within_the_limits(
        total in sizes::<3>(0, 3000), cores in 1usize..200, threads in 1usize..2000, elements in 1usize..10_000,
        grid in 1usize..100, block in sizes::<3>(1, 300),
    ) {
        let mut limits = AcceleratorLimits::native(cores);
        limits.preferred_block_threads = threads;
        limits.preferred_thread_elements = elements;
        limits.block_thread_count = 1024;
        limits.grid_blocks.second = grid;
        limits.block_threads = PerDimension { fastest: block[0], second: block[1], slower: block[2] };
        let division = WorkDivision::for_elements(total, &limits).unwrap();
        covers(&division, total, &limits)?;
        if total.contains(&0) {
            prop_assert_eq!(division.block_count(), 0);
        }
    }

    #[test]
    fn a_subdivision_covers_its_elements_and_keeps_its_shape(
        total in sizes::<3>(1, 3000), elements in sizes::<3>(1, 5), count in 1usize..2000, block in 1usize..100,
    ) {
        let mut limits = AcceleratorLimits::native(4);
        limits.block_thread_count = count;
        limits.block_threads = PerDimension { fastest: 1024, second: 1024, slower: block };
        for subdivision in [Subdivision::Unrestricted, Subdivision::EqualExtent, Subdivision::CloseToEqualExtent] {
            let division = WorkDivision::subdivide(total, elements, &limits, subdivision).unwrap();
            covers(&division, total, &limits)?;
            prop_assert_eq!(division.thread_elements(), Extent::new(elements));

            let threads = division.block_threads().components();
            let most = std::array::from_fn::<_, 3, _>(|d| {
                total[d].div_ceil(elements[d]).min(if d == 0 { block } else { 1024 })
            });
            match subdivision {
                Subdivision::EqualExtent => {
                    prop_assert!(threads.iter().all(|&side| side == threads[0]));
                    let larger = threads[0] + 1;
                    prop_assert!(larger.pow(3) > count || most.iter().any(|&most| larger > most));
                }
                Subdivision::CloseToEqualExtent => {
                    // A side that is shorter than another by more than one could not be longer.
                    let longest = threads.into_iter().max().unwrap();
                    for d in 0..3 {
                        prop_assert!(threads[d] + 1 >= longest || threads[d] == most[d]);
                    }
                }
                _ => prop_assert_eq!(threads[2], most[2].min(count)),
            }
        }
    }
}

proptest! {
    #[test]
    fn an_even_subdivision_has_full_blocks_of_the_same_shape(
        total in sizes::<4>(1, 60), elements in sizes::<4>(1, 3), count in 1usize..600, block in 1usize..20,
    ) {
        let mut limits = AcceleratorLimits::native(4);
        limits.block_thread_count = count;
        limits.block_threads = PerDimension { fastest: 32, second: 1024, slower: block };
        for subdivision in [Subdivision::Unrestricted, Subdivision::EqualExtent, Subdivision::CloseToEqualExtent] {
            let division = WorkDivision::subdivide_evenly(total, elements, &limits, subdivision).unwrap();
            prop_assert!(division.validate(&limits).is_ok());
            let (threads, blocks) = (division.block_threads(), division.grid_blocks());
            for d in 0..4 {
                // As many threads as the elements need, and not one more.
                prop_assert_eq!(threads[d] * blocks[d], total[d].div_ceil(elements[d]));
            }
            let sides = threads.components();
            match subdivision {
                Subdivision::EqualExtent => prop_assert!(sides.iter().all(|side| *side == sides[0])),
                // Nothing larger divides along the fastest dimension, which comes first.
                Subdivision::Unrestricted => {
                    let needed = total[3].div_ceil(elements[3]);
                    prop_assert!((sides[3] + 1..=needed.min(count).min(32)).all(|side| needed % side != 0));
                }
                Subdivision::CloseToEqualExtent => {
                    let needed: [usize; 4] = std::array::from_fn(|d| total[d].div_ceil(elements[d]));
                    let limit = |d: usize| [block, block, 1024, 32][d];
                    // Whether a side can be longer, where the sides are these.
                    let grows = |sides: [usize; 4], d: usize| {
                        let others = sides.iter().product::<usize>() / sides[d];
                        let longest = needed[d].min(limit(d)).min(count / others);
                        (sides[d] + 1..=longest).any(|side| needed[d].is_multiple_of(side))
                    };
                    for d in 0..4 {
                        prop_assert!(!grows(sides, d), "{sides:?} of {needed:?}");
                        // Nor could it where a longer side is one step shorter, and still longer
                        // than it.
                        for other in 0..4 {
                            let mut before = sides;
                            let shorter = (1..sides[other]).rev().find(|side| needed[other].is_multiple_of(*side));
                            before[other] = shorter.unwrap_or(1);
                            if before[other] > sides[d] {
                                prop_assert!(!grows(before, d), "{sides:?} of {needed:?}");
                            }
                        }
                    }
                }
                _ => prop_assert!(false, "no such subdivision"),
            }
        }
    }
}

#[test]
fn sides_close_to_equal_are_prime_numbers_where_these_fit() {
    let mut limits = AcceleratorLimits::native(1);
    limits.block_thread_count = 100;
    let division =
        WorkDivision::subdivide_evenly([11, 64], [1, 1], &limits, Subdivision::CloseToEqualExtent);
    // And not 1 and 8, which divide what is below 10 each.
    assert_eq!(division.unwrap().block_threads(), Extent::new([11, 8]));
}

#[test]
fn an_even_subdivision_of_nothing_is_empty() {
    let limits = AcceleratorLimits::native(1);
    let division =
        WorkDivision::subdivide_evenly([0, 5], [1, 1], &limits, Subdivision::EqualExtent);
    assert_eq!(division.unwrap().block_count(), 0);
    assert!(WorkDivision::subdivide_evenly(5, 0, &limits, Subdivision::Unrestricted).is_err());
}

fn covers(
    division: &WorkDivision<3>,
    total: [usize; 3],
    limits: &AcceleratorLimits,
) -> Result<(), TestCaseError> {
    prop_assert!(division.validate(limits).is_ok());
    if !total.contains(&0) {
        for (d, total) in total.into_iter().enumerate() {
            prop_assert!(division.grid_elements()[d] >= total);
            let without_the_last = (division.grid_blocks()[d] - 1) * division.block_elements()[d];
            prop_assert!(without_the_last < total, "a block with nothing to do");
        }
    }
    Ok(())
}

#[test]
fn products_that_do_not_fit_are_errors() {
    let large = Extent::new([usize::MAX, 2]);
    assert!(matches!(
        large.count(),
        Err(KernelError::ExtentOverflow { .. })
    ));
    assert_eq!(Extent::new([usize::MAX, 0]).count(), Ok(0));
    assert_eq!(large.linearise(Vector::new([usize::MAX - 1, 1])), None);

    let half = usize::MAX / 2;
    for (grid, block, thread) in [(half, 3, 1), (half, 1, 3), (2, half, 2), (0, half, 3)] {
        let error = WorkDivision::<1>::new(grid, block, thread).unwrap_err();
        assert!(
            matches!(error, KernelError::ExtentOverflow { .. }),
            "{error}"
        );
    }
    let limits = AcceleratorLimits::native(1);
    assert!(matches!(
        WorkDivision::for_elements([half, 3], &limits),
        Err(KernelError::ExtentOverflow { .. })
    ));
    assert_eq!(
        WorkDivision::for_elements([usize::MAX, 0], &limits)
            .unwrap()
            .block_count(),
        0
    );
}

#[test]
fn blocks_of_nothing_are_errors_and_grids_of_nothing_are_not() {
    for (block, thread) in [([0, 1], [1, 1]), ([1, 1], [1, 0])] {
        let error = WorkDivision::new([1, 1], block, thread).unwrap_err();
        assert!(matches!(error, KernelError::EmptyBlock { .. }), "{error}");
    }
    let limits = AcceleratorLimits::native(1);
    let error = WorkDivision::subdivide(5, 0, &limits, Subdivision::Unrestricted).unwrap_err();
    assert!(matches!(error, KernelError::EmptyBlock { .. }));
    assert_eq!(
        WorkDivision::new([0, 7], [1, 1], [1, 1])
            .unwrap()
            .block_count(),
        0
    );
}

#[test]
fn what_exceeds_the_limits_is_named_with_all_of_the_limits() {
    let mut limits = AcceleratorLimits::native(80);
    limits.block_thread_count = 1024;
    limits.block_threads = PerDimension {
        fastest: 1024,
        second: 1024,
        slower: 64,
    };
    limits.grid_blocks = PerDimension {
        fastest: 1 << 31,
        second: 65_535,
        slower: 65_535,
    };

    assert_eq!(
        WorkDivision::new([65_535, 1, 1], [1, 32, 32], [1, 1, 1])
            .unwrap()
            .validate(&limits),
        Ok(())
    );
    let error = WorkDivision::new([65_536, 1, 1], [65, 1, 32], [1, 1, 1])
        .unwrap()
        .validate(&limits)
        .unwrap_err();
    let KernelError::ExceedsLimits {
        exceeded,
        limits: listed,
    } = &error
    else {
        panic!("{error}")
    };
    let named: Vec<_> = exceeded
        .iter()
        .map(|one| (one.quantity, one.dimension, one.asked, one.limit))
        .collect();
    assert_eq!(
        named,
        [
            ("blocks per grid", Some(0), 65_536, 65_535),
            ("threads per block", Some(0), 65, 64),
            ("threads per block", None, 2080, 1024),
        ]
    );
    assert_eq!(**listed, limits);
    let text = error.to_string();
    assert!(
        text.contains("65 of threads per block in dimension 0, at most 64 allowed"),
        "{text}"
    );
    assert!(
        text.contains("threads per block: 1024 (fastest), 1024, 64 (all slower)"),
        "{text}"
    );
    assert!(limits.check_shared_bytes(limits.shared_bytes + 1).is_err());
    assert!(limits.check_shared_bytes(limits.shared_bytes).is_ok());
}

/// A device as there are, in numbers that vendors publish.
const MULTIPROCESSOR: Multiprocessor = Multiprocessor {
    threads: 1536,
    blocks: 16,
    registers: 65_536,
    shared_bytes: 102_400,
    warp_size: 32,
    register_unit: 256,
    shared_unit: 128,
};

const LIGHT: KernelResources = KernelResources {
    registers: 32,
    shared_bytes: 0,
    shared_bytes_per_thread: 0,
    max_block_threads: 1024,
};

fn gpu() -> AcceleratorLimits {
    let mut limits = AcceleratorLimits::native(80);
    limits.warp_size = 32;
    limits.block_thread_count = 1024;
    limits.preferred_block_threads = 256;
    limits.preferred_thread_elements = 8;
    limits
}

#[test]
fn blocks_are_resident_as_far_as_there_is_room() {
    let resident = |kernel: KernelResources, threads: usize| {
        MULTIPROCESSOR.holding(kernel).resident_blocks(threads)
    };
    // Threads; blocks; whole warps.
    assert_eq!(resident(LIGHT, 256), 6);
    assert_eq!(resident(LIGHT, 1024), 1);
    assert_eq!(resident(LIGHT, 32), 16);
    assert_eq!(resident(LIGHT, 33), 16);
    assert_eq!(resident(LIGHT, 97), 12);
    // Registers, which come in units: 33 for each of 32 threads are 1280 for the warp.
    let registers = |registers| KernelResources { registers, ..LIGHT };
    assert_eq!(resident(registers(128), 128), 4);
    assert_eq!(resident(registers(33), 64), 16);
    assert_eq!(resident(registers(97), 32), 16);
    assert_eq!(resident(registers(255), 256), 1);
    assert_eq!(resident(registers(255), 512), 0);
    // Shared memory, for each block and for each thread.
    let shared = KernelResources {
        shared_bytes: 20_000,
        shared_bytes_per_thread: 100,
        ..LIGHT
    };
    assert_eq!(resident(shared, 64), 3);
    assert_eq!(resident(shared, 800), 1);
    assert_eq!(resident(shared, 1024), 0);
    // What no block can be, and what cannot be counted.
    assert_eq!(resident(LIGHT, 0), 0);
    assert_eq!(resident(LIGHT, 1025), 0);
    assert_eq!(resident(registers(usize::MAX), 32), 0);
}

#[test]
fn an_automatic_division_goes_by_occupancy() {
    // Of the sizes that fill the multiprocessor the preferred one.
    let limits = gpu().for_kernel(&MULTIPROCESSOR.holding(LIGHT)).unwrap();
    assert_eq!(
        (limits.preferred_block_threads, limits.multiprocessors),
        (256, 480)
    );
    let division = WorkDivision::<1>::for_elements(1 << 24, &limits).unwrap();
    assert_eq!(division.threads_per_block(), 256);
    assert!(division.block_count() >= 480);

    // Registers for 21 warps: all of them in one block, as an odd number does not make two.
    let heavy = KernelResources {
        registers: 96,
        shared_bytes: 45_000,
        ..LIGHT
    };
    let limits = gpu().for_kernel(&MULTIPROCESSOR.holding(heavy)).unwrap();
    assert_eq!(
        (limits.preferred_block_threads, limits.multiprocessors),
        (672, 80)
    );
    let division = WorkDivision::<2>::for_elements([1000, 1000], &limits).unwrap();
    assert!(division.threads_per_block() <= 672);

    // A kernel whose blocks have to be small.
    let small = KernelResources {
        max_block_threads: 100,
        ..LIGHT
    };
    let limits = gpu().for_kernel(&MULTIPROCESSOR.holding(small)).unwrap();
    assert_eq!(
        (limits.preferred_block_threads, limits.block_thread_count),
        (96, 100)
    );
    assert!(
        WorkDivision::new(1, 128, 1)
            .unwrap()
            .validate(&limits)
            .is_err()
    );
}

/// A device that answers from a table, as one does whose interface is asked.
struct Told(Vec<(usize, usize)>);

impl Occupancy for Told {
    fn max_block_threads(&self) -> usize {
        512
    }

    fn resident_blocks(&self, block_threads: usize) -> usize {
        let told = self.0.iter().find(|(threads, _)| *threads == block_threads);
        told.map_or(0, |(_, blocks)| *blocks)
    }
}

#[test]
fn a_device_is_believed_and_a_kernel_that_does_not_fit_is_refused() {
    let told = Told(vec![(64, 8), (192, 3), (288, 2)]);
    let limits = gpu().for_kernel(&told).unwrap();
    // 576 at once, with 192 and with 288: the one nearer to 256 is 288.
    assert_eq!(
        (limits.preferred_block_threads, limits.multiprocessors),
        (288, 160)
    );

    let error = gpu().for_kernel(&Told(Vec::new())).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("registers and shared memory"), "{text}");
    assert!(text.contains("threads per block, in all: 1024"), "{text}");
}
