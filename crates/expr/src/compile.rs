//! The compiled form of a script: conditions, and the actions of a tracepoint.

use std::collections::HashMap;
use std::rc::Rc;

use tracewire_agent_expr::{Builder, Opcode};
use tracewire_arch::{Architecture, Machine};
use tracewire_model::{Action, RegisterMask, VariableNumber};

use crate::code::finish;
use crate::collect::{Collected, Collection, is_text};
use crate::emit::{Emitter, Traced, Tracing};
use crate::follow::CollectLimits;
use crate::inlined::{inlined_variables, is_inlined};
use crate::int_expr::IntExpr;
use crate::location::Locator;
use crate::lower::Lower;
use crate::node::{Node, NodeKind};
use crate::redaction::{self, Frame, is_redacted};
use crate::register_names::program_counter;
use crate::resolve::{Resolver, Result, StateVariables, resolve};
use crate::stack::{StackEnd, StackItem, StackWalk, item_name};
use crate::walk::TypeWalks;
use crate::{ExpressionError, ExpressionErrorKind};
use tracewire_debuginfo::{Scope, Symbols, VariableLocation, plain_name};

/// The trace state variables that exist.
pub trait Variables {
    /// The number of the variable called `name` (without the `$`); `None` if there is none.
    fn number(&self, name: &str) -> Option<VariableNumber>;
}

impl<F: Fn(&str) -> Option<VariableNumber>> Variables for F {
    fn number(&self, name: &str) -> Option<VariableNumber> {
        self(name)
    }
}

/// [`Variables`] in the form of the resolver.
pub(crate) struct Numbered<'a>(pub(crate) &'a dyn Variables);

impl StateVariables for Numbered<'_> {
    fn lookup(&self, name: &str) -> Option<Option<VariableNumber>> {
        self.0.number(name).map(Some)
    }
}

/// Options of `collect`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CollectOptions {
    /// `collect/s`: a `char` pointer is followed, and the string there collected up to its NUL, at most so many
    /// bytes; the text of a Rust `&str` likewise. The inner `None` is GDB's default of 200.
    pub string: Option<Option<u64>>,
    /// How much is collected of the targets of containers, strings and owning pointers.
    pub limits: CollectLimits,
}

/// A message for the user about an action that was compiled nevertheless.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// The variable that is left out of a list (`$locals`, `$args`), or the expression.
    pub name: String,
    /// Why: it was optimized out, or its place cannot be worked out.
    pub message: String,
}

/// Compiles a tracepoint's condition (`if TEXT`) as seen from a place, to bytecode that leaves its truth value.
///
/// # Errors
/// When the text is no expression, names something that is not there, or needs what agent expressions cannot do.
pub fn compile_condition(
    symbols: &Symbols,
    scope: impl Into<Scope>,
    text: &str,
    variables: &dyn Variables,
) -> Result<Vec<u8>> {
    let scope = scope.into();
    let numbered = Numbered(variables);
    let node = resolve(symbols, scope, text, &numbered)?;
    // A condition reveals only whether it holds; a variable keeps a value.
    if assigns(&node) {
        redaction::refuse(symbols, scope, &node, text)?;
    }
    let resolver = Resolver::new(symbols, scope, text, &numbered);
    let node = resolver.testable(resolver.value(node))?;
    program(&lower(symbols, scope, text).truth(&node)?, text)
}

/// Checks whether the value of an expression may be kept.
///
/// # Errors
/// When it leads to redacted data, or is no expression.
pub fn check_redaction(
    symbols: &Symbols,
    scope: impl Into<Scope>,
    text: &str,
    variables: &dyn Variables,
) -> Result<()> {
    if symbols.redactions().is_empty() {
        return Ok(());
    }
    let scope = scope.into();
    let node = resolve(symbols, scope, text, &Numbered(variables))?;
    redaction::refuse(symbols, scope, &node, text)
}

/// Whether a trace state variable is given a value.
fn assigns(node: &Node) -> bool {
    matches!(node.kind, NodeKind::Assign(..)) || node.operands().into_iter().any(assigns)
}

