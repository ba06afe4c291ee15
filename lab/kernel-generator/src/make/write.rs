//! Kernels as text: their source, and the tests' descriptions of them.

use std::fmt::Write as _;

use super::kernel::{Kernel, Parameter, Passing, Shape};
use crate::tree;

impl Kernel {
    /// Its source: structs, device functions, the kernel.
    #[must_use]
    pub fn source(&self) -> String {
        let dimensions = self.division[0].len();
        // Threads of a block.
        let threads: Vec<String> = (0..dimensions)
            .map(|dimension| format!("acc.extent(Block, Threads)[{dimension}]"))
            .collect();
        let threads = threads.join(" * ");
        let mut out = String::new();
        for structure in &self.structures {
            out.push_str(structure);
        }
        for function in &self.functions {
            out.push_str(&function.head);
            tree::write(&[function.body.clone().into()], 0, &mut out);
            out.push('\n');
        }
        let (keyword, accelerator) = if self.is_block {
            ("async fn", "BlockAccelerator")
        } else {
            ("fn", "Accelerator")
        };
        let _ = write!(
            out,
            "#[kernel(crate = quipu_kernel)]\n{keyword} {}(acc: &impl {accelerator}<{dimensions}>",
            self.name
        );
        for parameter in &self.parameters {
            let Parameter { name, passing, .. } = parameter;
            let of = &parameter.type_name;
            let _ = match passing {
                Passing::Value => write!(out, ", {name}: {of}"),
                Passing::Read(_) => write!(out, ", {name}: &[{of}]"),
                Passing::View(shape) => {
                    write!(out, ", {name}: GlobalRef<{of}, {}>", shape.dimensions)
                }
                Passing::OwnOfView(shape) => {
                    write!(out, ", mut {name}: OwnElements<{of}, {}>", shape.dimensions)
                }
                Passing::Own(_) => write!(out, ", mut {name}: OwnElements<{of}>"),
                Passing::Rows(_) => write!(out, ", mut {name}: OwnRows<{of}>"),
                Passing::OwnBlock(_) => write!(out, ", {name}: OwnBlock<{of}>"),
                Passing::Atomic(..) => write!(out, ", {name}: Atomics<{of}>"),
                Passing::Tile(_) => write!(out, ", mut {name}: OwnTile<{of}, {dimensions}>"),
                Passing::BlockTile(_) => {
                    write!(out, ", mut {name}: OwnBlockTile<{of}, {dimensions}>")
                }
                Passing::Raw(_) => write!(out, ", {name}: RawMut<{of}>"),
                Passing::SharedOf(length) => {
                    let written = self.input_of(*length).map_or_else(
                        || length.to_string(),
                        |alike| format!("{}.len()", alike.name),
                    );
                    write!(out, ", #[shared({written})] mut {name}: SharedWrite<{of}>")
                }
                Passing::SharedAtomic(length, _) => {
                    write!(out, ", #[shared({length})] {name}: SharedAtomics<{of}>")
                }
                Passing::Shared(times) | Passing::SharedRaw(times) => write!(
                    out,
                    ", #[shared({times} * {threads})] mut {name}: SharedWrite<{of}>"
                ),
            };
        }
        out.push_str(") ");
        tree::write(&[self.body.clone().into()], 0, &mut out);
        out.push('\n');
        out
    }

    /// An input of such a length, which can be written so then.
    fn input_of(&self, length: usize) -> Option<&Parameter> {
        let mut all = self.parameters.iter();
        all.find(|one| one.passing == Passing::Read(length))
    }

    /// Its size: statements and expressions.
    #[must_use]
    pub fn size(&self) -> usize {
        let functions: usize = self.functions.iter().map(|one| tree::size(&one.body)).sum();
        functions + tree::size(&self.body)
    }

