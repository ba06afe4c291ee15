//! Programs that are compiled by themselves, and linked.
//!
//! The compiler for processors does both. Devices that compile a text themselves are given one text with a launch; of a
//! program that was linked there is none, so it is linked for devices that run native code alone.

use super::*;

/// What a binary of such a program begins with. The number is that of its form; a letter for its kind follows.
const BINARY: &[u8; 16] = b"Quipu bitcode 1\n";

pub(super) fn binary(kind: u8, unit: &Unit) -> Vec<u8> {
    let mut bytes = BINARY.to_vec();
    bytes.push(kind);
    bytes.extend(unit.bytes());
    bytes
}

/// A binary that was read.
#[derive(PartialEq, Eq)]
pub(super) enum Read {
    Text { source: String, options: String },
    Unit { kind: u8, unit: Arc<Unit> },
}

impl Read {
    pub(super) fn new(bytes: &[u8]) -> Option<Self> {
        if let Some((source, options)) = of_binary(bytes) {
            return Some(Self::Text { source, options });
        }
        let (kind, bitcode) = bytes.strip_prefix(BINARY)?.split_first()?;
        (b"elo".contains(kind) && !bitcode.is_empty()).then(|| Self::Unit {
            kind: *kind,
            unit: Arc::new(Unit::from_bytes(bitcode.to_vec())),
        })
    }

    /// The text of a program that is made of it, and what is known of that.
    pub(super) fn into_parts(self) -> (String, Origin, Build) {
        match self {
            Self::Text { source, options } => {
                (source, Origin::Binary(options.into()), Build::none())
            }
            Self::Unit { kind, unit } => {
                let made = match kind {
                    b'o' => Some(Made::Object(unit.clone())),
                    b'l' => Some(Made::Library(unit.clone())),
                    _ => None,
                };
                let build = Build {
                    made,
                    ..Build::none()
                };
                (String::new(), Origin::Unit(unit), build)
            }
        }
    }
}

#[unsafe(export_name = "clCompileProgram")]
pub(crate) unsafe extern "C" fn compile_program(
    handle: cl_program,
    count: cl_uint,
    devices: *const cl_device_id,
    options: *const c_char,
    headers: cl_uint,
    texts: *const cl_program,
    names: *mut *const c_char,
    call: BuildCallback,
    data: *mut c_void,
) -> cl_int {
    entry(|| {
        let program = Ref::<Program>::of(handle)?;
        ensure(call.is_some() || data.is_null(), CL_INVALID_VALUE)?;
        // SAFETY: the program passes so many headers and names.
        let lists = unsafe {
            (
                list(headers as usize, texts),
                list(headers as usize, names.cast_const()),
            )
        };
        let (Some(texts), Some(names)) = lists else {
            return fail(CL_INVALID_VALUE);
        };
        // SAFETY: the program passes so many handles.
        let numbers = unsafe { program.numbers(count, devices) }?;
        let is_compiled_so = matches!(program.origin, Origin::Text | Origin::Il(_));
        ensure(is_compiled_so, CL_INVALID_OPERATION)?;
        let mut headers = Vec::new();
        for (text, name) in texts.iter().zip(names) {
            let text = Ref::<Program>::of(*text)?;
            ensure(!name.is_null(), CL_INVALID_VALUE)?;
            // SAFETY: the program passes a name that ends with a zero.
            let name = unsafe { options_of(*name) };
            headers.push((name, text.source.to_string()));
        }
        // SAFETY: the program passes a text that ends with a zero.
        let options = unsafe { options_of(options) };
        let codes = [CL_INVALID_COMPILER_OPTIONS, CL_COMPILE_PROGRAM_FAILURE];
        let result = program.make(&numbers, &options, codes, || {
            let options = program.with_truth_of_images(&options);
            let unit = match &program.origin {
                // It includes nothing.
                Origin::Il(il) => {
                    quipu_clc::checked_options(&options)?;
                    il.unit()?
                }
                _ => Unit::new(&program.source, &options, &headers)?,
            };
            Ok(Made::Object(Arc::new(unit)))
        });
        // SAFETY: the program gave the function to be called so.
        unsafe { call_back(call, handle, data, result) }
    })
}

