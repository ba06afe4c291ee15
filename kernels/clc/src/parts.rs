//! Programs that are linked of several parts: texts that were compiled by themselves, and modules
//! of SPIR-V.

use crate::client::ClcError;
use crate::metadata::Description;
use crate::program::{Program, Unit};
use crate::spirv::SpirV;
use std::sync::Arc;

/// A part of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// OpenCL C, and what its compiler is told.
    Text {
        /// The text, with all that it includes.
        source: Arc<str>,
        /// The compiler's options.
        options: String,
    },
    /// A module of SPIR-V, with the values of its specialisation constants.
    SpirV(Arc<[u8]>),
}

impl Part {
    /// Has the part compiled.
    fn unit(&self) -> Result<Unit, ClcError> {
        match self {
            Self::Text { source, options } => Unit::new(source, options, &[]),
            Self::SpirV(module) => Unit::of_spirv(&SpirV::new(module)?),
        }
    }
}

/// A kernel of a program that is linked of parts: a launch's code, for drivers that take it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedKernel {
    /// The parts.
    pub parts: Arc<[Part]>,
    /// The kernel's function.
    pub entry: String,
}

/// Parts of a program, for a driver that reads them (`Driver::describe`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramParts {
    /// The parts.
    pub parts: Arc<[Part]>,
    /// False if they are compiled, and not linked: then what they lack is no fault, and they have
    /// no kernels yet.
    pub is_linked: bool,
}

/// Has parts compiled, one after the other. Gives also the compiler's warnings.
fn units(parts: &[Part]) -> Result<(Vec<Unit>, String), ClcError> {
    let mut warnings = String::new();
    let units = parts.iter().map(|part| {
        let unit = part.unit()?;
        if !unit.warnings().is_empty() {
            warnings.push_str(unit.warnings());
            warnings.push('\n');
        }
        Ok(unit)
    });
    let units = units.collect::<Result<Vec<_>, ClcError>>()?;
    warnings.truncate(warnings.trim_end().len());
    Ok((units, warnings))
}

fn linked(units: &[Unit]) -> Result<Program, ClcError> {
    match units {
        [unit] => Program::of(unit),
        units => Program::of(&Unit::link(&units.iter().collect::<Vec<_>>())?),
    }
}

impl Program {
    /// A program that is linked of parts.
    ///
    /// # Errors
    /// The compiler's messages on a part; if two parts define one name, or one is called that none
    /// defines; if the machine has no compiler.
    pub fn of_parts(parts: &[Part]) -> Result<Self, ClcError> {
        linked(&units(parts)?.0)
    }
}

impl ProgramParts {
    /// Has them read by this machine's compiler.
    ///
    /// # Errors
    /// As [`Program::of_parts`]; if its kernels share variables.
    pub fn read(&self) -> Result<Description, ClcError> {
        let (units, log) = units(&self.parts)?;
        let kernels = match self.is_linked {
            true => linked(&units)?.unshared()?.kernels().to_vec(),
            false => Vec::new(),
        };
        Ok(Description { kernels, log })
    }
}
