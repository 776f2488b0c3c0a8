//! Compiles the program that `tracewire demo` traces; it becomes part of the `tracewire` binary.
//!
//! It is C because a C compiler exists wherever Rust links (rustc's linker is `cc`), and because the result, with all its debug
//! information, is 20 kB.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=sample");
    println!("cargo:rerun-if-env-changed=CC");
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let directory = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let program = Path::new(&directory).join("tracewire-demo");
    let sample =
        Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("sample");
    let status = Command::new(&compiler)
        .current_dir(&sample)
        // The path is the same on all build machines, and a debugger looks for it in its working directory.
        .args(["-g", "-O0", "-fno-omit-frame-pointer", "-pthread"])
        .arg(format!("-ffile-prefix-map={}=.", sample.display()))
        .args(["tracewire-demo.c", "-o"])
        .arg(&program)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{compiler:?} could not compile sample/tracewire-demo.c: {status}"),
        Err(error) => panic!(
            "{compiler:?} compiles the demo's program and does not start: {error}; set CC to a C compiler"
        ),
    }
}
