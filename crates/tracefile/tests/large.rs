//! Files with very many of something: what looks for each of them among all others would not come to an end here.

use tracewire_tracefile::{LayoutError, RegisterLayout};

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
