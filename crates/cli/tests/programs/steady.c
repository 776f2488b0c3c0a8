/* Counts on in two threads, whatever is done to it.  */
#include <pthread.h>
#include <unistd.h>

volatile unsigned long count;
volatile unsigned long other;
char scratch[64];

__attribute__ ((noinline)) void
step (unsigned long by)
{
  count += by;
  scratch[count % sizeof scratch] = (char) by;
}

static void *
count_other (void *unused)
{
  for (;;)
    {
      other++;
      usleep (50);
    }
  return unused;
}

int
main (void)
{
  pthread_t thread;
  pthread_create (&thread, NULL, count_other, NULL);
  for (;;)
    {
      step (1);
      usleep (20);
    }
}
