//! Options, as OpenCL's compilers take them.

use crate::client::ClcError;
use std::borrow::Cow;
use std::path::PathBuf;

/// Options that clang need not be told of. Code is optimised whatever they say, and numbers that
/// are denormal are kept. Some are those of other compilers of OpenCL C, which programs pass to
/// each that they meet.
const CHANGES_NOTHING: [&str; 32] = [
    "-cl-no-subgroup-ifp",
    "-cl-kernel-arg-info",
    "-cl-denorms-are-zero",
    "-cl-strict-aliasing",
    "-cl-opt-disable",
    "-cl-match-sincospi",
    "-cl-take-global-address",
    "-gline-tables-only",
    "-fno-alias",
    "-fstrict-aliasing",
    "-fno-strict-aliasing",
    "-funroll-loops",
    "-fno-unroll-loops",
    "-finline-functions",
    "-fno-inline-functions",
    "-fno-inline",
    "-fmath-errno",
    "-fno-math-errno",
    "-fsigned-zeros",
    "-fno-signed-zeros",
    "-ffinite-math-only",
    "-fno-finite-math-only",
    "-funsafe-math-optimizations",
    "-fno-unsafe-math-optimizations",
    "-fassociative-math",
    "-fno-associative-math",
    "-freciprocal-math",
    "-ffast-math",
    "-fno-fast-math",
    "-m64",
    "-save-temps",
    "-legacy",
];

/// The beginnings of options of other vendors' compilers that change how they compile, and not the
/// result.
const OF_VENDORS: [&str; 8] = [
    "-cl-amd-",
    "-cl-arm-",
    "-cl-img-",
    "-cl-intel-",
    "-cl-nv-",
    "-cl-qcom-",
    "-qcom-",
    "-ze-",
];

/// Options whose value is the next word, and that change nothing: limits of NVIDIA's compiler,
/// options of Intel's code generator, and Intel's name of the file that the text is from, for
/// debuggers.
const WITH_VALUES: [&str; 5] = [
    "-cl-nv-maxrregcount",
    "-cl-nv-opt-level",
    "-cl-nv-arch",
    "-igc_opts",
    "-s",
];

/// The option that has a file included before the text. The file's name is the next word.
const INCLUDE: &str = "-include";

/// The option that has all work-groups of a launch be of one size.
const UNIFORM_GROUPS: &str = "-cl-uniform-work-group-size";

/// Options that clang is told of as they are.
const OF_CLANG: [&str; 12] = [
    "-ffp-contract=fast",
    "-ffp-contract=fast-honor-pragmas",
    "-ffp-contract=off",
    "-ffp-contract=on",
    "-cl-single-precision-constant",
    "-cl-fp32-correctly-rounded-divide-sqrt",
    UNIFORM_GROUPS,
    "-cl-mad-enable",
    "-cl-no-signed-zeros",
    "-cl-unsafe-math-optimizations",
    "-cl-finite-math-only",
    "-cl-fast-relaxed-math",
];

/// Versions of the language, and what clang calls them, without regard to case. OpenCL 2.1 and 2.2
/// have the language of 2.0. clang knows none after 3.0.
const VERSIONS: [(&str, &str); 12] = [
    ("cl", "cl"),
    ("cl1.0", "cl1.0"),
    ("cl1.1", "cl1.1"),
    ("cl1.2", "cl1.2"),
    ("cl2.0", "cl2.0"),
    ("cl2.1", "cl2.0"),
    ("cl2.2", "cl2.0"),
    ("cl3.0", "cl3.0"),
    ("cl3.1", "cl3.0"),
    ("clc++", "clc++"),
    ("clc++1.0", "clc++1.0"),
    ("clc++2021", "clc++2021"),
];

/// clang's name for a version of the language.
fn version(said: &str) -> Option<&'static str> {
    // It takes either case, and none that is mixed.
    let is_upper = said == said.to_uppercase();
    let said = if is_upper { &said.to_lowercase() } else { said };
    let mut versions = VERSIONS.into_iter();
    versions.find_map(|(version, of_clang)| (version == said).then_some(of_clang))
}

/// True if an option is one that clang is told of: OpenCL's own, and warnings.
fn is_told(word: &str) -> bool {
    // `-Wl,…` and the like are for programs that clang starts.
    let is_of_warnings = |word: &str| {
        word.starts_with("-W") && !word.contains(',') || ["-w", "-pedantic"].contains(&word)
    };
    word.starts_with("-D")
        || word.starts_with("-I")
        || word.starts_with("-U")
        || OF_CLANG.contains(&word)
        || is_of_warnings(word)
}

