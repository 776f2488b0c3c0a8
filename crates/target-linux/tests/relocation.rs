//! Every form of instruction has the same effect with a breakpoint on it.

mod support;

use std::collections::HashMap;

use iced_x86::{Decoder, DecoderOptions};
use support::{Program, address, run_to_end};
use tracewire_experiment::{Hit, HitHandler, Outcome, StoppedThread, Target};
use tracewire_model::{Address, RegisterNumber};
use tracewire_target_linux::Event;

const FORMS: &str = r#"
    .intel_syntax noprefix
    .globl main, forms, forms_end, start_here
    .data
    .balign 16
number:  .quad 0x1122334455667788
other:   .quad 3
vector:  .quad 1, 2, 3, 4
real:    .double 2.5
table:   .quad case_a, case_b
target:  .quad callee
text:    .ascii "abcdefgh-ijkl"
copy:    .zero 16
format:  .asciz "sum %ld\n"
mode:    .asciz "w"
    .text
    .macro mix value
    imul r12, r12, 31
    add r12, \value
    .endm
main:
    push rbp
    push rbx
    push r12
    push r13
    push r14
    mov rbx, [rsi+8]
    mov r14, 3
start_here:
    xor r12d, r12d
again:
    call forms
    dec r14
    jnz again
    mov rdi, rbx
    lea rsi, mode[rip]
    call fopen@PLT
    mov rdi, rax
    mov rbx, rax
    lea rsi, format[rip]
    mov rdx, r12
    xor eax, eax
    call fprintf@PLT
    mov rdi, rbx
    call fclose@PLT
    xor eax, eax
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
    ret
callee:
    mov rax, [rsp]
    lea rdx, forms[rip]
    sub rax, rdx
    mix rax
    ret
callee_popping:
    mix [rsp+8]
    ret 8
forms:
    endbr64
    push rbp
    mov rbp, rsp
    push rbx
    push r13
    sub rsp, 40
    # relative operands: load, store, with an immediate behind, locked, vectors, x87
    mov rax, number[rip]
    mix rax
    lea rcx, number[rip]
    mov rdx, [rcx]
    mix rdx
    mov qword ptr other[rip], 1234
    cmp dword ptr other[rip], 1234
    sete al
    movzx eax, al
    mix rax
    lock add dword ptr other[rip], 5
    add byte ptr other[rip], 1
    mix other[rip]
    movdqa xmm1, vector[rip]
    paddq xmm1, vector[rip+16]
    movq rax, xmm1
    mix rax
    fld qword ptr real[rip]
    fadd qword ptr real[rip]
    fistp qword ptr [rsp]
    mix [rsp]
    push qword ptr number[rip]
    pop rax
    mix rax
    # branches, short and near, taken and not
    cmp rax, rax
    jne 1f
    mix 1
    cmp rax, rax
    je 1f
    mix 2
1:  cmp rax, rax
    jne forms_far
    mix 3
    clc
    jc 2f
    mix 4
2:  stc
    jc 3f
    mix 5
3:  mov ecx, 3
4:  mix rcx
    loop 4b
    mov ecx, 5
    xor eax, eax
5:  inc eax
    cmp eax, 3
    loopne 5b
    mix rcx
    mov ecx, 4
6:  cmp ecx, ecx
    loope 6b
    mix rcx
    xor ecx, ecx
    jrcxz 7f
    mix 6
7:  mov ecx, 1
    jecxz 8f
    mix 7
8:  jmp 9f
    mix 8
9:  jmp forms_middle
    .zero 200, 0x90
forms_middle:
    # jumps by register and by table
    lea rax, 1f[rip]
    jmp rax
    mix 9
1:  lea rcx, table[rip]
    mov eax, 1
    jmp qword ptr [rcx+rax*8]
case_a:
    mix 10
case_b:
    mix 11
    # calls of every kind
    call callee
    lea rax, callee[rip]
    call rax
    call qword ptr target[rip]
    lea rcx, target[rip]
    call qword ptr [rcx]
    xor eax, eax
    call qword ptr [rcx+rax*8]
    lea rax, callee[rip]
    mov [rsp], rax
    call qword ptr [rsp]
    mov [rsp+16], rax
    lea rax, callee[rip]
    mov [rsp+16], rax
    call qword ptr [rsp+16]
    push 77
    call callee_popping
    # flags across, and stored
    xor eax, eax
    sub eax, 1
    nop
    pushf
    pop rax
    and eax, 0x8d5
    mix rax
    mov eax, 0x45
    push rax
    popf
    jbe 1f
    mix 12
1:  stc
    nop dword ptr [rax+rax*1+0]
    adc r12, 0
    # the red zone
    mov qword ptr [rsp-8], 99
    mov qword ptr [rsp-128], 98
    nop
    mov rax, [rsp-8]
    add rax, [rsp-128]
    mix rax
    # strings
    lea rsi, text[rip]
    lea rdi, copy[rip]
    mov ecx, 13
    cld
    rep movsb
    mix copy[rip]
    lea rdi, text[rip]
    mov al, '-'
    mov ecx, 13
    repne scasb
    mix rcx
    std
    lea rsi, text[rip+7]
    lodsb
    cld
    movzx eax, al
    mix rax
    # the kernel
    mov eax, 110
    syscall
    test eax, eax
    setg al
    movzx eax, al
    mix rax
    mov eax, 64
    int 0x80
    test eax, eax
    setg al
    movzx eax, al
    mix rax
    # the rest
    mov rax, fs:[0]
    cmp rax, fs:[0x10]
    sete al
    movzx eax, al
    mix rax
    xor eax, eax
    cpuid
    mix 1
    enter 32, 0
    leave
    mov eax, 5
    cmovz eax, ecx
    xchg rax, [rsp]
    bswap rax
    mix [rsp]
    call rsp_caller
    jmp forms_done
