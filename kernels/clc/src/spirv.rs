//! Modules of SPIR-V: their check before the translator sees them, and the parts that are written
//! anew for it.
//!
//! The translator is a program of the machine's (`llvm-spirv`). It trusts what it reads, and older
//! ones know SPIR-V up to 1.4 only. So a module goes through here first:
//!
//! 1. *Look* ([`SpirV::new`]): the header, and each instruction's length. A module of another kind
//!    than kernels' is refused by name.
//! 2. *Specialise* ([`SpirV::specialise`]): a specialisation constant is a literal, which is
//!    written over.
//! 3. *Lower* ([`SpirV::lowered`]): an instruction of a later version becomes some of earlier ones.
//!
//! A module is a list of words, and an instruction is its length and its number in one word, and
//! its operands. Types come before constants, and both before functions, so one pass from front to
//! end knows what it has to.

use crate::client::ClcError;
use std::collections::{BTreeMap, BTreeSet, HashMap};

const MAGIC: u32 = 0x0723_0203;
/// Words before the first instruction: a mark, the version, the maker, the bound of its numbers,
/// nothing.
const HEADER: usize = 5;
/// The largest bound of numbers that a module may have, as the standard says.
const MOST_NUMBERS: u32 = 0x3f_ffff;
/// The largest version that translators of LLVM 15 know.
const LOWERED: u32 = 0x0001_0400;
/// The largest version that is known here.
const KNOWN_MINOR: u32 = 6;
/// The most levels of types within types.
const MOST_DEPTH: u32 = 64;
/// The most parts of a value that is copied part by part.
const MOST_PARTS: usize = 1 << 12;
/// The most words that lowering adds to a module.
const MOST_ADDED: usize = 1 << 20;

/// The numbers of instructions, as the standard has them.
mod op {
    pub(super) const ENTRY_POINT: u32 = 15;
    pub(super) const MEMORY_MODEL: u32 = 14;
    pub(super) const CAPABILITY: u32 = 17;
    pub(super) const TYPE_BOOL: u32 = 20;
    pub(super) const TYPE_INT: u32 = 21;
    pub(super) const TYPE_FLOAT: u32 = 22;
    pub(super) const TYPE_VECTOR: u32 = 23;
    pub(super) const TYPE_ARRAY: u32 = 28;
    pub(super) const TYPE_STRUCT: u32 = 30;
    pub(super) const TYPE_POINTER: u32 = 32;
    pub(super) const CONSTANT_FALSE: u32 = 42;
    pub(super) const CONSTANT: u32 = 43;
    pub(super) const CONSTANT_NULL: u32 = 46;
    pub(super) const SPEC_CONSTANT_TRUE: u32 = 48;
    pub(super) const SPEC_CONSTANT_FALSE: u32 = 49;
    pub(super) const SPEC_CONSTANT: u32 = 50;
    pub(super) const FUNCTION: u32 = 54;
    pub(super) const FUNCTION_END: u32 = 56;
    pub(super) const LOAD: u32 = 61;
    pub(super) const STORE: u32 = 62;
    pub(super) const COPY_MEMORY: u32 = 63;
    pub(super) const COPY_MEMORY_SIZED: u32 = 64;
    pub(super) const DECORATE: u32 = 71;
    pub(super) const COMPOSITE_CONSTRUCT: u32 = 80;
    pub(super) const COMPOSITE_EXTRACT: u32 = 81;
    pub(super) const COPY_OBJECT: u32 = 83;
    pub(super) const IMAGE_SAMPLE_EXPLICIT_LOD: u32 = 88;
    pub(super) const IMAGE_FETCH: u32 = 95;
    pub(super) const IMAGE_READ: u32 = 98;
    pub(super) const IMAGE_WRITE: u32 = 99;
    pub(super) const CONVERT_PTR_TO_U: u32 = 117;
    pub(super) const S_CONVERT: u32 = 114;
    pub(super) const CONVERT_U_TO_PTR: u32 = 120;
    pub(super) const BITCAST: u32 = 124;
    pub(super) const I_SUB: u32 = 130;
    pub(super) const S_DIV: u32 = 135;
    pub(super) const I_EQUAL: u32 = 170;
    pub(super) const I_NOT_EQUAL: u32 = 171;
    pub(super) const COPY_LOGICAL: u32 = 400;
    pub(super) const PTR_EQUAL: u32 = 401;
    pub(super) const PTR_NOT_EQUAL: u32 = 402;
    pub(super) const PTR_DIFF: u32 = 403;
    pub(super) const DECORATE_STRING: u32 = 5632;
    pub(super) const MEMBER_DECORATE_STRING: u32 = 5633;
}

