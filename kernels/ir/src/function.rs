//! Functions, and the values and variables in them.

use crate::statement::Block;
use crate::types::Type;

/// Number of a device function in its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// Number of a value in its function: defined once, by a parameter, an operation or an element
/// loop, and used where its definition has been passed for certain (in the rest of the block, and
/// in blocks inside of that).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

/// Number of a variable in its function: memory of the thread, that places name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalId(pub u32);

/// The user's name for something; several may have the same name (shadowing).
pub type Name = Option<&'static str>;

/// A place in the user's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// The file as rustc knows it.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
}

/// The facts of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueInfo {
    /// Its type.
    pub value_type: Type,
    /// The user's name of an immutable variable or parameter.
    pub name: Name,
    /// The place of its definition.
    pub location: Option<Location>,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// Its type.
    pub local_type: Type,
    /// The user's name; none for one that holds the result of an `if` or a block.
    pub name: Name,
}

/// A function: the kernel's own, or a device function that is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The user's name; made unique and legal by printers.
    pub name: String,
    /// The values that are its parameters, in order. The kernel's own function has those of
    /// [`KernelInfo::parameters`](crate::KernelInfo::parameters).
    pub parameters: Vec<Value>,
    /// The type of its result; [`Type::Unit`] for the kernel's.
    pub result: Type,
    /// All values, by number.
    pub values: Vec<ValueInfo>,
    /// All variables, by number.
    pub locals: Vec<Local>,
    /// Its statements.
    pub body: Block,
    /// Its place in the user's source.
    pub location: Option<Location>,
}
