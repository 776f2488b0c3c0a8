//! Literals and names: the leaves of an expression.

use std::rc::Rc;

use tracewire_arch::Architecture;

use crate::error::{ExpressionErrorKind, Span};
use crate::node::{Node, NodeKind, Subject};
use crate::register_names::{NamedRegister, RegisterKind, named_register};
use crate::resolve::{Resolver, Result};
use crate::scalar::{Scalar, scalar, strip};
use crate::syntax::{BinaryOperator, Expression, ExpressionKind};
use tracewire_debuginfo::{
    ArrayBound, BaseEncoding, Language, Symbols, Type, TypeId, Variable, VariableKind,
    VariableLocation,
};

/// The name of a function's return value, after its `$`.
pub(crate) const RETURN_VALUE: &str = "retval";

/// How deep types are looked into for their alignment.
const DEEPEST_TYPE: u32 = 16;

/// The alignment of a type, which debug information does not say: that of its largest part.
fn alignment(symbols: &Symbols, type_id: TypeId, depth: u32) -> u64 {
    let Some(depth) = depth.checked_sub(1) else {
        return 1;
    };
    match &*strip(symbols, type_id).1 {
        Type::Structure { members, .. } => {
            let of_members = members
                .iter()
                .take(256)
                .map(|member| alignment(symbols, member.type_id, depth));
            of_members.max().unwrap_or(1)
        }
        Type::Array { element, .. } => alignment(symbols, *element, depth),
        Type::Base { size, .. }
        | Type::Enumeration { size, .. }
        | Type::Pointer { size, .. }
        | Type::Reference { size, .. } => (*size).clamp(1, 16).next_power_of_two(),
        _ => 8,
    }
}

