//! The suite's kernels as code, for drivers that compile it: made by hand, in the kernel language's
//! representation. And the same natively, as something makes them that only knows what is passed:
//! for devices on the other end of a wire.

use crate::graph::mix_natively;
use crate::support::{Kernel, boom, load, store, store_byte};
use quipu_kernel_ir::{
    BinaryOperation as B, FunctionBuilder, Module, ModuleBuilder, Origin, Place, Scalar, Type,
    Unit, Value,
};
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::portable::{CodeKey, Passed, PassedParameter, PortableKernel};
use quipu_scheduler::{AccessMode, RawArgument, Result};
use smallvec::smallvec;
use std::any::{Any, TypeId};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Makes a native kernel of what a launch passes.
pub type Maker = Arc<dyn Fn(&Passed) -> Result<Box<dyn NativeKernel>> + Send + Sync>;

/// The modules that the suite has been asked for, each once, with what makes the same natively.
static ASKED_FOR: Mutex<Vec<(CodeKey, Module, Maker)>> = Mutex::new(Vec::new());

/// The maker of a native kernel of the suite, if its module was asked for before and `is_it` finds
/// it.
pub fn native(is_it: impl Fn(&Module) -> bool) -> Option<Maker> {
    let asked_for = ASKED_FOR.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = asked_for.iter().rev();
    let found = all.find(|(_, module, _)| is_it(module));
    found.map(|(.., maker)| maker.clone())
}

/// The modules that the suite may launch, with what makes the same natively, those that it launches
/// most first: for a process that others launch them on, and that was never asked for any.
pub fn natives() -> impl Iterator<Item = (Module, Maker)> {
    /// The most arguments of a graph's kernel.
    const MOST: usize = 8;
    let mixes = (0..=MOST).flat_map(|arguments| {
        (0..=arguments).flat_map(move |written| {
            // Memory that is read comes first.
            (0..1_u32 << written).map(move |modes| {
                let reads = std::iter::repeat_n(AccessMode::Read, arguments - written);
                let writes = (0..written).map(|at| match modes >> at & 1 {
                    0 => AccessMode::ReadWrite,
                    _ => AccessMode::Overwrite,
                });
                mix(&reads.chain(writes).collect::<Vec<_>>())
            })
        })
    });
    let modules = [fold, nothing, put].into_iter().map(|module| module());
    modules.chain(mixes).map(|module| {
        let maker = maker_of(&module);
        (module, maker)
    })
}

fn remember(key: CodeKey, module: &Module) {
    let mut asked_for = ASKED_FOR.lock().unwrap_or_else(PoisonError::into_inner);
    if asked_for.iter().all(|(known, ..)| *known != key) {
        asked_for.push((key, module.clone(), maker_of(module)));
    }
}

/// The value of a launch's first parameter.
fn first_value(passed: &Passed) -> Result<u64> {
    let Some(PassedParameter::Value(bytes)) = passed.parameters.first() else {
        return Err(boom("no value is passed"));
    };
    // SAFETY: the suite passes numbers, all of whose bytes are something.
    let bytes: Vec<u8> = bytes
        .iter()
        .map(|byte| unsafe { byte.assume_init() })
        .collect();
    let bytes = bytes
        .try_into()
        .map_err(|_| boom("a value of another size is passed"))?;
    Ok(u64::from_ne_bytes(bytes))
}

/// The same as a module of the suite does, natively.
fn maker_of(module: &Module) -> Maker {
    let module = module.clone();
    Arc::new(move |passed| {
        Ok(match module.kernel.function.name.as_str() {
            "nothing" => Box::new(Kernel(|_: &[RawArgument], _: Range<u32>| Ok(()))),
            "put" => {
                let value = first_value(passed)?.to_le_bytes();
                Box::new(Kernel(move |a: &[RawArgument], _: Range<u32>| {
                    (0..a[0].length).for_each(|at| store_byte(&a[0], at, value[at % 8]));
                    Ok(())
                }))
            }
            "fold" => {
                let n = first_value(passed)?;
                Box::new(Kernel(move |a: &[RawArgument], _: Range<u32>| {
                    if a[0].length < 8 {
                        return Err(boom("x is too short"));
                    }
                    store(&a[0], load(&a[0]).wrapping_mul(31).wrapping_add(n));
                    Ok(())
                }))
            }
            name => {
                let modes = name.strip_prefix("mix_").and_then(modes_of);
                let modes = modes.ok_or_else(|| boom("no kernel of the suite"))?;
                let groups = passed.blocks.iter().product::<u64>() as u32;
                Box::new(mix_natively(first_value(passed)?, modes, groups))
            }
        })
    })
}

