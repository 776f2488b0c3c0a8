//! Type rules at a type: the parts of its values to walk, with every expression resolved.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use tracewire_debuginfo::{Language, Symbols, Type, TypeId, TypeRule, TypeRules, WalkKind};
use tracewire_model::Address;

use crate::node::{Node, NodeKind};
use crate::parse::parse;
use crate::resolve::{NoVariables, Resolver, Result, RuleNames};
use crate::scalar::{Scalar, scalar, strip};
use crate::{ExpressionErrorKind, Span};

/// The depth to which parts of types are followed that are not behind pointers; a damaged type may contain itself.
const DEEPEST_PART: u32 = 32;

/// How many base classes are looked at for parts.
const MOST_BASES: usize = 256;

/// A rule at a type. The expressions are about the value (`Subject::Object`) and the node that a walk has come to
/// (`Subject::Node`).
#[derive(Debug)]
pub(crate) enum Walk {
    String {
        data: Node,
        extent: Extent,
        /// The bytes of a character.
        width: u64,
    },
    Sequence {
        first: Node,
        extent: Extent,
        element: TypeId,
        size: u64,
    },
    Ring {
        first: Node,
        capacity: Node,
        start: Node,
        length: Node,
        element: TypeId,
        size: u64,
    },
    Blocks {
        blocks: Node,
        block_length: Node,
        start: Node,
        length: Node,
        element: TypeId,
        size: u64,
    },
    List {
        first: Node,
        next: Node,
        end: Option<Node>,
        length: Option<Node>,
        items: Items,
    },
    Tree(Box<Tree>),
    Table {
        control: Node,
        entries: Node,
        mask: Node,
        length: Node,
        /// The bytes of a bucket.
        size: u64,
        items: Items,
    },
    BTree(Box<BTree>),
    Buckets(Box<Buckets>),
    Bits {
        first: Node,
        start: Node,
        length: Node,
    },
    Optional {
        present: Node,
        value: Node,
    },
    Interface(Box<Interface>),
    Variant {
        index: Node,
        /// The place of the value, for any type.
        storage: Node,
        alternatives: Vec<TypeId>,
    },
    Pointer {
        pointer: Node,
        target: TypeId,
    },
    Reference {
        pointer: Node,
        target: TypeId,
    },
    Function {
        symbol: Node,
        /// Which template argument of the symbol's name is the target's type.
        argument: usize,
        pointer: Option<Node>,
    },
    Quantity {
        value: Node,
        unit: String,
    },
    Newtype(Node),
    Duration {
        seconds: Node,
        nanoseconds: Node,
    },
    /// The parts, and whether there are more.
    Structure(Vec<(String, Node)>, bool),
    Tuple(Vec<Node>),
}

/// A binary tree.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) root: Node,
    pub(crate) left: Node,
    pub(crate) right: Node,
    pub(crate) parent: Node,
    pub(crate) length: Node,
    pub(crate) items: Items,
}

/// A tree of nodes with several elements.
#[derive(Debug)]
pub(crate) struct BTree {
    pub(crate) root: Node,
    pub(crate) height: Node,
    pub(crate) length: Node,
    pub(crate) size: Node,
    pub(crate) parent: Node,
    pub(crate) parent_index: Node,
    pub(crate) edges: Node,
    pub(crate) items: Items,
}

/// A hash table of buckets.
#[derive(Debug)]
pub(crate) struct Buckets {
    pub(crate) first: Node,
    pub(crate) count: Node,
    pub(crate) old: Node,
    pub(crate) old_count: Node,
    pub(crate) length: Node,
    pub(crate) overflow: Node,
    pub(crate) full: Node,
    /// The bytes of a bucket.
    pub(crate) size: u64,
    pub(crate) items: Items,
}

/// A value of a type that is known at run time.
#[derive(Debug)]
pub(crate) struct Interface {
    pub(crate) descriptor: Node,
    pub(crate) data: Node,
    pub(crate) size: Node,
    pub(crate) direct: Option<Node>,
    /// Its possible types in the program, and their descriptors.
    pub(crate) candidates: Vec<(u64, TypeId)>,
}

/// How many elements there are.
#[derive(Debug)]
pub(crate) enum Extent {
    /// So many.
    Length(Node),
    /// Up to this pointer.
    End(Node),
}

/// The contents of a node.
#[derive(Debug)]
pub(crate) enum Items {
    Element(Node),
    Pair(Node, Node),
}

