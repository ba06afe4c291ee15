//! A module: types, the runtime, functions, the entry, put together.

use std::collections::BTreeSet;

use crate::function::{Function, Location};
use crate::module::{Module, ParameterKind, SharedId, SharedInitial, SharedLength};
use crate::statement::Statement;
use crate::types::{Scalar, Space, Struct, Type};
use crate::verify::walk;

use super::arithmetic;
use super::c99::C99;
use super::cuda::Cuda;
use super::dialect::Language;
use super::entry::{EntryDeclaration, EntryParts, SharedDeclaration};
use super::facts::{self, Facts};
use super::function::{FunctionPrinter, Slice};
use super::helpers::{self, Helpers};
use super::names::Names;
use super::opencl::OpenCl;
use super::protocol::{EntryKind, EntryParameter, FaultKind, Printed, SharedMemory, Site, layout};
use super::text::Text;
use super::{Dialect, IndexWidth, Options, PrintError, Printer};

/// Prints a verified module.
pub(super) fn print(
    module: &Module,
    dialect: Dialect,
    options: &Options,
) -> Result<Printed, PrintError> {
    let (c99, opencl, cuda);
    let language: &dyn Language = match dialect {
        Dialect::C99 => {
            c99 = C99;
            &c99
        }
        Dialect::OpenCl(features) => {
            opencl = OpenCl { features };
            &opencl
        }
        Dialect::Cuda => {
            cuda = Cuda;
            &cuda
        }
    };
    let printer = ModulePrinter::new(module, language, options);
    printer.check_scalars()?;
    printer.print(dialect.language())
}

/// A module being printed.
pub(super) struct ModulePrinter<'m> {
    pub(super) module: &'m Module,
    pub(super) language: &'m dyn Language,
    pub(super) options: &'m Options,
    pub(super) helpers: Helpers,
    facts: Vec<Facts>,
    sites: Vec<Site>,
    /// True if a loop over a thread's elements was written for several at once.
    pub(super) reads_ahead: bool,
    /// Names that nothing else in a function may have.
    pub(super) names: Names,
    function_names: Vec<String>,
    struct_names: Vec<String>,
    field_names: Vec<Vec<String>>,
    pub(super) shared_names: Vec<String>,
    pub(super) constant_names: Vec<String>,
    entry_name: String,
    array_names: BTreeSet<String>,
    /// The definitions of types so far.
    types: String,
    pub(super) doubles: bool,
    pub(super) wide_atomics: bool,
}

impl<'m> ModulePrinter<'m> {
    fn new(module: &'m Module, language: &'m dyn Language, options: &'m Options) -> Self {
        let mut names = Names::new();
        let entry_name = names.unique(&module.kernel.function.name, &[]);
        let struct_names = module
            .structs
            .iter()
            .map(|structure| names.unique(&structure.name, &[]))
            .collect();
        let function_names = module
            .functions
            .iter()
            .map(|function| names.unique(&function.name, &[]))
            .collect();
        let shared_names = module
            .shared
            .iter()
            .map(|array| {
                let wanted = match array.name {
                    None => "shared".to_owned(),
                    // Fields of the context, as it is.
                    Some(taken @ ("block" | "thread" | "crew" | "count" | "grid_barrier")) => {
                        format!("shared_{taken}")
                    }
                    Some(name) => name.to_owned(),
                };
                names.unique(&wanted, &["_length", "_offset"])
            })
            .collect();
        let constant_names = module
            .constants
            .iter()
            .map(|constant| names.unique(constant.name.unwrap_or("table"), &[]))
            .collect();
        Self {
            module,
            language,
            options,
            helpers: Helpers::default(),
            facts: facts::of_module(module, options.checked),
            sites: Vec::new(),
            reads_ahead: false,
            names,
            function_names,
            struct_names,
            field_names: module.structs.iter().map(field_names).collect(),
            shared_names,
            constant_names,
            entry_name,
            array_names: BTreeSet::new(),
            types: String::new(),
            doubles: false,
            wide_atomics: false,
        }
    }

