//! The choice of the fastest of the highest levels for a kernel: measured, while it runs for the
//! first times.
//!
//! The highest level is not always the fastest. Some processors lower their clock where they use
//! their widest vectors; code that is bound by memory, or by the one unit that divides, gains
//! nothing from these, and has the lower clock. And some store narrow vectors faster than wide
//! ones. The difference depends on kernel and machine. The results are the same bits at any level.
//!
//! 1. Where there are vectors of 64 bytes they are to be clearly faster than such of 32 bytes:
//!    their lower clock slows other code, too.
//! 2. Vectors of 16 bytes are taken if these are clearly faster than the best so far: some code is
//!    better than that of both wider ones, as where wider vectors are gathered element by element.
//!
//! Kernels are known by their code's address, in a table that only grows.

use super::FeatureLevel;
use quipu_choice::{Choice, Share, Variant};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Kernels that are known at a time. Those that come later run at the highest level.
const KERNELS: usize = 1024;
/// Places where a kernel may be.
const PROBES: usize = 8;

/// The measurements of a kernel.
struct Known {
    /// The address of its code; zero where there is none.
    kernel: AtomicUsize,
    /// Of V3 and V4.
    wide: Choice,
    /// Of the better of these and V2.
    narrow: Choice,
}

static KNOWN: [Known; KERNELS] = [const {
    Known {
        kernel: AtomicUsize::new(0),
        wide: Choice::new(),
        narrow: Choice::new(),
    }
}; KERNELS];

impl Known {
    /// The measurements of the kernel whose code is there.
    #[inline]
    fn of(kernel: usize) -> Option<&'static Self> {
        // Code begins at multiples of 16.
        let first = (kernel as u64 >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let first = first as usize;
        (0..PROBES)
            .map(|probe| &KNOWN[(first + probe) % KERNELS])
            .find(|known| match known.kernel.load(Ordering::Relaxed) {
                there if there == kernel => true,
                0 => {
                    let claimed = known.kernel.compare_exchange(
                        0,
                        kernel,
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    );
                    claimed.is_ok() || claimed == Err(kernel)
                }
                _ => false,
            })
    }
}

/// Runs a share of a launch of the kernel whose code is at an address, on a machine whose highest
/// level is V3 or V4.
#[inline]
pub(super) fn run<R>(
    kernel: usize,
    highest: FeatureLevel,
    share: Share,
    run: impl FnOnce(FeatureLevel) -> R,
) -> R {
    let Some(known) = Known::of(kernel) else {
        return run(highest);
    };
    let best = match highest {
        FeatureLevel::V4 => match known.wide.chosen() {
            Some(variant) => wide(variant),
            None => return known.wide.run(share, |variant| run(wide(variant))),
        },
        lower => lower,
    };
    known.narrow.run(share, |variant| {
        run(match variant {
            Variant::First => best,
            Variant::Second => FeatureLevel::V2,
        })
    })
}

/// The level that a variant of a trial of wide vectors is.
fn wide(variant: Variant) -> FeatureLevel {
    match variant {
        Variant::First => FeatureLevel::V3,
        Variant::Second => FeatureLevel::V4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_known_as_far_as_there_is_room() {
        let known = |kernel| std::ptr::from_ref(Known::of(kernel).expect("there is room"));
        let (one, other) = (known(usize::MAX - 15), known(usize::MAX - 31));
        assert_ne!(one, other);
        let mut others = (1..2 * KERNELS).map(|number| Known::of(16 * number));
        assert!(others.any(|known| known.is_none()), "it may be full");
        assert_eq!(
            (one, other),
            (known(usize::MAX - 15), known(usize::MAX - 31))
        );
        let share = Share { groups: 1, of: 2 };
        for highest in [FeatureLevel::V3, FeatureLevel::V4] {
            let level = run(usize::MAX - 15, highest, share, |level| level);
            assert_eq!(level, FeatureLevel::V3);
        }
    }
}
