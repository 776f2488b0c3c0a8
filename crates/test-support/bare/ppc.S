.globl _start
_start: lis 1, (stack+4096-64)@ha
 addi 1, 1, (stack+4096-64)@l
 bl run
