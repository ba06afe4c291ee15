//! `quipu run`: a kernel of a file in OpenCL C or SPIR-V, on arrays in files.
//!
//! Arguments are given in the order of the kernel's parameters, each by an option that names its
//! kind.

mod arrays;
#[cfg(unix)]
mod guard;
mod values;

use crate::error::CommandError;
use crate::npy::{self, Array};
use crate::platform::{own_platform, platform_with};
use arrays::Arrays;
use clap::{Arg, ArgAction, ArgMatches};
use quipu::kernel::{Program, TextArgument, TextKernel};
use quipu::{Buffer, Context, Device, Platform, Queue, WorkDivision};
use quipu_clc::{KernelInfo, ParameterInfo, ParameterKind, SpirV};
use quipu_cli::units;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;
use values::value;

/// The command's options.
#[derive(clap::Args)]
#[command(after_help = "\
The arguments are matched to the kernel's parameters, in order:
  quipu run saxpy.cl saxpy --global 1Mi --arg 2.0 --in x.npy --inout y.npy
  quipu run sum.cl sum --global 64Ki --local 256 --in x.npy --out sums.npy --shape 256 --local-bytes 1Ki

Files whose names end in .npy are NumPy's; others are bytes as they are. Sizes may end in Ki, Mi and Gi.")]
pub(crate) struct Options {
    /// The file in OpenCL C, or in SPIR-V.
    file: PathBuf,

    /// The kernel's name.
    kernel: String,

    /// The number of work-items along x; or along x and y; or along x, y and z.
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = Extent::parse)]
    global: Extent,

    /// The number of work-items of a work-group; without it, one that suits the device.
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = Extent::parse)]
    local: Option<Extent>,

    /// The device, as `quipu devices` names it (cpu, serial, sim:1, gpu-box/cpu:0), or a part of
    /// its full name. Quipu connects to nodes only if no device of this machine has that name.
    #[arg(long, value_name = "NAME", default_value = "cpu")]
    device: String,

    /// An option of OpenCL for the compiler, such as -D N=4 or -cl-fast-relaxed-math; can be given
    /// several times.
    #[arg(long = "option", value_name = "OPTION", allow_hyphen_values = true)]
    options: Vec<String>,

    /// A specialisation constant of SPIR-V, by its number: 3=7, 4=2.5, 5=true; can be given several
    /// times.
    #[arg(long = "constant", value_name = "NUMBER=VALUE", value_parser = constant)]
    constants: Vec<(u32, String)>,

    /// Print the time that the kernel took.
    #[arg(long)]
    time: bool,

    /// Run the kernel N times. Each run reads the output of the one before.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,

    #[command(flatten)]
    arguments: Arguments,
}

/// A specialisation constant's number, and its value.
fn constant(text: &str) -> Result<(u32, String), String> {
    let parts = text.split_once('=');
    let number = parts.and_then(|(number, value)| Some((number.parse().ok()?, value.to_owned())));
    number.ok_or_else(|| format!("'{text}' is no constant; write its number and its value: 3=7"))
}

/// Extents along x, y and z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    dimensions: usize,
    sizes: [usize; 3],
}

impl Extent {
    fn parse(text: &str) -> Result<Self, String> {
        let sizes: Vec<usize> = text.split(',').map(size).collect::<Result<_, _>>()?;
        if sizes.len() > 3 {
            return Err("there are at most three dimensions".to_owned());
        }
        if sizes.contains(&0) {
            return Err("it has to be at least 1".to_owned());
        }
        let mut extent = Self {
            dimensions: sizes.len(),
            sizes: [1; 3],
        };
        extent.sizes[..sizes.len()].copy_from_slice(&sizes);
        Ok(extent)
    }

    fn text(self) -> String {
        let sizes = &self.sizes[..self.dimensions];
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        sizes.join(",")
    }
}

/// A size, as people write it: `100`, `64Ki`, `1Mi`.
fn size(text: &str) -> Result<usize, String> {
    let bad = || format!("'{text}' is no size; write 1000, 64Ki, 1Mi or 2Gi");
    let scales = [("Ki", 10), ("Mi", 20), ("Gi", 30)];
    let scale = scales.iter().find(|(name, _)| text.ends_with(name));
    let (number, shift) = match scale {
        Some((name, shift)) => (&text[..text.len() - name.len()], *shift),
        None => (text, 0),
    };
    let number: usize = number.trim().parse().map_err(|_| bad())?;
    number.checked_mul(1 << shift).ok_or_else(bad)
}

