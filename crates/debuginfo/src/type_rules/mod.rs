//! Type rules: data that describes how a value of a library's type is walked.
//!
//! Debug information describes a `std::vector` as three pointers. A rule defines it as a sequence, with members for its first
//! element and its end. A rule is a pattern of the type's name, a kind of walk, and an expression for each key of the kind:
//!
//! ```text
//! type std::vector<*>
//!     sequence
//!     first = _M_impl._M_start
//!     end = _M_impl._M_finish
//! ```
//!
//! [`TypeRules`] parses such texts and finds the rules of a name. The expressions are not interpreted here, since they need a type.

mod pattern;
mod read;

use std::fmt;
use std::sync::{Arc, OnceLock};

pub use read::{TypeRuleError, TypeRuleErrorKind};

use pattern::Pattern;

/// The rules that come with Tracewire, by the library whose types they are for.
const BUILTIN: &[(&str, &str)] = &[
    ("libstdcxx.types", include_str!("libstdcxx.types")),
    ("libcxx.types", include_str!("libcxx.types")),
    ("rust.types", include_str!("rust.types")),
    ("go.types", include_str!("go.types")),
];

/// The kind of a value with a rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WalkKind {
    /// Characters: `data`, and `length` or `end`.
    String,
    /// Elements one after the other: `first`, and `length` or `end`.
    Sequence,
    /// Elements in a ring: `first` of the memory, `capacity`, `start`, `length`.
    Ring,
    /// Elements in blocks of equal size: `blocks` points to pointers, `block_length`, `start` in the first block, `length`.
    Blocks,
    /// Nodes that point to the next one: `first`, `next`, and `element`, or `key` and `value`; `end` or `length`.
    List,
    /// A binary tree with pointers to the parents: `root`, `left`, `right`, `parent`, and `element`, or `key` and `value`;
    /// `end`, `length`.
    Tree,
    /// A hash table with a control byte for each bucket, whose highest bit marks it as empty. Its keys are `control`, `entries`
    /// (the buckets are before it, the first last), `mask` (the number of buckets minus one), `length`, and `element`, or `key` and
    /// `value`.
    Table,
    /// A tree of nodes with several elements: `root`, `height`, `length`, and of a node `size` (how many elements), `parent`,
    /// `parent_index`, `edges`, and `element`, or `key` and `value`, at `$index`.
    BTree,
    /// A hash table of buckets with eight places each, which are aligned to eight, and which are chained by hash. Its keys are
    /// `first` and `count`, those that are being emptied (`old`, `old_count`), and `length`. A bucket has `overflow` (the next
    /// one), and at `$index` `full`, and `element`, or `key` and `value`.
    Buckets,
    /// Truth values, a bit each: `first` points to words, `start` is the first bit in them, `length`.
    Bits,
    /// A value that may be absent: `present`, `value`.
    Optional,
    /// A value of a type that is known at run time. `descriptor` is the address of the type's descriptor or its table of methods.
    /// `data` leads to the value of `size` bytes, or is the value itself if `direct` is true.
    Interface,
    /// One of the types among the template arguments: `index`, `storage`.
    Variant,
    /// A pointer with an owner: `pointer`.
    Pointer,
    /// A pointer that is followed where it is all of a value, and not within another one: `pointer`.
    Reference,
    /// A function object: `symbol` is an address whose symbol has the type of its target as template argument number
    /// `argument`; `pointer` is the target where that is a function.
    Function,
    /// A number with a unit: `value`, and `unit`, which is the text itself.
    Quantity,
    /// A wrapper, shown as its content: `value`.
    Newtype,
    /// A length of time: `seconds`, `nanoseconds`.
    Duration,
    /// A structure with only some parts shown: each key is a part's name. A line `...` means that there are more.
    Structure,
    /// Parts without names: each key is a part's number.
    Tuple,
    /// Parts without names, one in each base class of `of`: `member` is the name that each has.
    Bases,
}

