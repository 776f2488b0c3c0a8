//! Aggregates: keys and values are computed, an entry is found, and its number is changed.

use iced_x86::code_asm::*;
use tracewire_agent_expr::Verified;
use tracewire_model::{
    Aggregate, AggregateFunction, Buckets, CallPart, GoroutinePoint, KEY_TEXT, Operand,
    RegisterNumber, SpanPoint, TracepointNumber,
};

use super::code::{Code, Gpr, Label, Made, Mode, SHARED, Slot};
use super::expression::Purpose;
use super::frame::Needs;
use super::plan::{check, needs};
use super::registers::{Value, value};
use crate::count_table::{CountTable, PICK_WAITS, PROBES, TAG, TURN, call_key};
use crate::layout::{calls, counts, header, threads, tracepoint};
use crate::pad::{CannotCompile, PadOptions, PadTracepoint};

/// The checked aggregates of a tracepoint.
pub(super) struct PlannedCounting {
    number: TracepointNumber,
    call: CallPart,
    point: Option<SpanPoint>,
    condition: Option<Verified>,
    captures: Vec<PlannedOperand>,
    aggregates: Vec<PlannedAggregate>,
    picks: bool,
    needs: Needs,
}

struct PlannedAggregate {
    aggregate: Aggregate,
    keys: Vec<PlannedOperand>,
    value: Option<PlannedOperand>,
    table: CountTable,
}

enum PlannedOperand {
    Number(Verified),
    Text(Verified, Option<Verified>),
    Captured { at: u16, words: u16 },
}

impl PlannedOperand {
    fn words(&self) -> u16 {
        match self {
            Self::Number(_) => 1,
            Self::Text(..) => TEXT_WORDS,
            Self::Captured { words, .. } => *words,
        }
    }
}

const TEXT_WORDS: u16 = KEY_TEXT as u16 / 8;

impl PlannedCounting {
    /// None of a tracepoint that counts nothing.
    pub(super) fn new(
        tracepoint: &PadTracepoint<'_>,
        options: &PadOptions<'_>,
    ) -> Made<Option<Self>> {
        let definition = tracepoint.definition;
        let counting = &definition.counting;
        if counting.is_empty() {
            return Ok(None);
        }
        let mut hit_needs = Needs::default();
        let mut program = |code: &Vec<u8>| {
            let program = check(code)?;
            if !program.has_result() {
                return Err(CannotCompile::NoResult);
            }
            needs(&program, options, &mut hit_needs)?;
            Ok(program)
        };
        let mut operand = |operand: &Operand| {
            Ok(match operand {
                Operand::Number(code) => PlannedOperand::Number(program(code)?),
                Operand::Text { address, length } => PlannedOperand::Text(
                    program(address)?,
                    length.as_ref().map(&mut program).transpose()?,
                ),
                Operand::Captured { at, is_text } => PlannedOperand::Captured {
                    at: *at,
                    words: if *is_text { TEXT_WORDS } else { 1 },
                },
            })
        };
        let mut aggregates = Vec::new();
        for (index, counted) in counting.aggregates.iter().enumerate() {
            let table = tracepoint.tables.get(index).ok_or(CannotCompile::Counts)?;
            if counted.aggregate.function == AggregateFunction::Average
                && !options.features.cmpxchg16b
            {
                return Err(CannotCompile::Average);
            }
            let keys: Made<Vec<_>> = counted.keys.iter().map(&mut operand).collect();
            aggregates.push(PlannedAggregate {
                aggregate: counted.aggregate.clone(),
                keys: keys?,
                value: counted.value.as_ref().map(&mut operand).transpose()?,
                table: *table,
            });
        }
        let captures: Made<Vec<_>> = counting.captures.iter().map(&mut operand).collect();
        let captures = captures?;
        let kept: u64 = captures
            .iter()
            .map(|operand| u64::from(operand.words()))
            .sum();
        let needs_slots = matches!(
            counting.call,
            CallPart::Begin { .. } | CallPart::Within | CallPart::End
        );
        if needs_slots && options.layout.calls().is_none() || kept > calls::KEPT_WORDS {
            return Err(CannotCompile::Counts);
        }
        Ok(Some(Self {
            number: definition.number,
            call: counting.call,
            point: definition.source.span_point(),
            condition: counting.condition.as_ref().map(&mut program).transpose()?,
            captures,
            aggregates,
            picks: counting.picks,
            needs: hit_needs,
        }))
    }

