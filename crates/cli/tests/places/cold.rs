//! A function's cold part is no entry of it: a tracepoint on the function is hit as often as the function is called.

use crate::programs::{build, counts, hits, record, source};

const FUNCTIONS: [&str; 6] = [
    "shop::Cart::total",
    "risky",
    "checked",
    "choose",
    "nested",
    "guarded",
];

#[track_caller]
fn hits_are_calls(compiler: &str, options: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let program = build(directory.path(), compiler, options, &[&source("cold.cpp")]);
    let ran = record(&program, &FUNCTIONS, &["200"]).code(0);
    let counted = counts(&ran.stdout);
    let calls: Vec<u64> = FUNCTIONS
        .iter()
        .map(|name| counted[name.rsplit("::").next().unwrap()])
        .collect();
    assert!(calls.iter().all(|&calls| calls > 0), "{calls:?}");
    assert_eq!(
        hits(directory.path()),
        calls,
        "{compiler} {options:?}: {}",
        ran.stderr
    );
}

macro_rules! builds {
    ($($name:ident: $compiler:literal $options:expr;)*) => {$(
        #[test]
        fn $name() {
            hits_are_calls($compiler, $options);
        }
    )*};
}

builds! {
    gcc: "g++" &["-O2"];
    gcc_with_debug_information: "g++" &["-g", "-O2"];
    gcc_partitioned: "g++" &["-g", "-O3", "-freorder-blocks-and-partition"];
    gcc_link_time: "g++" &["-O2", "-flto"];
    clang: "clang++" &["-O2", "-mllvm", "-hot-cold-split"];
    clang_with_debug_information: "clang++" &["-g", "-O2", "-mllvm", "-hot-cold-split"];
    clang_sections: "clang++" &["-O2", "-fbasic-block-sections=all"];
}
