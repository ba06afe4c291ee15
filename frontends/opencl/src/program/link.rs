//! Programs that are compiled by themselves, and linked.
//!
//! This machine's compiler does both, whichever devices the program is for. Devices elsewhere that
//! link (those of nodes) are given the texts and modules of all parts with a launch. On a machine
//! without LLVM their compiler also says what is wrong with a part, and which kernels a program has
//! that is linked of parts.
//!
//! Devices of other platforms are given one text with a launch. A program that was linked is none,
//! so they have no linker.

use super::*;
use quipu_clc::ProgramParts;

/// The log for bitcode and a device that does not run code of this machine's compiler.
pub(super) const OF_PROCESSORS: &str = "error: a binary of a program that was compiled or linked by itself is for processors of this machine; \
    build the program from its texts for other devices";

/// The log for bitcode that is linked with texts.
const OF_SEVERAL: &str = "error: binaries for processors of this machine and others are linked; compile all parts from their texts";

/// True if this machine has what it takes to compile parts.
fn are_compiled_here(parts: &[Part]) -> bool {
    parts.iter().all(|part| match part {
        Part::Text { .. } => quipu_clc::is_available(),
        Part::SpirV(_) => quipu_clc::takes_spirv(),
    })
}

impl Linkable {
    pub(super) fn binary(&self, kind: u8) -> Vec<u8> {
        match (&self.parts, &self.unit) {
            (Some(parts), _) => binary::of_parts(kind, parts),
            (None, Some(unit)) => binary::of_unit(kind, unit),
            (None, None) => Vec::new(),
        }
    }

    /// Parts that this machine's compiler has not seen.
    pub(super) fn of_parts(parts: Arc<[Part]>) -> Self {
        Self {
            unit: None,
            parts: Some(parts),
            warnings: String::new(),
        }
    }

    /// Bitcode of this machine's compiler.
    pub(super) fn of_unit(unit: Arc<Unit>) -> Self {
        Self {
            warnings: unit.warnings().to_owned(),
            unit: Some(unit),
            parts: None,
        }
    }

    /// Several as one.
    fn of(linkables: &[Self]) -> std::result::Result<Self, ClcError> {
        if let [one] = linkables {
            return Ok(Self {
                warnings: String::new(),
                ..one.clone()
            });
        }
        let units: Option<Vec<&Unit>> = linkables.iter().map(|it| it.unit.as_deref()).collect();
        let unit = match units {
            Some(units) => Some(Arc::new(Unit::link(&units)?)),
            None => None,
        };
        let parts: Option<Vec<&[Part]>> = linkables.iter().map(|it| it.parts.as_deref()).collect();
        Ok(Self {
            unit,
            parts: parts.map(|parts| parts.concat().into()),
            warnings: String::new(),
        })
    }
}

impl Program {
    /// Compiles the program's text or module for some of its devices. A text may include the
    /// headers.
    pub(super) fn compile(
        &self,
        numbers: &[usize],
        options: &str,
        headers: &[(String, String)],
    ) -> std::result::Result<Linkable, NotBuilt> {
        let (source, options) = quipu_clc::with_named_files(&self.source, options);
        let (source, options) = (&*source, &*options);
        let module = match &self.origin {
            Origin::Il(il) => {
                quipu_clc::checked_options(options)?;
                Some(il.specialised())
            }
            _ => None,
        };
        let parts: Option<Arc<[Part]>> = match &module {
            _ if self.devices.iter().all(|device| device.is_native()) => None,
            Some(module) => Some([Part::SpirV(module.bytes().into())].into()),
            None => {
                let source = quipu_clc::with_includes(source, options, headers)?;
                let (source, options) = (source.into(), options.to_owned());
                Some([Part::Text { source, options }].into())
            }
        };
        if let Some(parts) = &parts
            && !self.has_native(numbers)
            && !are_compiled_here(parts)
        {
            let parts = parts.clone();
            let asked = ProgramParts {
                parts: parts.clone(),
                is_linked: false,
            };
            let (description, _) = self.read_there(numbers, &asked)?;
            return Ok(Linkable {
                warnings: description.log,
                ..Linkable::of_parts(parts)
            });
        }
        let unit = match &module {
            Some(module) => Unit::of_spirv(module)?,
            None => Unit::new(source, options, headers)?,
        };
        Ok(Linkable {
            parts,
            ..Linkable::of_unit(Arc::new(unit))
        })
    }

