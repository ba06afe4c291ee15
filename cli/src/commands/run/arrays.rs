//! Arrays of arguments: the elements of a parameter, checks of files, and the shapes of outputs.

use super::{Extent, Given, Shape};
use crate::error::CommandError;
use crate::npy::{self, Array};
use quipu_clc::{KernelInfo, ParameterInfo};
use std::path::Path;

/// The type of a parameter's elements: a number or a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    /// NumPy's name of the type of its numbers: `f4` of `float4`.
    pub(super) scalar: &'static str,
    /// The numbers of a vector; 1 of a number.
    pub(super) lanes: usize,
}

impl Element {
    /// The element of a type, or of a pointer to it; none of a structure or of the text's own name.
    pub(super) fn of(type_name: &str) -> Option<Self> {
        let name = type_name.trim_end_matches('*').trim();
        let scalar = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let lanes = match &name[scalar.len()..] {
            "" => 1,
            lanes => lanes.parse().ok()?,
        };
        let scalar = match scalar {
            "char" => "i1",
            "uchar" | "unsigned char" | "bool" => "u1",
            "short" => "i2",
            "ushort" | "unsigned short" => "u2",
            "int" => "i4",
            "uint" | "unsigned int" => "u4",
            "long" | "ptrdiff_t" | "intptr_t" => "i8",
            "ulong" | "unsigned long" | "size_t" | "uintptr_t" => "u8",
            "half" => "f2",
            "float" => "f4",
            "double" => "f8",
            _ => return None,
        };
        Some(Self { scalar, lanes })
    }

    /// The numbers that it has room for: a vector of three takes as much as one of four.
    fn room(self) -> usize {
        self.lanes.next_power_of_two()
    }

    fn bytes(self) -> usize {
        npy::size_of(self.scalar).unwrap_or(1) * self.room()
    }

    /// The shape of so many elements along each axis.
    fn shape_of(self, mut elements: Vec<usize>) -> Vec<usize> {
        if self.room() > 1 {
            elements.push(self.room());
        }
        elements
    }

    /// A shape as people say it: the last of several axes may be that of a vector's numbers.
    fn shape_as_said(self, mut said: Vec<usize>) -> Vec<usize> {
        match &mut said[..] {
            [_, .., last] if self.room() > 1 && [self.lanes, self.room()].contains(last) => {
                *last = self.room();
                said
            }
            _ => self.shape_of(said),
        }
    }

    /// The shape of an output that has as many elements as an array of other elements.
    fn shape_like(self, other: Option<Self>, mut shape: Vec<usize>) -> Vec<usize> {
        let room = other.map_or(1, Self::room);
        if room == 1 {
            return self.shape_as_said(shape);
        }
        // Numbers may be all of the vectors' numbers.
        if self.room() == room || self.room() == 1 {
            return shape;
        }
        match shape.pop() {
            Some(last) if last > room => shape.push(last / room),
            _ => {}
        }
        self.shape_of(shape)
    }
}

/// Bytes of a parameter's elements, if they are known.
#[cfg(unix)]
pub(super) fn element_bytes(parameter: &ParameterInfo) -> Option<usize> {
    Element::of(&parameter.type_name).map(Element::bytes)
}

/// Reads an array for a parameter, and checks that it consists of the parameter's elements.
pub(super) fn read(
    path: &Path,
    parameter: &ParameterInfo,
    this: &str,
) -> Result<Array, CommandError> {
    let array = file(path)?;
    let path = path.display();
    let bad = |problem: String| Err(CommandError::Run(format!("{this} takes {problem}")));
    let Some(element) = Element::of(&parameter.type_name) else {
        return Ok(array);
    };
    let (scalar, lanes, room) = (element.scalar, element.lanes, element.room());
    let Some(there) = &array.element else {
        let (size, bytes) = (element.bytes(), array.bytes.len());
        if !bytes.is_multiple_of(size) {
            return bad(format!(
                "elements of {size} bytes, and {path} has {bytes} bytes, which is no whole number of them"
            ));
        }
        return Ok(Array {
            element: Some(scalar.to_owned()),
            shape: element.shape_of(vec![bytes / size]),
            bytes: array.bytes,
        });
    };
    if there != scalar && !(there == "b1" && scalar == "u1") {
        return bad(format!(
            "elements of {}, and {path} has {}; store it with .astype(np.{})",
            dtype(scalar),
            dtype(there),
            dtype(scalar)
        ));
    }
    let last = array.shape.last().copied().unwrap_or(1);
    if lanes == 3 && last == 3 {
        return bad(format!(
            "vectors of 3 numbers with room for a fourth, and the last axis of {path} has 3; store it with \
             np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, 1)])"
        ));
    }
    // Numbers in a row may be vectors, but not those with gaps.
    let fits = if lanes == 3 {
        last == 4
    } else {
        last.is_multiple_of(room)
    };
    if !fits {
        return bad(format!(
            "vectors with room for {room} numbers, and the last axis of {path} has {last}; store it with .reshape(-1, {room})"
        ));
    }
    Ok(array)
}

fn file(path: &Path) -> Result<Array, CommandError> {
    npy::read(path)
        .map_err(|problem| CommandError::Run(format!("cannot read {}: {problem}", path.display())))
}

/// The usual name of a type of NumPy's.
fn dtype(element: &str) -> String {
    let (kind, size) = element.split_at(1);
    let kind = match kind {
        "f" => "float",
        "i" => "int",
        "b" => return "bool".to_owned(),
        _ => "uint",
    };
    let bits = size.parse::<u32>().unwrap_or(0) * 8;
    format!("{kind}{bits}")
}

