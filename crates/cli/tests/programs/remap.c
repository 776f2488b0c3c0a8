/* Maps code and calls it, twice at the same place, as when one library goes and another comes.  */
#include <string.h>
#include <sys/mman.h>

char *place = (char *) 0x10000000;

__attribute__ ((noinline)) void
mapped (void)
{
}

int
main (void)
{
  for (int time = 0; time < 2; time++)
    {
      mmap (place, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      memset (place, 0x90, 16);
      place[16] = (char) 0xc3;
      mapped ();
      ((void (*) (void)) place) ();
      munmap (place, 4096);
    }
  return 0;
}
