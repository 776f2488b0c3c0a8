//! Which functions are followed, and where their calls begin and end.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use tracewire_call_flow::SiteRole;
use tracewire_debuginfo::{Function, LocationError, Symbols};
use tracewire_model::{Address, SpanRole};
use tracewire_script::call_points;

/// What starts a program and ends it, and is no code of its own. A pattern may name it.
const START_UP: [&str; 10] = [
    "_start",
    "_init",
    "_fini",
    "frame_dummy",
    "register_tm_clones",
    "deregister_tm_clones",
    "__do_global_dtors_aux",
    "__do_global_ctors_aux",
    "_dl_relocate_static_pie",
    "__libc_csu_init",
];

/// Why functions of Go are left out.
const OF_GO: &str = "a goroutine goes on in other threads, and calls are followed by thread; `record` with `span` follows goroutines";

/// Which functions are wanted, and which have been planned already.
#[derive(Debug, Default)]
pub(super) struct Selection {
    patterns: Vec<String>,
    /// The entries of functions that were chosen.
    entries: HashSet<Address>,
    /// Those of them that are not planned yet.
    chosen: VecDeque<Function>,
    /// Sites, and the entry of the function that each belongs to.
    sites: HashMap<Address, Address>,
}

/// A function to follow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PlannedFunction {
    pub(super) name: String,
    pub(super) entry: Address,
    /// Its code.
    pub(super) ranges: Vec<(Address, Address)>,
    /// Where its calls begin and end, the entry first.
    pub(super) sites: Vec<(Address, SiteRole)>,
}

/// Patterns that name no function.
#[derive(Clone, Debug, Default)]
pub(super) struct Nameless {
    /// Those that name nothing yet.
    pub(super) pending: Vec<LocationError>,
    /// Those that can never name a function.
    pub(super) wrong: Vec<String>,
}

/// Functions with their sites.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) functions: Vec<PlannedFunction>,
    /// Functions that cannot be followed.
    pub(super) left_out: LeftOut,
}

/// Functions that are not followed, by the reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LeftOut(BTreeMap<String, (u64, String)>);

impl LeftOut {
    /// Adds a function. Addresses in the reason are left out, so that many have the same one.
    pub(super) fn add(&mut self, function: &str, reason: &str) {
        let is_address = |word: &str| word.starts_with("0x");
        let words: Vec<&str> = reason
            .split(' ')
            .map(|word| match is_address(word) {
                true if word.ends_with([',', ';', ':']) => "an address,",
                true => "an address",
                false => word,
            })
            .collect();
        let entry = (self.0.entry(words.join(" "))).or_insert_with(|| (0, function.to_owned()));
        entry.0 += 1;
    }

    /// Adds others.
    pub(super) fn extend(&mut self, others: Self) {
        for (reason, (count, example)) in others.0 {
            let entry = self.0.entry(reason).or_insert_with(|| (0, example));
            entry.0 += count;
        }
    }

    /// How many functions there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.values().map(|(count, _)| count).sum()
    }

    /// The reasons, the most frequent first: how many functions, the name of one, and why.
    #[must_use]
    pub fn reasons(&self) -> Vec<(u64, &str, &str)> {
        let mut reasons: Vec<_> = (self.0.iter())
            .map(|(reason, (count, example))| (*count, example.as_str(), reason.as_str()))
            .collect();
        reasons.sort_by_key(|(count, _, _)| std::cmp::Reverse(*count));
        reasons
    }
}

impl Selection {
    /// The functions of these patterns, or all of the program's own where there are none.
    pub(super) fn new(patterns: Vec<String>) -> Self {
        Self {
            patterns,
            ..Self::default()
        }
    }

    /// The patterns.
    pub(super) fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Chooses the functions that are there now and were not before. Returns the patterns that name none.
    pub(super) fn choose(&mut self, symbols: &Symbols) -> Nameless {
        let mut nameless = Nameless::default();
        let mut functions = match self.patterns.is_empty() {
            true => functions_of_program(symbols),
            false => self.functions_of_patterns(symbols, &mut nameless),
        };
        functions.sort_by_key(|function| function.entry);
        functions.dedup_by_key(|function| function.entry);
        functions.retain(|function| self.entries.insert(function.entry));
        self.chosen.extend(functions);
        nameless
    }

