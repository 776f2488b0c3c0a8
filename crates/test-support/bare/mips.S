.set noreorder
.globl _start
_start: lui $29, %hi(stack+4096)
 addiu $29, $29, %lo(stack+4096)
 jal run
 nop