const KERNEL: u32 = 6;
const INT64: u32 = 11;
const OPENCL: u32 = 2;
const PHYSICAL64: u32 = 2;
const SPEC_ID: u32 = 1;
const PACKED: u32 = 10;
/// In the mask of an access: the next word says what addresses are a multiple of.
const ALIGNED: u32 = 2;

/// A module of SPIR-V.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpirV {
    /// In this machine's order of bytes.
    words: Vec<u32>,
    /// By the numbers that the module gives them for this.
    constants: BTreeMap<u32, Constant>,
}

/// A specialisation constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Constant {
    /// The word that its instruction begins with.
    at: usize,
    /// Bits of its type; none of a truth value.
    bits: Option<u32>,
    is_signed: bool,
    is_float: bool,
}

impl Constant {
    fn type_name(self) -> String {
        match self.bits {
            None => "true or false".to_owned(),
            Some(bits) if self.is_float => format!("a float of {bits} bits"),
            Some(bits) => format!("a whole number of {bits} bits"),
        }
    }

    /// The bytes of a value.
    fn read(self, value: &str) -> Option<Vec<u8>> {
        let value = value.trim();
        let Some(bits) = self.bits else {
            return match value {
                "true" | "1" => Some(vec![1]),
                "false" | "0" => Some(vec![0]),
                _ => None,
            };
        };
        if self.is_float {
            return match bits {
                32 => value
                    .parse::<f32>()
                    .ok()
                    .map(|it| it.to_le_bytes().to_vec()),
                64 => value
                    .parse::<f64>()
                    .ok()
                    .map(|it| it.to_le_bytes().to_vec()),
                _ => None,
            };
        }
        let number: i128 = value.parse().ok()?;
        let fits = number >= -(1 << (bits - 1)) && number < 1 << bits;
        let bytes = number.to_le_bytes();
        fits.then(|| bytes[..bits as usize / 8].to_vec())
    }
}

fn refused(problem: &str) -> ClcError {
    ClcError::Refused(format!("error: the SPIR-V module {problem}"))
}

/// The instructions of a module: the place of each, its number, and its words.
fn instructions(words: &[u32]) -> impl Iterator<Item = (usize, u32, &[u32])> {
    let mut at = HEADER;
    std::iter::from_fn(move || {
        let first = *words.get(at)?;
        let length = (first >> 16) as usize;
        let instruction = words.get(at..at + length).filter(|_| length > 0)?;
        let place = at;
        at += length;
        Some((place, first & 0xffff, instruction))
    })
}

/// The known facts of a type.
#[derive(Clone, Debug)]
enum Type {
    Bool,
    Int { bits: u32, is_signed: bool },
    Float { bits: u32 },
    Vector { of: u32, count: u32 },
    Array { of: u32, count: u64 },
    Struct { members: Vec<u32>, is_packed: bool },
    Pointer { to: u32 },
}

/// The known facts of a module's numbers.
#[derive(Default)]
struct Known {
    types: BTreeMap<u32, Type>,
    /// Bytes of each type, and what its address is a multiple of; none if that is not known.
    sizes: HashMap<u32, Option<(u64, u64)>>,
    /// The type of each value.
    values: HashMap<u32, u32>,
    /// Those of whole numbers that are constant.
    constants: HashMap<u32, u64>,
    packed: Vec<u32>,
}