impl Items {
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        let (first, second) = match self {
            Self::Element(element) => (element, None),
            Self::Pair(key, value) => (key, Some(value)),
        };
        std::iter::once(first).chain(second)
    }
}

/// The rules for the types of a program, each worked out once.
pub struct TypeWalks<'a> {
    symbols: &'a Symbols,
    rules: Arc<TypeRules>,
    walks: RefCell<HashMap<TypeId, Option<Rc<Walk>>>>,
    leads: RefCell<HashMap<(TypeId, u32), bool>>,
}

impl fmt::Debug for TypeWalks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} types", self.walks.borrow().len())
    }
}

impl<'a> TypeWalks<'a> {
    /// With the rules that a program's symbols have.
    #[must_use]
    pub fn new(symbols: &'a Symbols) -> Self {
        Self {
            symbols,
            rules: symbols.type_rules(),
            walks: RefCell::default(),
            leads: RefCell::default(),
        }
    }

    /// Whether there are no rules: values are shown by their members then.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(crate) const fn symbols(&self) -> &'a Symbols {
        self.symbols
    }

    /// How values of a type are walked, if a rule exists.
    pub(crate) fn walk(&self, type_id: TypeId) -> Option<Rc<Walk>> {
        if let Some(known) = self.walks.borrow().get(&type_id) {
            return known.clone();
        }
        let found = self.find(type_id).map(Rc::new);
        self.walks.borrow_mut().insert(type_id, found.clone());
        found
    }

    /// The first rule that fits one of the type's names and whose expressions have a meaning for it.
    fn find(&self, type_id: TypeId) -> Option<Walk> {
        let mut at = type_id;
        for _ in 0..DEEPEST_PART {
            let found = self.symbols.type_of(at);
            let (name, below) = match &*found {
                Type::Typedef { name, target } => (Some(name.as_str()), Some(*target)),
                Type::Qualified { target, .. } => (None, Some(*target)),
                Type::Structure { name, .. } | Type::Pointer { name, .. } => {
                    (name.as_deref(), None)
                }
                Type::Base { name, .. } => (Some(name.as_str()), None),
                _ => (None, None),
            };
            if let Some(name) = name {
                let walk = self
                    .rules
                    .named(name)
                    .find_map(|rule| Binder::new(self.symbols, type_id).bind(rule).ok());
                if walk.is_some() {
                    return walk;
                }
            }
            at = below?;
        }
        None
    }

    /// Whether a value of the type leads to memory outside of it, within this many pointers.
    pub(crate) fn leads(&self, type_id: TypeId, depth: u32) -> bool {
        self.part_leads(type_id, depth, DEEPEST_PART)
    }

    fn part_leads(&self, type_id: TypeId, depth: u32, parts: u32) -> bool {
        let Some(parts) = parts.checked_sub(1).filter(|_| depth > 0) else {
            return false;
        };
        if let Some(known) = self.leads.borrow().get(&(type_id, depth)) {
            return *known;
        }
        // A part of the same type adds nothing, if a rule contains one.
        self.leads.borrow_mut().insert((type_id, depth), false);
        let leads = |inner: TypeId| self.part_leads(inner, depth, parts);
        let found = match self.walk(type_id).as_deref() {
            Some(Walk::Optional { value, .. } | Walk::Newtype(value)) => leads(value.type_id),
            Some(Walk::Variant { alternatives, .. }) => alternatives.iter().any(|one| leads(*one)),
            Some(Walk::Structure(parts, _)) => parts.iter().any(|(_, part)| leads(part.type_id)),
            Some(Walk::Duration { .. } | Walk::Quantity { .. } | Walk::Reference { .. }) => false,
            Some(Walk::Tuple(parts)) => parts.iter().any(|part| leads(part.type_id)),
            Some(_) => true,
            None => match &*strip(self.symbols, type_id).1 {
                Type::Structure {
                    members, variants, ..
                } => {
                    members.iter().any(|member| leads(member.type_id))
                        || variants.as_ref().is_some_and(|part| {
                            (part.variants.iter()).any(|variant| leads(variant.member.type_id))
                        })
                }
                Type::Array { element, .. } => leads(*element),
                _ => false,
            },
        };
        self.leads.borrow_mut().insert((type_id, depth), found);
        found
    }
}