/// The lowering of an expression to computations at a hit, where only its own call frame is known.
pub(crate) fn lower<'a>(symbols: &'a Symbols, scope: Scope, text: &'a str) -> Lower<'a> {
    Lower {
        locator: Locator {
            symbols,
            pc: scope.pc,
            callers: false,
        },
        text,
        subjects: None,
        names: Rc::default(),
        known: Vec::new(),
    }
}

/// Bytecode that leaves a number and collects nothing.
pub(crate) fn program(number: &IntExpr, text: &str) -> Result<Vec<u8>> {
    let mut registers = RegisterMask::default();
    let mut emitter = Emitter {
        builder: Builder::new(),
        tracing: Tracing::Nothing,
        depth: 0,
        registers: &mut registers,
        traced: Traced::default(),
        bound: HashMap::new(),
    };
    emitter.expr(number);
    finish(emitter.builder, text)
}

/// Compiles `teval TEXT` as seen from a place. The value of the last expression stays on the stack, as GDB leaves it.
///
/// # Errors
/// As [`compile_condition`].
pub fn compile_teval(
    symbols: &Symbols,
    scope: impl Into<Scope>,
    text: &str,
    variables: &dyn Variables,
) -> Result<Vec<u8>> {
    let scope = scope.into();
    let node = resolve(symbols, scope, text, &Numbered(variables))?;
    redaction::refuse(symbols, scope, &node, text)?;
    compile_condition(symbols, scope, text, variables)
}

/// Compiles one item of `collect`: an [`ActionList`] of one item.
///
/// # Errors
/// As [`ActionList::collect`].
pub fn compile_collect(
    symbols: &Symbols,
    scope: impl Into<Scope>,
    item: &str,
    options: CollectOptions,
    variables: &dyn Variables,
) -> Result<(Vec<Action>, Vec<Warning>)> {
    let mut list = ActionList::new(symbols, scope, variables);
    let warnings = list.collect(item, options)?;
    Ok((list.finish(), warnings))
}

/// The actions of one tracepoint location (or of its `while-stepping`), put together from the lines of its
/// `actions` block. As in GDB, the registers and the memory at fixed addresses are gathered over all lines, and
/// the expressions follow in the order of the lines.
pub struct ActionList<'a> {
    symbols: &'a Symbols,
    scope: Scope,
    variables: &'a dyn Variables,
    all_registers: RegisterMask,
    registers: RegisterMask,
    /// (address, length) of memory at fixed addresses.
    memory: Vec<(u64, u64)>,
    programs: Vec<Vec<u8>>,
    static_data: bool,
    stack_end: StackEnd,
    walks: TypeWalks<'a>,
    /// The redacted data in the call frame of the place.
    frame: Frame,
}

/// A `$name` that stands for several items.
enum Group {
    Registers,
    Arguments,
    Locals,
    ReturnAddress,
    StaticData,
    Inlined,
}

fn group(item: &str) -> Option<Group> {
    let lower = item.to_ascii_lowercase();
    let name = lower.strip_prefix('$')?;
    if !name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        return None;
    }
    // GDB looks at the first letters only.
    match name {
        _ if name.starts_with("reg") => Some(Group::Registers),
        _ if name.starts_with("arg") => Some(Group::Arguments),
        _ if name.starts_with("loc") => Some(Group::Locals),
        _ if name.starts_with("_ret") => Some(Group::ReturnAddress),
        _ if name.starts_with("_sdata") => Some(Group::StaticData),
        _ if is_inlined(item) => Some(Group::Inlined),
        _ => None,
    }
}

impl<'a> ActionList<'a> {
    /// No actions yet. `$regs` stands for the registers of the machine's core feature (general, segment, flags, x87), unless
    /// [`with_all_registers`](Self::with_all_registers) sets others.
    #[must_use]
    pub fn new(
        symbols: &'a Symbols,
        scope: impl Into<Scope>,
        variables: &'a dyn Variables,
    ) -> Self {
        let architecture = symbols.architecture().unwrap_or(Architecture::X86_64);
        let core = Machine::with_linux(architecture).core_registers();
        let scope = scope.into();
        Self {
            frame: Frame::of(symbols, scope),
            symbols,
            scope,
            variables,
            all_registers: core.iter().copied().collect(),
            registers: RegisterMask::default(),
            memory: Vec::new(),
            programs: Vec::new(),
            static_data: false,
            stack_end: StackEnd::default(),
            walks: TypeWalks::new(symbols),
        }
    }

