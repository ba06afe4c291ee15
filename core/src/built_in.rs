//! Built-in kernels: functions that a device has by itself, launched by name.
//!
//! A camera may have a kernel that gives its next frame, and a decoder one that decodes. Each is
//! described by a [signature](BuiltInKernel), which is written, and read, as `next_frame(inout u64
//! position, out u8 frame, out u64 size)`. A launch of one brings [its name](BuiltIn) along as its
//! [code](crate::portable), and passes buffers and values as any.

use crate::access::AccessMode;
use crate::error::{Error, ErrorKind, Result};
use crate::portable::{Passed, PassedParameter};
use std::fmt;
use std::str::FromStr;

/// The code of a launch of a built-in kernel: its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltIn(pub String);

macro_rules! words {
    ($(#[$documentation:meta])* $name:ident, $what:literal { $($(#[$of:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$documentation])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$of])* $variant,)*
        }

        impl $name {
            /// As it is written in signatures.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            fn of(text: &str) -> std::result::Result<Self, String> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => Err(format!(concat!("'{}' is no ", $what), text)),
                }
            }
        }
    };
}

words! {
    /// The type of a parameter's elements, or of the value that it is.
    Scalar, "type" {
        /// `u8`.
        U8 = "u8",
        /// `u16`.
        U16 = "u16",
        /// `u32`.
        U32 = "u32",
        /// `u64`.
        U64 = "u64",
        /// `i32`.
        I32 = "i32",
        /// `i64`.
        I64 = "i64",
        /// `f32`.
        F32 = "f32",
        /// `f64`.
        F64 = "f64",
    }
}

words! {
    /// The use that a kernel makes of the value or the buffer of a parameter.
    Role, "role" {
        /// It is a value.
        Value = "value",
        /// Memory that it reads.
        In = "in",
        /// Memory that it writes: from the first byte on as much as it has to say, and zeros behind
        /// that if the launch overwrites.
        Out = "out",
        /// Memory that it reads and writes.
        InOut = "inout",
    }
}

impl Scalar {
    /// Bytes of one.
    #[must_use]
    pub fn size(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }
}

/// A parameter of a built-in kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltInParameter {
    /// The parameter's name, for people.
    pub name: String,
    /// The use that the kernel makes of it.
    pub role: Role,
    /// The type of its elements.
    pub scalar: Scalar,
}

/// A kernel that a device has built in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltInKernel {
    /// Its name, unique on its device.
    pub name: String,
    /// The parameters, in order.
    pub parameters: Vec<BuiltInParameter>,
}

/// The most parameters that a signature has.
const MAX_PARAMETERS: usize = 8;
/// The longest name of a kernel or parameter.
const MAX_NAME: usize = 64;

fn name(text: &str) -> std::result::Result<String, String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = text.starts_with(|c: char| c.is_ascii_lowercase());
    if !starts || text.len() > MAX_NAME || !text.chars().all(is_word) {
        return Err(format!("'{text}' is no name"));
    }
    Ok(text.to_owned())
}

impl FromStr for BuiltInParameter {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let words: Vec<&str> = text.split(' ').collect();
        let [role, scalar, called] = words[..] else {
            return Err(format!("'{text}' is no role, type and name"));
        };
        Ok(Self {
            name: name(called)?,
            role: Role::of(role)?,
            scalar: Scalar::of(scalar)?,
        })
    }
}

impl FromStr for BuiltInKernel {
    type Err = String;

    /// Reads a signature. There is one way to write it.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parts = text
            .strip_suffix(')')
            .and_then(|text| text.split_once('('))
            .ok_or_else(|| format!("'{text}' is no name with parameters in parentheses"))?;
        let (called, parameters) = parts;
        let parameters: Vec<BuiltInParameter> = match parameters {
            "" => Vec::new(),
            some => some
                .split(", ")
                .map(str::parse)
                .collect::<std::result::Result<_, _>>()?,
        };
        if parameters.len() > MAX_PARAMETERS {
            return Err(format!(
                "'{called}' has more than {MAX_PARAMETERS} parameters"
            ));
        }
        Ok(Self {
            name: name(called)?,
            parameters,
        })
    }
}