/// The name of the interface that a type's values are of: the first trait of a `dyn A + B`, or the type's own name.
fn interface_name(type_name: &str) -> &str {
    let Some((_, traits)) = type_name.split_once("dyn ") else {
        return type_name;
    };
    let mut depth = 0_u32;
    let end = traits.find(|c| {
        match c {
            '<' | '(' => depth += 1,
            '>' | ')' if depth > 0 => depth -= 1,
            '>' | ')' | ',' | '+' if depth == 0 => return true,
            _ => {}
        }
        false
    });
    traits
        .get(..end.unwrap_or(traits.len()))
        .unwrap_or("")
        .trim()
}

/// Gives a rule's expressions a meaning at one type.
struct Binder<'a> {
    symbols: &'a Symbols,
    type_id: TypeId,
    arguments: Vec<TypeId>,
    values: Vec<i128>,
    node: Option<TypeId>,
    has_index: bool,
}

impl<'a> Binder<'a> {
    fn new(symbols: &'a Symbols, type_id: TypeId) -> Self {
        Self {
            symbols,
            type_id,
            arguments: symbols.template_arguments(type_id),
            values: symbols.template_values(type_id),
            node: None,
            has_index: false,
        }
    }

    fn resolver<'t>(&'t self, text: &'t str) -> Resolver<'t> {
        Resolver {
            rule: Some(RuleNames {
                object: self.type_id,
                arguments: &self.arguments,
                values: &self.values,
                node: self.node,
                has_index: self.has_index,
            }),
            // Rules are written in C++ for the types of every language.
            ..Resolver::in_language(
                self.symbols,
                Address(0).into(),
                Language::Cpp,
                text,
                &NoVariables,
            )
        }
    }

    /// An expression as it is: an object, or a value.
    fn expression(&self, text: &str) -> Result<Node> {
        let resolver = self.resolver(text);
        let expression = parse(text, Language::Cpp, &resolver)?;
        resolver.expression(&expression)
    }

    fn fail<T>(&self, text: &str, message: &str) -> Result<T> {
        let end = text.len();
        let kind = ExpressionErrorKind::Type(message.to_owned());
        Err(crate::ExpressionError::new(
            kind,
            text,
            Span { start: 0, end },
        ))
    }

    /// An expression that gives a number of at most 64 bits.
    fn number(&self, text: &str) -> Result<Node> {
        let node = self.expression(text)?;
        let node = self.resolver(text).value(node);
        match scalar(self.symbols, node.type_id).as_number() {
            Some((1..=8, _)) => Ok(node),
            _ => self.fail(text, "This is no number and no pointer."),
        }
    }

    /// An expression that gives a pointer, and what that points to.
    fn pointer(&self, text: &str) -> Result<(Node, TypeId)> {
        let node = self.number(text)?;
        match scalar(self.symbols, node.type_id) {
            Scalar::Pointer { target, .. } => Ok((node, target)),
            _ => self.fail(text, "This is no pointer."),
        }
    }

    /// An expression that gives a pointer to elements, their type and their size.
    fn elements(&self, text: &str) -> Result<(Node, TypeId, u64)> {
        let (node, mut element) = self.pointer(text)?;
        // A pointer to a slice's elements that is given as one to an array.
        if let Scalar::Array {
            element: inner,
            count: None,
        } = scalar(self.symbols, element)
        {
            element = inner;
        }
        match self.symbols.size_of(element) {
            Some(size) => Ok((node, element, size)),
            None => self.fail(text, "The size of an element is not known."),
        }
    }