    /// Whether only picked hits make frames.
    pub(super) const fn picks(&self) -> bool {
        self.picks
    }

    /// The number of words kept at the entry that are used.
    fn kept_words(&self) -> u16 {
        let operands = self.aggregates.iter();
        let operands = operands.flat_map(|planned| planned.keys.iter().chain(&planned.value));
        let ends = operands.map(|operand| match operand {
            PlannedOperand::Captured { at, words } => at + words,
            _ => 0,
        });
        ends.max().unwrap_or(0)
    }
}

impl<'o> Code<'o> {
    /// Counts a hit whose condition is true. Jumps to `skipped` with a hit that is not picked.
    pub(super) fn counting(
        &mut self,
        counting: &'o PlannedCounting,
        block: u64,
        skipped: Label,
    ) -> Made {
        self.uses(&[rax, rcx, rdx, rsi, rdi]);
        let (done, uncounted, failed) = (self.label(), self.label(), self.label());
        let out = if counting.picks { skipped } else { done };
        match counting.call {
            CallPart::Within => return self.find_own_call(counting, out),
            CallPart::End if counting.picks => {
                self.find_own_call(counting, out)?;
                self.asm.mov(qword_ptr(rdi + calls::KEY), 0)?;
                return Ok(());
            }
            CallPart::End => self.end_call(counting, out)?,
            CallPart::Whole => {
                let duration = self.slot(Slot::Duration);
                self.asm.mov(duration, 0)?;
            }
            CallPart::Begin { is_loop: true } if counting.picks => {
                let fresh = self.label();
                self.find_own_call(counting, fresh)?;
                self.asm.jmp(self.to(done))?;
                self.place(fresh)?;
            }
            CallPart::Begin { .. } | CallPart::None => {}
        }
        self.hit_needs(counting.needs)?;
        if let Some(condition) = &counting.condition {
            let into = Slot::Counted;
            self.expression(condition, Purpose::Value { into, failed })?;
            let truth = self.slot(into);
            self.asm.cmp(truth, 0)?;
            self.asm.je(self.to(uncounted))?;
        }
        for planned in &counting.aggregates {
            self.add_to_aggregate(planned, uncounted)?;
        }
        match counting.call {
            CallPart::Begin { is_loop } => {
                self.begin_call(counting, is_loop, block, uncounted, (done, out))?;
                self.later(move |code| {
                    code.place(failed)?;
                    for planned in &counting.aggregates {
                        code.count_unreadable(&planned.table)?;
                    }
                    // The call is not measured. An abandoned call at the same stack pointer may still have the slot.
                    code.place(uncounted)?;
                    code.find_own_call(counting, out)?;
                    code.asm.mov(qword_ptr(rdi + calls::KEY), 0)?;
                    code.asm.jmp(code.to(out))?;
                    Ok(())
                });
            }
            CallPart::Within | CallPart::End | CallPart::Whole | CallPart::None => {
                self.later(move |code| {
                    code.place(failed)?;
                    for planned in &counting.aggregates {
                        code.count_unreadable(&planned.table)?;
                    }
                    code.place(uncounted)?;
                    code.asm.jmp(code.to(out))?;
                    Ok(())
                });
            }
        }
        self.place(done)
    }

    /// Puts the slot of the call into `rdi`. Jumps to `missing` if it has none. Changes what [`find_call`](Self::find_call) changes.
    fn find_own_call(&mut self, counting: &PlannedCounting, missing: Label) -> Made {
        self.find_call(
            counting,
            |code, again| {
                code.asm.cmp(qword_ptr(rdi + calls::KEY), rsi)?;
                code.asm.jne(code.to(again))?;
                Ok(())
            },
            missing,
        )
    }

