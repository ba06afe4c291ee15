//! A library of the loader's name, for programs that find no other loader: it depends on ours, and
//! says which versions of OpenCL's names there are.
//!
//! Loaders give each name a version, and programs that were linked with one ask the library of that
//! name for these versions. Without them the system's linker binds the names, and complains of each
//! such program. Rust makes libraries without versions. So this file has the versions and no names,
//! which the linker then finds in the library that it depends on. It is so small that it is written
//! as bytes: a header, three segments, and the tables that the linker reads. Nothing in it runs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The versions that Khronos's loader and others have.
const VERSIONS: [&str; 9] = [
    "OPENCL_1.0",
    "OPENCL_1.1",
    "OPENCL_1.2",
    "OPENCL_2.0",
    "OPENCL_2.1",
    "OPENCL_2.2",
    "OPENCL_3.0",
    "OPENCL_3.1",
    "OCLICD_1.0",
];

const HEADER: usize = 64;
const SEGMENT: usize = 56;
/// The largest size of a page that machines have. Segments begin at its multiples.
const PAGE: u64 = 1 << 16;

/// The file. `of` is how the library begins that it depends on, at `library`: both are for the same
/// machine. None for machines whose numbers are not of 64 bits with the lowest byte first.
pub(super) fn loader(name: &str, library: &OsStr, of: &[u8]) -> Option<Vec<u8>> {
    let header = of.get(..HEADER)?;
    if !header.starts_with(b"\x7fELF\x02\x01\x01") {
        return None;
    }
    let mut strings = vec![0];
    let mut string = |text: &[u8]| {
        let at = strings.len() as u64;
        strings.extend(text);
        strings.push(0);
        at
    };
    let (own, needed) = (string(name.as_bytes()), string(library.as_bytes()));

    // The first one stands for the file itself.
    let mut versions = Vec::new();
    let all = std::iter::once((name, own));
    let all = all.chain(VERSIONS.map(|version| (version, string(version.as_bytes()))));
    for (index, (version, at)) in all.enumerate() {
        const BYTES: u32 = 20;
        const BYTES_WITH_NAME: u32 = 28;
        let is_last = index == VERSIONS.len();
        let halves = [1, u16::from(index == 0), index as u16 + 1, 1];
        versions.extend(halves.into_iter().flat_map(u16::to_le_bytes));
        let next = if is_last { 0 } else { BYTES_WITH_NAME };
        let words = [hash(version), BYTES, next, at as u32, 0];
        versions.extend(words.into_iter().flat_map(u32::to_le_bytes));
    }

    // One name, which is none, and the table by which it is looked for.
    let names = [0_u8; 24];
    let table: Vec<u8> = [1_u32, 1, 0, 0]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    let parts = [&table, &names[..], &[0; 8], &versions, &strings];
    let mut file = vec![0; HEADER + 3 * SEGMENT];
    let places = parts.map(|part| {
        file.resize(file.len().next_multiple_of(8), 0);
        let at = file.len() as u64;
        file.extend(part);
        at
    });
    file.resize(file.len().next_multiple_of(8), 0);
    let dynamic_at = file.len() as u64;
    let dynamic = [
        (1, needed),
        (14, own),
        (4, places[0]),
        (6, places[1]),
        (11, names.len() as u64),
        (0x6fff_fff0, places[2]),
        (0x6fff_fffc, places[3]),
        (0x6fff_fffd, 1 + VERSIONS.len() as u64),
        (5, places[4]),
        (10, strings.len() as u64),
        (0, 0),
    ];
    file.extend(
        dynamic
            .iter()
            .flat_map(|(tag, value)| [*tag, *value])
            .flat_map(u64::to_le_bytes),
    );

    let length = file.len() as u64;
    file[..HEADER].copy_from_slice(&{
        let mut own: [u8; HEADER] = header.try_into().ok()?;
        // No entry, no sections, and the segments behind this.
        own[24..48].fill(0);
        own[32] = HEADER as u8;
        own[52..].fill(0);
        (own[52], own[54], own[56], own[58]) = (HEADER as u8, SEGMENT as u8, 3, 64);
        own
    });
    const READ_AND_WRITTEN: u64 = 6;
    let dynamic_length = length - dynamic_at;
    for (number, (kind, at, length, align)) in [
        (1, 0, length, PAGE),
        (2, dynamic_at, dynamic_length, 8),
        // A stack that is not executable.
        (0x6474_e551, 0, 0, 16),
    ]
    .into_iter()
    .enumerate()
    {
        let numbers = [
            kind | READ_AND_WRITTEN << 32,
            at,
            at,
            at,
            length,
            length,
            align,
        ];
        let bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
        file[HEADER + number * SEGMENT..][..SEGMENT].copy_from_slice(&bytes);
    }
    Some(file)
}

/// The number by which the linker compares names of versions.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    })
}
