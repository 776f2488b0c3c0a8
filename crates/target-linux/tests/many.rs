//! Thousands of tracepoints in one program.

mod support;

use std::fmt::Write as _;

use support::pads::{count, counting};
use support::{Counter, Program, run_to_end};
use tracewire_experiment::Target;
use tracewire_model::Address;
use tracewire_target_linux::{Event, Mechanism, ModuleKind, Process};

const FUNCTIONS: usize = 4000;

/// A program of many functions that begin in different ways, each called once.
fn source() -> String {
    let mut source = "
        .text
        .globl main
    main:
        push %rbx; push %r12; push %r13
        mov 8(%rsi), %r13
        xor %ebx, %ebx
        xor %r12d, %r12d
    next:
        lea all(%rip), %rax
        movslq (%rax,%rbx,4), %rcx
        add %rcx, %rax
        mov %r12, %rdi
        mov %rbx, %rsi
        call *%rax
        imul $31, %r12
        add %rax, %r12
        inc %ebx
        cmp $FUNCTIONS, %ebx
        jne next
        mov %r13, %rdi
        lea mode(%rip), %rsi
        call fopen@PLT
        mov %rax, %rbx
        mov %rax, %rdi
        lea form(%rip), %rsi
        mov %r12, %rdx
        xor %eax, %eax
        call fprintf@PLT
        mov %rbx, %rdi
        call fclose@PLT
        xor %eax, %eax
        pop %r13; pop %r12; pop %rbx
        ret
    "
    .replace("FUNCTIONS", &FUNCTIONS.to_string());
    for index in 0..FUNCTIONS {
        let body = match index % 7 {
            0 => format!("lea {index}(%rdi,%rsi), %rax"),
            1 => format!(
                "push %rbp; mov %rsp, %rbp; sub ${}, %rsp; mov %rdi, -8(%rbp); mov -8(%rbp), %rax; leave",
                16 + index % 96 * 8
            ),
            2 => format!("endbr64; cmp ${index}, %rdi; mov %rsi, %rax; cmovg %rdi, %rax"),
            3 => "push %rbx; mov %edi, %ebx; mov %rsi, %rax; add %rbx, %rax; pop %rbx".to_owned(),
            4 => format!(
                "xor %eax, %eax; test %rdi, %rdi; js 1f; mov ${index}, %eax; 1: add %rsi, %rax"
            ),
            5 => "sub $24, %rsp; mov %rdi, 8(%rsp); mov 8(%rsp), %rax; add $24, %rsp".to_owned(),
            _ => "push %r12; push %rbx; mov %rdi, %r12; lea (%r12,%rsi), %rax; pop %rbx; pop %r12"
                .to_owned(),
        };
        let _ = writeln!(
            source,
            ".globl f{index}\n.type f{index}, @function\nf{index}: {body}; ret\n.size f{index}, . - f{index}"
        );
    }
    source.push_str(
        ".section .rodata\nmode: .asciz \"w\"\nform: .asciz \"sum %ld\\n\"\n.align 4\nall:\n",
    );
    for index in 0..FUNCTIONS {
        let _ = writeln!(source, ".long f{index} - all");
    }
    source.push_str(".section .note.GNU-stack,\"\",@progbits\n");
    source
}

fn sites(process: &Process, program: &Program) -> Vec<Address> {
    use object::{Object, ObjectSymbol};
    let modules = process.modules().unwrap();
    let executable =
        |module: &&tracewire_target_linux::Module| module.kind == ModuleKind::Executable;
    let bias = modules.iter().find(executable).unwrap().load_bias;
    let bytes = std::fs::read(&program.path).unwrap();
    let object = object::File::parse(bytes.as_slice()).unwrap();
    let mut sites: Vec<Address> = object
        .symbols()
        .filter(|symbol| {
            symbol.name().is_ok_and(|name| {
                name.strip_prefix('f')
                    .is_some_and(|rest| rest.parse::<usize>().is_ok())
            })
        })
        .map(|symbol| Address(symbol.address().wrapping_add(bias)))
        .collect();
    sites.sort_unstable();
    assert_eq!(sites.len(), FUNCTIONS);
    sites
}

/// Jumps with some traps in between: memory for both is found in the same range. None fails for lack of memory, the
/// program makes few system calls for that, and its results do not change.
#[test]
fn thousands_of_jumps_and_traps_find_room_side_by_side() {
    /// The system calls that the program makes for the tracer: one for each piece of 256 KiB that is mapped, and two
    /// for each page of copies of instructions.
    const MOST_CALLS: u64 = 400;
    for flags in [&["-pie"][..], &["-no-pie"]] {
        let program = Program::build_with("cc", "program.S", &source(), flags);
        let mut alone = program.start();
        assert!(alone.wait().unwrap().success());
        let expected = program.results();

        let mut process = program.spawn();
        let sites = sites(&process, &program);
        let memory = process.share_memory_of(1 << 16).unwrap();
        for round in 0..2 {
            let before = process.remote_calls();
            for (place, site) in sites.iter().enumerate().rev() {
                if place % 20 == 7 {
                    process.insert(*site).unwrap();
                    continue;
                }
                if let Err(error) = process.insert_code(*site, counting(&memory, place)) {
                    let mut code = [support::piece(site.0, 16)];
                    process.read_memory(&mut code);
                    assert!(
                        !error.to_string().contains("memory"),
                        "{flags:?} {place} {:x?}: {error}",
                        code[0].bytes
                    );
                    process.insert(*site).unwrap();
                }
            }
            let armed = process.remote_calls() - before;
            assert!(armed < MOST_CALLS, "{flags:?}: {armed}");
            if round == 0 {
                for site in &sites {
                    process.remove(*site).unwrap();
                }
                let removed = process.remote_calls() - before - armed;
                assert!(removed < MOST_CALLS, "{flags:?}: {removed}");
            }
        }
        let jumps = sites
            .iter()
            .filter(|site| matches!(process.mechanism(**site), Some(Mechanism::Jump(_))))
            .count();
        assert!(jumps > FUNCTIONS * 9 / 10, "{flags:?}: {jumps}");
        let mut counter = Counter::default();
        assert_eq!(run_to_end(&mut process, &mut counter), Event::Exited(0));
        for (place, site) in sites.iter().enumerate() {
            assert_eq!(
                count(&memory, place) + counter.at(*site),
                1,
                "{flags:?} {place}"
            );
        }
        assert_eq!(program.results(), expected, "{flags:?}");
    }
}
