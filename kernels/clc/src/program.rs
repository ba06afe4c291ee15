//! Programs and kernels of this process.

use crate::client::{self, ClcError, Described};
use crate::compiler::{Output, Reading};
use crate::includes::with_includes;
use crate::metadata::{KernelInfo, ParameterKind};
use crate::options;
use crate::run::{Grid, Kernel, Variables};
use crate::spirv::SpirV;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The most sizes of work-groups that a kernel is compiled for one by one; the others share code
/// for any size.
const MOST_SIZES: usize = 16;

/// The log of a program whose variables in global memory would have to be shared by devices that
/// are no processors of this machine.
pub const SHARED_VARIABLES: &str =
    "error: variables at program scope in global memory are shared by kernels on processors alone";

/// A kernel, by its number, and the size of its work-groups; none for any size.
type Form = (usize, Option<[u32; 3]>);
type Compiling = Arc<OnceLock<Result<Arc<Kernel>, Arc<ClcError>>>>;

/// A text that has been compiled by itself, to be linked with others; or several that were.
#[derive(Clone, PartialEq, Eq)]
pub struct Unit {
    bitcode: Vec<u8>,
    warnings: String,
}

impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unit({} bytes)", self.bitcode.len())
    }
}

impl Unit {
    /// Has a text compiled, with options as OpenCL's compilers take them. `headers` are names and
    /// texts of files that it may include.
    ///
    /// # Errors
    /// As [`Program::new`]; if a header's name leads out of where headers are.
    pub fn new(
        source: &str,
        options: &str,
        headers: &[(String, String)],
    ) -> Result<Self, ClcError> {
        let (source, options) = options::with_named_files(source, options);
        let options = options::options(&options)?;
        let (bitcode, warnings) = client::unit(&source, &options, headers)?;
        Ok(Self { bitcode, warnings })
    }

    /// Has a module of SPIR-V translated.
    ///
    /// # Errors
    /// If it is at fault; if the machine has no translator, or no compiler.
    pub fn of_spirv(module: &SpirV) -> Result<Self, ClcError> {
        let (bitcode, warnings) = client::translated(module)?;
        Ok(Self { bitcode, warnings })
    }

    /// Links some into one.
    ///
    /// # Errors
    /// If two of them define one name; if there are none.
    pub fn link(units: &[&Self]) -> Result<Self, ClcError> {
        let pieces: Vec<&[u8]> = units.iter().map(|unit| &unit.bitcode[..]).collect();
        client::link(&pieces).map(Self::from_bytes)
    }

    /// clang's warnings as the text was compiled; empty if there are none.
    #[must_use]
    pub fn warnings(&self) -> &str {
        &self.warnings
    }

    /// It as bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bitcode
    }

    /// The program that [`bytes`](Self::bytes) was called on. Only [`Program::of`] and
    /// [`link`](Self::link) look at it.
    #[must_use]
    pub fn from_bytes(bitcode: Vec<u8>) -> Self {
        Self {
            bitcode,
            warnings: String::new(),
        }
    }
}

/// The source of a program.
enum Origin {
    Text {
        source: String,
        options: Vec<String>,
    },
    Unit(Vec<u8>),
}

impl Origin {
    fn read(&self, reading: Reading) -> Result<Described, ClcError> {
        match self {
            Self::Text { source, options } => client::describe(source, options, reading),
            Self::Unit(bitcode) => client::read(bitcode, reading),
        }
    }
}

/// A program whose text has been read.
pub struct Program {
    origin: Origin,
    /// True if its kernels are for launches whose work-items have numbers of more than 31 bits.
    is_wide: bool,
    /// The same program for such launches, read when there is the first.
    wide: OnceLock<Result<Box<Program>, Arc<ClcError>>>,
    kernels: Vec<KernelInfo>,
    bitcode: Vec<u8>,
    variable_bytes: u64,
    variables: OnceLock<Result<Arc<Variables>, Arc<ClcError>>>,
    warnings: String,
    compiled: Mutex<HashMap<Form, Compiling>>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .kernels
            .iter()
            .map(|kernel| kernel.name.as_str())
            .collect();
        f.debug_tuple("Program").field(&names).finish()
    }
}

impl Program {
    /// Has a text in OpenCL C read, with options as OpenCL's compilers take them.
    ///
    /// # Errors
    /// clang's messages on the text; if an option is none; if the machine has no compiler.
    pub fn new(source: &str, options: &str) -> Result<Self, ClcError> {
        let (source, options) = options::with_named_files(source, options);
        let words = options::options(&options)?;
        let described = client::describe(&source, &words, Reading::default())?;
        // The files may be others when it is read again. Where they are too many together, they are
        // left to the compiler.
        let included = with_includes(&source, &options, &[]);
        let source = included.unwrap_or_else(|_| source.into_owned());
        let origin = Origin::Text {
            source,
            options: words,
        };
        Ok(Self::described(origin, false, described))
    }