    /// The names of the functions that are chosen and not planned.
    pub(super) fn chosen(&self) -> impl Iterator<Item = &str> {
        self.chosen.iter().map(|function| function.name.as_str())
    }

    /// Plans the functions that are chosen.
    pub(super) fn plan(&mut self, symbols: &Symbols) -> Plan {
        let all = self.chosen.len();
        self.plan_some(symbols, all)
    }

    /// Plans so many of the functions that are chosen, the lowest first.
    pub(super) fn plan_some(&mut self, symbols: &Symbols, most: usize) -> Plan {
        let mut plan = Plan::default();
        let count = most.min(self.chosen.len());
        for function in self.chosen.drain(..count) {
            if symbols.is_go_code(function.entry) {
                plan.left_out.add(&function.name, OF_GO);
                continue;
            }
            let planned = planned(symbols, function);
            let taken = (planned.sites.iter()).find_map(|(site, _)| {
                self.sites
                    .get(site)
                    .filter(|entry| **entry != planned.entry)
            });
            if taken.is_some() {
                plan.left_out
                    .add(&planned.name, "it shares code with another function");
                continue;
            }
            let own = planned.sites.iter().map(|(site, _)| (*site, planned.entry));
            self.sites.extend(own);
            plan.functions.push(planned);
        }
        plan
    }

    /// The functions of the patterns, each as often as a pattern names it.
    fn functions_of_patterns(&self, symbols: &Symbols, nameless: &mut Nameless) -> Vec<Function> {
        let mut functions = Vec::new();
        for pattern in &self.patterns {
            match symbols.functions_named(pattern) {
                Ok(found) => functions.extend(found),
                Err(error) if error.may_come_later() => nameless.pending.push(error),
                Err(error) => nameless.wrong.push(error.to_string()),
            }
        }
        functions
    }

    /// Forgets what was in a range of addresses, whose module is gone.
    pub(super) fn forget(&mut self, from: Address, to: Address) {
        self.entries.retain(|entry| !(from..to).contains(entry));
        let is_gone = |function: &Function| (from..to).contains(&function.entry);
        self.chosen.retain(|function| !is_gone(function));
        self.sites.retain(|site, _| !(from..to).contains(site));
    }
}

/// All functions of the program itself, which is the first module.
fn functions_of_program(symbols: &Symbols) -> Vec<Function> {
    let Some(program) = symbols.modules().first().map(|module| module.id) else {
        return Vec::new();
    };
    let mut functions = symbols.functions();
    functions.retain(|function| {
        function.module == program
            && !function.is_label
            && !START_UP.contains(&function.name.as_str())
    });
    functions
}

fn planned(symbols: &Symbols, function: Function) -> PlannedFunction {
    let points = call_points(symbols, &function, function.entry);
    let sites = points.into_iter().filter_map(|point| {
        let role = match point.role {
            SpanRole::Entry => SiteRole::Entry,
            SpanRole::EntryAndLoop => SiteRole::EntryAndLoop,
            SpanRole::EntryAndReturn | SpanRole::EntryAndTailCall => SiteRole::EntryAndExit,
            SpanRole::Return | SpanRole::TailCall => SiteRole::Exit,
            SpanRole::MayTailCall => SiteRole::MayExit,
            SpanRole::Exception
            | SpanRole::Landing
            | SpanRole::Resume
            | SpanRole::Longjmp
            | SpanRole::ThreadExit => {
                debug_assert!(false, "a function's own points are its entry and its exits");
                return None;
            }
        };
        Some((point.address, role))
    });
    PlannedFunction {
        name: function.name,
        entry: function.entry,
        ranges: function.ranges,
        sites: sites.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::LeftOut;

    #[test]
    fn a_reason_is_counted_whatever_its_address() {
        let mut left_out = LeftOut::default();
        left_out.add("f", "a branch leads to 0x1234, into the middle of the jump");
        left_out.add("g", "a branch leads to 0x99, into the middle of the jump");
        left_out.add("h", "the instruction at 0x1 only works in its place");
        assert_eq!(left_out.count(), 3);
        assert_eq!(
            left_out.reasons(),
            [
                (
                    2,
                    "f",
                    "a branch leads to an address, into the middle of the jump"
                ),
                (
                    1,
                    "h",
                    "the instruction at an address only works in its place"
                ),
            ]
        );
    }
}