impl Known {
    /// Learns from an instruction.
    fn learn(&mut self, number: u32, words: &[u32]) {
        let operand = |at: usize| words.get(at).copied().unwrap_or(0);
        let id = operand(1);
        let new = match number {
            op::DECORATE if operand(2) == PACKED => {
                self.packed.push(id);
                return;
            }
            op::TYPE_BOOL => Type::Bool,
            op::TYPE_INT => Type::Int {
                bits: operand(2),
                is_signed: operand(3) == 1,
            },
            op::TYPE_FLOAT => Type::Float { bits: operand(2) },
            op::TYPE_VECTOR => Type::Vector {
                of: operand(2),
                count: operand(3),
            },
            op::TYPE_ARRAY => Type::Array {
                of: operand(2),
                count: self.constants.get(&operand(3)).copied().unwrap_or(0),
            },
            op::TYPE_STRUCT => Type::Struct {
                members: words.get(2..).unwrap_or_default().to_vec(),
                is_packed: self.packed.contains(&id),
            },
            op::TYPE_POINTER => Type::Pointer { to: operand(3) },
            // Where the first operand is a type, the second is a value of it. (Instructions whose
            // first operand is another number come before all types.)
            _ => {
                if words.len() > 2 && self.types.contains_key(&id) {
                    self.values.insert(operand(2), id);
                    if matches!(number, op::CONSTANT | op::SPEC_CONSTANT) {
                        let value = u64::from(operand(3)) | u64::from(operand(4)) << 32;
                        self.constants.insert(operand(2), value);
                    }
                }
                return;
            }
        };
        self.sizes.insert(id, self.size(&new));
        self.types.insert(id, new);
    }

    /// The type of a value.
    fn type_of(&self, value: u32) -> Option<(u32, &Type)> {
        let of = self.values.get(&value)?;
        Some((*of, self.types.get(of)?))
    }

    /// Bytes of a type, and what its address is a multiple of. Its parts are known.
    fn size(&self, of: &Type) -> Option<(u64, u64)> {
        let part = |of: &u32| *self.sizes.get(of)?;
        Some(match of {
            Type::Bool => (1, 1),
            Type::Int { bits, .. } | Type::Float { bits } => {
                (u64::from(*bits / 8), u64::from(*bits / 8))
            }
            Type::Pointer { .. } => (8, 8),
            Type::Vector { of, count } => {
                let (one, _) = part(of)?;
                // Three take the room of four.
                let size = one.checked_mul(u64::from(count.checked_next_power_of_two()?))?;
                (size, size)
            }
            Type::Array { of, count } => {
                let (one, align) = part(of)?;
                (one.checked_mul(*count)?, align)
            }
            Type::Struct { members, is_packed } => {
                let (mut end, mut most) = (0_u64, 1);
                for member in members {
                    let (size, align) = part(member)?;
                    let align = if *is_packed { 1 } else { align.max(1) };
                    end = end.checked_next_multiple_of(align)?.checked_add(size)?;
                    most = most.max(align);
                }
                (end.checked_next_multiple_of(most)?, most)
            }
        })
    }
}

impl SpirV {
    /// True if bytes begin as a module does, in either order of bytes.
    #[must_use]
    pub fn begins(bytes: &[u8]) -> bool {
        let first = bytes.first_chunk().map(|word| u32::from_le_bytes(*word));
        first.is_some_and(|word| [MAGIC, MAGIC.swap_bytes()].contains(&word))
    }

    /// Looks at a module.
    ///
    /// # Errors
    /// If it is none, or none of kernels for 64 bits, or of a version that is not known.
    pub fn new(bytes: &[u8]) -> Result<Self, ClcError> {
        if !Self::begins(bytes) {
            return Err(refused(
                "is none: it does not begin with SPIR-V's number, 0x07230203",
            ));
        }
        if !bytes.len().is_multiple_of(4) || bytes.len() < 4 * HEADER {
            return Err(refused(&format!(
                "is cut off: it has {} bytes, and a module has whole words of 4, and 5 of them at least",
                bytes.len()
            )));
        }
        let words = bytes
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        let mut words: Vec<u32> = words.collect();
        if words[0] != MAGIC {
            words.iter_mut().for_each(|word| *word = word.swap_bytes());
        }
        let (version, bound) = (words[1], words[3]);
        let (major, minor) = (version >> 16, version >> 8 & 0xff);
        if major != 1 || minor > KNOWN_MINOR || version & 0xff != 0 {
            return Err(refused(&format!(
                "is of version {major}.{minor}; those from 1.0 to 1.{KNOWN_MINOR} are known"
            )));
        }
        if bound == 0 || bound > MOST_NUMBERS {
            return Err(refused(&format!(
                "says that its numbers are below {bound}; at most {MOST_NUMBERS} may be"
            )));
        }
        let mut module = Self {
            words,
            constants: BTreeMap::new(),
        };
        module.look()?;
        Ok(module)
    }