/// Looks at the options of a linker; true if a library is to be made.
fn is_for_library(options: &str) -> Result<bool> {
    let mut words = options.split_whitespace();
    // Those for mathematics were said to the compiler.
    let is_known = |word: &str| {
        matches!(word, "-create-library" | "-enable-link-options") || word.starts_with("-cl-")
    };
    ensure(words.clone().all(is_known), CL_INVALID_LINKER_OPTIONS)?;
    Ok(words.any(|word| word == "-create-library"))
}

#[unsafe(export_name = "clLinkProgram")]
pub(crate) unsafe extern "C" fn link_program(
    context: cl_context,
    count: cl_uint,
    devices: *const cl_device_id,
    options: *const c_char,
    inputs: cl_uint,
    programs: *const cl_program,
    call: BuildCallback,
    data: *mut c_void,
    code: *mut cl_int,
) -> cl_program {
    let mut outcome = Ok(());
    let body = || {
        let context = Ref::<Context>::of(context)?;
        ensure(call.is_some() || data.is_null(), CL_INVALID_VALUE)?;
        // SAFETY: the program passes so many handles.
        let lists = unsafe {
            (
                list(count as usize, devices),
                list(inputs as usize, programs),
            )
        };
        let (Some(devices), Some(programs)) = lists else {
            return fail(CL_INVALID_VALUE);
        };
        ensure(!programs.is_empty(), CL_INVALID_VALUE)?;
        let programs: Result<Vec<_>> = programs
            .iter()
            .map(|program| Ref::<Program>::of(*program))
            .collect();
        let programs = programs?;
        let devices: Vec<_> = match devices {
            [] => context.devices.clone(),
            some => {
                let devices = some.iter().map(|device| context.device(*device));
                devices.collect::<Result<_>>()?
            }
        };
        let are_native = devices.iter().all(|device| device.is_native());
        ensure(are_native, CL_LINKER_NOT_AVAILABLE)?;
        // SAFETY: the program passes a text that ends with a zero.
        let options = unsafe { options_of(options) };
        let is_library = is_for_library(&options)?;
        let mut units = Vec::new();
        for program in &programs {
            for device in &devices {
                let number = program.devices.iter().position(|of| of.is(device));
                let builds = program.builds();
                let made = number.and_then(|number| builds[number].made.as_ref());
                let unit = made.and_then(Made::unit);
                let unit = unit.ok_or(Code(CL_INVALID_OPERATION))?;
                // One that was compiled for several devices at once is one.
                if device.is(&devices[0]) {
                    units.push(unit.clone());
                }
            }
        }
        let linked = Program::create(context, devices, "", Origin::Linked, Build::none())?;
        let numbers: Vec<usize> = (0..linked.devices.len()).collect();
        let codes = [CL_INVALID_LINKER_OPTIONS, CL_LINK_PROGRAM_FAILURE];
        let result = linked.make(&numbers, &options, codes, || {
            let units: Vec<&Unit> = units.iter().map(Arc::as_ref).collect();
            let unit = Arc::new(Unit::link(&units)?);
            if is_library {
                return Ok(Made::Library(unit));
            }
            let program = quipu_clc::Program::of(&unit)?;
            Ok(Made::Executable(Built::read_here(program, "", Some(unit))))
        });
        let handle = linked.give();
        // SAFETY: the program gave the function to be called so.
        outcome = unsafe { call_back(call, handle, data, result) };
        Ok(handle)
    };
    // SAFETY: the program passes where the code goes.
    let linked = unsafe { create(code, body) };
    if let Err(Code(failed)) = outcome
        && !code.is_null()
    {
        // A program that could not be linked has a log that says why.
        // SAFETY: as above.
        unsafe { code.write(failed) };
    }
    linked
}