/// True if an option does no harm and clang is not told of it.
fn changes_nothing(word: &str) -> bool {
    word.starts_with("-cl-ext=")
        || is_of_a_vendor(word)
        || is_of_binaries(word)
        || is_a_level(word)
        || CHANGES_NOTHING.contains(&word)
}

/// True if an option says how much is optimised, or how much debuggers are told.
fn is_a_level(word: &str) -> bool {
    let is_digit = |rest: &str| matches!(rest.as_bytes(), [b'0'..=b'9']);
    let optimised = word.strip_prefix("-O");
    let told = word.strip_prefix("-g");
    optimised.is_some_and(|rest| is_digit(rest) || ["", "s", "z", "g", "fast"].contains(&rest))
        || told.is_some_and(|rest| is_digit(rest) || rest.is_empty())
}

/// True if an option is one of another vendor's.
fn is_of_a_vendor(word: &str) -> bool {
    OF_VENDORS.iter().any(|start| word.starts_with(start))
}

/// True if an option says what AMD's binaries have.
fn is_of_binaries(word: &str) -> bool {
    let flag = word.strip_prefix("-f");
    flag.is_some_and(|flag| flag.strip_prefix("no-").unwrap_or(flag).starts_with("bin-"))
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
        if WITH_VALUES.contains(&word.as_str()) {
            words.next().ok_or(ClcError::Option(word))?;
            continue;
        }
        if let Some(said) = word.strip_prefix("-cl-std=") {
            let version = version(said).ok_or_else(|| ClcError::Option(word.clone()))?;
            options.push(format!("-cl-std={version}"));
            continue;
        }
        if is_told(&word) {
            options.push(word);
        } else if !changes_nothing(&word) {
            return Err(ClcError::Option(word));
        }
    }
    Ok(options)
}

/// A text and options, where the text includes the files that the options had included before it: a
/// compiler elsewhere does not see these files.
#[must_use]
pub fn with_named_files<'t>(source: &'t str, options: &'t str) -> (Cow<'t, str>, Cow<'t, str>) {
    let (mut files, mut others) = (String::new(), Vec::new());
    let mut all = words(options).into_iter();
    while let Some(word) = all.next() {
        match (word == INCLUDE).then(|| all.next()).flatten() {
            Some(file) => files.extend(["#include \"", &file, "\"\n"]),
            None => others.push(as_word(&word)),
        }
    }
    if files.is_empty() {
        return (source.into(), options.into());
    }
    // A byte order mark is one at the beginning alone.
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let source = format!("{files}#line 1 \"program\"\n{source}");
    (source.into(), others.join(" ").into())
}