    /// Loops over the places where the slot of a call may be. `rdi` is the slot and `rsi` the key for `look`, which jumps to its
    /// label if it is another slot. Jumps to `missing` after the last. Changes `rcx`, `rdx` and `rax`.
    fn find_call(
        &mut self,
        counting: &PlannedCounting,
        look: impl FnOnce(&mut Self, Label) -> Made,
        missing: Label,
    ) -> Made {
        let (again, next, found) = (self.label(), self.label(), self.label());
        self.call_key(counting)?;
        let calls = self.layout().calls().ok_or(CannotCompile::Counts)?;
        self.number(Gpr(3), threads::FACTOR)?;
        self.asm.imul_2(rdx, rsi)?;
        self.asm.shr(rdx, (64 - calls::BITS) as i32)?;
        self.asm.shl(edx, calls::SLOT_BITS as i32)?;
        self.asm.lea(rdi, SHARED + rdx + calls as i64)?;
        self.asm.mov(ecx, calls::PROBES as u32)?;
        self.place(again)?;
        look(self, next)?;
        self.asm.jmp(self.to(found))?;
        self.place(next)?;
        self.asm.add(rdi, calls::SLOT as i32)?;
        self.asm.dec(ecx)?;
        self.asm.jne(self.to(again))?;
        self.asm.jmp(self.to(missing))?;
        self.place(found)
    }

    /// Puts the key of the call into `rsi`.
    fn call_key(&mut self, counting: &PlannedCounting) -> Made {
        let unknown = CannotCompile::Register(RegisterNumber(7));
        let point = counting.point.ok_or(unknown)?;
        let Value::General(general) = value(point.register.0, self.options.features) else {
            return Err(CannotCompile::Register(point.register));
        };
        self.uses_program(general);
        self.program_register(general, rsi)?;
        match i32::try_from(point.offset) {
            Ok(0) => {}
            Ok(offset) => self.asm.add(rsi, offset)?,
            Err(_) => {
                self.number(Gpr(0), point.offset.cast_unsigned())?;
                self.asm.add(rsi, rax)?;
            }
        }
        if let Some(goroutine) = point.goroutine {
            self.goroutine_call(goroutine)?;
        }
        self.asm.shl(rsi, 17)?;
        self.asm.shr(rsi, 17)?;
        self.number(Gpr(0), call_key(counting.number, 0))?;
        self.asm.or(rsi, rax)?;
        Ok(())
    }

    /// Makes a stack pointer in `rsi` the number of a call of a goroutine, as [`GoroutinePoint::call`] does it. It stays where the
    /// thread runs no goroutine. Without a tracer a wrong address would end the program, so it stays there, too. Changes `rax`, `rcx`
    /// and `rdx`.
    fn goroutine_call(&mut self, goroutine: GoroutinePoint) -> Made {
        let Value::General(general) = value(goroutine.register.0, self.options.features) else {
            return Err(CannotCompile::Register(goroutine.register));
        };
        if self.mode == Mode::Kernel {
            return Ok(());
        }
        let none = self.label();
        self.uses_program(general);
        self.program_register(general, rax)?;
        self.may_fault(none);
        self.asm
            .mov(rcx, qword_ptr(rax + u32::from(goroutine.number)))?;
        self.asm.test(rcx, rcx)?;
        self.asm.je(self.to(none))?;
        self.may_fault(none);
        self.asm
            .mov(rdx, qword_ptr(rax + u32::from(goroutine.stack_end)))?;
        self.asm.sub(rdx, rsi)?;
        self.asm.shr(rdx, 3)?;
        self.asm.shl(rcx, GoroutinePoint::DISTANCE_BITS)?;
        self.asm.lea(rsi, rcx + rdx)?;
        self.place(none)
    }

