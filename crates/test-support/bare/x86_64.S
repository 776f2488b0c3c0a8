# Started by a loader for the ABI of Xen's PVH, in 32-bit mode: maps the first 4 MiB to themselves and goes to 64-bit mode.
 .section .note.pvh,"a",@note
 .align 4
 .long 4, 4, 18
 .asciz "Xen"
 .long start_32
 .text
 .code32
 .globl _start
start_32:
 movl $pdpt+3, pml4
 movl $directory+3, pdpt
 movl $0x83, directory
 movl $0x200083, directory+8
 movl $pml4, %eax
 movl %eax, %cr3
 movl %cr4, %eax
 orl $0x620, %eax
 movl %eax, %cr4
 movl $0xc0000080, %ecx
 rdmsr
 orl $0x100, %eax
 wrmsr
 movl %cr0, %eax
 orl $0x80000001, %eax
 movl %eax, %cr0
 lgdt table_register
 ljmp $8, $_start
 .code64
_start:
 movl $16, %eax
 movl %eax, %ss
 movl %eax, %ds
 movl %eax, %es
 leaq stack+4096(%rip), %rsp
 call run
 .data
 .align 8
segments: .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff
table_register: .word 23
 .long segments
 .bss
 .align 4096
pml4: .skip 4096
pdpt: .skip 4096
directory: .skip 4096