    /// What says where the stack ends, over which `$stack` does not read.
    #[must_use]
    pub const fn with_stack_end(mut self, stack_end: StackEnd) -> Self {
        self.stack_end = stack_end;
        self
    }

    /// Sets the registers that `$regs` stands for.
    #[must_use]
    pub fn with_all_registers(mut self, all: RegisterMask) -> Self {
        self.all_registers = all;
        self
    }

    /// Adds one item of a `collect` line, a part between two commas at the top level (see [`split_items`](crate::split_items)):
    /// `$regs`, `$args`, `$locals`, `$inlined`, `$_ret`, `$_sdata`, `$stack`, `$register`, a trace state variable, or any
    /// expression. Returns the parts that were left out, with the reasons.
    ///
    /// A later [`evaluate`](crate::evaluate) of the item on the collected data succeeds: the pointers on the way to a value are
    /// collected too, and the registers that lead to it.
    ///
    /// # Errors
    /// When the item is no expression, names something that does not exist, was optimized out, or needs operations that agent
    /// expressions do not have. The list is unchanged then.
    pub fn collect(&mut self, item: &str, options: CollectOptions) -> Result<Vec<Warning>> {
        let item = item.trim();
        let string = options.string.map(|limit| limit.unwrap_or(200));
        let limits = CollectLimits {
            string: string.unwrap_or(options.limits.string),
            ..options.limits
        };
        match group(item) {
            Some(Group::Registers) if !self.frame.is_empty() => {
                self.add_registers(&self.frame.plain_registers(self.architecture()));
                let message = format!(
                    "only the program counter, the stack pointer and the frame pointer are collected, because {} is redacted",
                    self.frame.names()
                );
                let name = item.to_owned();
                return Ok(vec![Warning { name, message }]);
            }
            Some(Group::Registers) => {
                self.all_registers
                    .clone()
                    .iter()
                    .for_each(|register| self.registers.insert(register));
                return Ok(Vec::new());
            }
            Some(Group::StaticData) => {
                self.static_data = true;
                return Ok(Vec::new());
            }
            Some(Group::ReturnAddress) => {
                let collection = Collection::return_address(self.lower(item), &self.walks)?;
                self.merge(collection);
                return Ok(Vec::new());
            }
            Some(group @ (Group::Arguments | Group::Locals)) => {
                if let Some(message) = self.symbols.no_variables(self.scope) {
                    let name = item.to_owned();
                    return Ok(vec![Warning { name, message }]);
                }
                let variables = self.symbols.variables_at(self.scope);
                let variables = match group {
                    Group::Arguments => variables.arguments,
                    _ => variables.locals,
                };
                return Ok(self.collect_all(self.scope, variables, string, limits));
            }
            Some(Group::Inlined) => {
                return Ok(match inlined_variables(self.symbols, self.scope.pc) {
                    Ok(variables) => {
                        self.collect_all(self.scope.pc.into(), variables, string, limits)
                    }
                    Err(message) => {
                        let name = item.to_owned();
                        vec![Warning { name, message }]
                    }
                });
            }
            None => {}
        }
        let is_variable = |name: &str| self.variables.number(name).is_some();
        if let Some(stack) = StackItem::parse(item)
            && !item_name(item).is_some_and(is_variable)
        {
            let (collected, warning) = self.stack(item, stack)?;
            self.merge(collected);
            return Ok(warning.into_iter().collect());
        }
        let numbered = Numbered(self.variables);
        let node = resolve(self.symbols, self.scope, item, &numbered)?;
        if is_redacted(self.symbols, self.scope, &node) {
            return Ok(vec![redacted(item)]);
        }
        let collect = |collection: &mut Collection<'_>| collection.node(&node);
        let collected =
            Collection::within_limits(self.lower(item), &self.walks, string, limits, collect)?;
        let mut warnings = Vec::new();
        if collected.of_caller {
            warnings.push(self.of_caller(self.scope, item));
        }
        if string.is_none() && is_text(self.symbols, node.type_id) {
            warnings.push(Warning {
                name: item.to_owned(),
                message: format!("the address is collected; `/s {item}` collects the text, too"),
            });
        }
        self.merge(collected);
        Ok(warnings)
    }

