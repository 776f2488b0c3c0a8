//! Which instructions of the guest call back, and what an experiment sees of a cpu that does.

use std::collections::HashMap;

use tracewire_arch::{Architecture, Machine, RegisterLayout};
use tracewire_experiment::{Experiment, FrameStore, Hit, HitHandler, Outcome, Target};
use tracewire_model::Address;

use super::guest::{GuestCpu, GuestPosition, GuestRegisters, RegisterBlock, Sites};
use crate::api::{Api, Block, InstructionCallback, RegisterHandle, Switch};
use crate::cpu_threads::CpuThreads;

/// A place in the guest's code by its number, which QEMU passes to the callback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(pub usize);

/// An instruction that may be of interest.
#[derive(Clone, Copy, Debug)]
struct Instruction {
    address: u64,
    tracepoints: Option<Address>,
}

/// The guest's code with callbacks, for one experiment after the other: translated code keeps its callbacks.
#[derive(Debug)]
pub struct Instrumentation {
    api: Api,
    architecture: Architecture,
    /// The registers of the cpus, as QEMU describes them; `None` before a cpu is there.
    described: Option<Vec<(RegisterHandle, String)>>,
    sites: Sites,
    registers: GuestRegisters,
    block: RegisterBlock,
    threads: CpuThreads,
    instructions: Vec<Instruction>,
    places: HashMap<u64, Place>,
    /// Whether a tracepoint steps.
    has_steps: bool,
    /// The switch for QEMU's callback at each instruction of a cpu that steps; `None` if no tracepoint ever stepped.
    steps: Option<Switch>,
    /// Which cpus step.
    stepping: Vec<bool>,
    /// When the last hit was.
    time: u64,
}

impl Instrumentation {
    /// No instruction calls back.
    pub fn new(api: Api, architecture: Architecture) -> Self {
        let machine = Machine::of(architecture);
        let layout = machine.layout();
        Self {
            api,
            architecture,
            described: None,
            sites: Sites::new(layout),
            registers: GuestRegisters::new(
                layout.clone(),
                layout.size(),
                architecture.byte_order(),
            ),
            block: RegisterBlock::default(),
            threads: CpuThreads::default(),
            instructions: Vec::new(),
            places: HashMap::new(),
            has_steps: false,
            steps: None,
            stepping: Vec::new(),
            time: 0,
        }
    }

    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The instructions with tracepoints.
    pub fn sites(&mut self) -> &mut Sites {
        &mut self.sites
    }

    /// When the last hit was, in microseconds since 1970.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Another experiment begins, which can read these registers. Its frames have the first of them, in blocks of this size. It has no
    /// tracepoints yet.
    pub fn begin(&mut self, layout: &RegisterLayout, block_size: u32, has_steps: bool) {
        self.sites = Sites::new(layout);
        let order = self.architecture.byte_order();
        self.registers = GuestRegisters::new(layout.clone(), block_size, order);
        if let Some(described) = &self.described {
            self.registers.find(self.architecture, described);
        }
        self.step_no_more();
        self.has_steps = has_steps;
        if has_steps && self.steps.is_none() {
            self.steps = Some(self.api.new_switch());
        }
    }

    /// Code that calls back from now on has the tracepoints that there are now.
    pub fn look_at_sites(&mut self) {
        for instruction in &mut self.instructions {
            instruction.tracepoints = self.sites.tracepoints_at(instruction.address);
        }
    }

    /// The experiment is over: no instruction has a tracepoint. Code that was translated for it keeps its callbacks.
    pub fn clear(&mut self) {
        self.sites.clear();
        self.has_steps = false;
        self.look_at_sites();
        self.step_no_more();
    }

    /// No cpu steps any more.
    pub fn step_no_more(&mut self) {
        for (cpu, steps) in (0..).zip(&mut self.stepping) {
            if std::mem::take(steps)
                && let Some(switch) = &self.steps
            {
                self.api.set_switch(switch, cpu, false);
            }
        }
    }

    /// A cpu is made, which has these registers. Returns whether its number may be wrong in callbacks.
    pub fn cpu(&mut self, described: Vec<(RegisterHandle, String)>) -> bool {
        self.registers.find(self.architecture, &described);
        self.described = Some(described);
        self.threads.add()
    }

    /// A block is translated: instructions with tracepoints have the callback, and others where a cpu that steps may come to them.
    pub fn translate(&mut self, block: Block, callback: InstructionCallback) {
        for instruction in self.api.instructions(block) {
            let address = self.sites.in_guest(self.api.address(instruction));
            let tracepoints = self.sites.tracepoints_at(address);
            if tracepoints.is_none() && !self.has_steps {
                continue;
            }
            let instructions = &mut self.instructions;
            let Place(number) = *self.places.entry(address).or_insert_with(|| {
                instructions.push(Instruction {
                    address,
                    tracepoints,
                });
                Place(instructions.len() - 1)
            });
            match &self.steps {
                Some(switch) if tracepoints.is_none() => {
                    self.api
                        .on_execution_if(instruction, callback, switch, number);
                }
                _ => self.api.on_execution(instruction, callback, true, number),
            }
        }
    }

    /// The address of the instruction at a place.
    pub fn address(&self, place: Place) -> Option<u64> {
        Some(self.instructions.get(place.0)?.address)
    }

    /// A cpu is about to execute an instruction. Returns whether the run continues.
    ///
    /// # Safety
    /// The caller is in the callback of the cpu, which reads registers.
    pub unsafe fn reach<S: FrameStore>(
        &mut self,
        experiment: &mut Experiment<S>,
        cpu: u32,
        place: Place,
    ) -> bool {
        let Some(Instruction {
            address,
            tracepoints,
        }) = self.instructions.get(place.0).copied()
        else {
            return true;
        };
        let number = cpu as usize;
        if self.stepping.len() <= number {
            self.stepping.resize(number + 1, false);
        }
        let steps = self.stepping[number];
        self.time = self.time.max(self.sites.now());
        self.block.forget();
        let position = GuestPosition {
            cpu,
            address,
            time: self.time,
        };
        // SAFETY: the caller is in the callback, and the value is used only here.
        let mut thread = unsafe {
            GuestCpu::of_callback(
                &mut self.api,
                &self.registers,
                &mut self.block,
                &self.sites,
                position,
            )
        };
        let mut outcome = Outcome {
            step: false,
            run_ended: false,
        };
        if steps {
            let at = tracepoints.unwrap_or(Address(address));
            outcome = experiment.hit(Hit::Step(at), &mut thread);
        }
        if let Some(tracepoints) = tracepoints
            && !outcome.run_ended
        {
            outcome = experiment.hit(Hit::Tracepoint(tracepoints), &mut thread);
        }
        if outcome.step != steps {
            self.stepping[number] = outcome.step;
            if let Some(switch) = &self.steps {
                self.api.set_switch(switch, cpu, outcome.step);
            }
        }
        !outcome.run_ended
    }
}
