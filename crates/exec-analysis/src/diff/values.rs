//! The values of each location in each trace, which must be the same in the same order.

use std::collections::{HashMap, VecDeque};

use tracewire_exec_trace::recording::RegisterValue;

use super::Place;
use super::stream::{Item, Key, Written};

/// A value that only one trace has written so far.
struct Waiting {
    value: Written,
    place: Place,
    deadline: u64,
}

#[derive(Default)]
struct Row {
    /// The values that wait for the other trace; only one of the two has any. `None` when nothing waits: there are as many rows as
    /// written bytes.
    waiting: Option<Box<[VecDeque<Waiting>; 2]>>,
    /// The last value of each trace that was reported or matched.
    latest: [Option<Written>; 2],
}

type Difference = (Place, Key, Option<String>, Option<String>);

/// All locations.
pub(super) struct Values {
    window: u64,
    now: u64,
    rows: HashMap<Key, Row>,
    /// The waiting values, in the order of the deadlines.
    deadlines: VecDeque<(u64, Key)>,
    differences: Vec<Difference>,
}

/// Whether two values may be the same: where both are known, they are.
fn fits(a: &Written, b: &Written) -> bool {
    match (a, b) {
        (Written::Byte(a), Written::Byte(b)) => a == b,
        (Written::Register(a), Written::Register(b)) => {
            // A trace may omit leading zeros.
            let size = a.size().max(b.size());
            let bytes = |value: &RegisterValue| {
                let mut bytes: Vec<_> = value.bytes().collect();
                bytes.resize(size, Some(0));
                bytes
            };
            bytes(a)
                .into_iter()
                .zip(bytes(b))
                .all(|pair| !matches!(pair, (Some(a), Some(b)) if a != b))
        }
        _ => false,
    }
}

fn shown(value: &Written) -> String {
    match value {
        Written::Byte(byte) => format!("{byte:02x}"),
        Written::Register(value) => value.to_string(),
    }
}

impl Row {
    fn is_waiting(&self, side: usize) -> bool {
        let waiting = self.waiting.as_ref();
        waiting.is_some_and(|waiting| !waiting[side].is_empty())
    }

    /// Puts the values that both traces have side by side; gives those that differ.
    fn settle(&mut self) -> Option<(Place, Option<String>, Option<String>)> {
        loop {
            let [left, right] = &mut **self.waiting.as_mut()?;
            let (Some(a), Some(b)) = (left.front(), right.front()) else {
                return None;
            };
            let is_again = |of: usize, value: &Waiting, latest: &[Option<Written>; 2]| {
                latest[of]
                    .as_ref()
                    .is_some_and(|latest| *latest == value.value)
            };
            if fits(&a.value, &b.value) {
                self.latest = [Some(a.value.clone()), Some(b.value.clone())];
                left.pop_front();
                right.pop_front();
            } else if a.deadline != b.deadline {
                // The earlier one has no match: the other trace continues with its next value. It may have left out a value that
                // the location already had.
                let side = usize::from(b.deadline < a.deadline);
                let earlier = if side == 0 { a } else { b };
                let is_known = is_again(side, earlier, &self.latest);
                let alone = [left, right][side].pop_front()?;
                let mut values = [None, None];
                values[side] = Some(shown(&alone.value));
                self.latest[side] = Some(alone.value);
                let [left, right] = values;
                if !is_known {
                    return Some((alone.place, left, right));
                }
            } else if is_again(0, a, &self.latest) {
                left.pop_front();
            } else if is_again(1, b, &self.latest) {
                right.pop_front();
            } else {
                let difference = (a.place, Some(shown(&a.value)), Some(shown(&b.value)));
                self.latest = [Some(a.value.clone()), Some(b.value.clone())];
                left.pop_front();
                right.pop_front();
                return Some(difference);
            }
        }
    }
}

impl Values {
    pub(super) fn new(window: u64) -> Self {
        Self {
            window,
            now: 0,
            rows: HashMap::new(),
            deadlines: VecDeque::new(),
            differences: Vec::new(),
        }
    }

    /// Takes what an instruction of one trace wrote.
    pub(super) fn write(&mut self, is_left: bool, item: &Item, place: Place) {
        let side = usize::from(!is_left);
        let deadline = self.now + self.window;
        for (key, value) in &item.writes {
            let row = self.rows.entry(*key).or_default();
            row.waiting.get_or_insert_default()[side].push_back(Waiting {
                value: value.clone(),
                place,
                deadline,
            });
            while let Some((place, left, right)) = row.settle() {
                self.differences.push((place, *key, left, right));
            }
            if row.is_waiting(side) {
                self.deadlines.push_back((deadline, *key));
            } else if !row.is_waiting(1 - side) {
                row.waiting = None;
            }
        }
    }

    /// Takes what one trace wrote where the other went another way: nothing to compare it with.
    pub(super) fn set(&mut self, item: &Item, is_left: bool) {
        let side = usize::from(!is_left);
        for (key, value) in &item.writes {
            self.rows.entry(*key).or_default().latest[side] = Some(value.clone());
        }
    }

    pub(super) fn go_on(&mut self, count: u64) {
        self.now += count;
    }

    /// The differences that are certain by now; at the end nothing waits any more.
    pub(super) fn differences(&mut self, is_end: bool) -> Vec<Difference> {
        while let Some((deadline, key)) = self.deadlines.front().copied() {
            if deadline >= self.now && !is_end {
                break;
            }
            self.deadlines.pop_front();
            let Some(row) = self.rows.get_mut(&key) else {
                continue;
            };
            for side in [0, 1] {
                let is_late = |waiting: &mut Waiting| waiting.deadline < self.now || is_end;
                while let Some(late) = row
                    .waiting
                    .as_mut()
                    .and_then(|waiting| waiting[side].pop_front_if(is_late))
                {
                    // The other trace may have left out a value that it already had.
                    let other = row.latest[1 - side].as_ref();
                    if other.is_none_or(|other| !fits(other, &late.value)) {
                        let mut values = [None, None];
                        values[side] = Some(shown(&late.value));
                        let [left, right] = values;
                        self.differences.push((late.place, key, left, right));
                    }
                    row.latest[side] = Some(late.value.clone());
                    row.latest[1 - side] = Some(late.value);
                }
            }
        }
        std::mem::take(&mut self.differences)
    }
}