    /// Looks at each instruction, and finds the specialisation constants.
    fn look(&mut self) -> Result<(), ClcError> {
        let mut end = HEADER;
        let mut is_of_kernels = false;
        let mut has_model = false;
        // Entry points whose functions have not come yet.
        let mut expected: BTreeSet<u32> = BTreeSet::new();
        let mut is_in_function = false;
        let mut known = Known::default();
        let mut named: HashMap<u32, u32> = HashMap::new();
        let mut constants = BTreeMap::new();
        for (at, number, words) in instructions(&self.words) {
            end = at + words.len();
            let operand = |at: usize| words.get(at).copied();
            match number {
                op::CAPABILITY => is_of_kernels |= operand(1) == Some(KERNEL),
                op::MEMORY_MODEL => {
                    has_model = true;
                    if operand(1) != Some(PHYSICAL64) || operand(2) != Some(OPENCL) {
                        return Err(refused(
                            "is not for OpenCL on devices of 64 bits (OpMemoryModel Physical64 OpenCL); make it for spir64",
                        ));
                    }
                }
                op::ENTRY_POINT if operand(1) != Some(KERNEL) => {
                    return Err(refused("has an entry point that is no kernel"));
                }
                op::ENTRY_POINT => expected.extend(operand(2)),
                op::FUNCTION => {
                    is_in_function = true;
                    operand(2).map(|function| expected.remove(&function));
                }
                op::FUNCTION_END => is_in_function = false,
                op::DECORATE if operand(2) == Some(SPEC_ID) => {
                    if let (Some(of), Some(id)) = (operand(1), operand(3)) {
                        named.insert(of, id);
                    }
                }
                op::SPEC_CONSTANT_TRUE | op::SPEC_CONSTANT_FALSE | op::SPEC_CONSTANT => {
                    let (Some(of), Some(id)) = (operand(1), operand(2)) else {
                        continue;
                    };
                    let (bits, is_signed, is_float) = match known.types.get(&of) {
                        Some(Type::Bool) => (None, false, false),
                        Some(Type::Int { bits, is_signed }) => (Some(*bits), *is_signed, false),
                        Some(Type::Float { bits }) => (Some(*bits), false, true),
                        _ => continue,
                    };
                    let wanted = match bits {
                        None => 3,
                        Some(bits) => 3 + (bits.div_ceil(32) as usize),
                    };
                    let is_whole = words.len() == wanted
                        && bits.is_none_or(|bits| [8, 16, 32, 64].contains(&bits))
                        && bits.is_some() == (number == op::SPEC_CONSTANT);
                    if !is_whole {
                        return Err(refused(&format!(
                            "has a specialisation constant that is none, at word {at}"
                        )));
                    }
                    if let Some(name) = named.get(&id) {
                        let constant = Constant {
                            at,
                            bits,
                            is_signed,
                            is_float,
                        };
                        constants.insert(*name, constant);
                    }
                }
                _ => {}
            }
            known.learn(number, words);
        }
        if end != self.words.len() || is_in_function {
            return Err(refused(&format!(
                "is cut off, or damaged, at word {end} of {}",
                self.words.len()
            )));
        }
        if !expected.is_empty() {
            return Err(refused("is cut off: a kernel has no function"));
        }
        if !is_of_kernels || !has_model {
            return Err(refused(
                "is not one of kernels: it has no OpCapability Kernel, or no OpMemoryModel",
            ));
        }
        self.constants = constants;
        Ok(())
    }

    /// Bytes of a specialisation constant, by the number that the module gives it for this; none if
    /// it has no such.
    #[must_use]
    pub fn constant_size(&self, id: u32) -> Option<usize> {
        let constant = self.constants.get(&id)?;
        Some(constant.bits.map_or(1, |bits| bits as usize / 8))
    }