forms_far:
    mix 100
forms_done:
    add rsp, 40
    pop r13
    pop rbx
    leave
    ret
rsp_caller:
    # a call whose target is read from where its return address goes
    lea rax, callee[rip]
    mov [rsp-8], rax
    call qword ptr [rsp-8]
    ret
forms_end:
    nop
    .section .note.GNU-stack,"",@progbits
"#;

/// Counts visits, by address: of breakpoints, or of steps.
#[derive(Default)]
struct Visits {
    step: bool,
    range: (u64, u64),
    at_breakpoints: HashMap<u64, u64>,
    at_steps: HashMap<u64, u64>,
}

impl HitHandler for Visits {
    fn hit(&mut self, hit: Hit, thread: &mut dyn StoppedThread) -> Outcome {
        const RIP: RegisterNumber = RegisterNumber(16);
        let rip = thread.register(RIP).unwrap();
        match hit {
            Hit::Tracepoint(address) => {
                assert_eq!(address.0, rip);
                *self.at_breakpoints.entry(rip).or_default() += 1;
            }
            Hit::Step(_) => *self.at_steps.entry(rip).or_default() += 1,
            Hit::Write { .. } => panic!("nothing is watched"),
        }
        Outcome {
            step: self.step,
            run_ended: false,
        }
    }
}

impl Visits {
    fn in_range(&self, visits: &HashMap<u64, u64>) -> HashMap<u64, u64> {
        visits
            .iter()
            .filter(|(address, _)| (self.range.0..self.range.1).contains(address))
            .map(|(address, count)| (*address - self.range.0, *count))
            .collect()
    }
}

/// Where instructions start, from `start` to `end` in the file of the program.
fn instructions(program: &Program, start: &str, end: &str) -> Vec<u64> {
    let bytes = std::fs::read(&program.path).unwrap();
    let (start, end) = (program.symbol(start), program.symbol(end));
    let code = &bytes[offset(start)..offset(end)];
    Decoder::with_ip(64, code, start, DecoderOptions::NONE)
        .iter()
        .map(|instruction| instruction.ip())
        .collect()
}

#[test]
fn every_form_does_the_same_and_is_counted_exactly() {
    for flags in [&["-pie"][..], &["-no-pie"]] {
        let program = Program::build_with("cc", "forms.S", FORMS, flags);
        assert!(program.start().wait().unwrap().success());
        let expected = program.results()["sum"];
        let sites = instructions(&program, "forms", "forms_end");
        assert!(sites.len() > 250);

        // By single steps, with one tracepoint to start them.
        let mut process = program.spawn();
        let start = support::trace(&mut process, &program, "start_here");
        let range = (
            address(&process, &program, "forms").0,
            address(&process, &program, "forms_end").0,
        );
        let mut stepped = Visits {
            step: true,
            range,
            ..Visits::default()
        };
        assert_eq!(
            run_to_end(&mut process, &mut stepped),
            Event::Exited(0),
            "{flags:?}"
        );
        assert_eq!(program.results()["sum"], expected, "stepped, {flags:?}");
        assert_eq!(stepped.at_breakpoints, HashMap::from([(start.0, 1)]));

        // By a breakpoint on every instruction.
        let mut process = program.spawn();
        let bias = address(&process, &program, "forms").0 - program.symbol("forms");
        for site in &sites {
            process.insert(Address(site + bias)).unwrap();
        }
        let range = (
            bias + program.symbol("forms"),
            bias + program.symbol("forms_end"),
        );
        let mut trapped = Visits {
            range,
            ..Visits::default()
        };
        assert_eq!(
            run_to_end(&mut process, &mut trapped),
            Event::Exited(0),
            "{flags:?}"
        );
        assert_eq!(program.results()["sum"], expected, "trapped, {flags:?}");
        // A repeated string instruction is stepped once for each repetition.
        let repeated: Vec<u64> = repeated_strings(&program, &sites);
        let mut by_steps = stepped.in_range(&stepped.at_steps);
        let mut by_traps = trapped.in_range(&trapped.at_breakpoints);
        for site in repeated {
            let site = site - program.symbol("forms");
            assert_eq!(by_traps.remove(&site), Some(3));
            assert!(by_steps.remove(&site).unwrap() > 3);
        }
        assert_eq!(by_steps, by_traps, "{flags:?}");

        // Both at once: stepping over breakpoints.
        let mut process = program.spawn();
        let bias = address(&process, &program, "forms").0 - program.symbol("forms");
        for site in &sites {
            process.insert(Address(site + bias)).unwrap();
        }
        let mut both = Visits {
            range,
            step: true,
            ..Visits::default()
        };
        assert_eq!(
            run_to_end(&mut process, &mut both),
            Event::Exited(0),
            "{flags:?}"
        );
        assert_eq!(program.results()["sum"], expected, "both, {flags:?}");
    }
}

/// The text of these small programs has the same offset in the file and in memory, apart from the base.
fn offset(address: u64) -> usize {
    (address & 0x3f_ffff) as usize
}

/// The sites of repeated string instructions.
fn repeated_strings(program: &Program, sites: &[u64]) -> Vec<u64> {
    let bytes = std::fs::read(&program.path).unwrap();
    sites
        .iter()
        .copied()
        .filter(|site| {
            matches!(
                bytes[offset(*site)..offset(*site) + 2],
                [0xf3, 0xa4] | [0xf2, 0xae]
            )
        })
        .collect()
}
