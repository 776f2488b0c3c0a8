//! Trees.

use tracewire_agent_expr::Opcode;

use super::{DEEPEST_PART, STEPS_OF_TREE};
use crate::collect::Collection;
use crate::int_expr::{Binary, IntExpr};
use crate::lower::Subjects;
use crate::walk::{BTree, Tree};

impl Collection<'_> {
    /// A binary tree, in its order. The stack has the remaining steps, the remaining elements, and the node.
    pub(super) fn tree(&mut self, subjects: &Subjects, tree: &Tree, depth: u32) -> Option<()> {
        let root = self.value_of(subjects, &tree.root)?;
        let length = self.value_of(subjects, &tree.length)?;
        let left_over = self.code.depth();
        let cell = IntExpr::cell((self.code.depth() + 2) as u16);
        let at_node = Subjects {
            node: Some(cell.clone()),
            ..subjects.clone()
        };
        let left = self.value_of(&at_node, &tree.left)?;
        let right = self.value_of(&at_node, &tree.right)?;
        let parent = self.value_of(&at_node, &tree.parent)?;
        // The right child of the parent, which is on the stack above the node then.
        let above = Subjects {
            node: Some(IntExpr::cell((self.code.depth() + 3) as u16)),
            ..subjects.clone()
        };
        let right_of_parent = self.value_of(&above, &tree.right)?;
        let size = self.node_size(&at_node, tree.root.type_id, &tree.items);
        let redacted = self.redacted_in_node(&at_node, tree.root.type_id, &tree.items)?;
        let most = self.elements(size);
        let steps = most.saturating_mul(STEPS_OF_TREE).saturating_add(64);
        self.code.constant(steps);
        self.code.push(&length);
        self.code.clamp(most);
        self.code.push(&root);
        let [descend, visit, ascend] = self.code.labels();
        let [no_left, no_right, done] = self.code.labels();
        // An empty tree has no root, or a length of zero.
        self.code.push(&cell.clone().into_is_zero());
        self.code.if_goto(done);
        let elements = IntExpr::cell((left_over + 1) as u16);
        self.code.push(&elements.clone().into_is_zero());
        self.code.if_goto(done);
        // Down to the left. Each node is collected on the way down.
        self.code.place(descend);
        self.repeated(steps, |this| {
            this.code.one_less_of_three(done);
            this.code
                .trace_around(&redacted, size, size / STEPS_OF_TREE);
            this.code.push(&left);
            this.code.op(Opcode::Dup);
            this.code.op(Opcode::LogNot);
            this.code.if_goto(no_left);
            this.code.drop_below();
            this.code.goto(descend);
        });
        self.code.set_depth(left_over + 4);
        self.code.place(no_left);
        self.code.op(Opcode::Pop);
        self.code.place(visit);
        self.repeated(most, |this| {
            for item in tree.items.nodes() {
                this.inner(&at_node, item, depth - 1, DEEPEST_PART);
            }
            this.code.one_less_below();
            this.code.push(&elements.into_is_zero());
            this.code.if_goto(done);
            this.code.push(&right);
            this.code.op(Opcode::Dup);
            this.code.op(Opcode::LogNot);
            this.code.if_goto(no_right);
            this.code.drop_below();
            this.code.goto(descend);
        });
        self.code.set_depth(left_over + 4);
        self.code.place(no_right);
        self.code.op(Opcode::Pop);
        // Up to the first node that has this one on its left.
        self.code.place(ascend);
        self.repeated(steps, |this| {
            this.code.one_less_of_three(done);
            this.code.push(&parent);
            let is_right = IntExpr::binary(Binary::Equal, right_of_parent, cell);
            this.code.push(&is_right);
            // The parent takes the node's place.
            this.code.op(Opcode::Swap);
            this.code.op(Opcode::Rot);
            this.code.drop_below();
            this.code.if_goto(ascend);
            this.code.goto(visit);
        });
        self.code.place(done);
        for _ in 0..3 {
            self.code.op(Opcode::Pop);
        }
        debug_assert_eq!(self.code.depth(), left_over);
        Some(())
    }

    /// A tree whose nodes have several elements, in its order. The stack has the remaining elements, the node, and the position
    /// in it: the height of the node in the high bits, the number of an element in the low four.
    pub(super) fn btree(&mut self, subjects: &Subjects, tree: &BTree, depth: u32) -> Option<()> {
        let root = self.value_of(subjects, &tree.root)?;
        let height = self.value_of(subjects, &tree.height)?;
        let length = self.value_of(subjects, &tree.length)?;
        let most = self.elements(1);
        let base = self.code.depth();
        let cell = |offset: usize| IntExpr::cell((base + offset) as u16);
        let (node, place) = (cell(1), cell(2));
        let number = IntExpr::binary(Binary::And, place.clone(), IntExpr::constant(15));
        let at_node = Subjects {
            node: Some(node.clone()),
            index: Some(number.clone()),
            ..subjects.clone()
        };
        let size = self.value_of(&at_node, &tree.size)?;
        let parent = self.value_of(&at_node, &tree.parent)?;
        let parent_index = self.value_of(&at_node, &tree.parent_index)?;
        let edges = self.value_of(&at_node, &tree.edges)?;
        let word = self.lower.locator.architecture().pointer_size();
        // The edges follow what all nodes have.
        let whole = edges.distance_from(&node)?;
        let all_edges = 16 * u64::from(word);
        let [descend, leaf, visit, ascend, done] = self.code.labels();
        self.code.push(&length);
        self.code.clamp(most);
        self.code.push(&root);
        self.code.push(&IntExpr::binary(
            Binary::ShiftLeft,
            height,
            IntExpr::constant(4),
        ));
        self.code.push(&cell(0).into_is_zero());
        self.code.if_goto(done);
        self.code.push(&node.clone().into_is_zero());
        self.code.if_goto(done);
        // No tree is higher.
        let is_too_high = IntExpr::binary(
            Binary::LessUnsigned,
            IntExpr::constant(0x1ff),
            place.clone(),
        );
        self.code.push(&is_too_high);
        self.code.if_goto(done);
        self.code.place(descend);
        let is_inner = IntExpr::binary(Binary::LessUnsigned, IntExpr::constant(15), place.clone());
        let times = most.saturating_mul(2);
        self.repeated(times, |this| {
            this.code.push(&is_inner.clone().into_is_zero());
            this.code.if_goto(leaf);
            // An inner node is collected where it is entered first, and not each time that the walk comes back.
            let first = this.code.label();
            let again = this.code.label();
            this.code.push(&number.clone().into_is_zero());
            this.code.if_goto(first);
            this.code.goto(again);
            this.code.place(first);
            this.code.push(&node);
            let size = whole + all_edges - u64::from(word) * 4;
            this.code.constant(size);
            // A node has five elements at least, and an inner one as many nodes below.
            this.code.trace(size.div_ceil(8));
            this.code.place(again);
            let offset = IntExpr::binary(
                Binary::Multiply,
                number.clone(),
                IntExpr::constant(word.into()),
            );
            let child = IntExpr::load(IntExpr::binary(Binary::Add, edges, offset), word);
            this.code.push(&child);
            let lower = IntExpr::binary(
                Binary::ShiftRightUnsigned,
                place.clone(),
                IntExpr::constant(4),
            );
            let lower = IntExpr::binary(
                Binary::ShiftLeft,
                lower.add(1_u64.wrapping_neg()),
                IntExpr::constant(4),
            );
            this.code.push(&lower);
            this.replace_two();
            this.code.goto(descend);
        });
        self.code.place(leaf);
        self.code.push(&node);
        self.code.constant(whole);
        self.code.trace(whole.saturating_mul(most / 4 + 1));
        self.code.place(visit);
        let is_behind = IntExpr::binary(Binary::LessUnsigned, number.clone(), size).into_is_zero();
        self.code.push(&is_behind);
        self.code.if_goto(ascend);
        self.repeated(most, |this| {
            for item in tree.items.nodes() {
                this.inner(&at_node, item, depth - 1, DEEPEST_PART);
            }
            this.code.constant(1);
            this.code.op(Opcode::Add);
            this.code.one_less_of_three(done);
            // The successor of an inner node's element is below it.
            this.code.push(&is_inner);
            this.code.if_goto(descend);
            this.code.goto(visit);
        });
        self.code.set_depth(base + 3);
        self.code.place(ascend);
        self.repeated(times, |this| {
            this.code.push(&parent);
            this.code.op(Opcode::Dup);
            let above = this.code.label();
            this.code.if_goto(above);
            // The root has no parent: there are fewer elements than the container's count.
            this.code.op(Opcode::Pop);
            this.code.goto(done);
            this.code.set_depth(this.code.depth() + 1);
            this.code.place(above);
            let higher = IntExpr::binary(
                Binary::ShiftRightUnsigned,
                place.clone(),
                IntExpr::constant(4),
            );
            let higher = IntExpr::binary(Binary::ShiftLeft, higher.add(1), IntExpr::constant(4));
            let low = IntExpr::binary(Binary::And, parent_index, IntExpr::constant(15));
            this.code.push(&IntExpr::binary(Binary::Or, higher, low));
            this.replace_two();
            this.code.push(&is_too_high);
            this.code.if_goto(done);
            this.code.goto(visit);
        });
        self.code.place(done);
        for _ in 0..3 {
            self.code.op(Opcode::Pop);
        }
        debug_assert_eq!(self.code.depth(), base);
        Some(())
    }

    /// a b c d → c d
    fn replace_two(&mut self) {
        // a b c d → a d b c → a d c b → a d c → c a d → c d a → c d
        for _ in 0..2 {
            self.code.op(Opcode::Rot);
            self.code.drop_below();
        }
    }
}