/// A value or a file for a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Given {
    Value(String),
    In(PathBuf),
    InOut(PathBuf),
    Out(PathBuf, Option<Shape>),
    LocalBytes(usize),
}

/// The shape of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    Said(Vec<usize>),
    Like(PathBuf),
}

/// The arguments, in the order in which they are given.
struct Arguments(Vec<Given>);

/// The options for arguments: name, value, help.
const GIVEN: [(&str, &str, &str); 7] = [
    ("arg", "VALUE", "A value: 7, 2.5, or 1,2,3,4 for a vector"),
    ("in", "FILE", "An array that the kernel reads"),
    (
        "inout",
        "FILE",
        "An array that the kernel reads and writes; the result replaces the file's content",
    ),
    (
        "out",
        "FILE",
        "An array that the kernel writes, stored in this file; without --shape or --like it has the shape of the first array of NumPy's, or an element for each work-item",
    ),
    ("shape", "EXTENTS", "The shape of the last --out: 512,512"),
    (
        "like",
        "FILE",
        "Give the last --out as many elements as this array has",
    ),
    ("local-bytes", "SIZE", "Local memory of this many bytes"),
];

impl clap::Args for Arguments {
    fn augment_args(command: clap::Command) -> clap::Command {
        GIVEN.iter().fold(command, |command, (name, value, help)| {
            let arg = Arg::new(*name).long(*name).value_name(*value).help(*help);
            command.arg(
                arg.action(ArgAction::Append)
                    .allow_hyphen_values(true)
                    .help_heading("Arguments"),
            )
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Arguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found: Vec<(usize, &str, String)> = Vec::new();
        for (name, _, _) in GIVEN {
            let values = matches.get_many::<String>(name).into_iter().flatten();
            let places = matches.indices_of(name).into_iter().flatten();
            found.extend(
                places
                    .zip(values)
                    .map(|(place, value)| (place, name, value.clone())),
            );
        }
        found.sort();
        let bad =
            |text: String| clap::Error::raw(clap::error::ErrorKind::ValueValidation, text + "\n");
        let mut all = Vec::new();
        for (_, name, value) in found {
            let shape = match name {
                "arg" => {
                    all.push(Given::Value(value));
                    continue;
                }
                "in" => {
                    all.push(Given::In(value.into()));
                    continue;
                }
                "inout" => {
                    all.push(Given::InOut(value.into()));
                    continue;
                }
                "out" => {
                    all.push(Given::Out(value.into(), None));
                    continue;
                }
                "local-bytes" => {
                    all.push(Given::LocalBytes(size(&value).map_err(bad)?));
                    continue;
                }
                "like" => Shape::Like(value.into()),
                _ => Shape::Said(
                    value
                        .split(',')
                        .map(size)
                        .collect::<Result<_, _>>()
                        .map_err(bad)?,
                ),
            };
            match all.last_mut() {
                Some(Given::Out(_, of @ None)) => *of = Some(shape),
                _ => {
                    return Err(bad(format!(
                        "--{name} belongs after the --out whose shape it says"
                    )));
                }
            }
        }
        Ok(Self(all))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// An argument that is ready to be passed.
enum Ready {
    Value(Vec<u8>),
    Local(u64),
    /// An array, and where it goes afterwards.
    Array(Array, Option<PathBuf>),
}

/// Runs a kernel.
pub(crate) fn run(options: &Options) -> Result<(), CommandError> {
    let (platform, device) = device(&options.device)?;
    let context = platform.context().map_err(CommandError::Node)?;
    let queue = context.queue(&device).map_err(CommandError::Node)?;
    let begun = Instant::now();
    let (program, info) = compile(options, &context, &device)?;
    let ready = ready(&info, &options.arguments.0, options.global)?;
    let local = local(options, &info, &device)?;
    let kernel = program.kernel(&options.kernel);
    let mut buffers = upload(&context, &queue, &ready, &info, is_guarded(&device))?;
    let mut times = Vec::new();
    for _ in 0..options.repeat {
        let arguments = passed(&ready, &info, &mut buffers);
        let start = Instant::now();
        let launched = launch(&queue, &kernel, arguments, options.global, local);
        launched.map_err(|error| CommandError::Run(text_of(&error, &options.file)))?;
        times.push(start.elapsed().as_nanos() as u64);
    }
    store(&queue, &ready, &buffers)?;
    if options.time {
        report(options, &device, &mut times, begun, local)?;
    }
    Ok(())
}

/// Reads the program, compiles it for the device, and finds the kernel in it.
fn compile(
    options: &Options,
    context: &Context,
    device: &Device,
) -> Result<(Program, KernelInfo), CommandError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        CommandError::Run(format!("cannot read {}: {error}", options.file.display()))
    };
    let file = std::fs::read(&options.file).map_err(|error| unreadable(&error))?;
    let not_compiled = |error| CommandError::Compile(text_of(&error, &options.file));
    let mut program = match SpirV::begins(&file) {
        true => context.spirv(&file).map_err(not_compiled)?,
        false => context.program(&String::from_utf8(file).map_err(|error| unreadable(&error))?),
    };
    for (number, value) in &options.constants {
        program = program.specialise(*number, value).map_err(not_compiled)?;
    }
    let program = program.options(&options.options.join(" "));
    let kernels = program.kernels_on(device).map_err(not_compiled)?;
    let info = kernels.iter().find(|kernel| kernel.name == options.kernel);
    let info = info.cloned().ok_or_else(|| {
        let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        CommandError::Run(format!(
            "{} has no kernel '{}'; {}",
            options.file.display(),
            options.kernel,
            quipu_clc::kernels_there(&names)
        ))
    })?;
    Ok((program, info))
}

/// True if kernels on this device are watched: `QUIPU_CHECK=1` says so, and they work in the host's
/// memory.
fn is_guarded(device: &Device) -> bool {
    let is_wanted = matches!(quipu_environment::CHECK.get(), Ok(Some(true)));
    let is_here = device.core().driver().runs_native_code() && device.uses_host_memory();
    cfg!(unix) && is_wanted && is_here
}

/// Writes each array to a buffer of its own.
fn upload(
    context: &Context,
    queue: &Queue,
    ready: &[Ready],
    info: &KernelInfo,
    is_guarded: bool,
) -> Result<Vec<Buffer<u8>>, CommandError> {
    #[cfg(not(unix))]
    let _ = is_guarded;
    let mut buffers = Vec::new();
    for (ready, parameter) in ready.iter().zip(&info.parameters) {
        let Ready::Array(array, _) = ready else {
            continue;
        };
        if array.bytes.is_empty() {
            let problem = format!("the array for `{}` is empty", told(parameter));
            return Err(CommandError::Run(problem));
        }
        #[cfg(unix)]
        if is_guarded {
            let name = format!("the array for `{}` of '{}'", told(parameter), info.name);
            let element = arrays::element_bytes(parameter);
            let buffer = guard::buffer(context, &array.bytes, element, name);
            buffers.push(buffer.map_err(CommandError::Node)?);
            continue;
        }
        let buffer = context
            .allocate::<u8>(array.bytes.len())
            .map_err(CommandError::Node)?;
        let written = queue
            .write(&buffer, array.bytes.clone())
            .and_then(quipu::Pending::wait);
        written.map_err(CommandError::Node)?;
        buffers.push(buffer);
    }
    Ok(buffers)
}

/// The arguments of a launch: the values, and the buffers of the arrays.
fn passed<'b>(
    ready: &[Ready],
    info: &KernelInfo,
    buffers: &'b mut [Buffer<u8>],
) -> Vec<TextArgument<'b>> {
    let mut left = buffers.iter_mut();
    let arguments = ready.iter().zip(&info.parameters);
    arguments
        .map(|(ready, parameter)| match ready {
            Ready::Value(bytes) => TextArgument::Value(bytes.clone()),
            Ready::Local(bytes) => TextArgument::Local(*bytes),
            Ready::Array(..) => match (left.next(), parameter.kind) {
                (Some(buffer), ParameterKind::Memory(access)) if !access.writes() => {
                    TextArgument::Read(buffer)
                }
                (Some(buffer), _) => TextArgument::Write(buffer),
                (None, _) => TextArgument::Local(0),
            },
        })
        .collect()
}

