//! Arrays in files: NumPy's `.npy`, and bytes as they are.
//!
//! Of NumPy's format versions 1 to 3 are read, and 1 is written. Elements are little-endian numbers
//! in row-major order.

use std::fmt::Write;
use std::path::Path;

/// The first bytes of NumPy's files.
const MAGIC: &[u8] = b"\x93NUMPY";

/// An array, and its elements' type, as NumPy writes it: `f4`, `i8`, `u1`. Bytes as they are have
/// neither type nor shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Array {
    pub(crate) element: Option<String>,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

/// True if a file of this name is NumPy's.
pub(crate) fn is_numpy(path: &Path) -> bool {
    path.extension()
        .is_some_and(|it| it.eq_ignore_ascii_case("npy"))
}

/// Bytes of an element of a type.
pub(crate) fn size_of(element: &str) -> Option<usize> {
    let (kind, size) = element.split_at_checked(1)?;
    let size: usize = size.parse().ok()?;
    let known = match kind {
        "f" => [2, 4, 8].contains(&size),
        "i" | "u" => [1, 2, 4, 8].contains(&size),
        "b" => size == 1,
        _ => false,
    };
    known.then_some(size)
}

/// Reads an array.
///
/// # Errors
/// The system's error, or the fault in the file.
pub(crate) fn read(path: &Path) -> Result<Array, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    if !is_numpy(path) {
        return Ok(Array {
            element: None,
            shape: Vec::new(),
            bytes,
        });
    }
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Result<Array, String> {
    let cut = || "it ends within its header".to_owned();
    let rest = bytes.strip_prefix(MAGIC).ok_or(
        "it does not begin as NumPy's files do; another ending than .npy has it read as bytes",
    )?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
    let (length, rest) = match version[0] {
        1 => {
            let (length, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        2 | 3 => {
            let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
            (u32::from_le_bytes(*length) as usize, rest)
        }
        other => {
            return Err(format!(
                "it is of NumPy's format version {other}, which is not known"
            ));
        }
    };
    let (header, data) = rest.split_at_checked(length).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| "its header is no text".to_owned())?;
    let value = |name: &str| {
        let after = header.split_once(&format!("'{name}':"))?.1;
        Some(after.trim_start())
    };
    let missing = |name: &str| format!("its header has no '{name}'");
    let descr = value("descr").ok_or_else(|| missing("descr"))?;
    let descr = descr
        .strip_prefix('\'')
        .and_then(|descr| descr.split_once('\''))
        .ok_or("its elements are structures, which are not taken; store their fields apart")?
        .0;
    let (order, element) = descr.split_at_checked(1).ok_or_else(|| missing("descr"))?;
    let size = size_of(element)
        .ok_or_else(|| format!("its elements are of type '{descr}', which is none of numbers"))?;
    if order == ">" && size > 1 {
        return Err(
            "its numbers are big-endian; store it with .astype(x.dtype.newbyteorder('<'))"
                .to_owned(),
        );
    }
    let fortran = value("fortran_order").ok_or_else(|| missing("fortran_order"))?;
    let shape = value("shape")
        .and_then(|shape| shape.strip_prefix('(')?.split_once(')'))
        .ok_or_else(|| missing("shape"))?
        .0;
    let shape: Result<Vec<usize>, String> = shape
        .split(',')
        .map(str::trim)
        .filter(|extent| !extent.is_empty())
        .map(|extent| {
            extent
                .parse()
                .map_err(|_| format!("its shape has '{extent}' in it"))
        })
        .collect();
    let shape = shape?;
    if fortran.starts_with("True") && shape.iter().filter(|extent| **extent > 1).count() > 1 {
        return Err(
            "it is in column-major order; store it with np.ascontiguousarray(x)".to_owned(),
        );
    }
    let wanted = shape
        .iter()
        .try_fold(size, |bytes, extent| bytes.checked_mul(*extent));
    if wanted != Some(data.len()) {
        return Err(format!(
            "its shape takes {} bytes, and it has {}",
            wanted.map_or("too many".to_owned(), |bytes| bytes.to_string()),
            data.len()
        ));
    }
    Ok(Array {
        element: Some(element.to_owned()),
        shape,
        bytes: data.to_vec(),
    })
}

/// An array as the bytes of a file of this name.
pub(crate) fn file_of(path: &Path, array: &Array) -> Vec<u8> {
    let Some(element) = array.element.as_ref().filter(|_| is_numpy(path)) else {
        return array.bytes.clone();
    };
    let order = if size_of(element) == Some(1) {
        '|'
    } else {
        '<'
    };
    let mut shape = String::new();
    for extent in &array.shape {
        let _ = write!(shape, "{extent}, ");
    }
    let shape = match array.shape.len() {
        1 => shape.trim_end(),
        _ => shape.trim_end_matches(", "),
    };
    let mut header =
        format!("{{'descr': '{order}{element}', 'fortran_order': False, 'shape': ({shape}), }}");
    // The elements begin at a multiple of 64 bytes, after a new line.
    let before = MAGIC.len() + 4;
    while !(before + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut file = MAGIC.to_vec();
    file.extend([1, 0]);
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(&array.bytes);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(element: &str, shape: &[usize]) -> Array {
        let bytes = shape.iter().product::<usize>() * size_of(element).unwrap();
        Array {
            element: Some(element.to_owned()),
            shape: shape.to_vec(),
            bytes: (0..bytes).map(|at| at as u8).collect(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for (element, shape) in [
            ("f4", &[3, 4][..]),
            ("u1", &[7]),
            ("i8", &[]),
            ("f8", &[0]),
            ("f2", &[2, 1, 5]),
        ] {
            let array = array(element, shape);
            let file = file_of(Path::new("x.npy"), &array);
            assert_eq!((file.len() - array.bytes.len()) % 64, 0);
            assert_eq!(parse(&file).unwrap(), array);
        }
    }

    #[test]
    fn faults_of_files_are_told() {
        let file = |header: &str, bytes: usize| {
            let mut file = MAGIC.to_vec();
            file.extend([1, 0]);
            file.extend((header.len() as u16).to_le_bytes());
            file.extend(header.as_bytes());
            file.extend(vec![0; bytes]);
            file
        };
        for (header, bytes, said) in [
            (
                "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }",
                8,
                "big-endian",
            ),
            (
                "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }",
                16,
                "column-major",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
                8,
                "takes 12 bytes, and it has 8",
            ),
            (
                "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }",
                8,
                "'<c8'",
            ),
            (
                "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,), }",
                4,
                "structures",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }",
                4,
                "too many",
            ),
            ("{}", 0, "'descr'"),
        ] {
            let problem = parse(&file(header, bytes)).unwrap_err();
            assert!(problem.contains(said), "{problem}");
        }
        assert!(parse(b"PK").unwrap_err().contains("begin"));
        assert!(
            parse(b"\x93NUMPY\x01\x00\xff")
                .unwrap_err()
                .contains("ends")
        );
    }
}
