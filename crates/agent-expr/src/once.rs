//! Collecting each byte once: removes from the programs of one frame the collections of already collected data.
//!
//! A debugger compiles each expression separately. `r->uri.data` and `r->uri.len` collect the pointer `r` each, and an array whose
//! length is a member collects that member at each mention. The programs are followed here without a target, as terms over
//! registers and memory: equal terms are equal numbers, since a hit sees memory at one moment.
//!
//! A collection is removed if every path to it has made it. Programs end early if memory cannot be read. So an earlier program's
//! collections count for a later one only if each possible failure before them would also end the later one. Members of one object
//! count as readable together.

use std::collections::{BTreeSet, HashMap};

use crate::instruction::{Instruction, instructions};
use crate::opcode::Opcode;
use crate::verify::verify;

/// How much work is done for one frame's programs, in instructions followed and facts copied.
const BUDGET: usize = 200_000;

/// How many collections are remembered.
const MOST_REGIONS: usize = 500;

/// How many bytes a frame has room for in any case.
const LONGEST: u64 = 65536;

/// The greatest distance between members of one object, in bytes.
const OBJECT: u64 = 4096;

/// Changes nothing, in two bytes: `zero_ext 64`.
const NOTHING: [u8; 2] = [Opcode::ZeroExt as u8, 64];

type Term = usize;

/// A number that a program computes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Constant(u64),
    /// A term that is none of these two, and a number.
    Sum(Term, u64),
    Register(u64),
    Load(Term, Opcode),
    Operation(Opcode, u64, Vec<Term>),
    /// One that is equal to no other.
    Unknown(usize),
}

/// Memory that has been collected.
#[derive(Clone, Copy, Debug)]
struct Region {
    base: Option<Term>,
    offset: u64,
    length: u64,
    /// Whether it counts for later programs.
    certain: bool,
}

/// The known state at an instruction.
#[derive(Clone, Debug)]
struct State {
    stack: Vec<Term>,
    /// The regions that have been collected.
    collected: BTreeSet<usize>,
    /// The terms whose evaluation may have failed.
    fallible: BTreeSet<Term>,
}

/// The collections for one frame, in the order in which they are made.
#[derive(Debug)]
pub struct CollectOnce {
    terms: Vec<Kind>,
    known: HashMap<Kind, Term>,
    regions: Vec<Region>,
    /// Those that all programs so far have collected for certain.
    collected: BTreeSet<usize>,
    budget: usize,
}

impl Default for CollectOnce {
    fn default() -> Self {
        Self {
            terms: Vec::new(),
            known: HashMap::new(),
            regions: Vec::new(),
            collected: BTreeSet::new(),
            budget: BUDGET,
        }
    }
}

impl CollectOnce {
    /// Whether memory at an offset from a register, or at an address, has been collected. It counts as collected from
    /// now on.
    pub fn memory(&mut self, base: Option<u16>, offset: u64, length: u64) -> bool {
        let address = match base {
            Some(register) => {
                let register = self.term(Kind::Register(u64::from(register)));
                self.sum(register, offset)
            }
            None => self.term(Kind::Constant(offset)),
        };
        let mut collected = std::mem::take(&mut self.collected);
        let again = self.collect(address, length, &mut collected, &BTreeSet::new());
        self.collected = collected;
        again
    }

