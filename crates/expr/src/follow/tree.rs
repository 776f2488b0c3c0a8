//! Trees.

use tracewire_agent_expr::Opcode;

use super::{DEEPEST_PART, STEPS_OF_TREE};
use crate::collect::Collection;
use crate::int_expr::{Binary, IntExpr};
use crate::lower::Subjects;
use crate::walk::{BTree, Tree};

impl Collection<'_> {
    /// A binary tree, in its order. The stack has how many steps are left, how many elements, and the node.
    pub(super) fn tree(&mut self, subjects: &Subjects, tree: &Tree, depth: u32) -> Option<()> {
        let root = self.value_of(subjects, &tree.root)?;
        let length = self.value_of(subjects, &tree.length)?;
        let left_over = self.depth;
        let cell = IntExpr::cell((self.depth + 2) as u16);
        let at_node = Subjects {
            node: Some(cell.clone()),
            ..subjects.clone()
        };
        let left = self.value_of(&at_node, &tree.left)?;
        let right = self.value_of(&at_node, &tree.right)?;
        let parent = self.value_of(&at_node, &tree.parent)?;
        // The right child of the parent, which is on the stack above the node then.
        let above = Subjects {
            node: Some(IntExpr::cell((self.depth + 3) as u16)),
            ..subjects.clone()
        };
        let right_of_parent = self.value_of(&above, &tree.right)?;
        let size = self.node_size(&at_node, tree.root.type_id, &tree.items);
        let redacted = self.redacted_in_node(&at_node, tree.root.type_id, &tree.items)?;
        let most = self.elements(size);
        let steps = most.saturating_mul(STEPS_OF_TREE).saturating_add(64);
        self.constant(steps);
        self.push(&length);
        self.clamp(most);
        self.push(&root);
        let [descend, visit, ascend] = self.labels();
        let [no_left, no_right, done] = self.labels();
        // An empty tree has no root, or a length of zero.
        self.push(&cell.clone().into_is_zero());
        self.if_goto(done);
        let elements = IntExpr::cell((left_over + 1) as u16);
        self.push(&elements.clone().into_is_zero());
        self.if_goto(done);
        // Down to the left. Each node is collected on the way down.
        self.builder.place(descend);
        self.repeated(steps, |this| {
            this.one_less_of_three(done);
            this.trace_around(&redacted, size, size / STEPS_OF_TREE);
            this.push(&left);
            this.op(Opcode::Dup);
            this.op(Opcode::LogNot);
            this.if_goto(no_left);
            this.drop_below();
            this.goto(descend);
        });
        self.depth = left_over + 4;
        self.builder.place(no_left);
        self.op(Opcode::Pop);
        self.builder.place(visit);
        self.repeated(most, |this| {
            for item in tree.items.nodes() {
                this.inner(&at_node, item, depth - 1, DEEPEST_PART);
            }
            this.one_less_below();
            this.push(&elements.into_is_zero());
            this.if_goto(done);
            this.push(&right);
            this.op(Opcode::Dup);
            this.op(Opcode::LogNot);
            this.if_goto(no_right);
            this.drop_below();
            this.goto(descend);
        });
        self.depth = left_over + 4;
        self.builder.place(no_right);
        self.op(Opcode::Pop);
        // Up to the first node that this is left of.
        self.builder.place(ascend);
        self.repeated(steps, |this| {
            this.one_less_of_three(done);
            this.push(&parent);
            let is_right = IntExpr::binary(Binary::Equal, right_of_parent, cell);
            this.push(&is_right);
            // The parent takes the node's place.
            this.op(Opcode::Swap);
            this.op(Opcode::Rot);
            this.drop_below();
            this.if_goto(ascend);
            this.goto(visit);
        });
        self.builder.place(done);
        for _ in 0..3 {
            self.op(Opcode::Pop);
        }
        debug_assert_eq!(self.depth, left_over);
        Some(())
    }

    /// A tree whose nodes have several elements, in its order. The stack has how many elements are left, the node, and where in
    /// it: the height of the node in the high bits, the number of an element in the low four.
    pub(super) fn btree(&mut self, subjects: &Subjects, tree: &BTree, depth: u32) -> Option<()> {
        let root = self.value_of(subjects, &tree.root)?;
        let height = self.value_of(subjects, &tree.height)?;
        let length = self.value_of(subjects, &tree.length)?;
        let most = self.elements(1);
        let base = self.depth;
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
        let [descend, leaf, visit, ascend, done] = self.labels();
        self.push(&length);
        self.clamp(most);
        self.push(&root);
        self.push(&IntExpr::binary(
            Binary::ShiftLeft,
            height,
            IntExpr::constant(4),
        ));
        self.push(&cell(0).into_is_zero());
        self.if_goto(done);
        self.push(&node.clone().into_is_zero());
        self.if_goto(done);
        // No tree is higher.
        let is_too_high = IntExpr::binary(
            Binary::LessUnsigned,
            IntExpr::constant(0x1ff),
            place.clone(),
        );
        self.push(&is_too_high);
        self.if_goto(done);
        self.builder.place(descend);
        let is_inner = IntExpr::binary(Binary::LessUnsigned, IntExpr::constant(15), place.clone());
        let times = most.saturating_mul(2);
        self.repeated(times, |this| {
            this.push(&is_inner.clone().into_is_zero());
            this.if_goto(leaf);
            // An inner node is collected where it is entered first, and not each time that the walk comes back.
            let first = this.builder.label();
            let again = this.builder.label();
            this.push(&number.clone().into_is_zero());
            this.if_goto(first);
            this.goto(again);
            this.builder.place(first);
            this.push(&node);
            let size = whole + all_edges - u64::from(word) * 4;
            this.constant(size);
            // A node has five elements at least, and an inner one as many nodes below.
            this.trace(size.div_ceil(8));
            this.builder.place(again);
            let offset = IntExpr::binary(
                Binary::Multiply,
                number.clone(),
                IntExpr::constant(word.into()),
            );
            let child = IntExpr::load(IntExpr::binary(Binary::Add, edges, offset), word);
            this.push(&child);
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
            this.push(&lower);
            this.replace_two();
            this.goto(descend);
        });
        self.builder.place(leaf);
        self.push(&node);
        self.constant(whole);
        self.trace(whole.saturating_mul(most / 4 + 1));
        self.builder.place(visit);
        let is_behind = IntExpr::binary(Binary::LessUnsigned, number.clone(), size).into_is_zero();
        self.push(&is_behind);
        self.if_goto(ascend);
        self.repeated(most, |this| {
            for item in tree.items.nodes() {
                this.inner(&at_node, item, depth - 1, DEEPEST_PART);
            }
            this.constant(1);
            this.op(Opcode::Add);
            this.one_less_of_three(done);
            // What follows an element of an inner node is below it.
            this.push(&is_inner);
            this.if_goto(descend);
            this.goto(visit);
        });
        self.depth = base + 3;
        self.builder.place(ascend);
        self.repeated(times, |this| {
            this.push(&parent);
            this.op(Opcode::Dup);
            let above = this.builder.label();
            this.if_goto(above);
            // The root has no parent: fewer elements than the container says.
            this.op(Opcode::Pop);
            this.goto(done);
            this.depth += 1;
            this.builder.place(above);
            let higher = IntExpr::binary(
                Binary::ShiftRightUnsigned,
                place.clone(),
                IntExpr::constant(4),
            );
            let higher = IntExpr::binary(Binary::ShiftLeft, higher.add(1), IntExpr::constant(4));
            let low = IntExpr::binary(Binary::And, parent_index, IntExpr::constant(15));
            this.push(&IntExpr::binary(Binary::Or, higher, low));
            this.replace_two();
            this.push(&is_too_high);
            this.if_goto(done);
            this.goto(visit);
        });
        self.builder.place(done);
        for _ in 0..3 {
            self.op(Opcode::Pop);
        }
        debug_assert_eq!(self.depth, base);
        Some(())
    }

    /// a b c d → c d
    fn replace_two(&mut self) {
        // a b c d → a d b c → a d c b → a d c → c a d → c d a → c d
        for _ in 0..2 {
            self.op(Opcode::Rot);
            self.drop_below();
        }
    }
}