impl fmt::Display for BuiltInParameter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (role, scalar) = (self.role.text(), self.scalar.text());
        write!(formatter, "{role} {scalar} {}", self.name)
    }
}

impl fmt::Display for BuiltInKernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}(", self.name)?;
        for (number, parameter) in self.parameters.iter().enumerate() {
            let before = if number == 0 { "" } else { ", " };
            write!(formatter, "{before}{parameter}")?;
        }
        formatter.write_str(")")
    }
}

impl BuiltInKernel {
    /// Checks that a launch passes the parameters of the kernel: the arguments, and the modes of
    /// those that are memory, in order.
    ///
    /// # Errors
    /// Names the parameters of the kernel, and the argument that does not fit.
    pub fn check(
        &self,
        passed: &Passed,
        modes: impl IntoIterator<Item = AccessMode>,
    ) -> Result<()> {
        let refused = |problem: String| -> Error {
            ErrorKind::InvalidArgument {
                what: "launch a built-in kernel",
                problem: format!("{problem}; it is {self}"),
            }
            .into()
        };
        let (wanted, there) = (self.parameters.len(), passed.parameters.len());
        if wanted != there {
            return Err(refused(format!(
                "'{}' takes {wanted} argument{}, and was passed {there}",
                self.name,
                if wanted == 1 { "" } else { "s" }
            )));
        }
        let mut modes = modes.into_iter();
        for (parameter, passed) in self.parameters.iter().zip(&passed.parameters) {
            let size = parameter.scalar.size();
            let problem = match (parameter.role, passed) {
                (Role::Value, PassedParameter::Value(bytes)) if bytes.len() as u64 == size => None,
                (Role::Value, PassedParameter::Value(bytes)) => {
                    Some(format!("a value of {} bytes", bytes.len()))
                }
                (Role::Value, PassedParameter::Memory { .. }) => {
                    modes.next();
                    Some("a buffer".to_owned())
                }
                (_, PassedParameter::Value(_)) => Some("a value".to_owned()),
                (_, PassedParameter::Local(_)) => Some("local memory".to_owned()),
                (role, PassedParameter::Memory { element, shape }) => {
                    let mode = modes.next();
                    let fits = match role {
                        Role::In => mode == Some(AccessMode::Read),
                        Role::Out => mode.is_some_and(AccessMode::writes),
                        _ => mode == Some(AccessMode::ReadWrite),
                    };
                    match () {
                        () if shape.is_some() => Some("a view; pass a buffer".to_owned()),
                        () if *element != size => {
                            Some(format!("a buffer of elements of {element} bytes"))
                        }
                        () if !fits => Some(
                            match mode {
                                Some(AccessMode::Read) => "a buffer to be read (`&`)",
                                Some(AccessMode::Overwrite) => {
                                    "a buffer to be overwritten (`.overwrite()`)"
                                }
                                _ => "a buffer to be written (`&mut`)",
                            }
                            .to_owned(),
                        ),
                        () => None,
                    }
                }
            };
            if let Some(problem) = problem {
                return Err(refused(format!(
                    "'{}' was passed {problem} for '{parameter}'",
                    self.name
                )));
            }
        }
        Ok(())
    }

