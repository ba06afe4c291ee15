//! Runs random programs in both ways, each in a process of its own, and compares the memory that
//! they have written.

use crate::generator::MOST_ITEMS;
use crate::program::Program;
use crate::reference::{Compiled, Reference};
use crate::types::Random;
use quipu_clc::{Argument, Grid, Kernel};
use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// The outcome of a program.
pub(crate) enum Outcome {
    Agrees,
    /// Their results differ.
    Differs(String),
    /// The compiler refuses it, or fails.
    Refused(String),
    /// It ends the process that it runs in, or does not end.
    Crashed(String),
    /// The program itself is no good.
    Invalid(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agrees => f.write_str("agrees"),
            Self::Differs(how) => write!(f, "differs: {how}"),
            Self::Refused(why) => write!(f, "is refused: {why}"),
            Self::Crashed(how) => write!(f, "crashes: {how}"),
            Self::Invalid(why) => write!(f, "is no program: {why}"),
        }
    }
}

impl Outcome {
    /// True if both are faults of the same kind.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// The texts of programs as one.
pub(crate) fn text(programs: &[&Program]) -> String {
    let texts: Vec<String> = programs.iter().map(|program| program.text()).collect();
    format!(
        "#pragma OPENCL FP_CONTRACT OFF\n\
         // The reference has one of its own.\n\
         #ifndef SOME\n\
         #define SOME(condition, result, how, type, value) if (condition) result = sub_group_non_uniform_##how((type)(value));\n\
         #endif\n{}",
        texts.join("\n")
    )
}

/// The outcome of each program.
pub(crate) fn outcomes(reference: &Reference, programs: &[&Program]) -> Vec<Outcome> {
    let text = text(programs);
    let alone = |fault: Outcome| match programs {
        [_] => vec![fault],
        _ => {
            let each = programs.iter();
            each.flat_map(|one| outcomes(reference, &[one])).collect()
        }
    };
    let right = match reference.compile(&text) {
        Ok(right) => right,
        Err(said) => return alone(Outcome::Invalid(said)),
    };
    let own = match quipu_clc::Program::new(&text, "-cl-std=CL3.0") {
        Ok(own) => own,
        Err(error) => return alone(Outcome::Refused(error.to_string())),
    };
    let each = programs.iter().map(|program| {
        let kernel = match program.is_of_size {
            true => own.compile(&program.name, program.local.map(|size| size as u32)),
            false => own.compile_for_any_size(&program.name).map(Arc::new),
        };
        match kernel {
            Ok(kernel) => outcome(program, &right, &kernel),
            Err(error) => Outcome::Refused(error.to_string()),
        }
    });
    each.collect()
}

/// The numbers of elements of a kernel's memory: `in`, `out`, `mem`, `totals`. What work-items have
/// of their own lies behind what they give out, twice.
fn sizes(program: &Program) -> [usize; 4] {
    let items = program.items() * program.groups.iter().product::<usize>();
    [items, 5 * items, items, 5]
}

/// The last two arguments, `own` and `same`. In every other program they name the same memory.
fn own(program: &Program, out: *mut c_void) -> [*mut c_void; 2] {
    let [items, ..] = sizes(program);
    let bytes = 16 * items;
    let own = out.wrapping_byte_add(8 * items);
    match program.numbers.1 % 2 {
        0 => [own; 2],
        _ => [own, own.wrapping_byte_add(bytes)],
    }
}

fn outcome(program: &Program, right: &Compiled, kernel: &Kernel) -> Outcome {
    let [read, .., totals_count] = sizes(program);
    let mut random = Random::new(program.numbers.1.into());
    let given: Vec<u32> = (0..read)
        .map(|_| match random.percent(50) {
            true => random.below(64) as u32,
            false => random.next() as u32,
        })
        .collect();
    let mut results = Vec::new();
    for backwards in [false, true] {
        let ran = apart(program, |memory| {
            let mut shared = [0_u32; MOST_ITEMS];
            let [out, mem, totals] = memory;
            let given = given.as_ptr().cast_mut().cast();
            let [own, same] = own(program, out);
            let memory = [
                given,
                out,
                mem,
                totals,
                shared.as_mut_ptr().cast(),
                own,
                same,
            ];
            right.run(program, memory, backwards)
        });
        match ran {
            Ok(result) => results.push(result),
            Err(said) => return Outcome::Invalid(said),
        }
    }
    if results[0] != results[1] {
        return Outcome::Invalid("the result depends on the order of work-items".to_owned());
    }
    let global = std::array::from_fn(|axis| (program.groups[axis] * program.local[axis]) as u64);
    let grid = Grid::new(3, global, program.local.map(|size| size as u32));
    let ran = apart(program, |[out, mem, totals]| {
        let (first, second) = (
            program.numbers.0.to_ne_bytes(),
            program.numbers.1.to_ne_bytes(),
        );
        let [first, second] = [first, second].map(|bytes| bytes.map(MaybeUninit::new));
        let of = |start: *mut c_void, bytes| Argument::Memory(start.cast(), bytes);
        let [own, same] = own(program, out.cast());
        let arguments = [
            of(given.as_ptr().cast_mut().cast(), 4 * read),
            of(out.cast(), 8 * read),
            of(mem.cast(), 4 * read),
            of(totals.cast(), 4 * totals_count),
            Argument::Local(4 * MOST_ITEMS as u64),
            Argument::Value(&first),
            Argument::Value(&second),
            of(own, 16 * read),
            of(same, 16 * read),
        ];
        // SAFETY: the program stays within its arguments, which nobody else has.
        unsafe { kernel.run(&grid, &arguments, 0..grid.groups().iter().product()) }
            .map_err(|error| error.to_string())
    });
    let own = match ran {
        Ok(own) => own,
        Err(said) => return Outcome::Crashed(said),
    };
    if own == results[0] {
        return Outcome::Agrees;
    }
    let at = (0..own.len()).find(|at| own[*at] != results[0][*at]);
    let at = at.unwrap_or_default();
    let [_, out, mem, _] = sizes(program);
    let place = match at {
        at if at < out => format!("out[{at}]"),
        at if at < out + mem => format!("mem[{}]", at - out),
        at => format!("totals[{}]", at - out - mem),
    };
    let count = own.iter().zip(&results[0]).filter(|(a, b)| a != b).count();
    Outcome::Differs(format!(
        "{place} is {:#x} and should be {:#x}; {count} of {} differ",
        own[at],
        results[0][at],
        own.len()
    ))
}

/// Has a process of its own do something with memory for what a kernel writes, and gives this, each
/// number as 64 bits.
fn apart(
    program: &Program,
    run: impl FnOnce([*mut c_void; 3]) -> Result<(), String>,
) -> Result<Vec<u64>, String> {
    const SECONDS: u32 = 60;
    const SAID: usize = 256;
    let [_, out, mem, totals] = sizes(program);
    let bytes = out * 8 + mem * 4 + totals * 4 + SAID;
    // SAFETY: new memory, which both processes have.
    let memory = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0)
    };
    assert_ne!(memory, libc::MAP_FAILED);
    // SAFETY: all within these bytes.
    let places = unsafe {
        [
            memory,
            memory.byte_add(out * 8),
            memory.byte_add(out * 8 + mem * 4),
        ]
    };
    // SAFETY: as above.
    let said = unsafe { memory.byte_add(bytes - SAID).cast::<u8>() };
    // SAFETY: the child has this thread alone. It only computes, and takes memory from the C
    // library, which may be done there.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: as above.
        unsafe { libc::alarm(SECONDS) };
        let ran = run(places);
        if let Err(text) = &ran {
            let length = text.len().min(SAID - 1);
            // SAFETY: as many bytes are there.
            unsafe { said.copy_from_nonoverlapping(text.as_ptr(), length) };
        }
        // SAFETY: nothing of this process is to be cleaned up.
        unsafe { libc::_exit(i32::from(ran.is_err())) };
    }
    let mut status = 0;
    // SAFETY: this process's own child.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    // SAFETY: the child is gone, and the memory is initialised, by zeros where nothing else.
    let bytes_of = |from: *mut c_void, length: usize| unsafe {
        std::slice::from_raw_parts(from.cast::<u8>(), length).to_vec()
    };
    let result = if status == 0 {
        let long = bytes_of(places[0], out * 8);
        let short = bytes_of(places[1], (mem + totals) * 4);
        let (long, _) = long.as_chunks::<8>();
        let (short, _) = short.as_chunks::<4>();
        let short = short.iter().map(|bytes| u32::from_ne_bytes(*bytes).into());
        let long = long.iter().map(|bytes| u64::from_ne_bytes(*bytes));
        Ok(long.chain(short).collect())
    } else if libc::WIFSIGNALED(status) {
        Err(match libc::WTERMSIG(status) {
            libc::SIGALRM => format!("it has not ended after {SECONDS} seconds"),
            signal => format!("signal {signal} ends it"),
        })
    } else {
        let text = bytes_of(said.cast(), SAID);
        let text = String::from_utf8_lossy(&text).into_owned();
        Err(text.trim_end_matches('\0').to_owned())
    };
    // SAFETY: mapped above, and no longer used.
    unsafe { libc::munmap(memory, bytes) };
    result
}
