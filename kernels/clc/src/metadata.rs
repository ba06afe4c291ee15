//! Descriptions of a compiled program: kernels, their parameters and attributes.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// A kernel's name for as long as the process runs. There are as many as there are kernels in
/// texts.
#[must_use]
pub fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let name: &'static str = Box::leak(name.into());
    names.insert(name);
    name
}

/// A program in OpenCL C, for a driver that reads it (`Driver::describe`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramText {
    /// The text.
    pub source: Arc<str>,
    /// The compiler's options.
    pub options: String,
}

/// The compiler's description of a program: a driver's answer for a [`ProgramText`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// The kernels.
    pub kernels: Vec<KernelInfo>,
    /// The compiler's warnings.
    pub log: String,
}

/// Bytes that a work-group may have for itself on processors: local memory, arguments, and the
/// memory of its work-items.
pub(crate) const MOST_GROUP_BYTES: u64 = 256 << 20;

/// Bytes that suffice for what a work-item keeps across barriers beside its own arrays, in nearly
/// all kernels.
const KEPT_BESIDE_ARRAYS: u64 = 512;

/// A kernel of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelInfo {
    /// Its name.
    pub name: String,
    /// Its parameters, in order.
    pub parameters: Vec<ParameterInfo>,
    /// The only size that its work-groups may have (`reqd_work_group_size`).
    pub required_local_size: Option<[u32; 3]>,
    /// True if its work-groups divide a launch evenly: in OpenCL C before 2.0, and with
    /// `-cl-uniform-work-group-size`.
    pub uniform_groups: bool,
    /// True if it can tell how its work-items are divided into groups: it has local memory or
    /// barriers, or asks for numbers or sizes of groups. The division of any other kernel is
    /// nobody's business.
    pub sees_groups: bool,
    /// Its attributes, as the text writes them: `vec_type_hint(float4)`.
    pub attributes: Vec<String>,
    /// Bytes of local memory that its own variables take.
    pub local_bytes: u64,
    /// Bytes of memory that each work-item has of its own, for arrays and structures that are no
    /// registers; zero if that is not known.
    pub private_bytes: u64,
    /// Work-items of a sub-group, at most; none if a sub-group is the whole work-group.
    pub sub_group_size: Option<u32>,
    /// True if work-items of a group wait for each other.
    pub has_barriers: bool,
    /// True if it prints, or may follow a pointer that it finds in memory: it touches more memory
    /// than its parameters.
    pub reaches_beyond: bool,
}

impl KernelInfo {
    /// The most work-items that a work-group may have on processors, by the memory that they take;
    /// at least one.
    #[must_use]
    pub fn most_items(&self) -> u64 {
        let each = self.private_bytes.saturating_add(KEPT_BESIDE_ARRAYS);
        let room = MOST_GROUP_BYTES.saturating_sub(self.local_bytes);
        (room / each).max(1)
    }

    /// True if the compiler for processors has its last groups along an axis be smaller than the
    /// others where they do not divide a launch evenly: it may have such groups, or cannot tell.
    #[must_use]
    pub fn takes_rest(&self) -> bool {
        !(self.uniform_groups && self.sees_groups)
    }

    /// Bytes that it takes in memory, with its parameters.
    pub fn bytes(&self) -> usize {
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|attribute| size_of::<String>() + attribute.len());
        let parameters = self.parameters.iter().map(ParameterInfo::bytes);
        size_of::<Self>() + self.name.len() + attributes.chain(parameters).sum::<usize>()
    }
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterInfo {
    /// Its name, as the text has it.
    pub name: String,
    /// Its type, as the text has it: `float*`, `uint4`.
    pub type_name: String,
    /// The words that qualify its type, with spaces between them: `const`, `restrict`, `volatile`.
    pub qualifiers: String,
    /// True of memory that the text says is `constant`.
    pub is_constant: bool,
    /// The kind of its argument.
    pub kind: ParameterKind,
}

impl ParameterInfo {
    /// Bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.type_name.len() + self.qualifiers.len()
    }
}

/// The kind of a parameter's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParameterKind {
    /// A value of so many bytes.
    Value {
        /// Bytes.
        size: u32,
        /// The alignment of its address.
        align: u32,
    },
    /// Memory that all work-items reach.
    Memory(MemoryAccess),
    /// Memory of a work-group, of a size that the launch says.
    Local,
    /// An image, with what its access qualifier allows.
    Image(MemoryAccess),
    /// A sampler: a number of 32 bits, as literals of samplers are.
    Sampler,
}

/// A kernel's access to memory that is passed to it, as its code shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryAccess {
    /// Neither reads nor writes it.
    None,
    /// Only reads it.
    Read,
    /// Only writes it, perhaps a part of it.
    Write,
    /// Both.
    ReadWrite,
}

impl MemoryAccess {
    /// True if what is there before matters.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadWrite)
    }

    /// True if what is there may change.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite)
    }
}

/// The layout of a kernel that is compiled for a size of work-group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Bytes of local memory that the kernel declares itself.
    pub local_bytes: u64,
    /// Bytes that each work-item keeps across barriers.
    pub spill_bytes_per_item: u64,
    /// Bytes that a work-group keeps across barriers beside those.
    pub spill_bytes: u64,
    /// True if the kernel prints.
    pub prints: bool,
}
