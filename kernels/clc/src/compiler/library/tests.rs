//! The names of the library's functions.

use super::super::program::clang_for;
use super::super::{object, tools};
use super::*;
use std::collections::BTreeMap;

/// LLVM, in this process; none, and a line that says so, on a machine without.
fn tools() -> Option<Tools> {
    let Some(tools) = tools::find() else {
        println!("NOT TESTED: built-in functions: no clang, lld and libLLVM");
        return None;
    };
    assert!(object::load_llvm(&tools, object::Step::Read).is_ok());
    Some(tools)
}

/// All parts.
fn parts() -> BTreeSet<String> {
    let named = TEXT.split("PART_").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        rest[..end.unwrap_or(rest.len())].to_owned()
    });
    let mut parts: BTreeSet<String> = named.collect();
    assert!(
        parts.remove("convert") && parts.contains("image"),
        "{parts:?}"
    );
    parts.extend(TYPES.map(|to| format!("convert {to}")));
    parts
}

/// The names that a module defines, and the linkage of each.
fn definitions(context: Context, bitcode: &[u8]) -> BTreeMap<String, i32> {
    let Ok(module) = object::parse(context, bitcode) else {
        panic!("the bitcode is not read");
    };
    let all = module.functions().into_iter().chain(module.globals());
    let defined = all.filter(|one| LLVMIsDeclaration(*one) == 0);
    defined
        .map(|one| (one.name(), LLVMGetLinkage(one)))
        .collect()
}

/// The names that a part defines.
fn definitions_of(tools: &Tools, context: Context, part: &str) -> BTreeMap<String, i32> {
    match compiled(tools, part, None, false) {
        Ok(Some(bitcode)) => definitions(context, &bitcode),
        Ok(None) => BTreeMap::new(),
        Err(_) => panic!("{part} does not compile"),
    }
}

#[test]
fn what_programs_are_linked_with_has_names_that_they_may_not_have() {
    let Some(tools) = tools() else { return };
    let context = LLVMContextCreate();
    for part in parts() {
        for (name, linked) in definitions_of(&tools, context, &part) {
            // No name in C has a dot.
            let is_reserved = ["__", "_Z", "quipu."]
                .iter()
                .any(|start| name.starts_with(start));
            assert!(
                is_reserved || linked == linkage::INTERNAL,
                "a program may have a function '{name}', too, which {part} has"
            );
        }
    }
}

/// clang's result for a text of a program, with further options.
fn clang(tools: &Tools, options: &[String], more: &[&str], text: &str) -> Vec<u8> {
    let mut command = clang_for(tools, options);
    command.args(more).args(["-w", "-o", "-", "-"]);
    let Ok(said) = crate::child::run(command, text.as_bytes()) else {
        panic!("clang does not start");
    };
    assert!(!said.has_failed(), "{said}");
    said.stdout
}

#[test]
fn every_function_that_clang_declares_for_programs_is_there() {
    let Some(tools) = tools() else { return };
    let context = LLVMContextCreate();
    let mut there = BTreeMap::new();
    let mut missing = BTreeSet::new();
    for version in ["CL1.2", "CL3.0"] {
        let options = [format!("-cl-std={version}")];
        // The header with all functions, in place of clang's own table of them. For SPIR it has
        // those of every extension.
        let whole = ["-Xclang", "-finclude-default-header", "-U__SPIR__"];
        let header = clang(
            &tools,
            &options,
            &[&["-cl-no-stdinc", "-E", "-P"], &whole[..]].concat(),
            "",
        );
        let header = String::from_utf8_lossy(&header);
        // A declaration is made a definition, so that clang says its name. Two types of one size
        // may make one name.
        let mut seen = BTreeSet::new();
        let definitions_in = header.split_inclusive(';').map(|one| {
            if !one.contains("overloadable") {
                return one.to_owned();
            }
            let as_long = one
                .replace("uintptr_t", "ulong")
                .replace("intptr_t", "long");
            let as_long = as_long.replace("ptrdiff_t", "long");
            let declared = one.trim_end_matches(';');
            match seen.insert(as_long.trim().to_owned()) {
                true => format!("{declared} {{ __builtin_unreachable(); }}"),
                false => String::new(),
            }
        });
        let text: String = definitions_in.collect();
        let emitted = clang(
            &tools,
            &options,
            &["-cl-no-stdinc", "-emit-llvm", "-c"],
            &text,
        );
        let declared = definitions(context, &emitted);
        assert!(declared.len() > 5000, "{}", declared.len());
        missing.extend(declared.into_keys().filter(|name| {
            !parts_with(name).iter().any(|part| {
                let definitions = there
                    .entry(part.clone())
                    .or_insert_with(|| definitions_of(&tools, context, part));
                definitions.contains_key(name)
            })
        }));
    }
    let missing: Vec<_> = missing.into_iter().collect();
    assert!(
        missing.is_empty(),
        "{} are not there: {missing:#?}",
        missing.len()
    );
}