    /// Keeps the values that the end of the call needs, and the time. Jumps to `failed` where one cannot be read, and to the labels of
    /// `done` where a loop goes on in a call that has begun, and where there is no slot.
    fn begin_call(
        &mut self,
        counting: &'o PlannedCounting,
        is_loop: bool,
        block: u64,
        failed: Label,
        done: (Label, Label),
    ) -> Made {
        let (goes_on, out) = done;
        let mut words = 0;
        for operand in &counting.captures {
            self.operand(operand, Slot::Kept, words, failed)?;
            words += operand.words();
        }
        let (lost, own, fill) = (self.label(), self.label(), self.label());
        self.find_call(
            counting,
            |code, next| {
                code.asm.mov(rax, qword_ptr(rdi + calls::KEY))?;
                code.asm.cmp(rax, rsi)?;
                code.asm.je(code.to(own))?;
                code.asm.test(rax, rax)?;
                code.asm.jne(code.to(next))?;
                code.asm.lock().cmpxchg(qword_ptr(rdi + calls::KEY), rsi)?;
                code.asm.jne(code.to(next))?;
                Ok(())
            },
            lost,
        )?;
        self.place(fill)?;
        for word in 0..words {
            let slot = self.slot(Slot::Kept(word));
            self.asm.mov(rax, slot)?;
            self.asm
                .mov(qword_ptr(rdi + (calls::KEPT + u64::from(word) * 8)), rax)?;
        }
        self.counter()?;
        self.asm.mov(qword_ptr(rdi + calls::BEGUN), rax)?;
        self.later(move |code| {
            code.place(own)?;
            // In a loop, the call has begun before. Otherwise the call that has the slot was abandoned.
            code.asm
                .jmp(code.to(if is_loop { goes_on } else { fill }))?;
            code.place(lost)?;
            let count = SHARED + (block + tracepoint::CALLS_LOST) as i64;
            code.asm.lock().inc(qword_ptr(count))?;
            code.asm.jmp(code.to(out))?;
            Ok(())
        });
        Ok(())
    }

    /// Puts the duration of the call and the kept values into their slots. Jumps to `missing` if the call has no beginning.
    fn end_call(&mut self, counting: &PlannedCounting, missing: Label) -> Made {
        let duration = self.slot(Slot::Duration);
        self.counter()?;
        self.asm.mov(duration, rax)?;
        self.find_own_call(counting, missing)?;
        for word in 0..counting.kept_words() {
            let slot = self.slot(Slot::Kept(word));
            self.asm
                .mov(rax, qword_ptr(rdi + (calls::KEPT + u64::from(word) * 8)))?;
            self.asm.mov(slot, rax)?;
        }
        self.asm.mov(rax, duration)?;
        self.asm.mov(ecx, 0)?;
        self.asm.sub(rax, qword_ptr(rdi + calls::BEGUN))?;
        // The processor may have read the counter early.
        self.asm.cmovb(rax, rcx)?;
        self.asm.mov(qword_ptr(rdi + calls::KEY), 0)?;
        // Microseconds and a fraction, as nanoseconds.
        self.asm.mul(qword_ptr(SHARED + header::CLOCK_RATE))?;
        self.asm.imul_3(rcx, rdx, 1000)?;
        self.asm.mov(edx, 1000)?;
        self.asm.mul(rdx)?;
        self.asm.add(rcx, rdx)?;
        self.asm.mov(duration, rcx)?;
        Ok(())
    }

    /// Puts a key or a value into slots, from the word `at` on. Jumps to `failed` if it cannot be read.
    fn operand(
        &mut self,
        operand: &PlannedOperand,
        slots: fn(u16) -> Slot,
        at: u16,
        failed: Label,
    ) -> Made {
        match operand {
            PlannedOperand::Number(program) => {
                let into = slots(at);
                self.expression(program, Purpose::Value { into, failed })
            }
            PlannedOperand::Captured { at: from, words } => {
                for word in 0..*words {
                    let (from, to) = (
                        self.slot(Slot::Kept(from + word)),
                        self.slot(slots(at + word)),
                    );
                    self.asm.mov(rax, from)?;
                    self.asm.mov(to, rax)?;
                }
                Ok(())
            }
            PlannedOperand::Text(address, length) => {
                let into = Slot::Text(0);
                self.expression(address, Purpose::Value { into, failed })?;
                if let Some(length) = length {
                    let into = Slot::Text(1);
                    self.expression(length, Purpose::Value { into, failed })?;
                }
                self.text(length.is_some(), slots, at, failed)
            }
        }
    }