impl Resolver<'_> {
    pub(crate) fn integer_literal(
        &self,
        value: u128,
        decimal: bool,
        suffix: &str,
        span: Span,
    ) -> Result<Node> {
        let fits = |bits: u32| value < 1_u128 << bits;
        let long_bits = 8 * u32::from(
            self.symbols
                .architecture()
                .unwrap_or(Architecture::X86_64)
                .pointer_size(),
        );
        let name = if self.language == Language::Rust {
            match suffix {
                "" if fits(31) => "i32",
                "" if fits(63) => "i64",
                "" => "i128",
                suffix => suffix,
            }
        } else {
            let suffix = suffix.to_ascii_lowercase();
            let unsigned_only = suffix.contains('u');
            let longs = suffix.matches('l').count();
            let unsigned = unsigned_only || !decimal || !fits(63);
            match () {
                () if longs == 0 && !unsigned_only && fits(31) => "int",
                () if longs == 0 && unsigned && fits(32) => "unsigned int",
                () if longs <= 1 && !unsigned_only && fits(long_bits - 1) => "long",
                () if longs <= 1 && unsigned && fits(long_bits) => "unsigned long",
                () if !unsigned_only && fits(63) => "long long",
                () if unsigned && fits(64) => "unsigned long long",
                () => {
                    let kind =
                        ExpressionErrorKind::Syntax("Numeric constant too large.".to_owned());
                    return self.error(kind, span);
                }
            }
        };
        if name.starts_with('f') {
            return Ok(Node::new(
                NodeKind::Float(value as f64),
                self.builtin(name),
                span,
            ));
        }
        Ok(Node::new(
            NodeKind::Integer(value as i128),
            self.builtin(name),
            span,
        ))
    }

    pub(crate) fn character(&self, value: u32, prefix: &str, span: Span) -> Node {
        let name = match (prefix, self.language) {
            ("b", Language::Rust) => "u8",
            (_, Language::Rust) => {
                let char_type = Type::Base {
                    name: "char".to_owned(),
                    size: 4,
                    encoding: BaseEncoding::Utf,
                };
                let type_id = self.symbols.make_type(char_type);
                return Node::new(NodeKind::Integer(i128::from(value)), type_id, span);
            }
            ("L", _) => "wchar_t",
            ("u", _) => "char16_t",
            ("U", _) => "char32_t",
            _ => "char",
        };
        let value = if name == "char" {
            i128::from(value as u8 as i8)
        } else {
            i128::from(value)
        };
        Node::new(NodeKind::Integer(value), self.builtin(name), span)
    }

    pub(crate) fn string(&self, bytes: &[u8], span: Span) -> Node {
        let mut bytes = bytes.to_vec();
        bytes.push(0);
        let type_id = self
            .symbols
            .array_of(self.builtin("char"), bytes.len() as u64);
        Node::new(NodeKind::Bytes(bytes.into()), type_id, span)
    }

    /// A variable, a function, an enumerator, or a member of `this`.
    pub(crate) fn name(&self, name: &str, span: Span) -> Result<Node> {
        if let Some(rule) = self.rule {
            if let Some(argument) = name.strip_prefix('A')
                && let Some(type_id) = rule.argument(&format!("T{argument}"))
            {
                let alignment = alignment(self.symbols, type_id, DEEPEST_TYPE);
                let kind = NodeKind::Integer(i128::from(alignment));
                return Ok(Node::new(kind, self.builtin("unsigned long"), span));
            }
            if let Some(number) = name.strip_prefix('V')
                && let Some(value) = number.parse().ok().and_then(|n: usize| rule.values.get(n))
            {
                let kind = NodeKind::Integer(*value);
                return Ok(Node::new(kind, self.builtin("long"), span));
            }
            // A rule sees only the value.
            let object = Node::new(NodeKind::Subject(Subject::Object), rule.object, span);
            return self.member(object, name, span, span);
        }
        if self.language == Language::Rust && matches!(name, "true" | "false")
            || matches!(self.language, Language::Cpp | Language::Go)
                && matches!(name, "true" | "false")
        {
            return Ok(Node::new(
                NodeKind::Integer(i128::from(name == "true")),
                self.builtin("bool"),
                span,
            ));
        }
        let variable = self.symbols.lookup_variable(Some(self.scope.get()), name);
        // A symbol without debug information gives way to everything that has some.
        if let Some(variable) = &variable
            && variable.kind != VariableKind::Symbol
        {
            return Ok(self.place(variable.clone(), span));
        }
        if let Some((entry, type_id)) = self.symbols.lookup_function(Some(self.scope.get()), name) {
            return Ok(Node::new(NodeKind::Function(entry.0), type_id, span));
        }
        if let Some(this) = self.symbols.lookup_variable(Some(self.scope.get()), "this") {
            let this = self.place(this, span);
            if let Ok(member) = self.member(this, name, span, span) {
                return Ok(member);
            }
        }
        if variable.is_some() {
            let message = format!("'{name}' has unknown type; cast it to its declared type");
            return self.type_error(message, span);
        }
        let near = self.near_names(name);
        self.error(
            ExpressionErrorKind::NoSymbol {
                name: name.to_owned(),
                near,
            },
            span,
        )
    }

    /// The node of a variable: the place itself, or, for a variable-length array, as many elements as it has.
    pub(crate) fn place(&self, variable: Variable, span: Span) -> Node {
        let type_id = variable.type_id;
        let place = Node::new(NodeKind::Place(Rc::new(variable)), type_id, span);
        let Scalar::Array {
            element,
            count: None,
        } = scalar(self.symbols, type_id)
        else {
            return place;
        };
        let (array, _) = strip(self.symbols, type_id);
        let long = self.builtin("long");
        let bound = |location: VariableLocation, type_id: TypeId| {
            let variable = Variable {
                name: "(array bound)".to_owned(),
                type_id,
                kind: VariableKind::Local,
                location,
                artificial: true,
                shadowed: false,
                depth: 0,
            };
            Node::new(NodeKind::Place(Rc::new(variable)), type_id, span)
        };
        // An expression that leaves a number is one that leaves the address of something at that number.
        let number = |expression| {
            let place = bound(VariableLocation::Expression(expression), long);
            Node::new(
                NodeKind::AddressOf(place.into()),
                self.symbols.pointer_to(long),
                span,
            )
        };
        let (number, last) = match self.symbols.array_bound(array, self.scope.get().pc) {
            None => return place,
            Some(ArrayBound::Last(last)) => {
                let count = u64::try_from(last.saturating_add(1)).unwrap_or(0);
                let type_id = self.symbols.array_of(element, count);
                return Node { type_id, ..place };
            }
            Some(ArrayBound::CountAt(location, type_id)) => (bound(location, type_id), false),
            Some(ArrayBound::LastAt(location, type_id)) => (bound(location, type_id), true),
            Some(ArrayBound::CountIs(expression)) => (number(expression), false),
            Some(ArrayBound::LastIs(expression)) => (number(expression), true),
        };
        let mut count = self.convert(number, long);
        if last {
            let one = Node::new(NodeKind::Integer(1), long, span);
            let sum = NodeKind::Arithmetic(BinaryOperator::Add, count.into(), one.into());
            count = Node::new(sum, long, span);
        }
        let first = NodeKind::Field {
            of: place.into(),
            offset: 0,
            bits: None,
        };
        let first = Node::new(first, element, span);
        Node::new(NodeKind::Repeat(first.into(), count.into()), type_id, span)
    }

    fn near_names(&self, name: &str) -> Vec<String> {
        let scope = self.symbols.variables_at(self.scope.get());
        let names =
            (scope.arguments.iter().chain(&scope.locals)).map(|variable| variable.name.as_str());
        crate::items::near(name, names)
    }

    /// `(type) symbol`, where the symbol has no debug information: the object at the symbol, of that type.
    pub(crate) fn untyped_symbol(&self, operand: &Expression, to: TypeId) -> Option<Node> {
        let ExpressionKind::Name(name) = &operand.kind else {
            return None;
        };
        let variable = self.symbols.lookup_variable(Some(self.scope.get()), name)?;
        let untyped = variable.kind == VariableKind::Symbol
            && self
                .symbols
                .lookup_function(Some(self.scope.get()), name)
                .is_none();
        untyped.then(|| {
            let variable = Variable {
                type_id: to,
                ..variable
            };
            Node::new(NodeKind::Place(Rc::new(variable)), to, operand.span)
        })
    }

    pub(crate) fn dollar(&self, name: &str, span: Span) -> Result<Node> {
        if let Some(rule) = self.rule {
            let subject = match name {
                "this" => Some((Subject::Object, rule.object)),
                "node" => rule.node.map(|node| (Subject::Node, node)),
                "index" => {
                    (rule.has_index).then(|| (Subject::Index, self.builtin("unsigned long")))
                }
                _ => None,
            };
            let Some((subject, type_id)) = subject else {
                return self.error(ExpressionErrorKind::NoVariable(name.to_owned()), span);
            };
            return Ok(Node::new(NodeKind::Subject(subject), type_id, span));
        }
        let architecture = self.symbols.architecture().unwrap_or(Architecture::X86_64);
        if let Some(register) = named_register(architecture, name) {
            let type_id = self.register_type(register);
            return Ok(Node::new(
                NodeKind::Register(register.number, register.offset),
                type_id,
                span,
            ));
        }
        if let Some(value) = self.marker_value(name, span) {
            return value;
        }
        match self.variables.lookup(name) {
            // No variable of a run has the name.
            Some(None) | None if name == RETURN_VALUE => self.return_value(span),
            Some(number) => {
                let kind = NodeKind::Variable(Rc::from(name), number);
                Ok(Node::new(kind, self.builtin("int64_t"), span))
            }
            None => self.error(ExpressionErrorKind::NoVariable(name.to_owned()), span),
        }
    }

    /// `$retval`: the function's return value, at a return.
    pub(crate) fn return_value(&self, span: Span) -> Result<Node> {
        match self.symbols.return_value(self.scope.get().pc) {
            Ok((type_id, location)) => {
                let variable = Variable {
                    name: format!("${RETURN_VALUE}"),
                    type_id,
                    kind: VariableKind::Local,
                    location,
                    artificial: true,
                    shadowed: false,
                    depth: 0,
                };
                Ok(self.place(variable, span))
            }
            Err(error) => {
                let kind = ExpressionErrorKind::NoLocation {
                    name: format!("${RETURN_VALUE}"),
                    reason: error.to_string(),
                };
                self.error(kind, span)
            }
        }
    }

    /// The type that GDB's target description gives a register.
    pub(crate) fn register_type(&self, register: NamedRegister) -> TypeId {
        let symbols = self.symbols;
        let pointer = |target| symbols.pointer_to(target);
        match register.kind {
            RegisterKind::Integer => self.builtin(match register.size {
                1 => "int8_t",
                2 => "int16_t",
                4 => "int32_t",
                _ => "int64_t",
            }),
            RegisterKind::DataPointer => pointer(self.builtin("void")),
            RegisterKind::CodePointer => pointer(symbols.make_type(Type::Function {
                returns: self.builtin("void"),
                parameters: Vec::new(),
                // Shown as `void (*)()`.
                variadic: true,
            })),
            RegisterKind::Float => self.builtin(match register.size {
                4 => "float",
                _ => "double",
            }),
            RegisterKind::Flags => crate::register_types::flags(symbols),
            RegisterKind::X87 => self.builtin("builtin_type_i387_ext"),
            RegisterKind::Vector => crate::register_types::vector(symbols),
        }
    }
}
