//! The constraint of a filter on a column: the numbers or texts of rows for which it may be true.

use std::collections::BTreeSet;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, Operator};

/// Numbers that a column may have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ranges {
    /// First and last numbers, rising and disjoint; `None` without a constraint, where a row without a number may match too.
    known: Option<Vec<(i64, i64)>>,
}

impl Ranges {
    /// No constraint.
    pub(crate) const ANY: Self = Self { known: None };

    /// The numbers from `first` to `last`.
    pub(crate) fn within(first: i64, last: i64) -> Self {
        let known = (first <= last).then_some((first, last));
        Self {
            known: Some(known.into_iter().collect()),
        }
    }

    /// The common constraint of filters on a column.
    pub(crate) fn of(filters: &[Expr], column: &str) -> Self {
        let said = filters.iter().map(|filter| Self::of_one(filter, column));
        said.fold(Self::ANY, |all, one| all.and(&one))
    }

    fn of_one(filter: &Expr, column: &str) -> Self {
        match filter {
            Expr::BinaryExpr(binary) => match binary.op {
                Operator::And => {
                    Self::of_one(&binary.left, column).and(&Self::of_one(&binary.right, column))
                }
                Operator::Or => {
                    Self::of_one(&binary.left, column).or(&Self::of_one(&binary.right, column))
                }
                operator => {
                    let is_column = |side: &Expr| is_column(side, column);
                    if is_column(&binary.left) {
                        Self::compared(operator, &binary.right)
                    } else if is_column(&binary.right)
                        && let Some(operator) = operator.swap()
                    {
                        Self::compared(operator, &binary.left)
                    } else {
                        Self::ANY
                    }
                }
            },
            Expr::Between(between) if !between.negated && is_column(&between.expr, column) => {
                Self::compared(Operator::GtEq, &between.low)
                    .and(&Self::compared(Operator::LtEq, &between.high))
            }
            Expr::InList(list) if !list.negated && is_column(&list.expr, column) => {
                let said = list
                    .list
                    .iter()
                    .map(|one| Self::compared(Operator::Eq, one));
                said.fold(Self::within(1, 0), |all, one| all.or(&one))
            }
            _ => Self::ANY,
        }
    }

    fn compared(operator: Operator, with: &Expr) -> Self {
        let Expr::Literal(value, _) = with else {
            return Self::ANY;
        };
        // A comparison with null is never true.
        if value.is_null() {
            return Self::within(1, 0);
        }
        let Some(number) = number(value) else {
            return Self::ANY;
        };
        let before = || number.checked_sub(1);
        let after = || number.checked_add(1);
        let none = || Self::within(1, 0);
        match operator {
            Operator::Eq => Self::within(number, number),
            Operator::Lt => before().map_or_else(none, |last| Self::within(i64::MIN, last)),
            Operator::LtEq => Self::within(i64::MIN, number),
            Operator::Gt => after().map_or_else(none, |first| Self::within(first, i64::MAX)),
            Operator::GtEq => Self::within(number, i64::MAX),
            _ => Self::ANY,
        }
    }

    fn and(&self, other: &Self) -> Self {
        let (Some(a), Some(b)) = (&self.known, &other.known) else {
            return match self.known {
                Some(_) => self.clone(),
                None => other.clone(),
            };
        };
        let mut both = Vec::new();
        for (first, last) in a {
            for (other_first, other_last) in b {
                let (first, last) = (*first.max(other_first), *last.min(other_last));
                if first <= last {
                    both.push((first, last));
                }
            }
        }
        Self { known: Some(both) }
    }