    /// Reads the text whose address and length are in slots.
    fn text(&mut self, has_length: bool, slots: fn(u16) -> Slot, at: u16, failed: Label) -> Made {
        if self.mode == Mode::Kernel {
            // Without a tracer, no one handles a fault.
            return Ok(self.asm.jmp(self.to(failed))?);
        }
        let (again, end) = (self.label(), self.label());
        let places: Vec<u32> = (0..TEXT_WORDS)
            .map(|word| self.place_of(slots(at + word)))
            .collect();
        for place in &places {
            self.asm.mov(qword_ptr(rsp + *place), 0)?;
        }
        let first = places.first().copied().unwrap_or(0);
        let address = self.slot(Slot::Text(0));
        self.asm.mov(rsi, address)?;
        self.asm.xor(ecx, ecx)?;
        self.asm.mov(edx, u32::from(TEXT_WORDS) * 8)?;
        if has_length {
            let length = self.slot(Slot::Text(1));
            self.asm.cmp(length, rdx)?;
            self.asm.cmovb(rdx, length)?;
            self.asm.test(rdx, rdx)?;
            self.asm.je(self.to(end))?;
        }
        self.place(again)?;
        self.may_fault(failed);
        self.asm.movzx(eax, byte_ptr(rsi + rcx))?;
        self.asm.test(al, al)?;
        self.asm.je(self.to(end))?;
        self.asm.mov(byte_ptr(rsp + rcx + first), al)?;
        self.asm.inc(rcx)?;
        self.asm.cmp(rcx, rdx)?;
        self.asm.jb(self.to(again))?;
        self.place(end)
    }

    /// Counts a hit whose keys or value cannot be read.
    fn count_unreadable(&mut self, table: &CountTable) -> Made {
        let count = self.shared(table.start + counts::UNREADABLE);
        self.asm.lock().inc(qword_ptr(count))?;
        Ok(())
    }

    /// Adds a hit to an aggregate. Jumps to `skipped` with a hit that a pick does not pick.
    fn add_to_aggregate(&mut self, planned: &'o PlannedAggregate, skipped: Label) -> Made {
        let (failed, done) = (self.label(), self.label());
        let out = match planned.aggregate.function.is_pick() {
            true => skipped,
            false => done,
        };
        let mut words = 0;
        for key in &planned.keys {
            self.operand(key, Slot::Key, words, failed)?;
            words += key.words();
        }
        if let Some(value) = &planned.value {
            self.operand(value, |_| Slot::Counted, 0, failed)?;
        }
        if let AggregateFunction::Histogram(buckets) = planned.aggregate.function {
            self.bucket(buckets, planned.aggregate.is_unsigned)?;
        }
        self.find_entry(planned, words, done, out)?;
        self.change(planned, out)?;
        let table = planned.table;
        self.later(move |code| {
            code.place(failed)?;
            code.count_unreadable(&table)?;
            code.asm.jmp(code.to(out))?;
            Ok(())
        });
        self.place(done)
    }

    /// Makes the value its bucket.
    fn bucket(&mut self, buckets: Buckets, is_unsigned: bool) -> Made {
        let counted = self.slot(Slot::Counted);
        let (small, above, have) = (self.label(), self.label(), self.label());
        self.asm.mov(rax, counted)?;
        match buckets {
            Buckets::Powers => {
                self.asm.test(rax, rax)?;
                if is_unsigned {
                    self.asm.je(self.to(small))?;
                } else {
                    self.asm.jle(self.to(small))?;
                }
                self.asm.bsr(rax, rax)?;
                self.asm.add(rax, 2)?;
                self.later(move |code| {
                    code.place(small)?;
                    // Negative values are in bucket 0, and 0 is in bucket 1.
                    code.asm.sete(al)?;
                    code.asm.movzx(eax, al)?;
                    code.asm.jmp(code.to(have))?;
                    Ok(())
                });
            }
            Buckets::Linear { low, high, step } => {
                if is_unsigned {
                    self.asm.test(rax, rax)?;
                    self.asm.js(self.to(above))?;
                }
                self.number(Gpr(2), high.cast_unsigned())?;
                self.asm.cmp(rax, rcx)?;
                self.asm.jge(self.to(above))?;
                self.number(Gpr(2), low.cast_unsigned())?;
                self.asm.cmp(rax, rcx)?;
                self.asm.jl(self.to(small))?;
                self.asm.sub(rax, rcx)?;
                self.asm.xor(edx, edx)?;
                self.number(Gpr(2), step)?;
                self.asm.div(rcx)?;
                self.asm.inc(rax)?;
                self.later(move |code| {
                    code.place(small)?;
                    code.asm.xor(eax, eax)?;
                    code.asm.jmp(code.to(have))?;
                    code.place(above)?;
                    code.number(Gpr(0), buckets.count() - 1)?;
                    code.asm.jmp(code.to(have))?;
                    Ok(())
                });
            }
        }
        self.place(have)?;
        self.asm.mov(counted, rax)?;
        Ok(())
    }

