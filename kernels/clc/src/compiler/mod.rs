//! The compiler's own process: text in, a shared object and descriptions of its kernels out.
//!
//! | file | contents |
//! |---|---|
//! | `tools` | the machine's clang, libLLVM and linker |
//! | `versions` | the differences between versions of LLVM |
//! | `llvm` | libLLVM's C interface |
//! | `builtins.cl`, `later.cl`, `sub_groups.cl` | the language's built-in functions |
//! | `single.cl` | mathematical functions of `float` |
//! | `half.cl` | functions of `half` |
//! | `library` | links the built-in functions that a program uses |
//! | `translate` | SPIR-V, by the machine's translator |
//! | `print` | `printf` by the C library's |
//! | `calls` | functions that are too much to inline |
//! | `program` | clang's output, inlined: kernels and their descriptions |
//! | `variables` | variables that the kernels of a program share |
//! | `workgroup` | the passes that make a function of work-groups of a kernel of work-items |
//! | `remarks` | LLVM's remarks on the loops over work-items |
//! | `neighbours` | gathers that ask whether one read does |
//! | `structures` | gathers of structures, as reads of each |
//! | `half` | numbers of 16 bits |
//! | `words` | vectors of a few bytes that are read and written as one number |
//! | `forms` | functions with vector forms that LLVM knows |
//! | `angles` | sines, cosines and tangents of many numbers at once |
//! | `division` | whole numbers that are divided many at once |
//! | `roots` | inverse square roots of many numbers at once |
//! | `ptx` | kernels for NVIDIA's GPUs |
//! | `object` | optimisation, machine code, the shared object |
//!
//! There are two steps, so that a program is read once for all its kernels and all sizes of
//! work-groups. [`Request::Describe`] gives what is known of a program's kernels, and bitcode in
//! which every kernel is one function. [`Request::Compile`] takes that bitcode and gives the shared
//! object of one kernel for one size of work-group.
//!
//! A program of several texts takes the place of the first step by three: [`Request::Unit`] for
//! each text, [`Request::Link`] for all of them, and [`Request::Read`], which gives what `Describe`
//! gives. [`Request::Translate`] makes of SPIR-V what `Unit` makes of a text.

mod angles;
mod calls;
mod division;
mod forms;
mod half;
mod library;
mod llvm;
mod neighbours;
mod object;
mod print;
mod program;
mod ptx;
mod remarks;
mod roots;
mod structures;
pub(crate) mod tools;
mod translate;
mod variables;
mod versions;
mod words;
mod workgroup;

pub(crate) use object::Scratch;
pub(crate) use program::{TEXT_NAME, clang_for, text_for};
pub(crate) use variables::{PLACE, TABLE};
pub(crate) use workgroup::{ENTRY, NUMBERS, place_of_arguments};

use crate::child;
use crate::metadata::{KernelInfo, Layout};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::path::PathBuf;

use tools::Tools;

/// A request, and what the compiler may take for it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Asked<R> {
    /// Seconds of a processor's time, of this process and of each program that it starts.
    pub(crate) seconds: u64,
    pub(crate) request: R,
}

/// A request to the compiler.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Read a program.
    Describe {
        tools: Tools,
        source: String,
        options: Vec<String>,
        /// The folder where compiled built-in functions are kept.
        library: Option<PathBuf>,
        reading: Reading,
    },
    /// Make bitcode of a text that is to be linked with others.
    Unit {
        tools: Tools,
        source: String,
        /// The file of the text, if it is not in `source`.
        file: Option<PathBuf>,
        options: Vec<String>,
    },
    /// Make bitcode of a module of SPIR-V, which follows the request; it is lowered already.
    Translate { tools: Tools },
    /// Link the bitcode of several texts; it follows the request, in pieces of these lengths.
    Link { tools: Tools, lengths: Vec<usize> },
    /// Read a program whose bitcode follows the request.
    Read {
        tools: Tools,
        /// The folder where compiled built-in functions are kept.
        library: Option<PathBuf>,
        reading: Reading,
    },
    /// Make the variables that the kernels of a program share, as a shared object; the bitcode of
    /// the program, which was read, follows the request.
    Variables { tools: Tools },
    /// Compile a kernel of a program that was read; its bitcode follows the request.
    Compile {
        tools: Tools,
        kernel: String,
        /// The size of its work-groups; any, if none.
        local_size: Option<[u32; 3]>,
        /// The output that is wanted.
        output: Output,
    },
    /// Make PTX of a kernel of a program that was read; its bitcode follows the request.
    Ptx {
        tools: Tools,
        kernel: String,
        /// The compute capability of the devices, such as 90.
        capability: u32,
        /// The numbers of the parameters that are images.
        images: Vec<usize>,
        /// The folder where compiled built-in functions are kept.
        library: Option<PathBuf>,
    },
}

