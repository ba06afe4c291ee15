//! Options for the linker of the shared library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    // The library exports the API's own names, as a loader does. Calls within it must not go to the
    // loader's.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    // Threads of the pool run its code until the process ends, also after `dlclose`.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