    fn bind(mut self, rule: &TypeRule) -> Result<Walk> {
        let text = |key: &str| rule.expression(key).unwrap_or("");
        let extent = |binder: &Self| match rule.expression("end") {
            Some(end) => binder.number(end).map(Extent::End),
            None => binder.number(text("length")).map(Extent::Length),
        };
        Ok(match rule.kind() {
            WalkKind::String => {
                let (data, _, width) = self.elements(text("data"))?;
                if !matches!(width, 1 | 2 | 4) {
                    return self.fail(text("data"), "These are no characters.");
                }
                let extent = extent(&self)?;
                Walk::String {
                    data,
                    extent,
                    width,
                }
            }
            WalkKind::Sequence => {
                let (first, element, size) = self.elements(text("first"))?;
                let extent = extent(&self)?;
                Walk::Sequence {
                    first,
                    extent,
                    element,
                    size,
                }
            }
            WalkKind::Ring => {
                let (first, element, size) = self.elements(text("first"))?;
                Walk::Ring {
                    first,
                    capacity: self.number(text("capacity"))?,
                    start: self.number(text("start"))?,
                    length: self.number(text("length"))?,
                    element,
                    size,
                }
            }
            WalkKind::Blocks => {
                let (blocks, block) = self.pointer(text("blocks"))?;
                let Scalar::Pointer {
                    target: element, ..
                } = scalar(self.symbols, block)
                else {
                    return self.fail(text("blocks"), "This is no pointer to pointers.");
                };
                let Some(size) = self.symbols.size_of(element) else {
                    return self.fail(text("blocks"), "The size of an element is not known.");
                };
                Walk::Blocks {
                    blocks,
                    block_length: self.number(text("block_length"))?,
                    start: self.number(text("start"))?,
                    length: self.number(text("length"))?,
                    element,
                    size,
                }
            }
            WalkKind::List => {
                let (first, _) = self.pointer(text("first"))?;
                self.node = Some(first.type_id);
                let optional = |key: &str| rule.expression(key).map(|text| self.number(text));
                Walk::List {
                    next: self.number(text("next"))?,
                    end: optional("end").transpose()?,
                    length: optional("length").transpose()?,
                    items: self.items(rule)?,
                    first,
                }
            }
            WalkKind::Tree => {
                let (root, _) = self.pointer(text("root"))?;
                self.node = Some(root.type_id);
                Walk::Tree(Box::new(Tree {
                    left: self.number(text("left"))?,
                    right: self.number(text("right"))?,
                    parent: self.number(text("parent"))?,
                    length: self.number(text("length"))?,
                    items: self.items(rule)?,
                    root,
                }))
            }
            WalkKind::Table => {
                let (entries, _, size) = self.elements(text("entries"))?;
                self.node = Some(entries.type_id);
                Walk::Table {
                    control: self.number(text("control"))?,
                    mask: self.number(text("mask"))?,
                    length: self.number(text("length"))?,
                    items: self.items(rule)?,
                    entries,
                    size,
                }
            }
            WalkKind::BTree => {
                let (root, _) = self.pointer(text("root"))?;
                self.node = Some(root.type_id);
                self.has_index = true;
                Walk::BTree(Box::new(BTree {
                    height: self.number(text("height"))?,
                    length: self.number(text("length"))?,
                    size: self.number(text("size"))?,
                    parent: self.number(text("parent"))?,
                    parent_index: self.number(text("parent_index"))?,
                    edges: self.number(text("edges"))?,
                    items: self.items(rule)?,
                    root,
                }))
            }
            WalkKind::Buckets => {
                let (first, _, size) = self.elements(text("first"))?;
                self.node = Some(first.type_id);
                self.has_index = true;
                Walk::Buckets(Box::new(Buckets {
                    count: self.number(text("count"))?,
                    old: self.number(text("old"))?,
                    old_count: self.number(text("old_count"))?,
                    length: self.number(text("length"))?,
                    overflow: self.number(text("overflow"))?,
                    full: self.number(text("full"))?,
                    items: self.items(rule)?,
                    first,
                    size,
                }))
            }
            WalkKind::Bits => Walk::Bits {
                first: self.number(text("first"))?,
                start: self.number(text("start"))?,
                length: self.number(text("length"))?,
            },
            WalkKind::Interface => {
                let direct = rule.expression("direct").map(|text| self.number(text));
                Walk::Interface(Box::new(Interface {
                    descriptor: self.number(text("descriptor"))?,
                    data: self.number(text("data"))?,
                    size: self.number(text("size"))?,
                    direct: direct.transpose()?,
                    candidates: self.candidates(),
                }))
            }
            WalkKind::Reference => {
                let (pointer, target) = self.pointer(text("pointer"))?;
                Walk::Reference { pointer, target }
            }
            WalkKind::Function => {
                let pointer = rule.expression("pointer").map(|text| self.number(text));
                let Ok(argument) = text("argument").parse() else {
                    return self.fail(text("argument"), "This is no number of an argument.");
                };
                Walk::Function {
                    symbol: self.number(text("symbol"))?,
                    argument,
                    pointer: pointer.transpose()?,
                }
            }
            WalkKind::Quantity => Walk::Quantity {
                value: self.expression(text("value"))?,
                unit: text("unit").to_owned(),
            },
            WalkKind::Duration => Walk::Duration {
                seconds: self.number(text("seconds"))?,
                nanoseconds: self.number(text("nanoseconds"))?,
            },
            WalkKind::Optional => Walk::Optional {
                present: self.number(text("present"))?,
                value: self.expression(text("value"))?,
            },
            WalkKind::Variant => Walk::Variant {
                index: self.number(text("index"))?,
                storage: self.number(text("storage"))?,
                alternatives: self.arguments.clone(),
            },
            WalkKind::Pointer => {
                let (pointer, target) = self.pointer(text("pointer"))?;
                Walk::Pointer { pointer, target }
            }
            WalkKind::Newtype => Walk::Newtype(self.expression(text("value"))?),
            WalkKind::Structure => {
                let part = |(key, text): (&str, &str)| Ok((key.to_owned(), self.expression(text)?));
                let parts = rule.expressions().map(part).collect::<Result<_>>()?;
                Walk::Structure(parts, rule.has_more())
            }
            WalkKind::Tuple => {
                let part = |(_, text)| self.expression(text);
                Walk::Tuple(rule.expressions().map(part).collect::<Result<_>>()?)
            }
            WalkKind::Bases => Walk::Tuple(self.bases(text("of"), text("member"))?),
        })
    }

