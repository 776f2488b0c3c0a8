.globl _start
_start: lla sp, stack+4096
 call run