/// The arrays of a launch, by which outputs have their shapes.
pub(super) struct Arrays<'a> {
    info: &'a KernelInfo,
    given: &'a [Given],
    global: Extent,
}

impl<'a> Arrays<'a> {
    /// The arguments that are given for a kernel's parameters.
    pub(super) fn of(info: &'a KernelInfo, given: &'a [Given], global: Extent) -> Self {
        Self {
            info,
            given,
            global,
        }
    }

    /// The files that are read, with their parameters.
    fn inputs(&self) -> impl Iterator<Item = (&'a Path, &'a ParameterInfo)> {
        let all = self.given.iter().zip(&self.info.parameters);
        all.filter_map(|(given, parameter)| match given {
            Given::In(path) | Given::InOut(path) => Some((path.as_path(), parameter)),
            _ => None,
        })
    }

    /// An array of zeros for a parameter: of a shape, or that of the first array of NumPy's, or
    /// with an element for each work-item.
    pub(super) fn fresh(
        &self,
        parameter: &ParameterInfo,
        shape: Option<&Shape>,
        path: &Path,
        this: &str,
    ) -> Result<Array, CommandError> {
        let model = match shape {
            Some(Shape::Like(model)) => Some(model.as_path()),
            _ => None,
        };
        let Some(element) = Element::of(&parameter.type_name) else {
            return unknown(model, path, this);
        };
        let shape = match (shape, model) {
            (Some(Shape::Said(shape)), _) => element.shape_as_said(shape.clone()),
            (_, Some(model)) => self.shape_of_model(element, model, this)?,
            (_, None) => self.usual_shape(element)?,
        };
        let size = npy::size_of(element.scalar).unwrap_or(1);
        let bytes = shape
            .iter()
            .try_fold(size, |bytes, extent| bytes.checked_mul(*extent));
        let bytes = bytes.filter(|bytes| isize::try_from(*bytes).is_ok());
        let Some(bytes) = bytes else {
            return Err(CommandError::Run(format!(
                "{this} would have more bytes than there are"
            )));
        };
        Ok(Array {
            element: Some(element.scalar.to_owned()),
            shape,
            bytes: vec![0; bytes],
        })
    }

    /// The shape of an output like an array: with as many elements.
    fn shape_of_model(
        &self,
        element: Element,
        model: &Path,
        this: &str,
    ) -> Result<Vec<usize>, CommandError> {
        if let Some((_, parameter)) = self.inputs().find(|(path, _)| *path == model)
            && let Some(other) = Element::of(&parameter.type_name)
        {
            let array = read(model, parameter, &format!("`{}`", super::told(parameter)))?;
            return Ok(element.shape_like(Some(other), array.shape));
        }
        let array = file(model)?;
        if array.element.is_some() {
            return Ok(element.shape_like(None, array.shape));
        }
        let (size, bytes) = (element.bytes(), array.bytes.len());
        if !bytes.is_multiple_of(size) {
            return Err(CommandError::Run(format!(
                "{this} takes elements of {size} bytes, and {} has {bytes} bytes; say how many elements there are by --shape",
                model.display()
            )));
        }
        Ok(element.shape_of(vec![bytes / size]))
    }

    /// The shape of an output without --shape and --like.
    fn usual_shape(&self, element: Element) -> Result<Vec<usize>, CommandError> {
        for (path, parameter) in self.inputs().filter(|(path, _)| npy::is_numpy(path)) {
            let shape = file(path)?.shape;
            // An array without axes is one number, as a value is.
            if !shape.is_empty() {
                return Ok(element.shape_like(Element::of(&parameter.type_name), shape));
            }
        }
        let sizes = &self.global.sizes[..self.global.dimensions];
        Ok(element.shape_of(sizes.iter().rev().copied().collect()))
    }
}

/// An output of structures: as many bytes as another file has.
fn unknown(model: Option<&Path>, path: &Path, this: &str) -> Result<Array, CommandError> {
    if let Some(model) = model
        && !npy::is_numpy(model)
        && !npy::is_numpy(path)
    {
        let bytes = file(model)?.bytes.len();
        return Ok(Array {
            element: None,
            shape: Vec::new(),
            bytes: vec![0; bytes],
        });
    }
    Err(CommandError::Run(format!(
        "{this} has elements of a size that is not known here; make the file {} as long as it has to be, and give it by --inout",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_have_as_many_elements_as_their_models() {
        let element = |name: &str| Element::of(name).unwrap_or_else(|| panic!("{name}"));
        for (output, model, shape, wanted) in [
            ("float*", "float*", &[8, 4][..], &[8, 4][..]),
            ("float4*", "float*", &[8], &[8, 4]),
            ("float4*", "float*", &[4], &[4, 4]),
            ("float4*", "float*", &[8, 4], &[8, 4]),
            ("float3*", "float*", &[8, 3], &[8, 4]),
            ("float*", "float4*", &[8, 4], &[8, 4]),
            ("float4*", "float4*", &[32], &[32]),
            ("float4*", "float3*", &[8, 4], &[8, 4]),
            ("float2*", "float4*", &[8, 4], &[8, 2]),
            ("uchar16*", "float4*", &[32], &[8, 16]),
            ("double2*", "float4*", &[5, 8], &[5, 2, 2]),
        ] {
            let like = element(output).shape_like(Some(element(model)), shape.to_vec());
            assert_eq!(like, wanted, "{output} like {model}");
        }
        assert_eq!(element("float4*").shape_of(vec![4]), [4, 4]);
        assert_eq!(element("float3*").bytes(), 16);
        assert_eq!(Element::of("struct body*"), None);
    }
}
