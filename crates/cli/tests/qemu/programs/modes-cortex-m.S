/* Exceptions of the M profile, which put registers on the stack and take them back.  */

.syntax unified
.thumb
.word 0x20001000
.word start
.word 0, 0, 0, 0, 0, 0, 0, 0, 0
.word handler
.word 0, 0, 0, 0

.thumb_func
start: movs r4, #0
1: adds r4, #1
 svc #0
 cmp r4, #5
 it lt
 addlt r2, #1
 movw r0, #1234
 adds.w r12, r12, r4
 bl leaf
 push {r4, r5}
 pop {r5, r6}
 b 1b

.thumb_func
leaf: mvns r1, r4
 bx lr

.thumb_func
handler: adds r3, #1
 movs r0, #7
 adds r7, #1
 bx lr
