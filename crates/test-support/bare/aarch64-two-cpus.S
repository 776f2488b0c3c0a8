// The second cpu is started by the first, as a kernel does (PSCI).
.globl _start
_start: adr x0, stack
 add sp, x0, 1, lsl 12
 movz x0, 0xc400, lsl 16
 movk x0, 3
 mov x1, 1
 adr x2, second
 mov x3, 0
 hvc 0
 bl run
second: adr x0, second_stack
 add sp, x0, 1, lsl 12
 bl run
.bss
.balign 16
second_stack: .skip 4096
