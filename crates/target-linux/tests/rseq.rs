//! Restartable sequences.

mod support;

use support::pads::counting;
use support::{Program, address};
use tracewire_experiment::Target;

/// Neither a jump nor a trap is put within one, at any address of the program; right after it both are possible.
#[test]
fn no_tracepoint_is_put_within_a_restartable_sequence() {
    let source = r#"
        int main(void) {
            __asm__ volatile(
                ".pushsection __rseq_cs, \"aw\"\n"
                ".balign 32\n"
                ".long 0, 0\n"
                ".quad 1f, 2f - 1f, 4f\n"
                ".popsection\n"
                ".globl before, first, inside, behind\n"
                "before: lea 1(%%rax,%%rax), %%rcx\n"
                "1: first: lea 1(%%rax,%%rax), %%rcx\n"
                "inside: lea 2(%%rax,%%rax), %%rcx\n"
                "2: behind: lea 3(%%rax,%%rax), %%rcx\n"
                "jmp 5f\n"
                ".byte 0x0f, 0xb9, 0x3d\n.long 0x53053053\n4: jmp 5f\n5:\n" ::: "rcx");
            return 0;
        }
    "#;
    for flags in [&["-O1", "-pie", "-fPIE"][..], &["-O1", "-no-pie"]] {
        let program = Program::build(source, flags);
        let mut process = program.spawn();
        let memory = process.share_memory_of(4096).unwrap();
        for (name, jump, trap) in [
            ("main", true, true),
            ("first", false, false),
            ("inside", false, false),
            ("behind", true, true),
        ] {
            let site = address(&process, &program, name);
            let inserted = process.insert_code(site, counting(&memory, 0));
            assert_eq!(inserted.is_ok(), jump, "{name} {flags:?}: {inserted:?}");
            process.remove(site).unwrap();
            let inserted = process.insert(site);
            assert_eq!(inserted.is_ok(), trap, "{name} {flags:?}: {inserted:?}");
            if let Err(error) = inserted {
                assert!(
                    error.to_string().contains("restartable sequence"),
                    "{error}"
                );
            }
            process.remove(site).unwrap();
        }
    }
}
