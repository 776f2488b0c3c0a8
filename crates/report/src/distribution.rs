//! The values of an expression over all hits.

use std::collections::{BTreeMap, HashMap};

use tracewire_expr::Datum;

use crate::numbers::{Number, Numbers};

/// How many different texts are counted one by one.
const MOST_TEXTS: usize = 10_000;

/// How many characters of a text are kept.
const LONGEST: usize = 120;

/// How many parts of structures have a distribution, for each tracepoint.
const MOST_PARTS: usize = 100;

/// The values of an expression, or of a part of its structure.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    /// As it was collected, with `.MEMBER` for a part.
    pub name: String,
    /// The numbers.
    pub numbers: Numbers,
    /// All other values, and how often each came.
    texts: HashMap<String, u64>,
    /// Values that are in none of the texts, because there are too many different ones.
    pub other_texts: u64,
    /// Why there was no value, and how often.
    pub missing: BTreeMap<String, u64>,
    /// How many values there were, those that are missing included.
    pub total: u64,
    /// The hit that was counted last.
    hit: Option<u64>,
}

/// The expressions of a tracepoint, in the order in which they were first seen.
#[derive(Clone, Debug, Default)]
pub struct Distributions {
    list: Vec<Distribution>,
    index: HashMap<String, usize>,
    /// Whether there are parts without a distribution, because there are too many.
    pub is_cut: bool,
}

impl Distribution {
    /// The texts that came most often: at most `most` of them.
    pub fn top_texts(&self, most: usize) -> Vec<(&str, u64)> {
        let mut texts: Vec<_> = (self.texts.iter())
            .map(|(text, count)| (text.as_str(), *count))
            .collect();
        texts.sort_by(|(one, of_one), (other, of_other)| of_other.cmp(of_one).then(one.cmp(other)));
        texts.truncate(most);
        texts
    }

    /// How many different texts were counted.
    pub fn different_texts(&self) -> usize {
        self.texts.len()
    }

    fn add_text(&mut self, text: &str) {
        let text = match text.char_indices().nth(LONGEST) {
            Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + "…",
            None => text.to_owned(),
        };
        if self.texts.len() >= MOST_TEXTS && !self.texts.contains_key(&text) {
            self.other_texts += 1;
            return;
        }
        *self.texts.entry(text).or_default() += 1;
    }
}

impl Distributions {
    /// Adds a value of a hit; `text` is its printed form. A part that is also collected separately is counted once.
    pub fn add(&mut self, hit: u64, expression: &str, datum: &Datum, text: &str) {
        let Some(at) = self.at(expression) else {
            return;
        };
        if at.hit.replace(hit) == Some(hit) {
            return;
        }
        at.total += 1;
        match datum {
            Datum::Missing(why) => *at.missing.entry(why.clone()).or_default() += 1,
            Datum::Integer(number) => at.numbers.add(Number::Integer(*number)),
            Datum::LargeInteger(number) => at.numbers.add(Number::Float(*number as f64)),
            Datum::Float(number) if number.is_finite() => at.numbers.add(Number::Float(*number)),
            Datum::Structure(parts) if !parts.is_empty() => {
                // The structure is its parts.
                at.total -= 1;
                // As the language writes it: `*job.id` is something else.
                let whole = match expression.starts_with(['*', '&', '-']) {
                    true => format!("({expression})"),
                    false => expression.to_owned(),
                };
                for (name, part) in parts {
                    self.add(hit, &format!("{whole}.{name}"), part, &part.text());
                }
            }
            Datum::String { bytes, is_cut } => {
                let cut = if *is_cut { "..." } else { "" };
                at.add_text(&format!("\"{}\"{cut}", String::from_utf8_lossy(bytes)));
            }
            Datum::Float(number) => at.add_text(&number.to_string()),
            Datum::Boolean(_)
            | Datum::Text(_)
            | Datum::Address(_)
            | Datum::Structure(_)
            | Datum::List { .. }
            | Datum::Map { .. } => at.add_text(text),
        }
    }

    fn at(&mut self, name: &str) -> Option<&mut Distribution> {
        let next = self.list.len();
        let at = match self.index.get(name) {
            Some(at) => *at,
            None if next >= MOST_PARTS => {
                self.is_cut = true;
                return None;
            }
            None => {
                self.index.insert(name.to_owned(), next);
                self.list.push(Distribution {
                    name: name.to_owned(),
                    ..Distribution::default()
                });
                next
            }
        };
        self.list.get_mut(at)
    }

    /// Those that have values.
    pub fn iter(&self) -> impl Iterator<Item = &Distribution> {
        self.list.iter().filter(|one| one.total > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_structure_are_counted_by_themselves() {
        let mut all = Distributions::default();
        for id in 0..3 {
            let job = Datum::Structure(vec![
                ("id".into(), Datum::Integer(id)),
                (
                    "name".into(),
                    Datum::String {
                        bytes: b"a".into(),
                        is_cut: false,
                    },
                ),
                ("next".into(), Datum::Missing("<unavailable>".into())),
            ]);
            all.add(id as u64, "*job", &job, "");
            all.add(id as u64, "(*job).id", &Datum::Integer(id), "");
        }
        let names: Vec<_> = all
            .iter()
            .map(|one| (one.name.as_str(), one.total))
            .collect();
        assert_eq!(
            names,
            [("(*job).id", 3), ("(*job).name", 3), ("(*job).next", 3)]
        );
        let texts: Vec<_> = all.iter().map(|one| one.top_texts(5)).collect();
        assert_eq!(texts[1], [("\"a\"", 3)]);
        assert_eq!(all.iter().nth(2).unwrap().missing["<unavailable>"], 3);
    }

    #[test]
    fn different_texts_are_bounded() {
        let mut one = Distribution::default();
        for number in 0..20_000 {
            one.add_text(&number.to_string());
        }
        assert_eq!(one.different_texts() as u64 + one.other_texts, 20_000);
        assert_eq!(one.different_texts(), MOST_TEXTS);
    }
}