    /// Gives a specialisation constant another value, in this machine's order of bytes.
    ///
    /// # Errors
    /// If the module has no such, or it is of another size.
    pub fn specialise(&mut self, id: u32, value: &[u8]) -> Result<(), ClcError> {
        let size = self
            .constant_size(id)
            .ok_or_else(|| refused(&format!("has no specialisation constant {id}")))?;
        if value.len() != size {
            return Err(refused(&format!(
                "has a specialisation constant {id} of {size} bytes, and {} are given",
                value.len()
            )));
        }
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(value);
        let number = u64::from_le_bytes(bytes);
        let Some(constant) = self.constants.get(&id).copied() else {
            return Ok(());
        };
        let Some(bits) = constant.bits else {
            let truth = if number == 0 {
                op::SPEC_CONSTANT_FALSE
            } else {
                op::SPEC_CONSTANT_TRUE
            };
            self.words[constant.at] = 3 << 16 | truth;
            return Ok(());
        };
        let unused = 64 - bits;
        let number = match constant.is_signed {
            true => ((number << unused) as i64 >> unused) as u64,
            false => number,
        };
        self.words[constant.at + 3] = number as u32;
        if bits == 64 {
            self.words[constant.at + 4] = (number >> 32) as u32;
        }
        Ok(())
    }

    /// Gives a specialisation constant a value that is written as in C: `7`, `-2.5`, `true`.
    ///
    /// # Errors
    /// As [`specialise`](Self::specialise); if the value is none of its type.
    pub fn specialise_as(&mut self, id: u32, value: &str) -> Result<(), ClcError> {
        let constant = self.constants.get(&id).copied();
        let constant =
            constant.ok_or_else(|| refused(&format!("has no specialisation constant {id}")))?;
        let bytes = constant.read(value).ok_or_else(|| {
            refused(&format!(
                "has a specialisation constant {id} of another type than '{value}': it is {}",
                constant.type_name()
            ))
        })?;
        self.specialise(id, &bytes)
    }

    /// Its bytes, with the constants that were given, in the order of bytes that SPIR-V files have.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }

    /// Its bytes, as translators of LLVM 15 know it.
    pub(crate) fn lowered(&self) -> Result<Vec<u8>, ClcError> {
        let mut lowering = Lowering {
            known: Known::default(),
            next: self.words[3],
            wide: None,
            is_new: false,
            constants: Vec::new(),
            made: Vec::with_capacity(self.words.len()),
            most: self.words.len() + MOST_ADDED,
        };
        let mut functions = None;
        for (at, number, words) in instructions(&self.words) {
            if number == op::FUNCTION && functions.is_none() {
                functions = Some(lowering.made.len());
            }
            lowering.instruction(number, words).ok_or_else(|| {
                refused(&format!("has an instruction that is none, at word {at}"))
            })?;
            lowering.known.learn(number, words);
        }
        let mut words = self.words[..HEADER].to_vec();
        words[1] = words[1].min(LOWERED);
        words[3] = lowering.next;
        let (before, after) = lowering
            .made
            .split_at(functions.unwrap_or(lowering.made.len()));
        if lowering.is_new {
            words.extend([2 << 16 | op::CAPABILITY, INT64]);
        }
        words.extend(before);
        words.extend(&lowering.constants);
        words.extend(after);
        Ok(words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }
}

/// A module that is written anew.
struct Lowering {
    known: Known,
    /// The first number that is not in use.
    next: u32,
    /// The type of whole numbers of 64 bits; and true if the module had none.
    wide: Option<u32>,
    is_new: bool,
    /// Types and constants that the module did not have.
    constants: Vec<u32>,
    made: Vec<u32>,
    /// The most words that may be made.
    most: usize,
}

impl Lowering {
    fn fresh(&mut self) -> u32 {
        let id = self.next;
        self.next += 1;
        id
    }

    fn write(&mut self, number: u32, operands: &[u32]) {
        self.made.push((operands.len() as u32 + 1) << 16 | number);
        self.made.extend(operands);
    }

    /// Writes an instruction with a result of its own.
    fn value(&mut self, number: u32, of: u32, operands: &[u32]) -> u32 {
        let id = self.fresh();
        self.write(number, &[&[of, id], operands].concat());
        self.known.values.insert(id, of);
        id
    }

    /// The type of whole numbers of 64 bits.
    fn wide(&mut self) -> u32 {
        let types = self.known.types.iter();
        let mut wide = types.filter(|(_, of)| matches!(of, Type::Int { bits: 64, .. }));
        let known = self.wide.or_else(|| wide.next().map(|(id, _)| *id));
        let id = known.unwrap_or_else(|| {
            let id = self.fresh();
            self.constants.extend([4 << 16 | op::TYPE_INT, id, 64, 0]);
            self.is_new = true;
            id
        });
        self.wide = Some(id);
        id
    }