/// A word as [`words`] takes it from a text.
fn as_word(word: &str) -> String {
    let mut text = String::new();
    for c in word.chars() {
        if c.is_whitespace() || matches!(c, '"' | '\'' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text
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
        if let Some(name) = word.strip_prefix("-U") {
            let name = match name {
                "" => words.next().unwrap_or_default(),
                name => name.to_owned(),
            };
            names.retain(|(defined, _): &(String, String)| *defined != name);
            continue;
        }
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

/// True if options have all work-groups of a launch be of one size: before OpenCL C 2.0, and where
/// they say so.
#[must_use]
pub fn has_uniform_groups(text: &str) -> bool {
    let words = words(text);
    let mut said = words
        .iter()
        .filter_map(|word| word.strip_prefix("-cl-std="));
    let of_clang = said.next_back().and_then(version).unwrap_or("cl");
    ["cl", "cl1.0", "cl1.1", "cl1.2"].contains(&of_clang)
        || words.iter().any(|word| word == UNIFORM_GROUPS)
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

/// The words of a text, of which quotes keep some together. A backslash takes its meaning from a
/// blank, a quote or another backslash, and is itself before others, as those of paths are; within
/// single quotes it always is. A quote without a partner is a letter like others.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut quote, mut any) = (None, false);
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        let is_plain = |next: &char| next.is_whitespace() || matches!(next, '"' | '\'' | '\\');
        match (quote, c) {
            (None | Some('"'), '\\') => {
                word.push(letters.next_if(is_plain).unwrap_or(c));
                any = true;
            }
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') if closes(c, letters.clone()) => (quote, any) = (Some(c), true),
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

/// True if a quote has a partner in what follows it.
fn closes(quote: char, mut rest: impl Iterator<Item = char>) -> bool {
    while let Some(c) = rest.next() {
        if c == quote {
            return true;
        }
        if (quote, c) == ('"', '\\') {
            rest.next();
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_without_a_partner_is_a_letter() {
        for (text, wanted) in [
            (
                "-I /home/o'neil/cl -DA=1 -w",
                &["-I/home/o'neil/cl", "-DA=1", "-w"][..],
            ),
            (
                r#"-DB='b c' -DINCHES=3" -w"#,
                &["-DB=b c", r#"-DINCHES=3""#, "-w"],
            ),
            (
                r#"-DC="d e" -DD=\"f -DE=o'f"#,
                &["-DC=d e", r#"-DD="f"#, "-DE=o'f"],
            ),
            (r#"-DF="g\" -w"#, &[r#"-DF="g""#, "-w"]),
        ] {
            assert_eq!(options(text).unwrap(), wanted, "{text}");
        }
    }

    #[test]
    fn options_of_other_compilers_are_taken() {
        let taken = options(
            "-cl-nv-verbose -cl-nv-maxrregcount=32 -cl-amd-media-ops -fno-bin-source -save-temps -x clc -m64 \
             -cl-intel-greater-than-4GB-buffer-required -qcom-accelerate-16-bit -ffast-math -O5 -DH -UH -U H",
        );
        assert_eq!(taken.unwrap(), ["-DH", "-UH", "-UH"]);
    }

    #[test]
    fn options_that_say_what_binaries_have_and_who_debugs_change_nothing() {
        let taken = options(
            "-fno-bin-amdil -fbin-source -fbin-llvmir -fbin-amdil -fbin-as -fno-bin-exe -fbin-hsail -g -s \"a file.cl\" \
             -fno-alias -gline-tables-only -ffp-contract=off -DH",
        );
        assert_eq!(taken.unwrap(), ["-ffp-contract=off", "-DH"]);
        for bad in [
            "-s",
            "-fbin",
            "-fno-bin",
            "-fbins",
            "-bin-source",
            "-ffp-contract=",
            "-ffp-contract=no",
        ] {
            assert!(matches!(options(bad), Err(ClcError::Option(_))), "{bad}");
        }
    }

    #[test]
    fn options_that_other_compilers_document_change_nothing() {
        let taken = options(
            "-cl-nv-maxrregcount 32 -cl-nv-opt-level 3 -cl-nv-arch sm_80 -igc_opts 'A=1, B=2' -cl-arm-x -cl-img-x \
             -ze-opt-greater-than-4GB-buffer-required -O6 -Oz -g0 -g2 -funroll-loops -fno-unroll-loops -fno-inline \
             -finline-functions -fno-strict-aliasing -fno-math-errno -fno-signed-zeros -ffinite-math-only \
             -funsafe-math-optimizations -fassociative-math -legacy -cl-match-sincospi -cl-take-global-address -DH",
        );
        assert_eq!(taken.unwrap(), ["-DH"]);
        for bad in [
            "-cl-nv-arch",
            "-igc_opts",
            "-O12",
            "-Ox",
            "-gdb",
            "-mllvm",
            "-include",
            "-fplugin-arg-x",
        ] {
            assert!(matches!(options(bad), Err(ClcError::Option(_))), "{bad}");
        }
    }

    #[test]
    fn files_that_options_name_are_included_by_the_text() {
        let said = r#"-include a.h -I "/a b" -include 'c d.h' -DQ=\"x\""#;
        let (source, options) = with_named_files("\u{feff}int x;", said);
        let includes = "#include \"a.h\"\n#include \"c d.h\"\n";
        assert_eq!(source, format!("{includes}#line 1 \"program\"\nint x;"));
        assert_eq!(words(&options), ["-I", "/a b", r#"-DQ="x""#]);
        assert_eq!(
            with_named_files("int x;", "-w  -DH"),
            ("int x;".into(), "-w  -DH".into())
        );
        // Without a name it is none.
        let (_, options) = with_named_files("", "-include a.h -include");
        assert!(super::options(&options).is_err());
    }

    #[test]
    fn a_backslash_keeps_a_blank_or_a_quote_within_a_word() {
        let taken = options(
            r#"-I /a\ b -DS=\"ab\" -D T="\"a b\"" -DU='\"' -DV=\'c\' -I"C:\files\cl" -DW=\\n -DX=a\"#,
        );
        assert_eq!(
            taken.unwrap(),
            [
                "-I/a b",
                r#"-DS="ab""#,
                r#"-DT="a b""#,
                r#"-DU=\""#,
                "-DV='c'",
                r"-IC:\files\cl",
                r"-DW=\n",
                r"-DX=a\",
            ]
        );
        assert_eq!(folders(r"-I /a\ b"), [PathBuf::from("/a b")]);
    }

    #[test]
    fn versions_without_a_language_of_their_own_have_that_of_another() {
        let taken = options("-cl-std=CL2.1 -cl-std=cl2.2 -cl-std=CL3.1 -cl-std=CLC++2021");
        let versions = ["cl2.0", "cl2.0", "cl3.0", "clc++2021"];
        assert_eq!(
            taken.unwrap(),
            versions.map(|version| format!("-cl-std={version}"))
        );
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
                "-cl-std=cl3.0",
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
