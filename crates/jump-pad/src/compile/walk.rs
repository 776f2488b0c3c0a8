//! The most expensive path through an agent expression.
//!
//! The expression is evaluated with unknown contents of memory, registers and variables. A jump that depends on them is followed
//! both ways. Constants of the expression are known, including the counters of loops: a loop that counts down from a limit has
//! that many rounds.

use std::collections::HashMap;

use tracewire_agent_expr::{Instruction, Opcode};

use super::cost::Picoseconds;

/// After how many states the search is given up: a tree that is walked in order has too many.
const MOST_STATES: usize = 100_000;

/// An instruction of the expression, and the known values of the stack there.
type State = (usize, Vec<Option<u64>>);

/// The data that an instruction collects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Collected {
    /// This many bytes; `None` where only the longest frame limits them.
    Memory(Option<u64>),
    /// A text of at most this many bytes.
    Text(Option<u64>),
}

/// A state and its successors.
struct Step {
    cost: Picoseconds,
    next: [Option<State>; 2],
}

/// The progress of the search for a state.
enum Progress {
    Open,
    Done(Picoseconds),
}

/// The cost of the most expensive path. `costs` has the cost of each instruction, and `collected` is the cost of collecting.
/// `None` where a loop has no known limit, or there are too many paths.
pub(super) fn dearest(
    program: &[Instruction<'_>],
    costs: &[Picoseconds],
    collected: impl Fn(Collected) -> Picoseconds,
) -> Option<Picoseconds> {
    let step = |state: &State| step(program, costs, &collected, state);
    let start: State = (0, Vec::new());
    let mut known: HashMap<State, Progress> = HashMap::new();
    let first = step(&start)?;
    known.insert(start.clone(), Progress::Open);
    // The open states, each with its step, the index of its next path, and the most expensive path so far.
    let mut open = vec![(start, first, 0_usize, 0)];
    while let Some((state, current, way, dearest)) = open.last_mut() {
        let Some(next) = current.next.get_mut(*way) else {
            let total = current.cost.saturating_add(*dearest);
            let done = std::mem::take(state);
            known.insert(done, Progress::Done(total));
            open.pop();
            match open.last_mut() {
                Some((.., dearest)) => *dearest = total.max(*dearest),
                None => return Some(total),
            }
            continue;
        };
        *way += 1;
        let Some(next) = next.take() else {
            continue;
        };
        match known.get(&next) {
            Some(Progress::Done(total)) => *dearest = (*dearest).max(*total),
            // A loop without a counter.
            Some(Progress::Open) => return None,
            None if known.len() >= MOST_STATES => return None,
            None => {
                let step = step(&next)?;
                known.insert(next.clone(), Progress::Open);
                open.push((next, step, 0, 0));
            }
        }
    }
    None
}

fn step(
    program: &[Instruction<'_>],
    costs: &[Picoseconds],
    collected: &impl Fn(Collected) -> Picoseconds,
    (index, stack): &State,
) -> Option<Step> {
    let instruction = program.get(*index)?;
    let own = costs.get(*index).copied().unwrap_or(0);
    if let Some(clamped) = clamp(program, costs, *index, stack) {
        return Some(clamped);
    }
    let operand = instruction.operand.number();
    let opcode = instruction.opcode;
    let mut stack = stack.clone();
    let target = |stack: Vec<Option<u64>>| {
        let place = program.binary_search_by_key(&(operand as usize), |other| other.offset);
        Some((place.ok()?, stack))
    };
    let mut cost = own;
    let next = match opcode {
        Opcode::End => [None, None],
        Opcode::Goto => [target(stack), None],
        Opcode::IfGoto => match stack.pop()? {
            Some(0) => [Some((index + 1, stack)), None],
            Some(_) => [target(stack), None],
            None => [Some((index + 1, stack.clone())), target(stack)],
        },
        _ => {
            let what = match opcode {
                Opcode::Trace => Some(Collected::Memory(*stack.last()?)),
                Opcode::TraceQuick | Opcode::Trace16 => Some(Collected::Memory(Some(operand))),
                Opcode::TraceNz => Some(Collected::Text(*stack.last()?)),
                _ => None,
            };
            cost = cost.saturating_add(what.map_or(0, collected));
            apply(opcode, operand, &mut stack)?;
            [Some((index + 1, stack)), None]
        }
    };
    Some(Step { cost, next })
}

/// `dup; const LIMIT; less_unsigned; if_goto WITHIN`: an open number that is cut to a limit. Within it, the worst is one less.
fn clamp(
    program: &[Instruction<'_>],
    costs: &[Picoseconds],
    index: usize,
    stack: &[Option<u64>],
) -> Option<Step> {
    let [dup, limit, less, jump] = program.get(index..index + 4)? else {
        return None;
    };
    let is_constant = matches!(
        limit.opcode,
        Opcode::Const8 | Opcode::Const16 | Opcode::Const32 | Opcode::Const64
    );
    let is_clamp = dup.opcode == Opcode::Dup
        && is_constant
        && less.opcode == Opcode::LessUnsigned
        && jump.opcode == Opcode::IfGoto
        && stack.last() == Some(&None);
    if !is_clamp {
        return None;
    }
    let target = jump.operand.number() as usize;
    let within = program
        .binary_search_by_key(&target, |other| other.offset)
        .ok()?;
    let mut cut = stack.to_vec();
    *cut.last_mut()? = Some(limit.operand.number().saturating_sub(1));
    let cost = costs.get(index..index + 4)?.iter().sum();
    Some(Step {
        cost,
        next: [Some((index + 4, stack.to_vec())), Some((within, cut))],
    })
}

/// Applies an instruction that is no jump to the stack.
fn apply(opcode: Opcode, operand: u64, stack: &mut Vec<Option<u64>>) -> Option<()> {
    let rotate = |stack: &mut Vec<Option<u64>>, count: usize| {
        let start = stack.len().checked_sub(count)?;
        stack.get_mut(start..)?.rotate_right(1);
        Some(())
    };
    match opcode {
        Opcode::Const8 | Opcode::Const16 | Opcode::Const32 | Opcode::Const64 => {
            stack.push(Some(operand));
        }
        Opcode::Dup => stack.push(*stack.last()?),
        Opcode::Pick => {
            let place = stack.len().checked_sub(operand as usize + 1)?;
            stack.push(*stack.get(place)?);
        }
        Opcode::Swap => rotate(stack, 2)?,
        Opcode::Rot => rotate(stack, 3)?,
        Opcode::TraceQuick | Opcode::Trace16 | Opcode::TraceV => {}
        Opcode::Add
        | Opcode::Sub
        | Opcode::Mul
        | Opcode::BitAnd
        | Opcode::BitOr
        | Opcode::BitXor
        | Opcode::Equal
        | Opcode::LessSigned
        | Opcode::LessUnsigned => {
            let (b, a) = (stack.pop()?, stack.pop()?);
            let value = a.zip(b).map(|(a, b)| match opcode {
                Opcode::Add => a.wrapping_add(b),
                Opcode::Sub => a.wrapping_sub(b),
                Opcode::Mul => a.wrapping_mul(b),
                Opcode::BitAnd => a & b,
                Opcode::BitOr => a | b,
                Opcode::BitXor => a ^ b,
                Opcode::Equal => u64::from(a == b),
                Opcode::LessSigned => u64::from(a.cast_signed() < b.cast_signed()),
                _ => u64::from(a < b),
            });
            stack.push(value);
        }
        Opcode::LogNot => {
            let value = stack.pop()?;
            stack.push(value.map(|value| u64::from(value == 0)));
        }
        Opcode::ZeroExt => {
            let value = stack.pop()?;
            let kept = match operand {
                0..64 => (1 << operand) - 1,
                _ => u64::MAX,
            };
            stack.push(value.map(|value| value & kept));
        }
        _ => {
            let left = stack.len().checked_sub(opcode.pops())?;
            stack.truncate(left);
            stack.extend(std::iter::repeat_n(None, opcode.pushes()));
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracewire_agent_expr::{assemble, instructions};

    /// The most expensive path, where each instruction costs 1 and each collected byte 1000.
    fn dearest_of(text: &str) -> Option<u64> {
        let code = assemble(text).unwrap();
        let program: Vec<_> = instructions(&code).flatten().collect();
        dearest(&program, &vec![1; program.len()], |what| match what {
            Collected::Memory(bytes) | Collected::Text(bytes) => bytes.unwrap_or(99) * 1000,
        })
    }

    #[test]
    fn instructions_in_a_row_are_added_up() {
        assert_eq!(dearest_of("reg 3\nconst8 8\ntrace\nend"), Some(8004));
        assert_eq!(dearest_of("reg 3\nreg 4\ntrace\nend"), Some(99_004));
        assert_eq!(dearest_of("reg 3\ntrace_quick 5\npop\nend"), Some(5004));
    }

    /// A path that no value takes does not count.
    #[test]
    fn the_dearer_of_two_ways_counts() {
        let both = |first| {
            dearest_of(&format!(
                "{first}\nif_goto 11\nreg 2\npop\nend\nreg 3\nconst8 7\ntrace\nend"
            ))
        };
        assert_eq!(both("reg 1"), Some(7006));
        assert_eq!(both("const16 1"), Some(7006));
        assert_eq!(both("const16 0"), Some(5));
    }

    #[test]
    fn a_loop_counts_as_often_as_its_counter_says() {
        let rounds = |first: &str, start: usize| {
            dearest_of(&format!(
                "{first}\nconst8 1\nsub\ndup\nif_goto {start}\npop\nend"
            ))
        };
        assert_eq!(rounds("const8 5", 2), Some(1 + 5 * 4 + 2));
        // A value of the program is no limit.
        assert_eq!(rounds("reg 1", 3), None);
        // But a clamped value is one: 200 rounds.
        let clamped = "reg 1\ndup\nconst8 200\nless_unsigned\nif_goto 13\npop\nconst8 200";
        assert_eq!(rounds(clamped, 13), Some(5 + 2 + 200 * 4 + 2));
    }
}
