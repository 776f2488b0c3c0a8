//! `cargo xtask architecture` finds each kind of violation in a small workspace that has it, and nothing in one that has none.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Two crates, `upper` above `lower`.
fn workspace(root: &Path) {
    write(
        root,
        "Cargo.toml",
        "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n",
    );
    write(
        root,
        "ARCHITECTURE.md",
        "| crate | what it is | depends on |\n|---|---|---|\n| `upper` | above | `lower` |\n| `lower` | below | – |\n",
    );
    package(
        root,
        "upper",
        "tracewire-lower = { path = \"../lower\", version = \"0.1.0\" }\n",
    );
    package(root, "lower", "");
    write(
        root,
        "crates/upper/src/lib.rs",
        "#![forbid(unsafe_code)]\npub use tracewire_lower::number;\n",
    );
    write(
        root,
        "crates/lower/src/lib.rs",
        "#![forbid(unsafe_code)]\npub fn number() -> u32 { 1 }\n",
    );
}

fn package(root: &Path, name: &str, dependencies: &str) {
    write(
        root,
        &format!("crates/{name}/Cargo.toml"),
        &format!(
            "[package]\nname = \"tracewire-{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\n{dependencies}"
        ),
    );
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Changes the workspace, and returns the check's output.
fn errors(change: impl FnOnce(&Path)) -> Vec<String> {
    let root = tempfile::tempdir().unwrap();
    workspace(root.path());
    change(root.path());
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["architecture", "--root"])
        .arg(root.path())
        .output()
        .unwrap();
    let errors: Vec<String> = String::from_utf8(output.stderr)
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("error: "))
        .map(|line| line.replace(&format!("{}/", root.path().display()), ""))
        .collect();
    assert_eq!(output.status.success(), errors.is_empty(), "{errors:?}");
    errors
}

#[test]
fn a_workspace_without_violations_passes() {
    assert_eq!(errors(|_| {}), [""; 0]);
}

#[test]
fn the_table_says_what_the_crates_depend_on() {
    let errors = errors(|root| {
        write(
            root,
            "ARCHITECTURE.md",
            "| crate | what it is | depends on |\n|---|---|---|\n| `upper` | above | – |\n| `lower` | below | – |\n| `gone` | – | – |\n",
        );
        package(root, "new", "");
        write(root, "crates/new/src/lib.rs", "#![forbid(unsafe_code)]\n");
    });
    assert_eq!(
        errors,
        [
            "ARCHITECTURE.md: the table of crates lacks `new`",
            "ARCHITECTURE.md: `upper` depends on `lower`, which the table does not say",
            "ARCHITECTURE.md: the table has `gone`, which is no published crate of the workspace",
        ]
    );
}

#[test]
fn nothing_points_up() {
    let errors = errors(|root| {
        write(
            root,
            "ARCHITECTURE.md",
            "| crate | what it is | depends on |\n|---|---|---|\n| `lower` | below | – |\n| `upper` | above | `lower` |\n",
        );
    });
    assert_eq!(
        errors,
        [
            "crates/upper/Cargo.toml: `upper` depends on `lower`, which is not below it in ARCHITECTURE.md"
        ]
    );
}

#[test]
fn tests_do_not_point_up_either() {
    let errors = errors(|root| {
        package(
            root,
            "lower",
            "[dev-dependencies]\ntracewire-upper = { path = \"../upper\" }\n",
        );
        write(
            root,
            "crates/lower/tests/both.rs",
            "#[test]\nfn both() { assert_eq!(tracewire_upper::number(), 1); }\n",
        );
    });
    assert_eq!(
        errors,
        [
            "crates/lower/Cargo.toml: `lower` depends on `upper`, which is not below it in ARCHITECTURE.md"
        ]
    );
}

#[test]
fn every_dependency_is_used() {
    let errors = errors(|root| {
        // A name in a comment or in a text is no use.
        write(
            root,
            "crates/upper/src/lib.rs",
            "#![forbid(unsafe_code)]\n// tracewire_lower\npub const NAME: &str = \"tracewire_lower\";\n",
        );
    });
    assert_eq!(
        errors,
        ["crates/upper/Cargo.toml: nothing uses `tracewire-lower` of [dependencies]"]
    );
}

#[test]
fn a_dependency_of_the_workspace_has_a_version_unless_it_is_for_tests() {
    let errors = errors(|root| {
        package(root, "upper", "tracewire-lower = { path = \"../lower\" }\n");
    });
    assert_eq!(
        errors,
        [
            "crates/upper/Cargo.toml: `tracewire-lower` of [dependencies] has no version, so that `cargo package` refuses the crate"
        ]
    );
}

#[test]
fn a_dependency_is_used_in_examples_macros_and_included_files() {
    for source in [
        "#![forbid(unsafe_code)]\n//! ```\n//! assert_eq!(tracewire_lower::number(), 1);\n//! ```\n",
        "#![forbid(unsafe_code)]\npub fn text() -> String { format!(\"{}\", tracewire_lower::number()) }\n",
    ] {
        let errors = errors(|root| write(root, "crates/upper/src/lib.rs", source));
        assert_eq!(errors, [""; 0], "{source}");
    }
    let errors = errors(|root| {
        package(
            root,
            "upper",
            "[dev-dependencies]\ntracewire-lower = { path = \"../lower\" }\n",
        );
        write(
            root,
            "ARCHITECTURE.md",
            "| crate | what it is | depends on |\n|---|---|---|\n| `upper` | above | – |\n| `lower` | below | – |\n",
        );
        write(root, "crates/upper/src/lib.rs", "#![forbid(unsafe_code)]\n");
        write(
            root,
            "crates/upper/tests/one.rs",
            "#[path = \"../../lower/tests/shared/mod.rs\"]\nmod shared;\n",
        );
        write(root, "crates/lower/tests/shared/mod.rs", "mod inner;\n");
        write(
            root,
            "crates/lower/tests/shared/inner.rs",
            "use tracewire_lower::number;\n",
        );
    });
    assert_eq!(errors, [""; 0]);
}

#[test]
fn a_crate_without_unsafe_code_forbids_it() {
    let errors = errors(|root| {
        write(
            root,
            "crates/lower/src/lib.rs",
            "pub fn number() -> u32 { 1 }\n",
        );
    });
    assert_eq!(
        errors,
        ["lower/src/lib.rs: the crate has no unsafe code and lacks #![forbid(unsafe_code)]"]
    );
}

#[test]
fn a_crate_with_unsafe_code_cannot_forbid_it() {
    let errors = errors(|root| {
        write(
            root,
            "crates/lower/src/lib.rs",
            "pub fn number() -> u32 { let one = &1; unsafe { std::ptr::read(one) } }\n",
        );
    });
    assert_eq!(errors, [""; 0]);
}

#[test]
fn what_is_fuzzed_checks_overflow() {
    let fuzz = "[package]\nname = \"fuzz\"\n[dependencies]\nlibfuzzer-sys = \"0.4\"\ntracewire-lower = { path = \"../crates/lower\" }\n";
    let lacking = errors(|root| write(root, "fuzz/Cargo.toml", fuzz));
    assert_eq!(
        lacking,
        ["Cargo.toml: `tracewire-lower` is fuzzed, and its release build lacks overflow-checks"]
    );
    let checked = errors(|root| {
        write(root, "fuzz/Cargo.toml", fuzz);
        let path = root.join("Cargo.toml");
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("[profile.release.package.tracewire-lower]\noverflow-checks = true\n");
        fs::write(&path, text).unwrap();
    });
    assert_eq!(checked, [""; 0]);
}