    /// Puts the entry of the keys in their slots into `rdi`. A new entry already counts the hit, and the code jumps to `done`. If there
    /// is no space, it jumps to `full`.
    fn find_entry(
        &mut self,
        planned: &'o PlannedAggregate,
        words: u16,
        done: Label,
        full: Label,
    ) -> Made {
        let table = planned.table;
        // The first hit of a key is picked.
        debug_assert!(planned.aggregate.function.picks(0), "a new entry counts");
        let is_pick = planned.aggregate.function.is_pick();
        if table.shards > 1 {
            self.cpu()?;
            self.asm.and(eax, (table.shards - 1) as i32)?;
            self.asm.imul_3(rax, rax, table.shard as i32)?;
            self.asm.lea(rdi, SHARED + rax + table.entries() as i64)?;
        } else {
            self.asm.lea(rdi, SHARED + table.entries() as i64)?;
        }
        // The hash, in `rsi`.
        self.asm.xor(esi, esi)?;
        if words > 0 {
            self.number(Gpr(2), threads::FACTOR)?;
        }
        for word in 0..words {
            let key = self.slot(Slot::Key(word));
            if word == 0 {
                self.asm.mov(rsi, key)?;
            } else {
                self.asm.rol(rsi, TURN as i32)?;
                self.asm.xor(rsi, key)?;
            }
            self.asm.imul_2(rsi, rcx)?;
        }
        if table.bits > 0 {
            self.asm.mov(rax, rsi)?;
            self.asm.shr(rax, (64 - table.bits) as i32)?;
            self.asm.imul_3(rax, rax, table.stride as i32)?;
            self.asm.add(rdi, rax)?;
        }
        self.asm.or(rsi, TAG as i32)?;
        self.asm.and(rsi, -2)?;
        let (again, next, other, found) = (self.label(), self.label(), self.label(), self.label());
        self.asm.mov(ecx, PROBES as u32)?;
        if is_pick {
            self.asm.mov(edx, PICK_WAITS)?;
        }
        self.place(again)?;
        self.asm.mov(rax, qword_ptr(rdi))?;
        self.asm.cmp(rax, rsi)?;
        self.asm.jne(self.to(other))?;
        for word in 0..words {
            let key = self.slot(Slot::Key(word));
            self.asm.mov(rax, key)?;
            self.asm
                .cmp(qword_ptr(rdi + (8 + u64::from(word) * 8)), rax)?;
            self.asm.jne(self.to(next))?;
        }
        self.place(found)?;
        self.later(move |code| {
            code.place(other)?;
            let (free, taken) = (code.label(), code.label());
            code.asm.test(rax, rax)?;
            code.asm.je(code.to(free))?;
            if is_pick {
                code.asm.cmp(rax, 1)?;
                code.asm.jne(code.to(taken))?;
                code.asm.dec(edx)?;
                code.asm.je(code.to(taken))?;
                code.asm.pause()?;
                code.asm.jmp(code.to(again))?;
                code.place(taken)?;
                code.asm.mov(edx, PICK_WAITS)?;
            }
            code.asm.jmp(code.to(next))?;
            code.place(free)?;
            code.asm.mov(edx, 1)?;
            code.asm.lock().cmpxchg(qword_ptr(rdi), rdx)?;
            if is_pick {
                code.asm.mov(edx, PICK_WAITS)?;
            }
            // Another thread may just have taken it for the same keys.
            code.asm.jne(code.to(again))?;
            for word in 0..words {
                let key = code.slot(Slot::Key(word));
                code.asm.mov(rax, key)?;
                code.asm
                    .mov(qword_ptr(rdi + (8 + u64::from(word) * 8)), rax)?;
            }
            code.begin_cell(planned)?;
            code.asm.mov(qword_ptr(rdi), rsi)?;
            code.asm.jmp(code.to(done))?;
            code.place(next)?;
            code.asm.add(rdi, table.stride as i32)?;
            code.asm.dec(ecx)?;
            code.asm.jne(code.to(again))?;
            let count = code.shared(table.start + counts::WITHOUT_ROOM);
            code.asm.lock().inc(qword_ptr(count))?;
            code.asm.jmp(code.to(full))?;
            Ok(())
        });
        Ok(())
    }