    /// A program of what was compiled before.
    ///
    /// # Errors
    /// If it calls what it does not have.
    pub fn of(unit: &Unit) -> Result<Self, ClcError> {
        let origin = Origin::Unit(unit.bitcode.clone());
        let described = origin.read(Reading::default())?;
        Ok(Self::described(origin, false, described))
    }

    fn described(origin: Origin, is_wide: bool, described: Described) -> Self {
        Self {
            origin,
            is_wide,
            wide: OnceLock::new(),
            kernels: described.kernels,
            bitcode: described.bitcode,
            variable_bytes: described.variable_bytes,
            variables: OnceLock::new(),
            warnings: described.warnings,
            compiled: Mutex::default(),
        }
    }

    /// A program of a module of SPIR-V.
    ///
    /// # Errors
    /// As [`Unit::of_spirv`] and [`of`](Self::of).
    pub fn of_spirv(module: &SpirV) -> Result<Self, ClcError> {
        Self::of(&Unit::of_spirv(module)?)
    }

    /// clang's warnings as the text was read; empty if there are none.
    #[must_use]
    pub fn warnings(&self) -> &str {
        &self.warnings
    }

    /// Bytes of the variables in global memory that its kernels share. They keep what kernels write
    /// to them for as long as the program lives.
    #[must_use]
    pub fn variable_bytes(&self) -> u64 {
        self.variable_bytes
    }

    /// The program, if its kernels share no such variables: those of a node's clients are compiled
    /// one by one.
    ///
    /// # Errors
    /// If they do.
    pub(crate) fn unshared(self) -> Result<Self, ClcError> {
        match self.variable_bytes {
            0 => Ok(self),
            _ => Err(ClcError::Refused(SHARED_VARIABLES.to_owned())),
        }
    }

    /// These variables, if there are any.
    fn variables(&self) -> Result<Option<Arc<Variables>>, Arc<ClcError>> {
        if self.variable_bytes == 0 {
            return Ok(None);
        }
        let make = || {
            let object = client::variables(&self.bitcode)?;
            Ok(Arc::new(Variables::load(&object)?))
        };
        self.variables.get_or_init(make).clone().map(Some)
    }

    /// Its kernels.
    #[must_use]
    pub fn kernels(&self) -> &[KernelInfo] {
        &self.kernels
    }