    /// The program without the collections that were already made; `None` if it is unchanged. Its own collections count as made
    /// from now on. A program that cannot be evaluated is unchanged.
    pub fn program(&mut self, program: &[u8]) -> Option<Vec<u8>> {
        let verified = verify(program).ok()?;
        if verified.has_loops() || !verified.collects_memory() {
            return None;
        }
        let code: Vec<_> = instructions(program).collect::<Result<_, _>>().ok()?;
        self.budget = self.budget.checked_sub(code.len())?;
        let mut rewritten = program.to_vec();
        let mut ends: Option<BTreeSet<usize>> = None;
        let mut states: Vec<Option<State>> = vec![None; code.len()];
        if let Some(first) = states.first_mut() {
            *first = Some(State {
                stack: Vec::new(),
                collected: self.collected.clone(),
                fallible: BTreeSet::new(),
            });
        }
        let is_target = |offset: usize| {
            code.iter().any(|one| {
                matches!(one.opcode, Opcode::Goto | Opcode::IfGoto)
                    && one.operand.number() == offset as u64
            })
        };
        for (index, instruction) in code.iter().enumerate() {
            // No path leads to it.
            let Some(mut state) = states.get_mut(index).and_then(Option::take) else {
                continue;
            };
            if self.follow(instruction, &mut state) {
                let at = instruction.offset;
                let next = code.get(index + 1);
                match instruction.opcode {
                    Opcode::TraceQuick => {
                        rewritten.get_mut(at..at + 2)?.copy_from_slice(&NOTHING);
                    }
                    // The value that it leaves on the stack is not used.
                    Opcode::Trace
                        if next.is_some_and(|next| {
                            next.opcode == Opcode::End && !is_target(next.offset)
                        }) =>
                    {
                        *rewritten.get_mut(at)? = Opcode::Pop as u8;
                    }
                    _ => {}
                }
            }
            let jump = match instruction.opcode {
                Opcode::Goto | Opcode::IfGoto => {
                    let target = usize::try_from(instruction.operand.number()).ok()?;
                    let target = code.binary_search_by_key(&target, |one| one.offset);
                    Some(target.ok()?)
                }
                _ => None,
            };
            let next = match instruction.opcode {
                Opcode::Goto => None,
                Opcode::End => {
                    let here = state.collected.iter().copied();
                    ends = Some(match ends {
                        None => here.collect(),
                        Some(others) => others.intersection(&state.collected).copied().collect(),
                    });
                    None
                }
                _ => Some(index + 1),
            };
            if jump.is_some() {
                let size = state.stack.len() + state.collected.len() + state.fallible.len();
                self.budget = self.budget.checked_sub(size)?;
            }
            if let Some(target) = jump {
                self.lead(states.get_mut(target)?, &state);
            }
            if let Some(next) = next {
                self.lead(states.get_mut(next)?, &state);
            }
        }
        let certain = |region: &usize| self.regions.get(*region).is_some_and(|one| one.certain);
        self.collected.extend(ends?.into_iter().filter(certain));
        (rewritten != program).then_some(rewritten)
    }

    /// Joins the state on one path to an instruction with the states on others.
    fn lead(&mut self, there: &mut Option<State>, state: &State) {
        let Some(known) = there else {
            *there = Some(state.clone());
            return;
        };
        for (one, other) in known.stack.iter_mut().zip(&state.stack) {
            if one != other {
                *one = self.unknown();
            }
        }
        known
            .collected
            .retain(|region| state.collected.contains(region));
        known.fallible.extend(&state.fallible);
    }

    fn term(&mut self, kind: Kind) -> Term {
        *self.known.entry(kind).or_insert_with_key(|kind| {
            self.terms.push(kind.clone());
            self.terms.len() - 1
        })
    }

    fn unknown(&mut self) -> Term {
        let number = self.terms.len();
        self.term(Kind::Unknown(number))
    }

    /// A term as another one and a number that is added to it; none for a number.
    fn split(&self, term: Term) -> (Option<Term>, u64) {
        match self.terms.get(term) {
            Some(Kind::Constant(number)) => (None, *number),
            Some(Kind::Sum(base, number)) => (Some(*base), *number),
            _ => (Some(term), 0),
        }
    }

    fn sum(&mut self, term: Term, number: u64) -> Term {
        match self.split(term) {
            (None, constant) => self.term(Kind::Constant(constant.wrapping_add(number))),
            (Some(base), offset) => match offset.wrapping_add(number) {
                0 => base,
                offset => self.term(Kind::Sum(base, offset)),
            },
        }
    }

