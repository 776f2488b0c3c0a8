//! Files with very many of something: what looks for each of them among all others would not come to an end here.

use std::fmt::Write as _;

use tracewire_tracefile::{Description, LayoutError, RegisterLayout};

#[test]
fn a_variable_that_is_defined_again_keeps_its_place() {
    let mut description = String::new();
    for name in ["61", "62"] {
        for number in 0..300_000 {
            writeln!(description, "tsv {number:x}:0:0:{name}").unwrap();
        }
    }
    let description = Description::parse(description.into_bytes());
    let variables = description.variables();
    assert_eq!(variables.len(), 300_000);
    let good = |(at, one): (usize, &tracewire_tracefile::VariableDefinition)| {
        one.number.0 as usize == at && one.name == "b"
    };
    assert!(variables.iter().enumerate().all(good));
}

/// The XML library compares each attribute of an element with all others.
#[test]
fn a_target_description_that_nobody_has_is_not_read() {
    let attributes: String = (0..30_000).map(|number| format!(" a{number}=''")).collect();
    let error = RegisterLayout::parse(&format!("<target{attributes}/>")).unwrap_err();
    assert!(matches!(error, LayoutError::TooLong(_)));
    assert!(
        error.to_string().ends_with("at most 262144 are read"),
        "{error}"
    );
}