    /// Writes an instruction as earlier versions have it; none if it is not what its number says.
    fn instruction(&mut self, number: u32, words: &[u32]) -> Option<()> {
        let operand = |at: usize| words.get(at).copied();
        match number {
            // Strings that people attach to what they like.
            op::DECORATE_STRING | op::MEMBER_DECORATE_STRING => {}
            op::CONSTANT_NULL => {
                let (of, id) = (operand(1)?, operand(2)?);
                match self.known.types.get(&of) {
                    Some(Type::Bool) => self.write(op::CONSTANT_FALSE, &[of, id]),
                    Some(Type::Int { bits: 64, .. } | Type::Float { bits: 64 }) => {
                        self.write(op::CONSTANT, &[of, id, 0, 0]);
                    }
                    Some(Type::Int { .. } | Type::Float { .. }) => {
                        self.write(op::CONSTANT, &[of, id, 0]);
                    }
                    _ => self.made.extend(words),
                }
            }
            // Of two accesses the first is that of what is written.
            op::COPY_MEMORY => {
                let (to, from) = (operand(1)?, operand(2)?);
                let [write, read] = accesses(words.get(3..)?)?;
                let (_, Type::Pointer { to: of }) = self.known.type_of(from)? else {
                    return None;
                };
                let of = *of;
                let value = self.value(op::LOAD, of, &[&[from], &read[..]].concat());
                self.write(op::STORE, &[&[to, value], &write[..]].concat());
            }
            op::COPY_MEMORY_SIZED => {
                let [write, read] = accesses(words.get(4..)?)?;
                let access = narrower(&write, &read);
                self.write(number, &[&words[1..4], &access[..]].concat());
            }
            op::IMAGE_SAMPLE_EXPLICIT_LOD | op::IMAGE_FETCH | op::IMAGE_READ => {
                self.with_known_operands(number, words, 5);
            }
            op::IMAGE_WRITE => self.with_known_operands(number, words, 4),
            op::BITCAST => self.bitcast(operand(1)?, operand(2)?, operand(3)?, words),
            op::PTR_EQUAL | op::PTR_NOT_EQUAL | op::PTR_DIFF => {
                let (of, id) = (operand(1)?, operand(2)?);
                let (left, right) = (operand(3)?, operand(4)?);
                let wide = self.wide();
                let numbers =
                    [left, right].map(|one| self.value(op::CONVERT_PTR_TO_U, wide, &[one]));
                match number {
                    op::PTR_EQUAL => self.write(op::I_EQUAL, &[&[of, id], &numbers[..]].concat()),
                    op::PTR_NOT_EQUAL => {
                        self.write(op::I_NOT_EQUAL, &[&[of, id], &numbers[..]].concat());
                    }
                    _ => {
                        let (_, Type::Pointer { to }) = self.known.type_of(left)? else {
                            return None;
                        };
                        let (size, _) = (*self.known.sizes.get(to)?)?;
                        let bytes = self.value(op::I_SUB, wide, &numbers);
                        let each = self.fresh();
                        let size = size.max(1);
                        let size = [size as u32, (size >> 32) as u32];
                        self.constants.extend([5 << 16 | op::CONSTANT, wide, each]);
                        self.constants.extend(size);
                        // A result of another width is converted: operands have its type.
                        match self.known.types.get(&of)? {
                            Type::Int { bits: 64, .. } => {
                                self.write(op::S_DIV, &[of, id, bytes, each]);
                            }
                            _ => {
                                let count = self.value(op::S_DIV, wide, &[bytes, each]);
                                self.write(op::S_CONVERT, &[of, id, count]);
                            }
                        }
                    }
                }
            }
            op::COPY_LOGICAL => {
                let (of, id, from) = (operand(1)?, operand(2)?, operand(3)?);
                let (was, _) = self.known.type_of(from)?;
                let copy = self.copied(of, was, from, 0)?;
                self.write(op::COPY_OBJECT, &[of, id, copy]);
            }
            _ => self.made.extend(words),
        }
        Some(())
    }

