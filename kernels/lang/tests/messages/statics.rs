//! Statics whose content the host can change: kernels on other devices would not see that.

use quipu_kernel::{Accelerator, OwnElements, device, kernel};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

static SCALE: AtomicU32 = AtomicU32::new(2);
static SCALES: [AtomicU32; 2] = [AtomicU32::new(2), AtomicU32::new(3)];
static BY_REFERENCE: &AtomicU32 = &SCALE;
static SLICE: &[AtomicU32] = &SCALES;
static LOCKED: Mutex<u32> = Mutex::new(3);
static TABLE: [u32; 3] = [1, 2, 3];

thread_local! {
    static OWN: Cell<u32> = const { Cell::new(3) };
}

pub struct State {
    scale: AtomicU32,
    size: u32,
}

impl State {
    fn scale(&self) -> u32 {
        self.scale.load(Relaxed)
    }
}

static STATE: State = State {
    scale: AtomicU32::new(3),
    size: 4,
};

#[device(crate = quipu_kernel)]
fn scale(by: u32) -> u32 {
    SCALE.load(Relaxed) * by //~ the host can change a `static` of type `AtomicU32`, and a kernel on another device would not see that: write a `Variable`
}

#[kernel(crate = quipu_kernel)]
pub fn changing(_acc: &impl Accelerator<1>, mut y: OwnElements<u32>) {
    for (_, y) in y.each() {
        *y = SCALE.load(Relaxed); //~ write a `Variable`
        *y += SCALE.fetch_add(1, Relaxed); //~ write a `Variable`
        *y += SCALES[1].load(Relaxed); //~ write a `Variable`
        *y += BY_REFERENCE.load(Relaxed); //~ write a `Variable`
        *y += SLICE[0].load(Relaxed); //~ write a `Variable`
        *y += STATE.scale(); //~ the host can change a `static` of type `State`
        *y += STATE.scale.load(Relaxed); //~ write a `Variable`
        *y += OWN.get(); //~ write a `Variable`
        *y += LOCKED.is_poisoned() as u32; //~ the host can change a `static` of type `std::sync::Mutex<u32>`
        *y += u32::max(SCALE.load(Relaxed), 4); //~ write a `Variable`
        *y += scale(SCALE.load(Relaxed)); //~ write a `Variable`
        SCALE.store(4, Relaxed); //~ write a `Variable`
        assert!(SCALE.load(Relaxed) > 1); //~ write a `Variable`
        // Nobody can change these.
        *y += STATE.size + STATE.size.pow(2) + TABLE.len() as u32;
    }
}

fn main() {}