    /// Checks that the dialect has all scalar types.
    fn check_scalars(&self) -> Result<(), PrintError> {
        for function in self
            .module
            .functions
            .iter()
            .chain([&self.module.kernel.function])
        {
            for value in &function.values {
                self.check_type(&value.value_type, value.location.or(function.location))?;
            }
            for local in &function.locals {
                self.check_type(&local.local_type, function.location)?;
            }
        }
        Ok(())
    }

    fn check_type(&self, checked: &Type, location: Option<Location>) -> Result<(), PrintError> {
        match checked {
            Type::Unit => Ok(()),
            Type::Scalar(scalar) => self
                .language
                .offers(self.concrete(*scalar))
                .map_err(|what| self.unsupported(what, location)),
            Type::Struct(id) => self
                .module
                .structure(*id)
                .fields
                .iter()
                .try_for_each(|field| self.check_type(&field.field_type, location)),
            Type::Array(element, _) | Type::Slice { element, .. } => {
                self.check_type(element, location)
            }
        }
    }

    /// The error of an operation that the dialect cannot express.
    pub(super) fn unsupported(&self, what: String, location: Option<Location>) -> PrintError {
        PrintError::Unsupported {
            language: self.language.name(),
            what,
            kernel: self.module.kernel.function.name.clone(),
            location,
        }
    }

    /// The number of a new site.
    pub(super) fn site(
        &mut self,
        kind: FaultKind,
        function: &Function,
        location: Option<Location>,
        message: Option<String>,
    ) -> u32 {
        let site = Site {
            kind,
            function: function.name.clone(),
            location,
            message,
            values: Vec::new(),
        };
        self.site_of(site)
    }

    /// The number of a new site of a barrier; none where the language does not find out that not
    /// all threads come to it.
    pub(super) fn barrier_site(
        &mut self,
        function: &Function,
        location: Option<Location>,
    ) -> Option<u32> {
        self.language
            .finds_divergence()
            .then(|| self.site(FaultKind::Divergence, function, location, None))
    }

    /// The number of a site that is written down.
    pub(super) fn site_of(&mut self, site: Site) -> u32 {
        // Each barrier is one of its own.
        let known = match site.kind {
            FaultKind::Divergence => None,
            _ => self.sites.iter().position(|known| *known == site),
        };
        let number = known.unwrap_or_else(|| {
            self.sites.push(site);
            self.sites.len() - 1
        });
        // As many as statements, of which there are fewer than 2^32.
        number as u32
    }

    /// An index as the integer that it is here.
    pub(super) fn concrete(&self, scalar: Scalar) -> Scalar {
        match (scalar, self.options.index_width) {
            (Scalar::Index, IndexWidth::Bits32) => Scalar::U32,
            (Scalar::Index, IndexWidth::Bits64) => Scalar::U64,
            (Scalar::SignedIndex, IndexWidth::Bits32) => Scalar::I32,
            (Scalar::SignedIndex, IndexWidth::Bits64) => Scalar::I64,
            (scalar, _) => scalar,
        }
    }