    /// Follows an instruction. True when it collects what has been collected.
    fn follow(&mut self, instruction: &Instruction<'_>, state: &mut State) -> bool {
        let operand = instruction.operand.number();
        let opcode = instruction.opcode;
        let mut pop = || state.stack.pop().unwrap_or(usize::MAX);
        let result = match opcode {
            Opcode::Const8 | Opcode::Const16 | Opcode::Const32 | Opcode::Const64 => {
                self.term(Kind::Constant(operand))
            }
            Opcode::Reg => {
                let register = self.term(Kind::Register(operand));
                state.fallible.insert(register);
                register
            }
            Opcode::Ref8 | Opcode::Ref16 | Opcode::Ref32 | Opcode::Ref64 => {
                let address = pop();
                let load = self.term(Kind::Load(address, opcode));
                state.fallible.insert(load);
                load
            }
            Opcode::Add => {
                let (right, left) = (pop(), pop());
                match (self.split(left), self.split(right)) {
                    ((None, number), _) => self.sum(right, number),
                    (_, (None, number)) => self.sum(left, number),
                    _ => self.term(Kind::Operation(opcode, 0, vec![left, right])),
                }
            }
            Opcode::Sub => {
                let (right, left) = (pop(), pop());
                match self.split(right) {
                    (None, number) => self.sum(left, number.wrapping_neg()),
                    _ => self.term(Kind::Operation(opcode, 0, vec![left, right])),
                }
            }
            Opcode::DivSigned | Opcode::DivUnsigned | Opcode::RemSigned | Opcode::RemUnsigned => {
                let (right, left) = (pop(), pop());
                let division = self.term(Kind::Operation(opcode, 0, vec![left, right]));
                state.fallible.insert(division);
                division
            }
            Opcode::Mul
            | Opcode::Lsh
            | Opcode::RshSigned
            | Opcode::RshUnsigned
            | Opcode::BitAnd
            | Opcode::BitOr
            | Opcode::BitXor
            | Opcode::Equal
            | Opcode::LessSigned
            | Opcode::LessUnsigned => {
                let (right, left) = (pop(), pop());
                self.term(Kind::Operation(opcode, 0, vec![left, right]))
            }
            Opcode::Ext | Opcode::ZeroExt => {
                let of = pop();
                if operand >= 64 {
                    of
                } else {
                    self.term(Kind::Operation(opcode, operand, vec![of]))
                }
            }
            Opcode::LogNot | Opcode::BitNot => {
                let of = pop();
                self.term(Kind::Operation(opcode, 0, vec![of]))
            }
            Opcode::Dup => {
                let top = pop();
                state.stack.push(top);
                top
            }
            Opcode::Pick => {
                let place = usize::try_from(operand)
                    .ok()
                    .and_then(|depth| state.stack.len().checked_sub(depth + 1));
                let cell = place.and_then(|place| state.stack.get(place));
                cell.copied().unwrap_or(usize::MAX)
            }
            Opcode::Swap => {
                let (top, below) = (pop(), pop());
                state.stack.push(top);
                below
            }
            Opcode::Rot => {
                let (c, b, a) = (pop(), pop(), pop());
                state.stack.extend([c, a]);
                b
            }
            Opcode::GetV => self.unknown(),
            Opcode::TraceQuick | Opcode::Trace16 => {
                let address = pop();
                state.stack.push(address);
                return self.collect(address, operand, &mut state.collected, &state.fallible);
            }
            Opcode::Trace => {
                let (length, address) = (pop(), pop());
                return match self.split(length) {
                    (None, length) if length <= LONGEST => {
                        self.collect(address, length, &mut state.collected, &state.fallible)
                    }
                    // There may be no space for so much, which ends the program.
                    _ => {
                        let unknown = self.unknown();
                        state.fallible.insert(unknown);
                        false
                    }
                };
            }
            _ => {
                let (needs, leaves) = instruction.stack_effect();
                for _ in 0..needs {
                    pop();
                }
                for _ in 0..leaves {
                    let unknown = self.unknown();
                    state.stack.push(unknown);
                }
                return false;
            }
        };
        state.stack.push(result);
        false
    }

    /// Takes note of memory that is collected. True when it has been.
    fn collect(
        &mut self,
        address: Term,
        length: u64,
        collected: &mut BTreeSet<usize>,
        fallible: &BTreeSet<Term>,
    ) -> bool {
        let (base, offset) = self.split(address);
        let has = |region: &Region| {
            let skipped = offset.wrapping_sub(region.offset);
            region.base == base
                && skipped
                    .checked_add(length)
                    .is_some_and(|end| end <= region.length)
        };
        let known = |region: &usize| self.regions.get(*region).is_some_and(has);
        if collected.iter().any(known) {
            return true;
        }
        if self.regions.len() < MOST_REGIONS && (1..=LONGEST).contains(&length) {
            let certain = self.fails_alike(base, offset, fallible);
            collected.insert(self.regions.len());
            self.regions.push(Region {
                base,
                offset,
                length,
                certain,
            });
        }
        false
    }

