/* Several names at one address, in all orders of global, weak and local ones. */
#include <stdio.h>
#define GLOBAL(name, of) void name (void) __attribute__ ((alias (#of)));
#define WEAK(name, of) void name (void) __attribute__ ((alias (#of), weak));
#define LOCAL(name, of) static void name (void) __attribute__ ((alias (#of), used));
#define BODY { __asm__ volatile ("nop"); }

void first (void) BODY
LOCAL (zero, first) LOCAL (all, first)
void second (void) BODY
GLOBAL (zsecond, second) LOCAL (zzsecond, second) WEAK (zzzsecond, second)
__attribute__ ((noinline)) static void third (void) BODY
LOCAL (zthird, third) LOCAL (athird, third)
__attribute__ ((noinline)) static void fourth (void) BODY
GLOBAL (afourth, fourth) LOCAL (zfourth, fourth)
__attribute__ ((noinline)) static void fifth (void) BODY
LOCAL (yfifth, fifth) GLOBAL (gfifth, fifth) WEAK (zfifth, fifth) LOCAL (zzfifth, fifth)
int datum = 1;
extern int adatum __attribute__ ((alias ("datum")));
static int zdatum __attribute__ ((alias ("datum"), used));

int
main (void)
{
  first (), second (), third (), fourth (), fifth ();
  printf ("%d\n", datum);
  return 0;
}
