.globl _start
_start: ldr sp, =stack+4096
 bl run
