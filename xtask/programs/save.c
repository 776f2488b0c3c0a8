/* What `cargo xtask bench save` traces: a block of memory that each call changes a little.  */
#include <stdlib.h>

unsigned char block[60000];

__attribute__ ((noinline)) static void
work (unsigned long call)
{
  for (unsigned long i = 0; i < sizeof block; i += 64)
    block[i] = (unsigned char) (call * 31 + i);
}

__attribute__ ((noinline)) static void
done (void)
{
  block[1] = 1;
}

int
main (int argc, char **argv)
{
  unsigned long calls = argc > 1 ? strtoul (argv[1], NULL, 10) : 1;
  for (unsigned long call = 0; call < calls; call++)
    work (call);
  done ();
  return 0;
}
