//! Hash tables whose elements are in arrays.

use tracewire_agent_expr::Opcode;

use super::{BUCKETS_OF_ELEMENT, DEEPEST_PART};
use crate::collect::Collection;
use crate::int_expr::{Binary, IntExpr};
use crate::lower::Subjects;
use crate::node::Node;
use crate::walk::{Buckets, Items};

/// How many buckets of eight places are looked at even for few elements.
const FEW_BUCKETS: u64 = 8;
/// The bit of a count of buckets from which on it counts the buckets that were looked at.
const VISITED: u32 = 32;

impl Collection<'_> {
    /// A hash table. The stack has the remaining elements, the remaining buckets, and the number of the next bucket.
    pub(super) fn table(
        &mut self,
        subjects: &Subjects,
        [control, entries, mask, length]: [&Node; 4],
        size: u64,
        items: &Items,
        depth: u32,
    ) -> Option<()> {
        let control = self.value_of(subjects, control)?;
        let entries = self.value_of(subjects, entries)?;
        let mask = self.value_of(subjects, mask)?;
        let length = self.value_of(subjects, length)?;
        let most = self.elements(size);
        let most_buckets = most.saturating_mul(BUCKETS_OF_ELEMENT);
        let outside = self.code.times();
        let base = self.code.depth();
        let cell = |offset: usize| IntExpr::cell((base + offset) as u16);
        let [again, empty, done] = self.code.labels();
        self.code.push(&length);
        self.code.clamp(most);
        // An empty table has control bytes that are shared.
        self.code.push(&mask.add(1));
        self.code.clamp(most_buckets);
        self.code.constant(0);
        self.code.push(&cell(0).into_is_zero());
        self.code.if_goto(done);
        self.code.push(&control);
        self.code.push(&cell(1));
        self.code.trace(most_buckets);
        self.code.place(again);
        self.repeated(most_buckets, |this| {
            this.code
                .push(&IntExpr::binary(Binary::Equal, cell(1), cell(2)));
            this.code.if_goto(done);
            let place = IntExpr::binary(Binary::Add, control, cell(2));
            let byte = IntExpr::load(place, 1);
            this.code
                .push(&IntExpr::binary(Binary::And, byte, IntExpr::constant(0x80)));
            this.code.if_goto(empty);
            // Fewer buckets are full than are looked at.
            let all = this.code.set_times(outside.saturating_mul(most));
            let before = IntExpr::binary(Binary::Multiply, cell(2).add(1), IntExpr::constant(size));
            let bucket = this
                .code
                .push(&IntExpr::binary(Binary::Subtract, entries, before));
            this.code.op(Opcode::Dup);
            this.code.constant(size);
            this.code.trace(size);
            let at_bucket = Subjects {
                node: Some(bucket),
                ..subjects.clone()
            };
            for item in items.nodes() {
                this.inner(&at_bucket, item, depth - 1, DEEPEST_PART);
            }
            this.code.op(Opcode::Pop);
            this.code.one_less_of_three(done);
            this.code.set_times(all);
            this.code.place(empty);
            this.code.constant(1);
            this.code.op(Opcode::Add);
            this.code.goto(again);
        });
        self.code.place(done);
        for _ in 0..3 {
            self.code.op(Opcode::Pop);
        }
        Some(())
    }

    /// A hash table of buckets with eight places each. The stack has the remaining elements, the number of the bucket in the
    /// arrays, and the bucket with the number of the place in its lowest three bits. The bucket's number has from bit 32 on how
    /// many buckets were visited, including chained ones.
    pub(super) fn buckets(
        &mut self,
        subjects: &Subjects,
        table: &Buckets,
        depth: u32,
    ) -> Option<()> {
        let first = self.value_of(subjects, &table.first)?;
        let count = self.value_of(subjects, &table.count)?;
        let old = self.value_of(subjects, &table.old)?;
        let old_count = self.value_of(subjects, &table.old_count)?;
        let length = self.value_of(subjects, &table.length)?;
        let base = self.code.depth();
        let cell = |offset: usize| IntExpr::cell((base + offset) as u16);
        let constant = IntExpr::constant;
        let (place, bucket) = (
            IntExpr::binary(Binary::And, cell(2), constant(7)),
            IntExpr::binary(Binary::And, cell(2), constant(!7)),
        );
        let at_place = Subjects {
            node: Some(bucket.clone()),
            index: Some(place.clone()),
            ..subjects.clone()
        };
        let overflow = self.value_of(&at_place, &table.overflow)?;
        let full = self.value_of(&at_place, &table.full)?;
        let most = self.elements(table.size.div_ceil(8));
        let most_buckets = most.max(FEW_BUCKETS);
        let number = IntExpr::binary(Binary::And, cell(1), constant((1 << VISITED) - 1));
        let offset =
            |number: IntExpr| IntExpr::binary(Binary::Multiply, number, constant(table.size));
        let is_old = IntExpr::binary(Binary::LessUnsigned, number.clone(), old_count.clone());
        let of_new = IntExpr::binary(Binary::Subtract, number.clone(), old_count.clone());
        let in_array = IntExpr::choose(
            is_old,
            IntExpr::binary(Binary::Add, old, offset(number.clone())),
            IntExpr::binary(Binary::Add, first, offset(of_new)),
        );
        let all = IntExpr::binary(Binary::Add, old_count, count);
        let is_behind = IntExpr::binary(Binary::LessUnsigned, number, all).into_is_zero();
        let visited = IntExpr::binary(
            Binary::ShiftRightUnsigned,
            cell(1),
            constant(VISITED.into()),
        );
        let is_enough = IntExpr::binary(Binary::LessUnsigned, constant(most_buckets), visited);
        let outside = self.code.times();
        let [again, places, next, chained, done] = self.code.labels();
        self.code.push(&length);
        self.code.clamp(most);
        self.code.constant(0);
        self.code.constant(0);
        self.code.push(&cell(0).into_is_zero());
        self.code.if_goto(done);
        self.code.push(&is_behind);
        self.code.if_goto(done);
        self.code.push(&in_array);
        self.code.drop_below();
        self.code.place(again);
        self.repeated(most_buckets, |this| {
            this.code.op(Opcode::Dup);
            this.code.constant(table.size);
            this.code.trace(table.size);
            this.code.place(places);
            // Fewer places are full than are looked at.
            let looked_at = this.code.set_times(outside.saturating_mul(most));
            this.code.push(&full.into_is_zero());
            this.code.if_goto(next);
            for item in table.items.nodes() {
                this.inner(&at_place, item, depth - 1, DEEPEST_PART);
            }
            this.code.one_less_of_three(done);
            this.code.set_times(looked_at);
            this.code.place(next);
            let last = this.code.label();
            this.code
                .push(&IntExpr::binary(Binary::Equal, place, constant(7)));
            this.code.if_goto(last);
            this.code.constant(1);
            this.code.op(Opcode::Add);
            this.code.goto(places);
            this.code.place(last);
            // The next one in the chain, or in the array.
            this.code.push(&overflow);
            this.code.op(Opcode::Dup);
            this.code.if_goto(chained);
            this.code.op(Opcode::Pop);
            this.code.add_below(1 + (1 << VISITED));
            this.code.push(&is_behind);
            this.code.if_goto(done);
            this.code.push(&is_enough);
            this.code.if_goto(done);
            this.code.push(&in_array);
            this.code.drop_below();
            this.code.goto(again);
            this.code.set_depth(this.code.depth() + 1);
            this.code.place(chained);
            this.code.drop_below();
            this.code.add_below(1 << VISITED);
            this.code.push(&is_enough);
            this.code.if_goto(done);
            this.code.goto(again);
        });
        self.code.place(done);
        for _ in 0..3 {
            self.code.op(Opcode::Pop);
        }
        debug_assert_eq!(self.code.depth(), base);
        Some(())
    }

    /// Truth values, a bit each.
    pub(super) fn bits(
        &mut self,
        subjects: &Subjects,
        size: u64,
        [first, start, length]: [&Node; 3],
    ) -> Option<()> {
        let pointer = first;
        let first = self.value_of(subjects, pointer)?;
        let start = self.value_of(subjects, start)?;
        let length = self.value_of(subjects, length)?;
        let most = self.elements(1);
        // No more than the bits of a word are before the first.
        let limit = (most + 64).div_ceil(8);
        let cell = self.code.push(&first);
        self.code.op(Opcode::Dup);
        let end = IntExpr::binary(Binary::Add, start, length).add(7);
        let bytes = IntExpr::binary(Binary::ShiftRightUnsigned, end, IntExpr::constant(3));
        self.code.push(&bytes);
        self.code.clamp(limit);
        self.code.trace(limit);
        self.collect_again(subjects, size, pointer, &cell);
        self.code.op(Opcode::Pop);
        Some(())
    }
}