    /// Links what was compiled to the program, for some of its devices.
    pub(super) fn link(
        &self,
        numbers: &[usize],
        linkables: &[Linkable],
    ) -> std::result::Result<Built, NotBuilt> {
        let Linkable { unit, parts, .. } = Linkable::of(linkables)?;
        let built = match (&unit, &parts) {
            (_, None) if !self.has_native(numbers) => {
                return Err(ClcError::Refused(OF_PROCESSORS.into()).into());
            }
            (Some(unit), _) => Built::read_here(quipu_clc::Program::of(unit)?),
            (None, Some(parts)) if self.has_native(numbers) || are_compiled_here(parts) => {
                Built::read_here(quipu_clc::Program::of_parts(parts)?)
            }
            (None, Some(parts)) => {
                let asked = ProgramParts {
                    parts: parts.clone(),
                    is_linked: true,
                };
                Built::read_there(self.read_there(numbers, &asked)?)
            }
            (None, None) => return Err(ClcError::Refused(OF_SEVERAL.into()).into()),
        };
        Ok(Built {
            parts,
            unit,
            ..built
        })
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
        let is_compiled_so = matches!(program.origin, Origin::Text(_) | Origin::Il(_));
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
        let mut result = Ok(());
        for numbers in program.alike(&numbers) {
            result = result.and(program.make(&numbers, &options, codes, || {
                let options = program.with_truth_of_devices(&numbers, &options);
                Ok(Made::Object(program.compile(&numbers, &options, &headers)?))
            }));
        }
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

/// Programs to link, and the numbers of their devices.
struct Group {
    linkables: Vec<Linkable>,
    numbers: Vec<usize>,
}

/// The groups of programs to link, and their devices. Devices for which nothing was compiled are
/// left out, and those that have no linker.
fn groups(programs: &[Ref<Program>], devices: &[Ref<Device>]) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for (number, device) in devices.iter().enumerate() {
        let linkables = programs
            .iter()
            .filter_map(|program| program.linkable(device));
        let linkables: Vec<_> = linkables.collect();
        if linkables.is_empty() || !device.links() {
            continue;
        }
        ensure(linkables.len() == programs.len(), CL_INVALID_OPERATION)?;
        match groups.iter_mut().find(|group| group.linkables == linkables) {
            Some(group) => group.numbers.push(number),
            None => groups.push(Group {
                linkables,
                numbers: vec![number],
            }),
        }
    }
    ensure(!groups.is_empty(), CL_INVALID_OPERATION)?;
    Ok(groups)
}

impl Program {
    /// The result of its compilation for a device, if it was compiled to be linked.
    fn linkable(&self, device: &Ref<Device>) -> Option<Linkable> {
        let number = self.devices.iter().position(|of| of.is(device))?;
        self.builds()[number].made.as_ref()?.linkable().cloned()
    }
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
        let are_ours = programs.iter().all(|program| program.context.is(&context));
        ensure(are_ours, CL_INVALID_CONTEXT)?;
        let is_listed = !devices.is_empty();
        let devices: Vec<_> = match devices {
            [] => context.devices.clone(),
            some => {
                let devices = some.iter().map(|device| context.device(*device).cloned());
                devices.collect::<Result<_>>()?
            }
        };
        let links = |device: &Ref<Device>| device.links();
        let has_linker = match is_listed {
            true => devices.iter().all(links),
            false => devices.iter().any(links),
        };
        ensure(has_linker, CL_LINKER_NOT_AVAILABLE)?;
        // SAFETY: the program passes a text that ends with a zero.
        let options = unsafe { options_of(options) };
        let is_library = is_for_library(&options)?;
        let groups = groups(&programs, &devices)?;
        let linked = Program::create(context, devices, "", Origin::Linked, Build::none())?;
        let codes = [CL_INVALID_LINKER_OPTIONS, CL_LINK_PROGRAM_FAILURE];
        let mut result = Ok(());
        for Group { linkables, numbers } in groups {
            result = result.and(linked.make(&numbers, &options, codes, || {
                Ok(match is_library {
                    true => Made::Library(Linkable::of(&linkables)?),
                    false => Made::Executable(linked.link(&numbers, &linkables)?),
                })
            }));
        }
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