    fn or(&self, other: &Self) -> Self {
        let (Some(a), Some(b)) = (&self.known, &other.known) else {
            return Self::ANY;
        };
        let mut all: Vec<(i64, i64)> = a.iter().chain(b).copied().collect();
        all.sort_unstable();
        let mut either: Vec<(i64, i64)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match either.last_mut() {
                Some((_, before)) if first <= before.saturating_add(1) => {
                    *before = last.max(*before);
                }
                _ => either.push((first, last)),
            }
        }
        Self {
            known: Some(either),
        }
    }

    /// First and last numbers, rising and apart; `None` without a constraint.
    pub(crate) fn known(&self) -> Option<&[(i64, i64)]> {
        self.known.as_deref()
    }

    /// Whether there is no constraint.
    pub(crate) const fn is_any(&self) -> bool {
        self.known.is_none()
    }

    /// Whether a row with this number may match.
    pub(crate) fn has(&self, number: i64) -> bool {
        self.overlaps(number, number)
    }

    /// Whether one of these numbers may match.
    pub(crate) fn overlaps(&self, first: i64, last: i64) -> bool {
        let Some(known) = &self.known else {
            return true;
        };
        // The ranges are apart, so their ends rise too.
        let at = known.partition_point(|(_, end)| *end < first);
        known.get(at).is_some_and(|(start, _)| *start <= last) && first <= last
    }

    /// The least and the greatest number that may match; `None` where none can.
    pub(crate) fn bounds(&self) -> Option<(i64, i64)> {
        match &self.known {
            None => Some((i64::MIN, i64::MAX)),
            Some(known) => Some((known.first()?.0, known.last()?.1)),
        }
    }
}

/// The texts of a column with which filters may be true; `None` without a constraint.
pub(crate) fn texts(filters: &[Expr], column: &str) -> Option<BTreeSet<String>> {
    let said = filters.iter().filter_map(|filter| texts_of(filter, column));
    said.reduce(|all, one| all.intersection(&one).cloned().collect())
}

fn texts_of(filter: &Expr, column: &str) -> Option<BTreeSet<String>> {
    let text = |value: &Expr| match value {
        Expr::Literal(value, _) => value.try_as_str().flatten().map(str::to_owned),
        _ => None,
    };
    match filter {
        Expr::BinaryExpr(binary) => {
            let (left, right) = (&*binary.left, &*binary.right);
            match binary.op {
                Operator::And => match (texts_of(left, column), texts_of(right, column)) {
                    (Some(a), Some(b)) => Some(a.intersection(&b).cloned().collect()),
                    (a, b) => a.or(b),
                },
                Operator::Or => {
                    let (mut a, b) = (texts_of(left, column)?, texts_of(right, column)?);
                    a.extend(b);
                    Some(a)
                }
                Operator::Eq if is_column(left, column) => Some([text(right)?].into()),
                Operator::Eq if is_column(right, column) => Some([text(left)?].into()),
                _ => None,
            }
        }
        Expr::InList(list) if !list.negated && is_column(&list.expr, column) => {
            list.list.iter().map(text).collect()
        }
        _ => None,
    }
}

/// Whether a filter is true for some numbers of a column, and nothing else: an equality with a number, or a list of them.
pub(crate) fn are_numbers(filter: &Expr, column: &str) -> bool {
    is_list(filter) && !Ranges::of_one(filter, column).is_any()
}

/// Whether a filter is true for some texts of a column, and nothing else.
pub(crate) fn are_texts(filter: &Expr, column: &str) -> bool {
    is_list(filter) && texts_of(filter, column).is_some()
}

fn is_list(filter: &Expr) -> bool {
    match filter {
        Expr::BinaryExpr(binary) => binary.op == Operator::Eq,
        Expr::InList(list) => !list.negated,
        _ => false,
    }
}

fn is_column(side: &Expr, name: &str) -> bool {
    matches!(side, Expr::Column(column) if column.name == name)
}

