//! Options, as OpenCL's compilers take them.

use crate::client::ClcError;
use std::path::PathBuf;

/// Options that clang need not be told of. Code is optimised whatever they say, and numbers that are denormal are kept. Some are
/// those of other compilers of OpenCL C, which programs pass to each that they meet.
const CHANGES_NOTHING: [&str; 22] = [
    "-cl-no-subgroup-ifp",
    "-cl-kernel-arg-info",
    "-cl-denorms-are-zero",
    "-cl-strict-aliasing",
    "-cl-opt-disable",
    "-g",
    "-O",
    "-O0",
    "-O1",
    "-O2",
    "-O3",
    "-O4",
    "-O5",
    "-Ofast",
    "-Os",
    "-fbin-exe",
    "-fno-bin-exe",
    "-fno-bin-llvmir",
    "-fno-bin-source",
    "-m64",
    "-save-temps",
    "-ffast-math",
];

/// How options begin that are of other vendors' compilers, and say how to compile, not what.
const OF_VENDORS: [&str; 5] = ["-cl-amd-", "-cl-intel-", "-cl-nv-", "-cl-qcom-", "-qcom-"];

/// Options that clang is told of as they are.
const OF_CLANG: [&str; 8] = [
    "-cl-single-precision-constant",
    "-cl-fp32-correctly-rounded-divide-sqrt",
    "-cl-uniform-work-group-size",
    "-cl-mad-enable",
    "-cl-no-signed-zeros",
    "-cl-unsafe-math-optimizations",
    "-cl-finite-math-only",
    "-cl-fast-relaxed-math",
];

/// Versions of the language that clang knows, without regard to case.
const VERSIONS: [&str; 9] = [
    "cl",
    "cl1.0",
    "cl1.1",
    "cl1.2",
    "cl2.0",
    "cl3.0",
    "clc++",
    "clc++1.0",
    "clc++2021",
];

/// True if an option is one that OpenCL has, or that people use with its compilers and that does no harm.
fn is_taken(word: &str) -> bool {
    if let Some(version) = word.strip_prefix("-cl-std=") {
        // clang takes either case, and none that is mixed.
        let version = match version == version.to_uppercase() {
            true => version.to_lowercase(),
            false => version.to_owned(),
        };
        return VERSIONS.contains(&version.as_str());
    }
    // `-Wl,…` and the like are for programs that clang starts.
    let is_of_warnings = |word: &str| {
        word.starts_with("-W") && !word.contains(',') || ["-w", "-pedantic"].contains(&word)
    };
    word.starts_with("-D")
        || word.starts_with("-I")
        || word.starts_with("-U")
        || word.starts_with("-cl-ext=")
        || is_of_a_vendor(word)
        || CHANGES_NOTHING.contains(&word)
        || OF_CLANG.contains(&word)
        || is_of_warnings(word)
}

/// True if an option is one of another vendor's.
fn is_of_a_vendor(word: &str) -> bool {
    OF_VENDORS.iter().any(|start| word.starts_with(start))
}

/// The options that clang is to be given, of those that OpenCL has.
pub(crate) fn options(text: &str) -> Result<Vec<String>, ClcError> {
    of_language(words(text), &["cl", "clc"])
}

/// As [`options`], where `-x` names one of some languages.
fn of_language(words: Vec<String>, languages: &[&str]) -> Result<Vec<String>, ClcError> {
    let mut options = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "-x" {
            // clang is told the language already.
            let language = words.next().unwrap_or_default();
            if !languages.contains(&language.as_str()) {
                return Err(ClcError::Option(word));
            }
            continue;
        }
        if ["-D", "-I", "-U"].contains(&word.as_str()) {
            let value = words.next().ok_or_else(|| ClcError::Option(word.clone()))?;
            options.push(format!("{word}{value}"));
            continue;
        }
        if !is_taken(&word) {
            return Err(ClcError::Option(word));
        }
        let is_told = !CHANGES_NOTHING.contains(&word.as_str())
            && !word.starts_with("-cl-ext=")
            && !is_of_a_vendor(&word);
        if is_told {
            options.push(word);
        }
    }
    Ok(options)
}