/// The modes that a kernel's name says.
fn modes_of(name: &str) -> Option<Vec<AccessMode>> {
    let modes = name.chars().map(|mode| match mode {
        'r' => Some(AccessMode::Read),
        'w' => Some(AccessMode::ReadWrite),
        'o' => Some(AccessMode::Overwrite),
        _ => None,
    });
    modes.collect()
}

/// Native code, and the same as a module.
pub(crate) struct Printed<K, M> {
    pub(crate) native: K,
    /// Makes the module.
    pub(crate) module: M,
    /// Tells it from others of its type.
    pub(crate) number: u64,
    /// Its arguments.
    pub(crate) passed: Passed,
}

impl<K, M> NativeKernel for Printed<K, M>
where
    K: NativeKernel,
    M: Fn() -> Module + Send + Sync + 'static,
{
    fn name(&self) -> &'static str {
        self.native.name()
    }

    unsafe fn run(&self, arguments: &[RawArgument], groups: Range<u32>) -> Result<()> {
        // SAFETY: `NativeKernel::run` asks its caller for the same.
        unsafe { self.native.run(arguments, groups) }
    }

    fn portable(&self) -> Option<&dyn PortableKernel> {
        Some(self)
    }
}

// SAFETY: the modules of the suite use the accesses of its launches alone, and check their indices.
unsafe impl<K, M> PortableKernel for Printed<K, M>
where
    K: NativeKernel,
    M: Fn() -> Module + Send + Sync + 'static,
{
    fn key(&self) -> CodeKey {
        CodeKey::of::<M>(self.number)
    }

    fn code_type(&self) -> TypeId {
        TypeId::of::<Module>()
    }

    fn code(&self) -> Result<Arc<dyn Any + Send + Sync>> {
        let module = (self.module)();
        remember(self.key(), &module);
        Ok(Arc::new(module))
    }

    fn pass(&self, _: &[quipu_scheduler::access::Argument], passed: &mut Passed) -> Result<()> {
        passed.clone_from(&self.passed);
        Ok(())
    }
}

/// The arguments of one thread in each of so many blocks: these values, and so many arguments with
/// elements of so many bytes.
pub(crate) fn passed(groups: u32, values: &[u64], memories: usize, element: u64) -> Passed {
    let values = values.iter().map(PassedParameter::value);
    let memory = PassedParameter::Memory {
        element,
        shape: None,
    };
    Passed {
        blocks: smallvec![u64::from(groups)],
        threads: smallvec![1],
        elements: smallvec![1],
        parameters: values
            .chain(std::iter::repeat_n(memory, memories))
            .collect(),
        ..Passed::default()
    }
}

/// Replaces x, the first eight bytes of the one argument, by 31 x + n: natively and as code. Fails
/// if there are fewer.
#[must_use]
pub fn folding(n: u64) -> impl NativeKernel {
    let native = move |arguments: &[RawArgument], _: Range<u32>| {
        let x = &arguments[0];
        if x.length < 8 {
            return Err(boom("x is too short"));
        }
        store(x, load(x).wrapping_mul(31).wrapping_add(n));
        Ok(())
    };
    let module: fn() -> Module = fold;
    Printed {
        native: Kernel(native),
        number: module as usize as u64,
        module,
        passed: passed(1, &[n], 1, 8),
    }
}

fn u64_type() -> Type {
    Scalar::U64.into()
}

fn u8_type() -> Type {
    Scalar::U8.into()
}

fn number(f: &mut FunctionBuilder, value: u64) -> Value {
    f.literal(Scalar::U64, value)
}

/// Nothing.
pub(crate) fn nothing() -> Module {
    ModuleBuilder::new().finish(FunctionBuilder::new("nothing").kernel(1))
}

/// Fills memory with the bytes of a value, again and again.
pub(crate) fn put() -> Module {
    let mut f = FunctionBuilder::new("put");
    let value = f.uniform("value", u64_type());
    let to = f.buffer("to", u8_type(), true);
    let (start, end) = (f.index_literal(0), f.length(to));
    f.for_range("i", start, end, |f, _, i| {
        let wide = f.cast(i, Scalar::U64);
        let eight = number(f, 8);
        let byte = f.binary(B::Remainder, wide, eight);
        let bits = f.binary(B::Multiply, byte, eight);
        let shifted = f.binary(B::ShiftRight, value, bits);
        let byte = f.cast(shifted, Scalar::U8);
        f.store(Place::element(to, i), byte);
    });
    ModuleBuilder::new().finish(f.kernel(1))
}

