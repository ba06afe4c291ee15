//! Tells the crate how far it is optimised: see `level`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(unoptimised, all_levels)");
    match std::env::var("OPT_LEVEL").as_deref() {
        Ok("0") => println!("cargo::rustc-cfg=unoptimised"),
        Ok("1") => {}
        _ => println!("cargo::rustc-cfg=all_levels"),
    }
}