/// The folders that options have files looked for in, in their order.
pub(crate) fn folders(text: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut words = words(text).into_iter();
    while let Some(word) = words.next() {
        let folder = match word.strip_prefix("-I") {
            Some("") => words.next(),
            Some(folder) => Some(folder.to_owned()),
            None => None,
        };
        folders.extend(folder.map(PathBuf::from));
    }
    folders
}

/// The macros that options define.
pub(crate) fn defined(text: &str) -> Vec<(String, String)> {
    let mut names = Vec::new();
    let mut words = words(text).into_iter();
    while let Some(word) = words.next() {
        let macro_of_option = match word.strip_prefix("-D") {
            Some("") => words.next(),
            Some(definition) => Some(definition.to_owned()),
            None => None,
        };
        names.extend(macro_of_option.map(|definition| {
            let (head, value) = definition.split_once('=').unwrap_or((&definition, "1"));
            let name = head.split('(').next().unwrap_or_default();
            (name.to_owned(), value.to_owned())
        }));
    }
    names
}

/// Looks at options of a program that is no text, which the compiler needs none of.
///
/// # Errors
/// If one is none that is taken.
pub fn checked_options(text: &str) -> Result<(), ClcError> {
    // The module itself says its version.
    let words = words(text).into_iter();
    let others: Vec<String> = words
        .filter(|word| !word.starts_with("-spir-std="))
        .collect();
    of_language(others, &["cl", "clc", "spir"]).map(|_| ())
}

/// The words of a text, of which quotes keep some together.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut quote, mut any) = (None, false);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => (quote, any) = (Some(c), true),
            (None, c) if c.is_whitespace() => {
                if any {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            (_, c) => {
                word.push(c);
                any = true;
            }
        }
    }
    if any {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_other_compilers_are_taken() {
        let taken = options(
            "-cl-nv-verbose -cl-nv-maxrregcount=32 -cl-amd-media-ops -fno-bin-source -save-temps -x clc -m64 \
             -cl-intel-greater-than-4GB-buffer-required -qcom-accelerate-16-bit -ffast-math -O5 -DH -UH -U H",
        );
        assert_eq!(taken.unwrap(), ["-DH", "-UH", "-UH"]);
    }

    #[test]
    fn options_of_modules_are_taken_for_those_alone() {
        let of_modules = [
            "-x spir -spir-std=1.2",
            "-spir-std=2.0 -cl-mad-enable",
            "-x  spir",
        ];
        for text in of_modules {
            assert!(checked_options(text).is_ok(), "{text}");
            assert!(matches!(options(text), Err(ClcError::Option(_))), "{text}");
        }
        for text in ["-x", "-x c++", "-spir", "-spir-std", "-foo"] {
            assert!(checked_options(text).is_err(), "{text}");
        }
    }

    #[test]
    fn options_are_those_of_the_standard() {
        let taken = options(
            "-D N=4  -DM='a b' -I include -cl-fast-relaxed-math -g -Wall -Werror=unused -w \
             -cl-std=CL3.0 -cl-std=cl1.2 -cl-denorms-are-zero -cl-opt-disable -O2 -cl-ext=+all",
        );
        assert_eq!(
            taken.unwrap(),
            [
                "-DN=4",
                "-DM=a b",
                "-Iinclude",
                "-cl-fast-relaxed-math",
                "-Wall",
                "-Werror=unused",
                "-w",
                "-cl-std=CL3.0",
                "-cl-std=cl1.2",
            ]
        );
        for bad in [
            "-fplugin=x.so",
            "-x",
            "-x c++",
            "-U",
            "-o out",
            "@file",
            "-D",
            "-Xclang",
            "-Wl,-plugin,x",
            "-Wp,-MD,out",
            "-W,x",
            "-cl-bogus",
            "-cl-std=CL4.0",
            "-cl-std=Cl1.2",
            "-cl-std",
            "-cl-",
            "-foo",
            "text",
        ] {
            assert!(matches!(options(bad), Err(ClcError::Option(_))), "{bad}");
        }
    }
}