/// Writes the arrays that are wanted to their files.
fn store(queue: &Queue, ready: &[Ready], buffers: &[Buffer<u8>]) -> Result<(), CommandError> {
    let arrays = ready.iter().filter_map(|ready| match ready {
        Ready::Array(array, to) => Some((array, to)),
        _ => None,
    });
    for ((array, to), buffer) in arrays.zip(buffers) {
        let Some(to) = to else { continue };
        let bytes = queue
            .read(buffer)
            .and_then(quipu::Pending::wait)
            .map_err(CommandError::Node)?;
        let file = npy::file_of(
            to,
            &Array {
                bytes,
                ..array.clone()
            },
        );
        std::fs::write(to, file).map_err(|source| CommandError::Write {
            path: to.clone(),
            source,
        })?;
    }
    Ok(())
}

/// Says how long it took.
fn report(
    options: &Options,
    device: &Device,
    times: &mut [u64],
    begun: Instant,
    local: [usize; 3],
) -> Result<(), CommandError> {
    let first = times[0];
    times.sort_unstable();
    let mut text = String::new();
    let groups = Extent {
        sizes: local,
        ..options.global
    };
    let _ = writeln!(
        text,
        "{} on {}: {} work-items in groups of {}",
        options.kernel,
        device.name(),
        options.global.text(),
        groups.text()
    );
    let _ = writeln!(
        text,
        "first {} (compiled in it, if it was not before), median of {} {}, in all {}",
        units::duration(first),
        times.len(),
        units::duration(times[times.len() / 2]),
        units::duration(begun.elapsed().as_nanos() as u64)
    );
    super::print(&text)
}