    /// The member of a name in each base class of an object: in the order of the number that is the class's first template
    /// argument, or of the classes.
    fn bases(&self, of: &str, member: &str) -> Result<Vec<Node>> {
        let of = self.expression(of)?;
        let mut found = Vec::new();
        self.add_bases(&of, member, DEEPEST_PART, &mut found);
        let number = |node: &Node| -> Option<u64> {
            let found = self.symbols.type_of(strip(self.symbols, node.type_id).0);
            let Type::Structure {
                name: Some(name), ..
            } = &*found
            else {
                return None;
            };
            let (_, arguments) = name.split_once('<')?;
            arguments
                .split([',', '>', 'u', 'U'])
                .next()?
                .trim()
                .parse()
                .ok()
        };
        found.sort_by_key(|(base, _)| number(base));
        Ok(found.into_iter().map(|(_, part)| part).collect())
    }

    fn add_bases(&self, of: &Node, member: &str, depth: u32, found: &mut Vec<(Node, Node)>) {
        let Some(depth) = depth.checked_sub(1) else {
            return;
        };
        let stripped = strip(self.symbols, of.type_id).1;
        let Type::Structure { members, .. } = &*stripped else {
            return;
        };
        for inner in members.iter().filter(|inner| inner.bits.is_none()) {
            let is_wanted = inner.name.as_deref() == Some(member);
            if found.len() >= MOST_BASES
                || inner.offset == u64::MAX
                || !(is_wanted || inner.base_class)
            {
                continue;
            }
            let field = NodeKind::Field {
                of: of.clone().into(),
                offset: inner.offset,
                bits: None,
            };
            let field = Node::new(field, inner.type_id, of.span);
            if is_wanted {
                found.push((of.clone(), field));
            } else {
                self.add_bases(&field, member, depth, found);
            }
        }
    }

    /// The types that a value of the interface may have.
    fn candidates(&self) -> Vec<(u64, TypeId)> {
        let mut at = self.type_id;
        for _ in 0..DEEPEST_PART {
            let found = self.symbols.type_of(at);
            let (name, below) = match &*found {
                Type::Typedef { name, target } => (Some(name), Some(*target)),
                Type::Qualified { target, .. } => (None, Some(*target)),
                Type::Structure { name, .. } | Type::Pointer { name, .. } => (name.as_ref(), None),
                _ => (None, None),
            };
            if let Some(name) = name {
                let implementations = self.symbols.implementations(interface_name(name));
                if !implementations.is_empty() {
                    let plain = |(address, type_id): (Address, TypeId)| (address.0, type_id);
                    return implementations.into_iter().map(plain).collect();
                }
            }
            match below {
                Some(below) => at = below,
                None => break,
            }
        }
        Vec::new()
    }

    fn items(&self, rule: &TypeRule) -> Result<Items> {
        match (rule.expression("key"), rule.expression("value")) {
            (Some(key), Some(value)) => {
                Ok(Items::Pair(self.expression(key)?, self.expression(value)?))
            }
            _ => self
                .expression(rule.expression("element").unwrap_or(""))
                .map(Items::Element),
        }
    }
}