    /// Puts the first hit into the entry at `rdi`, which is all zeros and which no other thread uses yet.
    fn begin_cell(&mut self, planned: &PlannedAggregate) -> Made {
        let cell = planned.table.cell;
        let counted = self.slot(Slot::Counted);
        match planned.aggregate.function {
            AggregateFunction::Count
            | AggregateFunction::Top(_)
            | AggregateFunction::Sample(_)
            | AggregateFunction::First(_) => {
                self.asm.mov(qword_ptr(rdi + cell), 1)?;
            }
            AggregateFunction::Sum | AggregateFunction::Minimum | AggregateFunction::Maximum => {
                self.asm.mov(rax, counted)?;
                self.asm.mov(qword_ptr(rdi + cell), rax)?;
            }
            AggregateFunction::Average => {
                self.asm.mov(rax, counted)?;
                self.asm.mov(qword_ptr(rdi + cell), rax)?;
                self.asm.mov(qword_ptr(rdi + (cell + 8)), 1)?;
            }
            AggregateFunction::Histogram(_) => {
                self.asm.mov(rax, counted)?;
                self.asm.mov(qword_ptr(rdi + rax * 8 + cell), 1)?;
            }
        }
        Ok(())
    }

    /// Adds the hit to the entry at `rdi`. Jumps to `skipped` with a hit that a pick does not pick.
    fn change(&mut self, planned: &PlannedAggregate, skipped: Label) -> Made {
        let cell = planned.table.cell;
        let counted = self.slot(Slot::Counted);
        let at = qword_ptr(rdi + cell);
        match planned.aggregate.function {
            AggregateFunction::Count | AggregateFunction::Top(_) => self.asm.lock().inc(at)?,
            AggregateFunction::Sample(of) => {
                self.asm.mov(eax, 1)?;
                self.asm.lock().xadd(at, rax)?;
                self.asm.xor(edx, edx)?;
                self.asm.mov(ecx, of.get())?;
                self.asm.div(rcx)?;
                self.asm.test(rdx, rdx)?;
                self.asm.jne(self.to(skipped))?;
            }
            AggregateFunction::First(most) => {
                self.asm.mov(eax, 1)?;
                self.asm.lock().xadd(at, rax)?;
                self.asm.mov(ecx, most.get())?;
                self.asm.cmp(rax, rcx)?;
                self.asm.jae(self.to(skipped))?;
            }
            AggregateFunction::Sum => {
                self.asm.mov(rax, counted)?;
                self.asm.lock().add(at, rax)?;
            }
            AggregateFunction::Histogram(_) => {
                self.asm.mov(rax, counted)?;
                self.asm.lock().inc(qword_ptr(rdi + rax * 8 + cell))?;
            }
            AggregateFunction::Average => {
                let again = self.label();
                self.asm.mov(rsi, SHARED)?;
                self.asm.mov(rax, at)?;
                self.asm.mov(rdx, qword_ptr(rdi + (cell + 8)))?;
                self.place(again)?;
                self.asm.mov(rbx, counted)?;
                self.asm.add(rbx, rax)?;
                self.asm.lea(rcx, rdx + 1)?;
                self.asm.lock().cmpxchg16b(xmmword_ptr(rdi + cell))?;
                self.asm.jne(self.to(again))?;
                self.asm.mov(SHARED, rsi)?;
            }
            AggregateFunction::Minimum | AggregateFunction::Maximum => {
                let (again, settled) = (self.label(), self.label());
                let is_least = planned.aggregate.function == AggregateFunction::Minimum;
                self.asm.mov(rdx, counted)?;
                self.asm.mov(rax, at)?;
                self.place(again)?;
                self.asm.cmp(rax, rdx)?;
                let settled_code = self.to(settled);
                match (is_least, planned.aggregate.is_unsigned) {
                    (true, false) => self.asm.jle(settled_code)?,
                    (true, true) => self.asm.jbe(settled_code)?,
                    (false, false) => self.asm.jge(settled_code)?,
                    (false, true) => self.asm.jae(settled_code)?,
                }
                self.asm.lock().cmpxchg(at, rdx)?;
                self.asm.jne(self.to(again))?;
                self.place(settled)?;
            }
        }
        Ok(())
    }
}