/// A compiler's messages name the text; this names the user's file in its place.
fn text_of(error: &quipu::Error, file: &Path) -> String {
    error
        .to_string()
        .replace("program:", &format!("{}:", file.display()))
}

/// The device of this name, or with this part in its name, and its platform. Nodes are connected to
/// only if this machine has no device of this name.
fn device(name: &str) -> Result<(Platform, Device), CommandError> {
    let own = own_platform();
    if let Ok(device) = own.device(name) {
        return Ok((own, device));
    }
    let platform = platform_with(&[]);
    let device = platform.device(name).or_else(|error| {
        let wanted = name.to_lowercase();
        let has_it = |device: &&Device| device.name().to_lowercase().contains(&wanted);
        let found = platform.devices().iter().find(has_it).cloned();
        found.ok_or_else(|| CommandError::Run(error.to_string()))
    })?;
    Ok((platform, device))
}

/// The size of work-groups: as the option says, or as the kernel wants, or as suits the device.
fn local(
    options: &Options,
    info: &KernelInfo,
    device: &Device,
) -> Result<[usize; 3], CommandError> {
    let global = options.global;
    let device = device.core();
    let takes_rest = match device.driver().runs_native_code() {
        true => info.takes_rest(),
        false => !info.uniform_groups && device.text_features().non_uniform_blocks,
    };
    let local = match (options.local, info.required_local_size) {
        (Some(local), _) => local.sizes,
        (None, Some(required)) => required.map(|size| size as usize),
        (None, None) => {
            let most = device.properties().max_block_thread_count.min(1024) as usize;
            let x = (1..=most.min(global.sizes[0])).rev();
            let mut fitting = x.filter(|size| global.sizes[0].is_multiple_of(*size));
            let fitting = fitting.next().unwrap_or(1);
            const FEW: usize = 16;
            let is_few = takes_rest && fitting < FEW.min(global.sizes[0]);
            [if is_few { most.min(64) } else { fitting }, 1, 1]
        }
    };
    for axis in 0..3 {
        if !global.sizes[axis].is_multiple_of(local[axis]) && !takes_rest {
            return Err(CommandError::Run(format!(
                "{} work-items along {} are no whole number of work-groups of {}; make --global a multiple of --local, and have \
                 the kernel compare its number with what there is; or compile it with --option -cl-std=CL3.0, if the device has \
                 work-groups of several sizes",
                global.sizes[axis],
                ["x", "y", "z"][axis],
                local[axis]
            )));
        }
    }
    Ok(local)
}