fn number(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int64(number) => *number,
        ScalarValue::Int32(number) => number.map(i64::from),
        ScalarValue::UInt64(number) => i64::try_from((*number)?).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::{Ranges, are_numbers, are_texts, texts};

    #[test]
    fn filters_say_what_a_number_may_be() {
        let time = || col("time");
        let any = i64::MIN..=i64::MAX;
        for (filter, known) in [
            (time().eq(lit(5_i64)), Some(vec![(5, 5)])),
            (lit(5_i64).lt(time()), Some(vec![(6, i64::MAX)])),
            (time().lt(lit(i64::MIN)), Some(vec![])),
            (time().gt(lit(i64::MAX)), Some(vec![])),
            (time().between(lit(1_i64), lit(9_i64)), Some(vec![(1, 9)])),
            (time().not_between(lit(1_i64), lit(9_i64)), None),
            (
                time().in_list(vec![lit(3_i64), lit(1_i64), lit(2_i64)], false),
                Some(vec![(1, 3)]),
            ),
            (
                time().gt_eq(lit(1_i64)).and(col("other").eq(lit(7_i64))),
                Some(vec![(1, *any.end())]),
            ),
            (
                time().gt_eq(lit(1_i64)).or(col("other").eq(lit(7_i64))),
                None,
            ),
            (
                (time().lt(lit(3_i64)).or(time().gt(lit(8_i64)))).and(time().gt(lit(0_i64))),
                Some(vec![(1, 2), (9, *any.end())]),
            ),
            (time().not_eq(lit(3_i64)), None),
            (time().is_null(), None),
            (
                time().eq(lit(datafusion::common::ScalarValue::Int64(None))),
                Some(vec![]),
            ),
            (time().gt(col("other")), None),
        ] {
            assert_eq!(
                Ranges::of(std::slice::from_ref(&filter), "time").known,
                known,
                "{filter}"
            );
        }
    }

    #[test]
    fn only_equalities_say_all() {
        let (pc, register) = (|| col("pc"), || col("register"));
        let numbers = vec![lit(1_i64), lit(2_i64)];
        let names = vec![lit("a0"), lit("r4")];
        for (filter, of_numbers, of_texts) in [
            (pc().eq(lit(5_i64)), true, false),
            (lit(5_i64).eq(pc()), true, false),
            (pc().in_list(numbers.clone(), false), true, false),
            (pc().in_list(numbers, true), false, false),
            (
                pc().in_list(vec![lit(1_i64), col("other")], false),
                false,
                false,
            ),
            (pc().gt(lit(5_i64)), false, false),
            (pc().eq(col("other")), false, false),
            ((pc() + lit(0_i64)).eq(lit(5_i64)), false, false),
            (
                pc().eq(lit(5_i64)).and(col("time").gt(lit(1_i64))),
                false,
                false,
            ),
            (register().eq(lit("r4")), false, true),
            (register().in_list(names, false), false, true),
            (register().not_eq(lit("r4")), false, false),
        ] {
            assert_eq!(are_numbers(&filter, "pc"), of_numbers, "{filter}");
            assert_eq!(are_texts(&filter, "register"), of_texts, "{filter}");
        }
    }

    #[test]
    fn ranges_are_searched() {
        let ranges = Ranges::within(1, 2).or(&Ranges::within(9, 12));
        for (first, last, overlaps) in [
            (0, 0, false),
            (0, 1, true),
            (3, 8, false),
            (12, 20, true),
            (13, 20, false),
            (2, 1, false),
        ] {
            assert_eq!(ranges.overlaps(first, last), overlaps, "{first} to {last}");
        }
        assert_eq!(ranges.bounds(), Some((1, 12)));
        assert_eq!(Ranges::within(1, 0).bounds(), None);
        assert!(Ranges::ANY.is_any() && Ranges::ANY.has(5));
    }

    #[test]
    fn filters_say_what_a_text_may_be() {
        let name = || col("name");
        let said = |filters: &[datafusion::prelude::Expr]| {
            texts(filters, "name").map(|texts| texts.into_iter().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(said(&[name().eq(lit("a"))]).as_deref(), Some("a"));
        let either = name().eq(lit("a")).or(lit("b").eq(name()));
        assert_eq!(said(std::slice::from_ref(&either)).as_deref(), Some("a b"));
        assert_eq!(
            said(&[either, name().in_list(vec![lit("b"), lit("c")], false)]).as_deref(),
            Some("b")
        );
        assert_eq!(
            said(&[name().eq(lit("a")).or(col("other").eq(lit("b")))]),
            None
        );
    }
}