    fn stack(
        &self,
        item: &str,
        stack: std::result::Result<StackItem, String>,
    ) -> Result<(Collected, Option<Warning>)> {
        let unsupported = |message| {
            let span = crate::Span {
                start: 0,
                end: item.len(),
            };
            ExpressionError::new(ExpressionErrorKind::Unsupported(message), item, span)
        };
        let stack = stack.map_err(unsupported)?;
        let architecture = self.architecture();
        if stack.walk == StackWalk::FramePointers {
            return self.frame_pointers(item, stack).ok_or_else(|| {
                let message = "$stack_fp walks the frame pointers of x86-64 only; use $stack.";
                unsupported(message.to_owned())
            })?;
        }
        let length = stack.length(architecture, self.stack_end);
        if self.frame.is_empty() {
            let mut program = length;
            program.op(Opcode::Trace);
            let collected = Collected {
                registers: StackItem::registers(architecture),
                program: Some(finish(program, item)?),
                ..Collected::default()
            };
            return Ok((collected, None));
        }
        let collection = Collection::new(self.lower(item), &self.walks, None, CollectLimits::NONE);
        let around = self.frame.around(self.symbols, self.scope.pc);
        let is_known = around.is_some();
        let mut collected = match around {
            Some(around) => collection.stack_around(length, &around)?,
            None => Collected::default(),
        };
        let plain = self.frame.plain_registers(architecture);
        plain
            .iter()
            .for_each(|register| collected.registers.insert(register));
        let names = self.frame.names();
        let message = match is_known {
            true => format!(
                "of the innermost frame only what leads to its caller is collected, because {names} is redacted"
            ),
            false => format!("the stack is not collected, because {names} is redacted"),
        };
        let name = item.to_owned();
        Ok((collected, Some(Warning { name, message })))
    }

    /// What frame pointers lead to; `None` on a machine where they are not walked. Of a frame with redacted variables, nothing is
    /// collected: what the compiler takes for no frame pointer may lead to one of them.
    fn frame_pointers(
        &self,
        item: &str,
        stack: StackItem,
    ) -> Option<Result<(Collected, Option<Warning>)>> {
        let architecture = self.architecture();
        let program = stack.frame_pointers(architecture, self.stack_end)?;
        if !self.frame.is_empty() {
            let collected = Collected {
                registers: self.frame.plain_registers(architecture),
                ..Collected::default()
            };
            let names = self.frame.names();
            let warning = Warning {
                name: item.to_owned(),
                message: format!(
                    "the stack is not collected, because {names} is redacted; $stack collects what leads to the caller"
                ),
            };
            return Some(Ok((collected, Some(warning))));
        }
        let collected = finish(program, item).map(|program| Collected {
            registers: StackItem::registers(architecture),
            program: Some(program),
            ..Collected::default()
        });
        Some(collected.map(|collected| (collected, None)))
    }

    fn architecture(&self) -> Architecture {
        self.symbols.architecture().unwrap_or(Architecture::X86_64)
    }

    fn add_registers(&mut self, registers: &RegisterMask) {
        registers
            .iter()
            .for_each(|register| self.registers.insert(register));
    }