impl WalkKind {
    /// Its word, the keys it needs, and those it may have.
    const TABLE: &[(
        Self,
        &'static str,
        &'static [&'static str],
        &'static [&'static str],
    )] = &[
        (Self::String, "string", &["data"], &["length", "end"]),
        (Self::Sequence, "sequence", &["first"], &["length", "end"]),
        (
            Self::Ring,
            "ring",
            &["first", "capacity", "start", "length"],
            &[],
        ),
        (
            Self::Blocks,
            "blocks",
            &["blocks", "block_length", "start", "length"],
            &[],
        ),
        (
            Self::List,
            "list",
            &["first", "next"],
            &["element", "key", "value", "end", "length"],
        ),
        (
            Self::Tree,
            "tree",
            &["root", "left", "right", "parent", "length"],
            &["element", "key", "value"],
        ),
        (
            Self::Table,
            "table",
            &["control", "entries", "mask", "length"],
            &["element", "key", "value"],
        ),
        (
            Self::BTree,
            "btree",
            &[
                "root",
                "height",
                "length",
                "size",
                "parent",
                "parent_index",
                "edges",
            ],
            &["element", "key", "value"],
        ),
        (
            Self::Buckets,
            "buckets",
            &[
                "first",
                "count",
                "old",
                "old_count",
                "length",
                "overflow",
                "full",
            ],
            &["element", "key", "value"],
        ),
        (Self::Bits, "bits", &["first", "start", "length"], &[]),
        (Self::Optional, "optional", &["present", "value"], &[]),
        (
            Self::Interface,
            "interface",
            &["descriptor", "data", "size"],
            &["direct"],
        ),
        (Self::Variant, "variant", &["index", "storage"], &[]),
        (Self::Pointer, "pointer", &["pointer"], &[]),
        (Self::Reference, "reference", &["pointer"], &[]),
        (
            Self::Function,
            "function",
            &["symbol", "argument"],
            &["pointer"],
        ),
        (Self::Quantity, "quantity", &["value", "unit"], &[]),
        (Self::Newtype, "newtype", &["value"], &[]),
        (Self::Duration, "duration", &["seconds", "nanoseconds"], &[]),
        (Self::Structure, "structure", &[], &[]),
        (Self::Tuple, "tuple", &[], &[]),
        (Self::Bases, "bases", &["of", "member"], &[]),
    ];

    /// Its word in a file of rules.
    #[must_use]
    pub fn word(self) -> &'static str {
        let found = Self::TABLE.iter().find(|(kind, ..)| *kind == self);
        found.map_or("", |(_, word, ..)| word)
    }

    /// Whether it has nodes or buckets with items in them.
    const fn has_items(self) -> bool {
        matches!(
            self,
            Self::List | Self::Tree | Self::Table | Self::BTree | Self::Buckets
        )
    }

    /// Whether its keys are names that the rule chooses.
    const fn has_free_keys(self) -> bool {
        matches!(self, Self::Structure | Self::Tuple)
    }
}

/// How values of the types with certain names are walked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeRule {
    patterns: Vec<Pattern>,
    kind: WalkKind,
    /// Keys and expressions, in the order of the file.
    expressions: Vec<(String, String)>,
    /// Whether a line `...` means that the value has more parts.
    has_more: bool,
    /// The file and the line where the rule begins.
    place: (Arc<str>, usize),
}

impl TypeRule {
    /// The kind of the value.
    #[must_use]
    pub const fn kind(&self) -> WalkKind {
        self.kind
    }

    /// Whether a structure has more parts than the rule shows.
    #[must_use]
    pub const fn has_more(&self) -> bool {
        self.has_more
    }

    /// The expression of a key.
    #[must_use]
    pub fn expression(&self, key: &str) -> Option<&str> {
        let found = self.expressions.iter().find(|(known, _)| known == key);
        found.map(|(_, expression)| expression.as_str())
    }

    /// All keys and expressions, in the order of the file.
    pub fn expressions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.expressions
            .iter()
            .map(|(key, expression)| (key.as_str(), expression.as_str()))
    }
}

/// `FILE:LINE`.
impl fmt::Display for TypeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.place.0, self.place.1)
    }
}

/// Rules; the first that matches a type is used.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TypeRules {
    rules: Vec<TypeRule>,
}

impl TypeRules {
    /// No rules: every value is shown by its members.
    #[must_use]
    pub const fn none() -> Self {
        Self { rules: Vec::new() }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules for the standard libraries of C++ and Rust, and for Go's types.
    #[must_use]
    pub fn builtin() -> Arc<Self> {
        static RULES: OnceLock<Arc<TypeRules>> = OnceLock::new();
        let read = || {
            let mut rules = TypeRules::none();
            for (name, text) in BUILTIN {
                // The tests read each of them.
                let result = rules.add(text, name);
                debug_assert!(result.is_ok(), "{result:?}");
            }
            Arc::new(rules)
        };
        Arc::clone(RULES.get_or_init(read))
    }

    /// Parses rules and puts them before the existing ones, so that they win. `name` is the text's name in messages.
    ///
    /// # Errors
    /// At the first line that is no rule. Nothing is added then.
    pub fn add_before(&mut self, text: &str, name: &str) -> Result<(), TypeRuleError> {
        let mut rules = read::read(text, name)?;
        rules.append(&mut self.rules);
        self.rules = rules;
        Ok(())
    }

    fn add(&mut self, text: &str, name: &str) -> Result<(), TypeRuleError> {
        self.rules.append(&mut read::read(text, name)?);
        Ok(())
    }

    /// The rules for a type of this name, the first that fits first.
    pub fn named<'a>(&'a self, type_name: &str) -> impl Iterator<Item = &'a TypeRule> {
        let name = pattern::squeezed(type_name);
        self.rules
            .iter()
            .filter(move |rule| rule.patterns.iter().any(|pattern| pattern.matches(&name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builtin_rules_can_be_read() {
        for (name, text) in BUILTIN {
            assert_eq!(TypeRules::none().add(text, name), Ok(()));
        }
        let rules = TypeRules::builtin();
        let vector = rules.named("std::vector<int, std::allocator<int> >").next();
        let vector = vector.map(|rule| (rule.kind(), rule.expression("first")));
        assert_eq!(vector, Some((WalkKind::Sequence, Some("_M_impl._M_start"))));
    }
}