/// Replaces x, the first eight bytes, by 31 x + n.
pub(crate) fn fold() -> Module {
    let mut f = FunctionBuilder::new("fold");
    let n = f.uniform("n", u64_type());
    let x = f.buffer("x", u64_type(), true);
    let first = f.index_literal(0);
    let old = f.load(Place::element(x, first), u64_type());
    let factor = number(&mut f, 31);
    let product = f.binary(B::Multiply, old, factor);
    let sum = f.binary(B::Add, product, n);
    f.store(Place::element(x, first), sum);
    ModuleBuilder::new().finish(f.kernel(1))
}

/// As `random::scramble`.
fn scramble(f: &mut FunctionBuilder, value: Value) -> Value {
    let mut z = value;
    for (shift, factor) in [
        (30, Some(0xBF58_476D_1CE4_E5B9)),
        (27, Some(0x94D0_49BB_1331_11EB)),
        (31, None),
    ] {
        let by = number(f, shift);
        let shifted = f.binary(B::ShiftRight, z, by);
        z = f.binary(B::Xor, z, shifted);
        if let Some(factor) = factor {
            let factor = number(f, factor);
            z = f.binary(B::Multiply, z, factor);
        }
    }
    z
}

/// Mixes all that is read into all that is written, as the graphs' kernels do natively: the seed is
/// a scrambled number.
pub(crate) fn mix(modes: &[AccessMode]) -> Module {
    let modes_in_name = modes.iter().map(|mode| match mode {
        AccessMode::Read => 'r',
        AccessMode::ReadWrite => 'w',
        AccessMode::Overwrite => 'o',
    });
    let mut f = FunctionBuilder::new(format!("mix_{}", modes_in_name.collect::<String>()));
    let seed = f.uniform("seed", u64_type());
    let arguments: Vec<Value> = modes
        .iter()
        .map(|mode| f.buffer("bytes", u8_type(), mode.writes()))
        .collect();
    let hash = f.local(Some("hash"), seed);
    let both = || arguments.iter().zip(modes).enumerate();
    for (_, (argument, _)) in both().filter(|(_, (_, mode))| !mode.writes()) {
        let (start, end) = (f.index_literal(0), f.length(*argument));
        f.for_range("i", start, end, |f, _, i| {
            let byte = f.load(Place::element(*argument, i), u8_type());
            let byte = f.cast(byte, Scalar::U64);
            let now = f.load_local(hash);
            let mixed = f.binary(B::Xor, now, byte);
            let prime = number(f, 0x0000_0100_0000_01B3);
            let next = f.binary(B::Multiply, mixed, prime);
            f.store_local(hash, next);
        });
    }
    let all = f.load_local(hash);
    let all = scramble(&mut f, all);
    let group = f.index(Origin::Grid, Unit::Blocks, 0);
    let groups = f.extent(Origin::Grid, Unit::Blocks, 0);
    for (at, (argument, mode)) in both().filter(|(_, (_, mode))| mode.writes()) {
        let length = f.length(*argument);
        let one = f.index_literal(1);
        let next = f.binary(B::Add, group, one);
        let [start, end] = [group, next].map(|group| {
            let before = f.binary(B::Multiply, length, group);
            f.binary(B::Divide, before, groups)
        });
        f.for_range("i", start, end, |f, _, i| {
            let mut place = number(f, (at as u64) << 40);
            let (wide, eight) = (f.cast(i, Scalar::U64), number(f, 8));
            let shifted = f.binary(B::ShiftLeft, wide, eight);
            place = f.binary(B::Or, place, shifted);
            if *mode == AccessMode::ReadWrite {
                let old = f.load(Place::element(*argument, i), u8_type());
                let old = f.cast(old, Scalar::U64);
                place = f.binary(B::Or, place, old);
            }
            let mixed = f.binary(B::Xor, all, place);
            let scrambled = scramble(f, mixed);
            let byte = f.cast(scrambled, Scalar::U8);
            f.store(Place::element(*argument, i), byte);
        });
    }
    ModuleBuilder::new().finish(f.kernel(1))
}

/// A number that tells lists of modes apart, if they are not too long for that.
pub(crate) fn number_of(modes: &[AccessMode]) -> Option<u64> {
    modes.iter().try_fold(1_u64, |number, mode| {
        number.checked_mul(3)?.checked_add(*mode as u64)
    })
}