    fn lower<'b>(&self, text: &'b str) -> Lower<'b>
    where
        'a: 'b,
    {
        Lower {
            locator: Locator {
                symbols: self.symbols,
                pc: self.scope.pc,
                callers: true,
            },
            text,
            subjects: None,
            names: Rc::default(),
            known: Vec::new(),
        }
    }

    fn collect_all(
        &mut self,
        scope: Scope,
        variables: Vec<tracewire_debuginfo::Variable>,
        string: Option<u64>,
        limits: CollectLimits,
    ) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for variable in variables {
            let name = variable.name.clone();
            let lost = || {
                let place = (self.symbols).nearest_value(scope, plain_name(&name));
                place.map_or_else(
                    || "optimized out".to_owned(),
                    |place| format!("optimized out; it has a value at {place}"),
                )
            };
            if matches!(variable.location, VariableLocation::OptimizedOut) {
                let message = lost();
                warnings.push(Warning { name, message });
                continue;
            }
            let numbered = Numbered(self.variables);
            let resolver = Resolver::new(self.symbols, self.scope, &name, &numbered);
            let node = resolver.place(
                variable,
                crate::Span {
                    start: 0,
                    end: name.len(),
                },
            );
            if is_redacted(self.symbols, self.scope, &node) {
                warnings.push(redacted(&name));
                continue;
            }
            let collect = |collection: &mut Collection<'_>| collection.node(&node);
            let lower = self.lower(&name);
            match Collection::within_limits(lower, &self.walks, string, limits, collect) {
                Ok(collected) => {
                    if collected.of_caller {
                        warnings.push(self.of_caller(scope, &name));
                    }
                    self.merge(collected);
                }
                Err(error) => {
                    let message = match error.kind() {
                        ExpressionErrorKind::OptimizedOut(_) => lost(),
                        ExpressionErrorKind::NoLocation { reason, .. } => reason.clone(),
                        other => other.to_string(),
                    };
                    warnings.push(Warning { name, message });
                }
            }
        }
        warnings
    }

    /// The warning that a value is shown only if the caller's debug information describes it.
    fn of_caller(&self, scope: Scope, name: &str) -> Warning {
        let place = self.symbols.nearest_value(scope, plain_name(name));
        let place = place.map_or_else(String::new, |place| format!("; it is kept at {place}"));
        Warning {
            name: name.to_owned(),
            message: format!(
                "it is lost here, and shown where the caller's debug information tells it{place}"
            ),
        }
    }

    fn merge(&mut self, collected: Collected) {
        collected
            .registers
            .iter()
            .for_each(|register| self.registers.insert(register));
        self.memory.extend(collected.memory);
        self.programs.extend(collected.program);
    }

    /// Adds a `teval`.
    ///
    /// # Errors
    /// As [`compile_condition`].
    pub fn teval(&mut self, text: &str) -> Result<()> {
        let program = compile_teval(self.symbols, self.scope, text, self.variables)?;
        self.programs.push(program);
        Ok(())
    }

    /// Whether frames have only the registers that the actions request: others may hold redacted data.
    #[must_use]
    pub fn withholds_registers(&self) -> bool {
        !self.frame.is_empty() || self.symbols.redactions().has_own()
    }

    /// The actions: static data (`L`), registers (`R`, the program counter among them), memory (`M`), then
    /// expressions (`X`).
    #[must_use]
    pub fn finish(mut self) -> Vec<Action> {
        let architecture = self.architecture();
        if self.withholds_registers() {
            self.add_registers(&self.frame.plain_registers(architecture));
        }
        // A register that holds redacted data may hold other data besides.
        self.registers = (self.registers.iter())
            .filter(|register| !self.frame.holds(*register))
            .collect();
        self.registers.insert(program_counter(architecture));
        let mut actions = Vec::new();
        if self.static_data {
            actions.push(Action::StaticData);
        }
        actions.push(Action::Registers(self.registers));
        self.memory.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (start, length) in self.memory {
            match merged.last_mut() {
                Some((last, so_far)) if start - *last <= *so_far => {
                    *so_far = (*so_far).max((start - *last).saturating_add(length));
                }
                _ => merged.push((start, length)),
            }
        }
        actions.extend(merged.into_iter().map(|(offset, length)| Action::Memory {
            base: None,
            offset,
            length,
        }));
        actions.extend(self.programs.into_iter().map(Action::Expression));
        actions
    }
}

/// The warning that nothing of an item is collected.
fn redacted(name: &str) -> Warning {
    Warning {
        name: name.to_owned(),
        message: "redacted; nothing of it is collected (--no-default-redactions records what only the default patterns fit)".to_owned(),
    }
}