    /// Writes an access to an image without what later versions say of it, which changes no value.
    /// The word at `at` says which operands follow, if it is there.
    fn with_known_operands(&mut self, number: u32, words: &[u32], at: usize) {
        const NONTEMPORAL: u32 = 0x4000;
        let Some((before, [said, after @ ..])) = words.split_at_checked(at) else {
            self.made.extend(words);
            return;
        };
        match said & !NONTEMPORAL {
            0 => self.write(number, &before[1..]),
            said => self.write(number, &[&before[1..], &[said], after].concat()),
        }
    }

    /// Writes a change of type that may be to or from a pointer.
    fn bitcast(&mut self, of: u32, id: u32, from: u32, words: &[u32]) {
        let is_pointer = |of: Option<&Type>| matches!(of, Some(Type::Pointer { .. }));
        let to_pointer = is_pointer(self.known.types.get(&of));
        let (was, from_pointer) = match self.known.type_of(from) {
            Some((was, of)) => (was, is_pointer(Some(of))),
            None => (of, to_pointer),
        };
        if to_pointer == from_pointer {
            self.made.extend(words);
            return;
        }
        let is_number =
            |this: &Self, of: u32| matches!(this.known.types.get(&of), Some(Type::Int { .. }));
        if to_pointer {
            let number = match is_number(self, was) {
                true => from,
                false => {
                    let wide = self.wide();
                    self.value(op::BITCAST, wide, &[from])
                }
            };
            self.write(op::CONVERT_U_TO_PTR, &[of, id, number]);
        } else if is_number(self, of) {
            self.write(op::CONVERT_PTR_TO_U, &[of, id, from]);
        } else {
            let wide = self.wide();
            let number = self.value(op::CONVERT_PTR_TO_U, wide, &[from]);
            self.write(op::BITCAST, &[of, id, number]);
        }
    }

    /// Writes a copy of a value of one type as one of another that has the same parts.
    fn copied(&mut self, to: u32, from: u32, value: u32, depth: u32) -> Option<u32> {
        if to == from {
            return Some(value);
        }
        let parts = |of: u32| -> Option<Vec<u32>> {
            match self.known.types.get(&of)? {
                Type::Struct { members, .. } => Some(members.clone()),
                Type::Array { of, count } => {
                    let count = usize::try_from(*count)
                        .ok()
                        .filter(|it| *it <= MOST_PARTS)?;
                    Some(vec![*of; count])
                }
                _ => None,
            }
        };
        let (into, out) = (parts(to)?, parts(from)?);
        if into.len() != out.len() || depth > MOST_DEPTH || self.made.len() > self.most {
            return None;
        }
        let mut made = Vec::new();
        for (index, (to, from)) in into.into_iter().zip(out).enumerate() {
            let part = self.value(op::COMPOSITE_EXTRACT, from, &[value, index as u32]);
            made.push(self.copied(to, from, part, depth + 1)?);
        }
        Some(self.value(op::COMPOSITE_CONSTRUCT, to, &made))
    }
}

/// The memory operands of an instruction that copies: those of the write and of the read, or one
/// for both.
fn accesses(said: &[u32]) -> Option<[Vec<u32>; 2]> {
    let first = match said.first() {
        Some(mask) if mask & ALIGNED != 0 => 2,
        Some(_) => 1,
        None => 0,
    };
    let (write, read) = said.split_at_checked(first)?;
    let read = if read.is_empty() { write } else { read };
    Some([write.to_vec(), read.to_vec()])
}

/// The memory operands that hold for both of two accesses: a mask, and a power of two that
/// addresses are a multiple of.
fn narrower(one: &[u32], other: &[u32]) -> Vec<u32> {
    const VOLATILE: u32 = 1;
    const NONTEMPORAL: u32 = 4;
    let mask = |of: &[u32]| of.first().copied().unwrap_or(0);
    let align = |of: &[u32]| of.get(1).copied();
    let both = (mask(one) | mask(other)) & VOLATILE | mask(one) & mask(other) & NONTEMPORAL;
    match align(one).zip(align(other)) {
        Some((one, other)) => vec![both | ALIGNED, one.min(other)],
        None if both == 0 => Vec::new(),
        None => vec![both],
    }
}
