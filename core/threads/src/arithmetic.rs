//! The floating-point arithmetic of a thread's processor.

use std::marker::PhantomData;

/// The usual arithmetic of floating-point numbers, on this thread, until it is dropped: results are
/// rounded to the nearest number, denormal numbers are numbers, and nothing raises a signal. That
/// is what code is compiled for. A program may have changed it for its own code, as many do that
/// work with sound. Then the thread has the program's again, with the exceptions that the program's
/// own arithmetic had met.
///
/// On processors other than x86-64 and AArch64 the thread keeps what it has.
#[derive(Debug)]
pub struct UsualArithmetic {
    before: Control,
    /// It is this thread's alone.
    _here: PhantomData<*const ()>,
}

impl UsualArithmetic {
    /// Has the thread do arithmetic so.
    #[inline]
    #[must_use]
    pub fn enter() -> Self {
        let before = Control::of_thread();
        if !before.is_usual() {
            Control::USUAL.set();
        }
        Self {
            before,
            _here: PhantomData,
        }
    }
}

impl Drop for UsualArithmetic {
    #[inline]
    fn drop(&mut self) {
        if Control::of_thread() != self.before {
            self.before.set();
        }
    }
}

/// The register `MXCSR`, which sets the rounding, the traps and the flushing. The older `x87` has a
/// register of its own, for numbers of 80 bits. Kernels have no such numbers.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Control(u32);

#[cfg(target_arch = "x86_64")]
impl Control {
    /// All exceptions masked, none met.
    const USUAL: Self = Self(0x1f80);
    /// The exceptions that were met.
    const MET: u32 = 0x3f;

    #[inline]
    fn of_thread() -> Self {
        let mut word = 0_u32;
        // SAFETY: writes the register to the number.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags));
        }
        Self(word)
    }

    fn is_usual(self) -> bool {
        self.0 & !Self::MET == Self::USUAL.0
    }

    #[inline]
    fn set(self) {
        // SAFETY: a value that the register has had on a thread, or has when a process starts.
        unsafe {
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const self.0, options(nostack, readonly));
        }
    }
}

/// The registers that say how, and which exceptions were met.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Control {
    how: u64,
    met: u64,
}

#[cfg(target_arch = "aarch64")]
impl Control {
    const USUAL: Self = Self { how: 0, met: 0 };

    #[inline]
    fn of_thread() -> Self {
        let (how, met): (u64, u64);
        // SAFETY: only reads the registers.
        unsafe {
            std::arch::asm!("mrs {}, fpcr", "mrs {}, fpsr", out(reg) how, out(reg) met, options(nostack, nomem, preserves_flags));
        }
        Self { how, met }
    }

    fn is_usual(self) -> bool {
        self.how == Self::USUAL.how
    }

    #[inline]
    fn set(self) {
        // SAFETY: values that the registers have had on a thread, or have when a process starts.
        unsafe {
            std::arch::asm!("msr fpcr, {}", "msr fpsr, {}", in(reg) self.how, in(reg) self.met, options(nostack, nomem));
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Control;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Control {
    const USUAL: Self = Self;

    fn of_thread() -> Self {
        Self
    }

    fn is_usual(self) -> bool {
        true
    }

    fn set(self) {}
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    use super::*;
    use crate::Start;
    use std::thread::Builder;

    /// Rounds up, flushes denormal numbers, and raises a signal where something is divided by zero;
    /// something was inexact.
    const OTHER: Control = Control(0x1f80 & !0x200 | 0x8000 | 0x4000 | 0x40 | 0x20);

    #[test]
    fn a_thread_gets_back_what_it_had() {
        let first = Control::of_thread();
        assert!(first.is_usual());
        OTHER.set();
        let entered = UsualArithmetic::enter();
        let inside = Control::of_thread();
        // It meets exceptions of its own.
        let quotient = std::hint::black_box(1.0) / std::hint::black_box(0.0);
        drop(entered);
        let after = Control::of_thread();
        let started = Builder::new().start(Control::of_thread);
        first.set();
        assert_eq!(inside, Control::USUAL);
        assert!(f64::is_infinite(quotient));
        assert_eq!(after, OTHER);
        assert_eq!(started.unwrap().join().unwrap(), Control::USUAL);
    }

    #[test]
    fn what_is_met_inside_is_not_met_outside() {
        let entered = UsualArithmetic::enter();
        let before = entered.before;
        std::hint::black_box(std::hint::black_box(1.0) / std::hint::black_box(0.0));
        assert_ne!(Control::of_thread(), before);
        drop(entered);
        assert_eq!(Control::of_thread(), before);
    }
}
