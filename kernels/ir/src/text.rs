//! Kernels as text that a user has written in a language of devices.

use std::sync::Arc;

/// A language that users write kernels in, besides Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TextLanguage {
    /// OpenCL C.
    OpenClC,
}

impl TextLanguage {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenClC => "OpenCL C",
        }
    }
}

/// A kernel of a text. Its parameters are passed as they are: of memory a pointer to its first
/// element, of values their bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelText {
    /// The language.
    pub language: TextLanguage,
    /// The text, of which the kernel is one function.
    pub source: Arc<str>,
    /// The function.
    pub entry: String,
    /// The compiler's options, as it takes them.
    pub options: String,
}