    /// Whether each possible failure is of a term that the address is computed from, or of one in the same object.
    fn fails_alike(&self, base: Option<Term>, offset: u64, fallible: &BTreeSet<Term>) -> bool {
        let mut sources = BTreeSet::new();
        let mut pending: Vec<Term> = base.into_iter().collect();
        while let Some(term) = pending.pop() {
            if sources.len() > MOST_REGIONS {
                return false;
            }
            if !sources.insert(term) {
                continue;
            }
            match self.terms.get(term) {
                Some(Kind::Sum(of, _) | Kind::Load(of, _)) => pending.push(*of),
                Some(Kind::Operation(_, _, of)) => pending.extend(of),
                _ => {}
            }
        }
        let place = |term: &Term| match self.terms.get(*term) {
            Some(Kind::Load(address, _)) => Some(self.split(*address)),
            _ => None,
        };
        let objects: Vec<_> = sources
            .iter()
            .filter_map(place)
            .chain([(base, offset)])
            .collect();
        fallible.iter().all(|term| {
            sources.contains(term)
                || place(term).is_some_and(|(of, at)| {
                    objects.iter().any(|(base, offset)| {
                        let apart = at.wrapping_sub(*offset).cast_signed().unsigned_abs();
                        *base == of && apart < OBJECT
                    })
                })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{assemble, disassemble};

    /// The rest of each program.
    fn once(programs: &[&str]) -> Vec<Option<String>> {
        let mut once = CollectOnce::default();
        let rewritten = programs.iter().map(|text| {
            let code = once.program(&assemble(text).unwrap())?;
            assert!(verify(&code).is_ok(), "{}", disassemble(&code));
            Some(disassemble(&code))
        });
        rewritten.collect()
    }

    /// How often a program collects.
    fn collections(listing: &str) -> usize {
        listing.matches("trace").count()
    }

    const POINTER: &str = "reg 6\nconst8 8\nsub\ntrace_quick 8\nref64\n";

    #[test]
    fn a_pointer_is_collected_once_for_all_expressions() {
        let member = |offset| format!("{POINTER}const8 {offset}\nadd\nconst8 8\ntrace\nend\n");
        let changed = once(&[&member(16), &member(24), &member(16)]);
        assert_eq!(changed[0], None);
        assert_eq!(collections(changed[1].as_ref().unwrap()), 1);
        assert_eq!(collections(changed[2].as_ref().unwrap()), 0);
    }

    #[test]
    fn a_member_of_what_is_collected_is_not_collected_again() {
        let mut once = CollectOnce::default();
        assert!(!once.memory(Some(5), 0, 64));
        assert!(once.memory(Some(5), 8, 56));
        assert!(!once.memory(Some(5), 8, 57));
        assert!(!once.memory(Some(5), u64::MAX, 4));
        assert!(!once.memory(None, 8, 8));
        let code = assemble("reg 5\nconst8 16\nadd\ntrace_quick 8\nend").unwrap();
        assert!(once.program(&code).is_some());
    }

    #[test]
    fn what_one_way_alone_collects_does_not_count() {
        let changed = once(&[
            "reg 1\nif_goto 12\nreg 5\ntrace_quick 8\nend\nreg 6\ntrace_quick 8\nend",
            "reg 5\ntrace_quick 8\nend",
            "reg 6\ntrace_quick 4\nend",
        ]);
        assert_eq!(changed, [None, None, None]);
    }

    #[test]
    fn what_may_have_ended_the_program_before_counts() {
        // The global behind a pointer that may be bad, then the global alone.
        let behind = format!("{POINTER}pop\nconst64 4198400\ntrace_quick 8\nend");
        assert_eq!(
            once(&[&behind, "const64 4198400\ntrace_quick 8\nend"]),
            [None, None]
        );
        // In the program itself it does.
        let twice = format!("{POINTER}pop\nconst64 4198400\ntrace_quick 8\ntrace_quick 8\nend");
        let changed = once(&[&twice]);
        assert_eq!(collections(changed[0].as_ref().unwrap()), 2);
    }

    #[test]
    fn variables_are_not_taken_to_stay() {
        let changed = once(&["getv 1\ntrace_quick 8\nend", "getv 1\ntrace_quick 8\nend"]);
        assert_eq!(changed, [None, None]);
    }
}