    /// The description of a kernel.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn kernel(&self, name: &str) -> Result<&KernelInfo, ClcError> {
        self.number(name).map(|number| &self.kernels[number])
    }

    fn number(&self, name: &str) -> Result<usize, ClcError> {
        let number = self.kernels.iter().position(|kernel| kernel.name == name);
        number.ok_or_else(|| ClcError::NoKernel {
            name: name.to_owned(),
            there: self
                .kernels
                .iter()
                .map(|kernel| kernel.name.clone())
                .collect(),
        })
    }

    /// The program for wide launches.
    fn wide(&self) -> Result<&Self, Arc<ClcError>> {
        let read = || {
            let origin = match &self.origin {
                Origin::Text { source, options } => Origin::Text {
                    source: source.clone(),
                    options: options.clone(),
                },
                Origin::Unit(bitcode) => Origin::Unit(bitcode.clone()),
            };
            let described = origin.read(Reading {
                is_wide: true,
                ..Reading::default()
            })?;
            let wide = Self::described(origin, true, described);
            if wide.variable_bytes != self.variable_bytes {
                return Err(Arc::new(ClcError::Launch(
                    "variables that it uses depend on whether numbers of work-items have more than 31 bits; use fewer work-items, or a smaller offset".to_owned(),
                )));
            }
            // Both have the same ones.
            if let Some(variables) = self.variables()? {
                let _ = wide.variables.set(Ok(variables));
            }
            Ok(Box::new(wide))
        };
        let wide = self.wide.get_or_init(read);
        wide.as_deref().map_err(Arc::clone)
    }

    /// The kernel for a launch, compiled if it is not yet. Launches with work-items whose numbers
    /// have more than 31 bits have kernels of their own. Where groups have several sizes, the
    /// smaller ones run code for any size.
    ///
    /// # Errors
    /// As [`compile`](Self::compile); if groups have several sizes, and the kernel sees them and
    /// takes those of one size alone.
    pub fn compile_for_grid(&self, name: &str, grid: &Grid) -> Result<Arc<Kernel>, Arc<ClcError>> {
        let program = match grid.is_wide() {
            true => self.wide()?,
            false => self,
        };
        if grid.is_uniform() {
            return program.compile(name, grid.local_size());
        }
        let number = program.number(name)?;
        let info = &program.kernels[number];
        if !info.takes_rest() {
            return Err(Arc::new(ClcError::Launch(format!(
                "kernel '{name}' takes work-groups of one size, and those of {} do not divide {} work-items evenly; \
                 compile it with -cl-std=CL2.0 or later, and without -cl-uniform-work-group-size",
                extent(grid.local_size()),
                extent(grid.global_size())
            ))));
        }
        program.check_size(info, grid.local_size())?;
        let general = program.compile_as((number, None))?;
        if !grid.has_full_groups() {
            return Ok(general);
        }
        let kernel = program.compile(name, grid.local_size())?;
        if !kernel.takes_edges() {
            kernel.set_edges(general);
        }
        Ok(kernel)
    }

    /// A kernel for work-groups of a size, compiled if it is not yet. Threads that ask for the same
    /// wait for the first.
    ///
    /// # Errors
    /// If there is none of that name, it wants another size, or the compiler fails.
    pub fn compile(&self, name: &str, local_size: [u32; 3]) -> Result<Arc<Kernel>, Arc<ClcError>> {
        let number = self.number(name)?;
        self.check_size(&self.kernels[number], local_size)?;
        let key = {
            let compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
            let sizes = compiled.keys().filter(|(of, _)| *of == number).count();
            let key = (number, Some(local_size));
            match compiled.contains_key(&key) || sizes < MOST_SIZES {
                true => key,
                false => (number, None),
            }
        };
        self.compile_as(key)
    }

    fn check_size(&self, info: &KernelInfo, local_size: [u32; 3]) -> Result<(), ClcError> {
        match info.required_local_size {
            Some(required) if required != local_size => Err(ClcError::Launch(format!(
                "kernel '{}' wants work-groups of {} work-items (reqd_work_group_size), and not of {}",
                info.name,
                extent(required),
                extent(local_size)
            ))),
            _ => Ok(()),
        }
    }

    /// A kernel in a form, compiled if it is not yet.
    fn compile_as(&self, form: Form) -> Result<Arc<Kernel>, Arc<ClcError>> {
        let compiling = {
            let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
            compiled.entry(form).or_default().clone()
        };
        let (number, size) = form;
        let compile = || Ok(Arc::new(self.load(&self.kernels[number], size)?));
        compiling.get_or_init(compile).clone()
    }

    fn load(&self, info: &KernelInfo, size: Option<[u32; 3]>) -> Result<Kernel, Arc<ClcError>> {
        let (layout, object) = client::compile(&self.bitcode, &info.name, size, Output::Object)?;
        let (variables, is_wide) = (self.variables()?, self.is_wide);
        let info = info.clone();
        Ok(Kernel::load(
            info,
            layout,
            &object,
            variables,
            is_wide,
            size.is_none(),
        )?)
    }

    /// A kernel for work-groups of any size, compiled anew.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub fn compile_for_any_size(&self, name: &str) -> Result<Kernel, Arc<ClcError>> {
        self.load(self.kernel(name)?, None)
    }

    /// A kernel in PTX, for NVIDIA's devices of a compute capability such as 90. Its parameters are
    /// the kernel's own and four numbers of 32 bits: the launch's offset along three axes, and its
    /// dimensions. For memory that a block shares it takes, in 64 bits, how far it begins behind
    /// the start of what the launch asks for. An image is the address of its texels, in 64 bits,
    /// and then its [layout](crate::Image::layout), in one parameter.
    ///
    /// # Errors
    /// If there is none of that name, if it needs what only processors have, or the compiler fails.
    pub fn ptx(&self, name: &str, capability: u32) -> Result<String, ClcError> {
        let parameters = self.kernel(name)?.parameters.iter().enumerate();
        let images = parameters.filter(|(_, one)| matches!(one.kind, ParameterKind::Image(_)));
        let images: Vec<usize> = images.map(|(number, _)| number).collect();
        let text = client::ptx(&self.bitcode, name, capability, images)?;
        String::from_utf8(text).map_err(|error| ClcError::Failed(error.to_string()))
    }

    /// A stage of the compiler's work on a kernel, as text: see [`Output`]. For an explanation the
    /// program is read once more.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub fn emit(
        &self,
        name: &str,
        local_size: Option<[u32; 3]>,
        output: Output,
    ) -> Result<Vec<u8>, ClcError> {
        let info = self.kernel(name)?;
        if let Some(size) = local_size {
            self.check_size(info, size)?;
        }
        if output == Output::Explanation {
            let described = self.origin.read(Reading {
                is_wide: self.is_wide,
                keeps_lines: true,
            })?;
            return Ok(client::compile(&described.bitcode, name, local_size, output)?.1);
        }
        let (_, bytes) = client::compile(&self.bitcode, name, local_size, output)?;
        Ok(bytes)
    }
}

fn extent(size: [impl Into<u64>; 3]) -> String {
    match size.map(Into::into) {
        [x, 1, 1] => x.to_string(),
        [x, y, 1] => format!("{x} x {y}"),
        [x, y, z] => format!("{x} x {y} x {z}"),
    }
}
