//! What the library has, and by which names.

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

/// What a module has definitions of, and the linkage of each.
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

/// What a part has definitions of.
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
            let is_reserved = ["__", "_Z", CALLED]
                .iter()
                .any(|start| name.starts_with(start));
            assert!(
                is_reserved || linked == linkage::INTERNAL,
                "a program may have a function '{name}', too, which {part} has"
            );
        }
    }
}