fn launch(
    queue: &Queue,
    kernel: &TextKernel,
    arguments: Vec<TextArgument<'_>>,
    global: Extent,
    local: [usize; 3],
) -> quipu::Result<()> {
    let blocks: [usize; 3] = std::array::from_fn(|axis| global.sizes[axis].div_ceil(local[axis]));
    // SAFETY: the kernel's use of its arguments is its author's responsibility, who runs it.
    let call = unsafe { kernel.call_with(arguments) };
    let mut all = global.sizes[..global.dimensions].to_vec();
    all.reverse();
    let call = call.with_threads(&all);
    let event = match global.dimensions {
        1 => queue.launch(WorkDivision::new(blocks[0], local[0], 1), call)?,
        2 => queue.launch(
            WorkDivision::new([blocks[1], blocks[0]], [local[1], local[0]], [1, 1]),
            call,
        )?,
        _ => {
            let [x, y, z] = blocks;
            let [lx, ly, lz] = local;
            queue.launch(WorkDivision::new([z, y, x], [lz, ly, lx], [1, 1, 1]), call)?
        }
    };
    event.wait()
}

fn told(parameter: &ParameterInfo) -> String {
    format!("{} {}", parameter.type_name, parameter.name)
}

/// Matches the given arguments to the kernel's parameters.
fn ready(info: &KernelInfo, given: &[Given], global: Extent) -> Result<Vec<Ready>, CommandError> {
    let bad = |problem: String| Err(CommandError::Run(problem));
    let parameters = &info.parameters;
    if parameters.len() != given.len() {
        let list: Vec<String> = parameters.iter().map(told).collect();
        return bad(format!(
            "kernel '{}' takes {}, and {} given; its parameters: {}",
            info.name,
            units::counted(parameters.len() as u64, "argument"),
            match given.len() {
                1 => "1 is".to_owned(),
                count => format!("{count} are"),
            },
            if list.is_empty() {
                "none".to_owned()
            } else {
                list.join(", ")
            }
        ));
    }
    let arrays = Arrays::of(info, given, global);
    let mut all = Vec::new();
    for (number, (parameter, given)) in parameters.iter().zip(given).enumerate() {
        let this = format!(
            "parameter {} of '{}', `{}`,",
            number + 1,
            info.name,
            told(parameter)
        );
        all.push(match (parameter.kind, given) {
            (ParameterKind::Value { size, .. }, Given::Value(text)) => {
                let bytes =
                    value(&parameter.type_name, text).filter(|bytes| bytes.len() <= size as usize);
                let Some(mut bytes) = bytes else {
                    return bad(format!("{this} cannot be '{text}'"));
                };
                bytes.resize(size as usize, 0);
                Ready::Value(bytes)
            }
            (ParameterKind::Local, Given::LocalBytes(bytes)) => Ready::Local(*bytes as u64),
            (ParameterKind::Memory(_), Given::In(path)) => {
                Ready::Array(arrays::read(path, parameter, &this)?, None)
            }
            (ParameterKind::Memory(_), Given::InOut(path)) => {
                Ready::Array(arrays::read(path, parameter, &this)?, Some(path.clone()))
            }
            (ParameterKind::Memory(_), Given::Out(path, shape)) => {
                let array = arrays.fresh(parameter, shape.as_ref(), path, &this)?;
                Ready::Array(array, Some(path.clone()))
            }
            (ParameterKind::Value { .. }, _) => {
                return bad(format!("{this} is a value; give it by --arg"));
            }
            (ParameterKind::Local, _) => {
                return bad(format!(
                    "{this} is local memory; say how many bytes it has by --local-bytes"
                ));
            }
            (ParameterKind::Image(_) | ParameterKind::Sampler, _) => {
                return bad(format!(
                    "{this} is an image or a sampler, which only OpenCL's interface passes"
                ));
            }
            (ParameterKind::Memory(_), _) => {
                return bad(format!(
                    "{this} is an array; give it by --in, --inout or --out"
                ));
            }
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(size("64Ki"), Ok(65536));
        assert!(size("1.5Mi").is_err() && size("").is_err() && size("99999999999Gi").is_err());
    }
}