    /// The integer type of indices.
    pub(super) fn index(&self) -> &'static str {
        self.language.scalar(self.concrete(Scalar::Index))
    }

    /// The name of a type of values.
    pub(super) fn type_name(&mut self, named: &Type) -> String {
        match named {
            Type::Unit => "void".into(),
            Type::Scalar(scalar) => {
                self.doubles |= *scalar == Scalar::F64;
                self.language.scalar(self.concrete(*scalar)).into()
            }
            Type::Struct(id) => self.struct_names[id.0 as usize].clone(),
            Type::Array(element, length) => self.array_name(element, *length),
            Type::Slice {
                element,
                space,
                mutable,
            } => {
                let element = self.memory_name(element);
                self.language.pointer(&element, *space, *mutable)
            }
        }
    }

    /// The name of a type of memory, where a `bool` is a byte.
    pub(super) fn memory_name(&mut self, named: &Type) -> String {
        if *named == Scalar::Bool.into() {
            self.language.scalar(Scalar::U8).into()
        } else {
            self.type_name(named)
        }
    }

    /// Arrays are structs, so that they can be assigned, given and returned.
    fn array_name(&mut self, element: &Type, length: u64) -> String {
        let element_name = self.memory_name(element);
        // No two elements have the same name here, and no name of a user's begins like that.
        let name = match element {
            Type::Scalar(scalar) => format!("quipu_{}x{length}", scalar.rust_name()),
            _ => format!("quipu_{element_name}_array_{length}"),
        };
        if !self.array_names.insert(name.clone()) {
            return name;
        }
        self.types.push_str(&format!(
            "typedef struct {{\n    {element_name} e[{length}];\n}} {name};\n\n"
        ));
        name
    }

    /// The name of a struct's field.
    pub(super) fn field_name(&self, structure: crate::StructId, field: u32) -> &str {
        &self.field_names[structure.0 as usize][field as usize]
    }

    fn define_structs(&mut self) {
        for (number, structure) in self.module.structs.iter().enumerate() {
            let fields: String = structure
                .fields
                .iter()
                .enumerate()
                .map(|(field, of)| {
                    let name = self.field_names[number][field].clone();
                    format!("    {} {name};\n", self.memory_name(&of.field_type))
                })
                .collect();
            let name = &self.struct_names[number];
            let aligned = match structure.alignment {
                0 | 1 => String::new(),
                bytes => format!("{} ", self.language.aligned(bytes)),
            };
            self.types.push_str(&format!(
                "typedef struct {aligned}{{\n{fields}}} {name};\n\n"
            ));
        }
    }

    /// A value of zeros.
    pub(super) fn zero(&mut self, of: &Type) -> String {
        match of {
            Type::Scalar(Scalar::F32) => "0.0f".into(),
            Type::Scalar(Scalar::F64) => "0.0".into(),
            Type::Struct(id) => {
                let fields: Vec<_> = self
                    .module
                    .structure(*id)
                    .fields
                    .iter()
                    .map(|field| self.zero_field(&field.field_type))
                    .collect();
                let name = self.type_name(of);
                self.language.aggregate(&name, &fields.join(", "))
            }
            Type::Array(element, _) => {
                let first = self.zero_field(element);
                let name = self.type_name(of);
                self.language.aggregate(&name, &format!("{{{first}}}"))
            }
            Type::Unit | Type::Scalar(_) | Type::Slice { .. } => "0".into(),
        }
    }

    /// Zeros inside of an initialiser's braces: `{0}` for types with parts.
    fn zero_field(&mut self, of: &Type) -> String {
        match of {
            Type::Struct(id) => {
                let first = self.module.structure(*id).fields[0].field_type.clone();
                format!("{{{}}}", self.zero_field(&first))
            }
            Type::Array(element, _) => format!("{{{{{}}}}}", self.zero_field(element)),
            scalar => self.zero(scalar),
        }
    }

    /// The facts of a device function.
    pub(super) fn facts(&self, function: crate::FunctionId) -> Facts {
        self.facts[function.0 as usize]
    }

    /// The facts of the kernel.
    pub(super) fn kernel_facts(&self) -> Facts {
        self.facts.last().copied().unwrap_or_default()
    }

    pub(super) fn function_name(&self, function: crate::FunctionId) -> &str {
        &self.function_names[function.0 as usize]
    }

    /// The expression of the length of a shared array, from inside of the kernel or not.
    pub(super) fn shared_length(&self, shared: SharedId, in_kernel: bool) -> String {
        match self.module.shared[shared.0 as usize].length {
            SharedLength::Fixed(length) => {
                format!(
                    "{length}{}",
                    self.language.suffix(self.concrete(Scalar::Index))
                )
            }
            SharedLength::Launch => {
                let name = &self.shared_names[shared.0 as usize];
                if in_kernel {
                    format!("{name}_length")
                } else {
                    format!("quipu->{name}_length")
                }
            }
        }
    }

    /// The expression of a shared array.
    pub(super) fn shared_name(&self, shared: SharedId, in_kernel: bool) -> String {
        let name = &self.shared_names[shared.0 as usize];
        if in_kernel {
            name.clone()
        } else {
            format!("quipu->{name}")
        }
    }

    /// The definitions of the constants in memory. Braces inside are left out, as C lets one do.
    fn constants(&mut self) -> String {
        let mut texts = String::new();
        for (constant, name) in self
            .module
            .constants
            .iter()
            .zip(self.constant_names.clone())
        {
            let type_name = self.type_name(&constant.constant_type);
            let values: Vec<_> = constant
                .values
                .iter()
                .map(|value| arithmetic::literal(self, *value).text)
                .collect();
            let qualifier = self.language.constant();
            let values = values.join(", ");
            texts.push_str(&format!(
                "{qualifier} {type_name} {name} = {{{{{values}}}}};\n"
            ));
        }
        if !texts.is_empty() {
            texts.push('\n');
        }
        texts
    }

    fn print(mut self, language: &'static str) -> Result<Printed, PrintError> {
        self.define_structs();
        let constants = self.constants();
        // Calls lead to functions that may come later in the module: all are declared before the
        // first.
        let mut prototypes = String::new();
        let mut functions = String::new();
        for (number, function) in self.module.functions.iter().enumerate() {
            let (head, text) = self.function(number, function)?;
            prototypes.push_str(&format!("{head};\n"));
            functions.push_str(&text);
            functions.push('\n');
        }
        if !prototypes.is_empty() {
            prototypes.push('\n');
        }
        let parts = self.entry_parts()?;
        let entry = self.language.entry(&parts);
        let source = [
            self.language.head(self.options, &parts),
            self.types.clone(),
            self.context(&parts),
            self.helpers.texts(),
            constants,
            prototypes,
            functions,
            entry,
        ]
        .concat();
        let index = self.options.index_width.bytes();
        Ok(Printed {
            language,
            source,
            entry: self.entry_name,
            compiler_options: self.language.compiler_options(self.options),
            parameters: parts
                .declarations
                .into_iter()
                .map(|declaration| declaration.parameter)
                .collect(),
            shared: self
                .module
                .shared
                .iter()
                .map(|array| {
                    let (element_size, alignment) = layout(self.module, &array.element, index);
                    SharedMemory {
                        element_size,
                        alignment,
                        length: array.length,
                    }
                })
                .collect(),
            dimensions: parts.dimensions,
            index_width: self.options.index_width,
            barriers: parts.barriers,
            grid_barriers: parts.grid_barriers,
            reads_ahead: self.reads_ahead,
            sites: self.sites,
        })
    }

    /// The types of the work division and of the context.
    fn context(&mut self, parts: &EntryParts) -> String {
        let EntryParts {
            index, dimensions, ..
        } = parts;
        let record = self
            .language
            .pointer(self.language.scalar(Scalar::U32), Space::Global, true);
        let mut shared = String::new();
        for array in &parts.shared {
            let pointer = self.language.pointer(&array.element, Space::Shared, true);
            shared.push_str(&format!("    {pointer}{};\n", array.name));
            if array.length_kind == SharedLength::Launch {
                shared.push_str(&format!("    {index} {};\n", array.length));
            }
        }
        let record = match parts.records {
            true => format!("    {record}fault;\n"),
            false => String::new(),
        };
        format!(
            "/* The work division of a launch. */\n\
             typedef struct {{\n    {index} grid_blocks[{dimensions}];\n    {index} block_threads[{dimensions}];\n    \
             {index} thread_elements[{dimensions}];\n}} quipu_launch;\n\n\
             /* Where a thread is. */\n\
             typedef struct {{\n    quipu_launch launch;\n    {index} block[{dimensions}];\n    {index} thread[{dimensions}];\n\
             {record}{shared}{}}} quipu_context;\n\n",
            self.language.context_fields(parts),
        )
    }

    /// A device function: its head, and the whole of it.
    fn function(
        &mut self,
        number: usize,
        function: &'m Function,
    ) -> Result<(String, String), PrintError> {
        let facts = self.facts[number];
        let name = self.function_names[number].clone();
        let result = self.type_name(&function.result);
        let text = Text::new(1, self.options.line_directives);
        let mut printer = FunctionPrinter::new(self, function, text, None);
        let mut parameters: Vec<String> = Vec::new();
        if facts.context {
            parameters.push(format!(
                "{}quipu",
                printer.module.language.context_pointer()
            ));
        }
        for parameter in &function.parameters {
            let info = &function.values[parameter.0 as usize];
            let wanted = info.name.unwrap_or("argument");
            let type_name = printer.module.type_name(&info.value_type);
            if matches!(info.value_type, Type::Slice { .. }) {
                let name = printer.names.unique(wanted, &["_length"]);
                parameters.push(format!("{type_name}{name}"));
                parameters.push(format!("{} {name}_length", printer.module.index()));
                let length = format!("{name}_length");
                printer.define_slice(
                    *parameter,
                    Slice {
                        pointer: name,
                        length,
                    },
                );
            } else {
                let name = printer.names.unique(wanted, &[]);
                parameters.push(format!("{type_name} {name}"));
                printer.define_name(*parameter, name);
            }
        }
        printer.block(&function.body)?;
        let body = printer.text.lines;
        if parameters.is_empty() {
            parameters.push("void".into());
        }
        let head = format!(
            "static {}{result} {name}({})",
            self.language.function(),
            parameters.join(", ")
        );
        let text = format!("{head}\n{{\n{body}}}\n");
        Ok((head, text))
    }

    /// The entry function's parameters, and the kernel's body.
    fn entry_parts(&mut self) -> Result<EntryParts, PrintError> {
        let kernel = &self.module.kernel;
        let function = &kernel.function;
        let dimensions = usize::from(kernel.dimensions);
        let width = self.options.index_width.bytes();
        let index = self.index();
        let leaves = leaves_early(function);
        let narrow = self.concrete(Scalar::Index) == Scalar::U32;
        let depth = self.language.depth(dimensions, narrow, leaves);
        let text = Text::new(depth, self.options.line_directives);
        let mut printer = FunctionPrinter::new(self, function, text, Some(leaves));
        let mut declarations = Vec::new();
        let mut declare = |name: &str, kind, size, type_name: &str, mutable| {
            declarations.push(EntryDeclaration {
                parameter: EntryParameter {
                    name: name.to_owned(),
                    kind,
                    size,
                },
                type_name: type_name.to_owned(),
                mutable,
            });
        };
        for (parameter, described) in kernel.parameters.iter().enumerate() {
            let wanted = described.name.unwrap_or("argument");
            match &described.kind {
                ParameterKind::Nothing => {}
                ParameterKind::Uniform(value) => {
                    let value_type = &function.values[value.0 as usize].value_type;
                    let name = printer.names.unique(wanted, &[]);
                    let type_name = printer.module.memory_name(value_type);
                    let (size, _) = layout(printer.module.module, value_type, width);
                    declare(
                        &name,
                        EntryKind::Uniform { parameter },
                        size,
                        &type_name,
                        false,
                    );
                    printer.define_name(*value, name);
                }
                ParameterKind::Buffer(value)
                | ParameterKind::View {
                    elements: value, ..
                } => {
                    let Type::Slice {
                        element, mutable, ..
                    } = &function.values[value.0 as usize].value_type
                    else {
                        continue;
                    };
                    let name = printer.names.unique(wanted, &["_length", "_start"]);
                    let element_name = printer.module.memory_name(element);
                    declare(
                        &name,
                        EntryKind::Pointer { parameter },
                        8,
                        &element_name,
                        *mutable,
                    );
                    if printer.module.language.has_starts() {
                        let wide = printer.module.language.scalar(Scalar::U64);
                        declare(
                            &format!("{name}_start"),
                            EntryKind::Start { parameter },
                            8,
                            wide,
                            false,
                        );
                    }
                    let length = format!("{name}_length");
                    declare(
                        &length,
                        EntryKind::Length { parameter },
                        width,
                        index,
                        false,
                    );
                    if let ParameterKind::View {
                        extents, strides, ..
                    } = &described.kind
                    {
                        for (values, what) in [(extents, "extent"), (strides, "stride")] {
                            for (dimension, value) in values.iter().enumerate() {
                                let name = printer
                                    .names
                                    .unique(&format!("{name}_{what}_{dimension}"), &[]);
                                let kind = match what {
                                    "extent" => EntryKind::Extent {
                                        parameter,
                                        dimension,
                                    },
                                    _ => EntryKind::Stride {
                                        parameter,
                                        dimension,
                                    },
                                };
                                declare(&name, kind, width, index, false);
                                printer.define_name(*value, name);
                            }
                        }
                    }
                    printer.define_slice(
                        *value,
                        Slice {
                            pointer: name,
                            length,
                        },
                    );
                }
            }
        }
        printer.block(&function.body)?;
        let body = std::mem::take(&mut printer.text.lines);
        let mut shared = Vec::new();
        for (number, array) in self.module.shared.iter().enumerate() {
            let id = SharedId(number as u32);
            let name = self.shared_names[number].clone();
            let element = self.memory_name(&array.element);
            if array.length == SharedLength::Launch {
                if let Some(kind) = self.language.shared_parameter(id) {
                    let (name, size, type_name) = match kind {
                        EntryKind::SharedOffset { .. } => (
                            format!("{name}_offset"),
                            4,
                            self.language.scalar(Scalar::U32).to_owned(),
                        ),
                        _ => (name.clone(), 0, element.clone()),
                    };
                    declare(&name, kind, size, &type_name, true);
                }
                declare(
                    &format!("{name}_length"),
                    EntryKind::SharedLength { shared: id },
                    width,
                    index,
                    false,
                );
            }
            shared.push(SharedDeclaration {
                length: self.shared_length(id, true),
                length_kind: array.length,
                zero: (array.initial == SharedInitial::Zeros).then(|| self.zero(&array.element)),
                name,
                element,
            });
        }
        let launch_size = 3 * dimensions as u64 * width;
        declare(
            "launch",
            EntryKind::Launch,
            launch_size,
            "quipu_launch",
            false,
        );
        let facts = self.kernel_facts();
        let finds_divergence = facts.barriers && self.language.finds_divergence();
        if finds_divergence {
            helpers::fault(&mut self.helpers, self.language, dimensions);
        }
        // All that the kernel calls is printed by now. (A barrier that no thread comes to is not,
        // and has no site.)
        let records = !self.sites.is_empty() || finds_divergence;
        if records {
            let word = self.language.scalar(Scalar::U32);
            declare("fault", EntryKind::Fault, 8, word, true);
        }
        if facts.grid_barriers && self.language.grid_barriers_need_words() {
            let word = self.language.scalar(Scalar::U32);
            declare("grid_barrier", EntryKind::GridBarrier, 8, word, true);
        }
        Ok(EntryParts {
            name: self.entry_name.clone(),
            dimensions,
            bounds: self.module.kernel.bounds.clone(),
            index,
            declarations,
            shared,
            body,
            leaves,
            records,
            barriers: facts.barriers,
            counts: facts.counts,
            grid_barriers: facts.grid_barriers,
            divides: self.helpers.divide(),
            doubles: self.doubles,
            wide_atomics: self.wide_atomics,
        })
    }
}

/// True if a kernel's function has a `Return` that is not its end.
fn leaves_early(function: &Function) -> bool {
    let mut returns = 0;
    walk(&function.body, &mut |statement| {
        returns += usize::from(matches!(statement, Statement::Return { .. }));
    });
    returns
        > usize::from(matches!(
            function.body.last(),
            Some(Statement::Return { .. })
        ))
}

/// The names of a struct's fields; a tuple's numbers follow an `f`.
fn field_names(structure: &Struct) -> Vec<String> {
    let mut names = Names::new();
    structure
        .fields
        .iter()
        .map(|field| {
            let is_number = field.name.bytes().all(|byte| byte.is_ascii_digit());
            let wanted = if is_number {
                format!("f{}", field.name)
            } else {
                field.name.clone()
            };
            names.unique(&wanted, &[])
        })
        .collect()
}