/// The way in which a program is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reading {
    /// For launches whose work-items have numbers of more than 31 bits.
    pub(crate) is_wide: bool,
    /// With the lines and names that the text has: [`Output::Explanation`] tells of them.
    pub(crate) keeps_lines: bool,
}

impl Reading {
    /// clang's options for it.
    fn with_options(self, mut options: Vec<String>) -> Vec<String> {
        let names = self.keeps_lines.then_some("-fno-discard-value-names");
        options.extend(names.map(str::to_owned));
        options
    }
}

/// The result of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// A shared object.
    Object,
    /// LLVM's text after the work-group passes, before it is optimised.
    Passes,
    /// LLVM's text after it is optimised.
    Optimised,
    /// Assembly.
    Assembly,
    /// Sentences about what the passes and the optimiser have done, and what not, by lines of the
    /// program's text.
    Explanation,
}

/// The compiler's answer; bytes follow it: bitcode or an object.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The description of a program, and clang's warnings.
    Described {
        kernels: Vec<KernelInfo>,
        /// Bytes of variables that the kernels share.
        variable_bytes: u64,
        warnings: String,
    },
    /// A text, or several, that may be linked with others; and what clang warns of.
    Unit { warnings: String },
    /// Variables are made.
    Variables,
    /// The layout of a kernel.
    Compiled(Layout),
    /// PTX is made.
    Ptx,
    /// The text is at fault, and so what clang says of it.
    Refused(String),
    /// A program that the compiler has started was ended by a signal.
    Ended(String),
    /// Something else went wrong.
    Failed(String),
}

/// The reason for an error in place of an answer.
pub(crate) enum Fault {
    /// The program's text is at fault.
    Refused(String),
    /// A program was ended by a signal, as those are that take more than they may.
    Ended(String),
    /// Something else is.
    Failed(String),
}

