.globl _start
_start: adrp x0, stack
 add x0, x0, :lo12:stack
 add sp, x0, 4096
 bl run
