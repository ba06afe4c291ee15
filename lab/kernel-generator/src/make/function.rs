//! Device functions and structs.

use super::kernel::Function;
use super::{Argument, Callable, Enumeration, Maker, Structure};
use crate::tree::Block;
use crate::types::{Scalar, Type};

impl Maker {
    /// A struct, with what declares it.
    pub(super) fn declare_structure(&mut self) -> String {
        let name = format!("S{}_{}", self.name, self.structures.len());
        let is_tuple = self.random.chance(30);
        let count = 1 + self.random.below(4);
        let fields: Vec<(String, Scalar)> = (0..count)
            .map(|at| {
                let field = if is_tuple {
                    at.to_string()
                } else {
                    format!("m{at}")
                };
                (field, self.any_scalar())
            })
            .collect();
        let list: Vec<String> = fields
            .iter()
            .map(|(field, of)| {
                if is_tuple {
                    of.name().to_owned()
                } else {
                    format!("{field}: {}", of.name())
                }
            })
            .collect();
        let list = list.join(", ");
        let body = if is_tuple {
            format!("({list});")
        } else {
            format!(" {{ {list} }}")
        };
        let is_data = fields
            .iter()
            .all(|(_, of)| !matches!(of, Scalar::Usize | Scalar::Isize));
        let mut text = format!(
            "#[derive(Clone, Copy, KernelData)]\n#[kernel_data(crate = quipu_kernel)]\n#[repr(C)]\nstruct {name}{body}\n"
        );
        if is_data {
            // The code by which the tests make one of bytes.
            let list: Vec<String> = fields
                .iter()
                .map(|(field, of)| format!("{field}: {}", of.name()))
                .collect();
            text.push_str(&format!("structure!({name} {{ {} }});\n", list.join(", ")));
        }
        self.structures.push(Structure {
            name,
            fields,
            is_tuple,
            is_data,
        });
        text
    }

    /// An enum without fields, with what declares it.
    pub(super) fn declare_enumeration(&mut self) -> String {
        let name = format!("E{}_{}", self.name, self.enumerations.len());
        let variants = 2 + self.random.below(4);
        let of = *self.random.pick(&["u8", "u32", "i32"]);
        let (mut list, mut next) = (Vec::new(), self.random.below(3));
        for at in 0..variants {
            list.push(format!("V{at} = {next}"));
            next += 1 + self.random.below(20);
        }
        let list = list.join(", ");
        let text = format!(
            "#[derive(Clone, Copy, KernelData)]\n#[kernel_data(crate = quipu_kernel)]\n#[repr({of})]\nenum {name} {{ {list} }}\n"
        );
        let all: Vec<String> = (0..variants).map(|at| format!("V{at}")).collect();
        let text = format!("{text}enumeration!({name} of {of}: {});\n", all.join(", "));
        self.enumerations.push(Enumeration { name, variants });
        text
    }

    /// A device function, which may call those before it.
    pub(super) fn declare_function(&mut self) -> Function {
        let name = format!("{}_d{}", self.name, self.functions.len());
        let result = self.any_scalar();
        let inputs = std::mem::take(&mut self.inputs);
        let aggregates = std::mem::take(&mut self.aggregates);
        let scope = self.enter();
        let count = 1 + self.random.below(3);
        let (mut parameters, mut list) = (Vec::new(), Vec::new());
        for at in 0..count {
            let of = self.any_scalar();
            let argument = self.fresh("p");
            if at == 0 && self.random.chance(30) {
                list.push(format!("{argument}: &mut {}", of.name()));
                self.define(&format!("*{argument}"), Type::Scalar(of), true);
                parameters.push(Argument::Mutable(of));
            } else if at > 0
                && self.random.chance(20)
                && matches!(parameters[0], Argument::Value(_))
            {
                list.push(format!("{argument}: &[{}]", of.name()));
                // Of slices that may be empty nothing is read by index.
                parameters.push(Argument::Slice(of));
            } else {
                let is_mutable = self.random.chance(40);
                let mutable = if is_mutable { "mut " } else { "" };
                list.push(format!("{mutable}{argument}: {}", of.name()));
                self.define(&argument, Type::Scalar(of), is_mutable);
                parameters.push(Argument::Value(of));
            }
        }
        // The contents of a slice: the number of its elements, and these in order.
        let mut body = Block::default();
        for (parameter, written) in parameters.iter().zip(&list) {
            if let Argument::Slice(of) = parameter {
                self.fold_slice(&mut body, written, *of);
            }
        }
        self.returns = Some(Type::Scalar(result));
        let count = self.random.below(4);
        self.budget = 10;
        self.statements(&mut body, count, 2);
        body.value = Some(Box::new(self.scalar(result, 3)));
        self.returns = None;
        self.leave(&scope);
        self.inputs = inputs;
        self.aggregates = aggregates;
        self.functions.push(Callable {
            name: name.clone(),
            parameters,
            result,
        });
        Function {
            head: format!(
                "#[device(crate = quipu_kernel)]\nfn {name}({}) -> {} ",
                list.join(", "),
                result.name()
            ),
            body,
        }
    }

    /// The last element of a slice, or a constant, in a variable.
    fn fold_slice(&mut self, body: &mut Block, written: &str, of: Scalar) {
        use crate::tree::{Statement, pieces};
        let slice = written.split(':').next().unwrap_or_default().to_owned();
        let name = self.fresh("v");
        let first = of.literal(&mut self.random);
        let item = self.fresh("e");
        body.statements.push(Statement::new(pieces![format!(
            "let mut {name} = {first}; for {item} in {slice} {{ {name} = *{item}; }}"
        )]));
        self.define(&name, Type::Scalar(of), true);
        let length = self.fresh("v");
        body.statements.push(Statement::new(pieces![format!(
            "let {length} = {slice}.len() as u32;"
        )]));
        self.define(&length, Type::Scalar(Scalar::U32), false);
    }
}
