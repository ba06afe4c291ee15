//! Binaries of programs, which `CL_PROGRAM_BINARIES` gives and `clCreateProgramWithBinary` takes.
//!
//! | bytes | content |
//! |---|---|
//! | 16 | [`MAGIC`], with the number of this form |
//! | 8 | the number of bytes after the checksum |
//! | 16 | their checksum |
//! | 1 | `t` a text, `p` parts of a program, `b` bitcode |
//! | rest | of a text: its options, and it; else a letter for its kind, and the parts or bitcode |
//!
//! The letter is `e` for a program that is linked, `o` for one that is to be, and `l` for a
//! library. Bitcode has the version of the LLVM that made it before it: no other LLVM takes it.
//! Numbers are little-endian.

use super::*;
use quipu_scheduler::hash;

/// The beginning of a binary. The number is that of its form.
const MAGIC: &[u8; 16] = b"Quipu program 2\n";

/// Contents as a binary.
fn sealed(contents: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend((contents.len() as u64).to_le_bytes());
    bytes.extend(hash::of_bytes(contents).to_le_bytes());
    bytes.extend(contents);
    bytes
}

/// The contents of a binary, if it is whole.
fn contents(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
    let (checksum, contents) = rest.split_first_chunk()?;
    let is_whole = u64::from_le_bytes(*length) == contents.len() as u64
        && u128::from_le_bytes(*checksum) == hash::of_bytes(contents);
    is_whole.then_some(contents)
}

/// Appends a piece, with its length before it.
fn put(bytes: &mut Vec<u8>, piece: &[u8]) {
    bytes.extend((piece.len() as u64).to_le_bytes());
    bytes.extend(piece);
}