impl From<String> for Fault {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Writes a head and the bytes that follow it, and how long each is.
pub(crate) fn send(
    to: &mut impl Write,
    head: &impl Serialize,
    bytes: &[u8],
) -> std::io::Result<()> {
    let head = serde_json::to_vec(head)?;
    for length in [head.len(), bytes.len()] {
        to.write_all(&(length as u64).to_le_bytes())?;
    }
    to.write_all(&head)?;
    to.write_all(bytes)?;
    to.flush()
}

/// Takes apart what [`send`] has written; nothing if a part of it is missing.
pub(crate) fn receive<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Option<(T, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let [head, length] = [head, length].map(|number| usize::try_from(u64::from_le_bytes(*number)));
    let (head, rest) = rest.split_at_checked(head.ok()?)?;
    let head = serde_json::from_slice(head).ok()?;
    (rest.len() == length.ok()?).then_some((head, rest))
}

/// Does what the compiler's process is for: reads a request from standard input and writes the
/// answer to standard output. True if it could.
#[must_use]
pub fn serve_compiler() -> bool {
    limit(&[(Limited::Memory, MOST_BYTES), (Limited::Remains, 0)]);
    restrict();
    child::wait_for_own();
    let mut bytes = Vec::new();
    if std::io::stdin().lock().read_to_end(&mut bytes).is_err() {
        return false;
    }
    let answer = match receive::<Asked<Request>>(&bytes) {
        Some((Asked { seconds, request }, bitcode)) => {
            limit(&[(Limited::Time, seconds)]);
            answer(request, bitcode)
        }
        None => Err(Fault::Failed("the request is not one".to_owned())),
    };
    let (answer, bytes) = answer.unwrap_or_else(|fault| {
        let answer = match fault {
            Fault::Refused(text) => Answer::Refused(text),
            Fault::Ended(text) => Answer::Ended(text),
            Fault::Failed(text) => Answer::Failed(text),
        };
        (answer, Vec::new())
    });
    send(&mut std::io::stdout().lock(), &answer, &bytes).is_ok()
}

fn answer(request: Request, bitcode: &[u8]) -> Result<(Answer, Vec<u8>), Fault> {
    let without_warnings = Answer::Unit {
        warnings: String::new(),
    };
    match request {
        Request::Describe {
            tools,
            source,
            options,
            library,
            reading,
        } => {
            let options = reading.with_options(options);
            let (text, warnings) = program::clang(&tools, &source, None, &options)?;
            program::read(&tools, &text, library.as_deref(), reading, warnings)
        }
        Request::Unit {
            tools,
            source,
            file,
            options,
        } => {
            let (bitcode, warnings) = program::clang(&tools, &source, file.as_deref(), &options)?;
            Ok((Answer::Unit { warnings }, bitcode))
        }
        Request::Translate { tools } => Ok((without_warnings, translate::module(&tools, bitcode)?)),
        Request::Link { tools, lengths } => {
            let linked = program::link(&tools, bitcode, &lengths)?;
            Ok((without_warnings, linked))
        }
        Request::Read {
            tools,
            library,
            reading,
        } => program::read(&tools, bitcode, library.as_deref(), reading, String::new()),
        Request::Variables { tools } => {
            Ok((Answer::Variables, object::variables(&tools, bitcode)?))
        }
        Request::Compile {
            tools,
            kernel,
            local_size,
            output,
        } => {
            let (layout, bytes) = object::compile(&tools, bitcode, &kernel, local_size, output)?;
            Ok((Answer::Compiled(layout), bytes))
        }
        Request::Ptx {
            tools,
            kernel,
            capability,
            images,
            library,
        } => {
            let wanted = ptx::Wanted {
                kernel: &kernel,
                capability,
                images: &images,
            };
            let text = ptx::compile(&tools, bitcode, &wanted, library.as_deref())?;
            Ok((Answer::Ptx, text))
        }
    }
}

/// Bytes of memory that the compiler may take, and each program that it starts.
pub(crate) const MOST_BYTES: u64 = 8 << 30;

/// The resources that are limited.
#[derive(Clone, Copy)]
enum Limited {
    /// Bytes of addresses.
    Memory,
    /// Bytes of what is kept of a process that crashes.
    Remains,
    /// Seconds of a processor's time.
    Time,
}

/// Bounds what a text can make the compiler and the programs that it starts take.
#[cfg(unix)]
fn limit(limits: &[(Limited, u64)]) {
    for (what, most) in limits {
        let what = match what {
            Limited::Memory => libc::RLIMIT_AS,
            Limited::Remains => libc::RLIMIT_CORE,
            Limited::Time => libc::RLIMIT_CPU,
        };
        let limit = libc::rlimit {
            rlim_cur: *most,
            rlim_max: *most,
        };
        // SAFETY: a whole structure; a limit that cannot be set leaves the one that was.
        unsafe { libc::setrlimit(what, &raw const limit) };
    }
}

#[cfg(not(unix))]
fn limit(_limits: &[(Limited, u64)]) {}

/// Takes from this process, and from the programs that it starts, the calls of the system that no
/// compilation needs, the network's among them. A kernel that cannot do that leaves the limits, and
/// within a node's session that session's sandbox.
#[cfg(target_os = "linux")]
fn restrict() {
    use quipu_system_calls::{Filters, Role};
    let _ = Filters::of(Role::Compiler).and_then(|filters| filters.enter());
}

#[cfg(not(target_os = "linux"))]
fn restrict() {}
