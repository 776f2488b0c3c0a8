//! The errors and results of the verifier, and the errors of the assembler.

use tracewire_agent_expr::{
    AssembleError, BuildError, Builder, DecodeError, Opcode, STACK_LIMIT, VerifyError, assemble,
    verify,
};

fn refused(text: &str) -> VerifyError {
    verify(&assemble(text).unwrap()).unwrap_err()
}

#[test]
fn each_flaw_is_reported_with_its_place() {
    assert_eq!(verify(&[]), Err(VerifyError::Empty));
    assert_eq!(
        verify(&vec![0x27; 65536]),
        Err(VerifyError::TooLong { length: 65536 })
    );
    assert_eq!(
        refused("const8 1\nfloat\nend"),
        VerifyError::Reserved {
            offset: 2,
            opcode: Opcode::Float
        }
    );
    assert_eq!(
        refused("goto 1\nend"),
        VerifyError::BadJump {
            offset: 0,
            target: 1
        }
    );
    assert_eq!(
        refused("goto 4\nend"),
        VerifyError::BadJump {
            offset: 0,
            target: 4
        }
    );
    assert_eq!(refused("const8 1\npop"), VerifyError::RunsOff { offset: 2 });
    assert_eq!(
        refused("const8 1\nadd\nend"),
        VerifyError::StackUnderflow {
            offset: 2,
            opcode: Opcode::Add,
            needs: 2,
            depth: 1
        }
    );
    assert_eq!(
        refused("const8 1\npick 1\nend"),
        VerifyError::StackUnderflow {
            offset: 2,
            opcode: Opcode::Pick,
            needs: 2,
            depth: 1
        }
    );
    assert_eq!(
        refused("const8 1\nif_goto on\nconst8 2\non: end"),
        VerifyError::DepthMismatch {
            offset: 7,
            one: 0,
            other: 1
        }
    );
    assert_eq!(
        refused("again: const8 1\ngoto again"),
        VerifyError::DepthMismatch {
            offset: 0,
            one: 0,
            other: 1
        }
    );
    let deep = |count| format!("{}end", "const8 1\n".repeat(count));
    assert_eq!(
        verify(&assemble(&deep(STACK_LIMIT)).unwrap())
            .unwrap()
            .stack(),
        STACK_LIMIT
    );
    assert_eq!(
        refused(&deep(STACK_LIMIT + 1)),
        VerifyError::StackOverflow { offset: 200 }
    );
    assert_eq!(
        verify(&[0x25, 1, 2]),
        Err(DecodeError::Incomplete {
            offset: 0,
            opcode: Opcode::Const64
        }
        .into())
    );
    assert_eq!(
        verify(&[0x27, 0x99]),
        Err(DecodeError::UnknownOpcode {
            offset: 1,
            byte: 0x99
        }
        .into())
    );
    assert_eq!(
        verify(&[0x34, 0, 0, 1, b'x', 0x27]),
        Err(DecodeError::UnterminatedFormat { offset: 0 }.into())
    );
}

#[test]
fn facts_are_those_of_the_program() {
    let facts = verify(
        &assemble("reg 3\nconst8 8\nadd\nref32\nsetv 4\npop\nreg 5\ntrace_quick 8\npop\ntracev 6\ngetv 7\nend")
            .unwrap(),
    )
    .unwrap();
    assert!(facts.registers().iter().eq(&[3, 5]));
    assert!(facts.variables_set().iter().eq(&[4]));
    assert!(facts.variables_collected().iter().eq(&[6]));
    assert!(facts.variables_read().iter().eq(&[7]));
    assert!(facts.reads_memory() && facts.collects_memory() && facts.has_result());
    assert!(!facts.has_loops() && !facts.prints());
    assert_eq!(facts.stack(), 2);
    assert!(
        !verify(&assemble("const8 1\npop\nend").unwrap())
            .unwrap()
            .has_result()
    );
}

#[test]
fn constants_take_the_fewest_bytes() {
    for (number, length) in [
        (0, 2),
        (255, 2),
        (256, 3),
        (65535, 3),
        (65536, 5),
        (0xffff_ffff, 5),
        (0x1_0000_0000, 9),
        (i64::MAX, 9),
        (-1, 4),
        (-128, 4),
        (-129, 5),
        (-32769, 7),
        (-0x8000_0000, 7),
        (-0x8000_0001, 9),
        (i64::MIN, 9),
    ] {
        let code = Builder::new()
            .constant(number)
            .op(Opcode::End)
            .finish()
            .unwrap();
        assert_eq!(code.len(), length + 1, "{number}");
        let mut evaluation = tracewire_agent_expr::Evaluation::new();
        let request = evaluation.start(&code).unwrap();
        let expected = tracewire_agent_expr::Request::Done(Some(number.cast_unsigned()));
        assert_eq!(request, expected, "{number}");
    }
}

#[test]
fn mistakes_in_building_are_reported() {
    let mut builder = Builder::new();
    let label = builder.label();
    assert_eq!(
        builder.goto(label).finish(),
        Err(BuildError::UnplacedLabel { offset: 1 })
    );
    assert_eq!(
        Builder::new().op(Opcode::Reg).finish(),
        Err(BuildError::OperandMissing {
            offset: 0,
            opcode: Opcode::Reg
        })
    );
    assert_eq!(
        Builder::new().load(3).finish(),
        Err(BuildError::BadSize { offset: 0, size: 3 })
    );
    let mut builder = Builder::new();
    let label = builder.label();
    builder.place(label).place(label);
    assert_eq!(builder.finish(), Err(BuildError::PlacedTwice { offset: 0 }));
    let mut builder = Builder::new();
    (0..65536).for_each(|_| _ = builder.op(Opcode::End));
    assert_eq!(builder.finish(), Err(BuildError::TooLong));
}

#[test]
fn mistakes_in_a_listing_are_reported_with_their_line() {
    let reported = |text: &str| assemble(text).unwrap_err().to_string();
    assert_eq!(
        reported("end\nfoo 1"),
        "line 2: no operation is called `foo`"
    );
    assert_eq!(
        reported("const8 256"),
        "line 1: `const8` wants a number of one byte, not `256`"
    );
    assert_eq!(reported("add 1"), "line 1: `add` wants no operand, not `1`");
    assert_eq!(
        reported("3 end"),
        "line 1: the instruction is at offset 0, not 3"
    );
    assert_eq!(
        reported("a: end\na: end"),
        "line 2: the label `a` is there already"
    );
    assert_eq!(
        reported("\ngoto nowhere"),
        "line 2: the label `nowhere` is nowhere"
    );
    assert!(matches!(
        assemble("printf \"open, 1 args"),
        Err(AssembleError::BadOperand {
            line: 1,
            opcode: Opcode::Printf,
            ..
        })
    ));
}