/// Takes a piece with its length before it.
fn take<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (piece, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(piece)
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

/// The binary of a text.
pub(super) fn of_text(source: &str, options: &str) -> Vec<u8> {
    let mut bytes = vec![b't'];
    put(&mut bytes, options.as_bytes());
    bytes.extend(source.as_bytes());
    sealed(&bytes)
}

/// The binary of bitcode that this machine's compiler has made.
pub(super) fn of_unit(kind: u8, unit: &Unit) -> Vec<u8> {
    of_bitcode(kind, quipu_clc::llvm_version().unwrap_or(0), unit.bytes())
}

fn of_bitcode(kind: u8, version: u32, bitcode: &[u8]) -> Vec<u8> {
    let mut bytes = vec![b'b', kind];
    bytes.extend(version.to_le_bytes());
    // Bitcode calls the library of the version that has made it.
    put(&mut bytes, env!("CARGO_PKG_VERSION").as_bytes());
    bytes.extend(bitcode);
    sealed(&bytes)
}

/// The binary of a program for devices elsewhere, which compile its parts.
pub(super) fn of_parts(kind: u8, parts: &[Part]) -> Vec<u8> {
    let mut bytes = vec![b'p', kind];
    for part in parts {
        let (form, options, source) = match part {
            Part::Text { source, options } => (b't', options.as_bytes(), source.as_bytes()),
            Part::SpirV(module) => (b's', &[][..], &module[..]),
        };
        bytes.push(form);
        put(&mut bytes, options);
        put(&mut bytes, source);
    }
    sealed(&bytes)
}

/// The parts of a binary.
fn parts_of(mut bytes: &[u8]) -> Option<Arc<[Part]>> {
    let mut parts = Vec::new();
    while let Some((form, rest)) = bytes.split_first() {
        bytes = rest;
        let (options, source) = (take(&mut bytes)?, take(&mut bytes)?);
        parts.push(match form {
            b't' => Part::Text {
                source: text(source)?.into(),
                options: text(options)?,
            },
            b's' if options.is_empty() => Part::SpirV(source.into()),
            _ => return None,
        });
    }
    (!parts.is_empty()).then(|| parts.into())
}

/// A binary that was read.
#[derive(PartialEq, Eq)]
pub(super) enum Read {
    Text { source: Arc<str>, options: Arc<str> },
    Unit { kind: u8, unit: Arc<Unit> },
    Parts { kind: u8, parts: Arc<[Part]> },
}

impl Read {
    pub(super) fn new(bytes: &[u8]) -> Option<Self> {
        let (form, mut rest) = contents(bytes)?.split_first()?;
        if *form == b't' {
            let options = text(take(&mut rest)?)?;
            return Some(Self::Text {
                source: text(rest)?.into(),
                options: options.into(),
            });
        }
        let (kind, rest) = rest.split_first()?;
        let kind = Some(*kind).filter(|kind| b"elo".contains(kind))?;
        match form {
            b'p' => Some(Self::Parts {
                kind,
                parts: parts_of(rest)?,
            }),
            b'b' => {
                let (version, mut bitcode) = rest.split_first_chunk()?;
                let version = u32::from_le_bytes(*version);
                if take(&mut bitcode)? != env!("CARGO_PKG_VERSION").as_bytes() {
                    tracing::info!("a program's binary is of another version of Quipu");
                    return None;
                }
                // A machine without LLVM says so when the program is built.
                if let Some(own) = quipu_clc::llvm_version()
                    && own != version
                {
                    tracing::info!(
                        "a program's binary is of LLVM {version}, and this machine compiles with LLVM {own}; build the program from its text"
                    );
                    return None;
                }
                (!bitcode.is_empty()).then(|| Self::Unit {
                    kind,
                    unit: Arc::new(Unit::from_bytes(bitcode.to_vec())),
                })
            }
            _ => None,
        }
    }

    /// The part of it that may be linked.
    pub(super) fn linkable(&self) -> Option<Linkable> {
        match self {
            Self::Text { .. } => None,
            Self::Unit { unit, .. } => Some(Linkable::of_unit(unit.clone())),
            Self::Parts { parts, .. } => Some(Linkable::of_parts(parts.clone())),
        }
    }

    /// The build of a program that is made of it.
    pub(super) fn build(&self) -> Build {
        let made: Option<fn(Linkable) -> Made> = match self {
            Self::Unit { kind: b'o', .. } | Self::Parts { kind: b'o', .. } => Some(Made::Object),
            Self::Unit { kind: b'l', .. } | Self::Parts { kind: b'l', .. } => Some(Made::Library),
            _ => None,
        };
        Build {
            made: made.zip(self.linkable()).map(|(made, of)| made(of)),
            ..Build::none()
        }
    }

    /// It as a program has passed it.
    pub(super) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text { source, options } => of_text(source, options),
            Self::Unit { kind, unit } => of_unit(*kind, unit),
            Self::Parts { kind, parts } => of_parts(*kind, parts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Arc<[Part]> {
        let text = Part::Text {
            source: "int f();".into(),
            options: "-w".to_owned(),
        };
        [text, Part::SpirV([3, 2, 0x23, 7].into())].into()
    }

    #[test]
    fn a_binary_is_what_it_was_made_of() {
        let bytes = of_text("kernel void k() {}", "-D N=4");
        let Some(Read::Text { source, options }) = Read::new(&bytes) else {
            panic!("a text")
        };
        assert_eq!((&*source, &*options), ("kernel void k() {}", "-D N=4"));
        let bytes = of_parts(b'o', &parts());
        let read = Read::new(&bytes).unwrap();
        assert_eq!(read.linkable().unwrap().parts.unwrap(), parts());
        assert_eq!(read.bytes(), bytes);
        let made = read.build().made.unwrap();
        assert_eq!(made.binary_type(), CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT);
    }

    #[test]
    fn nothing_else_is_one() {
        let own = quipu_clc::llvm_version().unwrap_or(18);
        for bytes in [
            of_text("kernel void k() {}", "-D N=4"),
            of_parts(b'l', &parts()),
            of_bitcode(b'e', own, b"BC and more than that, in some words"),
        ] {
            assert!(Read::new(&bytes).is_some());
            for length in 0..bytes.len() {
                assert!(Read::new(&bytes[..length]).is_none(), "{length}");
                let mut changed = bytes.clone();
                changed[length] ^= 1;
                assert!(Read::new(&changed).is_none(), "{length}");
            }
            assert!(Read::new(&[&bytes[..], &[0]].concat()).is_none());
        }
        assert!(Read::new(b"\x7fELF and more than that").is_none());
        assert!(Read::new(&of_parts(b'x', &parts())).is_none());
        assert!(Read::new(&of_parts(b'e', &[])).is_none());
        assert!(Read::new(&of_bitcode(b'e', own, b"")).is_none());
    }

    #[test]
    fn bitcode_of_another_llvm_is_refused() {
        let Some(own) = quipu_clc::llvm_version() else {
            println!("NOT TESTED: bitcode of another LLVM: there is no LLVM");
            return;
        };
        let of = |version| Read::new(&of_bitcode(b'o', version, b"BC"));
        assert!(of(own).is_some());
        assert!(of(own + 1).is_none() && of(own - 1).is_none());
    }
}