    /// The kernel of this name.
    ///
    /// # Errors
    /// If there is none; lists those that there are.
    pub fn find<'k>(kernels: &'k [Self], name: &str, device: &str) -> Result<&'k Self> {
        let found = kernels.iter().find(|kernel| kernel.name == name);
        found.ok_or_else(|| {
            let problem = if kernels.is_empty() {
                format!("device '{device}' has no built-in kernels, so none called '{name}'")
            } else {
                format!(
                    "device '{device}' has no built-in kernel '{name}'; it has {}",
                    Self::list(kernels)
                )
            };
            ErrorKind::InvalidArgument {
                what: "find a built-in kernel",
                problem,
            }
            .into()
        })
    }

    /// Their signatures, for people.
    #[must_use]
    pub fn list(kernels: &[Self]) -> String {
        let texts: Vec<String> = kernels.iter().map(Self::to_string).collect();
        texts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "next_frame(inout u64 position, out u8 frame, value f32 gain)";

    #[test]
    fn signatures_are_written_as_they_are_read() {
        for text in [TEXT, "f()", "f2(in i32 x)"] {
            let kernel: BuiltInKernel = text.parse().unwrap();
            assert_eq!(kernel.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_signature_is_refused() {
        let long = format!("{}()", "a".repeat(MAX_NAME + 1));
        let many = format!("f({})", ["in u8 a"; MAX_PARAMETERS + 1].join(", "));
        for text in [
            "",
            "f",
            "f(",
            "f)",
            "()",
            "F()",
            "f(in u8)",
            "f(in u8 a,in u8 b)",
            "f(in  u8 a)",
            "f(in u9 a)",
            "f(by u8 a)",
            "f(in u8 a, )",
            "f(in u8 a b)",
            "f() ",
            "f\n()",
            &long,
            &many,
        ] {
            assert!(text.parse::<BuiltInKernel>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_passed_has_to_be_what_the_kernel_takes() {
        let kernel: BuiltInKernel = TEXT.parse().unwrap();
        let memory = |element| PassedParameter::Memory {
            element,
            shape: None,
        };
        let (right, modes) = (
            [memory(8), memory(1), PassedParameter::value(&1.0_f32)],
            [AccessMode::ReadWrite, AccessMode::Overwrite],
        );
        let check = |parameters: &[PassedParameter], modes: &[AccessMode]| {
            let passed = Passed {
                parameters: parameters.iter().cloned().collect(),
                ..Passed::default()
            };
            kernel.check(&passed, modes.iter().copied())
        };
        check(&right, &modes).unwrap();
        check(&right, &[AccessMode::ReadWrite; 2]).unwrap();
        let wrong = |at: usize, parameter| {
            let mut parameters = right.clone();
            parameters[at] = parameter;
            check(&parameters, &modes).unwrap_err().to_string()
        };
        let shaped = PassedParameter::Memory {
            element: 1,
            shape: Some(Box::default()),
        };
        let error = wrong(0, memory(4));
        assert!(
            error.contains("elements of 4 bytes for 'inout u64 position'"),
            "{error}"
        );
        assert!(error.contains(TEXT), "{error}");
        assert!(wrong(1, shaped).contains("a view"));
        assert!(wrong(2, PassedParameter::value(&1_u8)).contains("a value of 1 bytes"));
        assert!(wrong(2, memory(4)).contains("a buffer"));
        assert!(wrong(0, PassedParameter::value(&1_u64)).contains("a value"));
        assert!(
            check(&right[..2], &modes)
                .unwrap_err()
                .to_string()
                .contains("passed 2")
        );
        for modes in [
            [AccessMode::Read, AccessMode::Overwrite],
            [AccessMode::Overwrite, AccessMode::Overwrite],
            [AccessMode::ReadWrite, AccessMode::Read],
        ] {
            assert!(check(&right, &modes).is_err());
        }
        assert!(check(&right, &modes[..1]).is_err());
    }

    #[test]
    fn a_kernel_that_is_not_there_is_answered_with_those_that_are() {
        let kernels = [TEXT.parse().unwrap()];
        assert!(BuiltInKernel::find(&kernels, "next_frame", "a camera").is_ok());
        let error = BuiltInKernel::find(&kernels, "frame", "a camera").unwrap_err();
        assert!(error.to_string().contains(TEXT) && error.to_string().contains("a camera"));
        assert!(BuiltInKernel::find(&[], "frame", "a camera").is_err());
    }
}