    /// Its description for the tests, as an item of Rust.
    #[must_use]
    pub fn case(&self) -> String {
        let (mut given, mut bound, mut passed, mut kept) =
            (String::new(), String::new(), String::new(), String::new());
        let mut shared = String::new();
        let dimensions = self.division[0].len();
        for (at, parameter) in self.parameters.iter().enumerate() {
            let Parameter { name, passing, .. } = parameter;
            let of = &parameter.type_name;
            let layout = format!("<{of} as Element>::LAYOUT");
            let shape = |shape: &Shape| {
                let (extent, strides) = (shape.extents(), shape.strides());
                format!(".in_strides({extent:?}, {strides:?}).unwrap()")
            };
            let given_view = |shape: &Shape| format!("Given::View({layout}, {shape:?}), ");
            let mut elements = |how: String, mutable: &str| {
                given.push_str(&how);
                let _ = write!(bound, "let {mutable}{name} = data.elements::<{of}>({at}); ");
                if !mutable.is_empty() {
                    let _ = write!(kept, "data.keep({at}, &{name}); ");
                }
            };
            match passing {
                Passing::Value => {
                    let _ = write!(given, "Given::Value({layout}), ");
                    let _ = write!(bound, "let {name} = data.value::<{of}>({at}); ");
                    let _ = write!(passed, "{name}, ");
                }
                Passing::Read(length) => {
                    elements(format!("Given::Elements({layout}, {length}), "), "");
                    let _ = write!(passed, "&{name}, ");
                }
                Passing::View(extent) => {
                    elements(given_view(extent), "");
                    let _ = write!(passed, "GlobalRef::from(&{name}){}, ", shape(extent));
                }
                Passing::Rows(extent) | Passing::OwnOfView(extent) => {
                    elements(given_view(extent), "mut ");
                    let _ = write!(passed, "GlobalMut::from(&mut {name}){}, ", shape(extent));
                }
                Passing::Atomic(length, _) if parameter.has_floats() => {
                    elements(format!("Given::Counts({layout}, {length}), "), "mut ");
                    let _ = write!(passed, "&mut {name}, ");
                }
                Passing::Tile(extent) | Passing::BlockTile(extent) if dimensions > 1 => {
                    elements(given_view(extent), "mut ");
                    let _ = write!(passed, "GlobalMut::from(&mut {name}){}, ", shape(extent));
                }
                Passing::Tile(extent) | Passing::BlockTile(extent) => {
                    let length = extent.places();
                    elements(format!("Given::Elements({layout}, {length}), "), "mut ");
                    let _ = write!(passed, "&mut {name}, ");
                }
                Passing::Own(length)
                | Passing::Raw(length)
                | Passing::OwnBlock(length)
                | Passing::Atomic(length, _) => {
                    elements(format!("Given::Elements({layout}, {length}), "), "mut ");
                    let _ = write!(passed, "&mut {name}, ");
                }
                Passing::SharedOf(length) if self.input_of(*length).is_some() => {
                    let _ = write!(shared, "{length}, ");
                }
                // A constant is in the source.
                Passing::SharedOf(_) | Passing::SharedAtomic(..) => {}
                Passing::Shared(times) | Passing::SharedRaw(times) => {
                    let _ = write!(
                        shared,
                        "{}, ",
                        times * self.division[1].iter().product::<usize>()
                    );
                }
            }
        }
        let Self {
            seed,
            name,
            is_block,
            is_wide,
            may_fail,
            is_ordered,
            division,
            ..
        } = self;
        let [blocks, threads, elements] = division;
        format!(
            "Case {{ name: \"{name}\", seed: {seed:#x}, is_block: {is_block}, is_wide: {is_wide}, may_fail: {may_fail}, is_ordered: {is_ordered}, \
             division: [&{blocks:?}, &{threads:?}, &{elements:?}], shared: &[{shared}], given: &[{given}], \
             module: || <{name} as Entry<{dimensions}>>::module(), \
             run: |data, way| {{ {bound}let result = way.run::<{name}, _, {dimensions}>(({passed}), {division:?}); {kept}result }} }}"
        )
    }
}
