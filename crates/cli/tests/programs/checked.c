/* THREADS threads that work, and check all their work, until standard input ends. They check every ROUNDS calls of `mix`.  */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static volatile int over;
__attribute__ ((noinline)) unsigned long mix (unsigned long state, const char *salt)
{
  state = state * 6364136223846793005ul + (unsigned char) salt[state % 4];
  return state ^ state >> 29;
}
struct work { pthread_t thread; unsigned long rounds, wrong; };
static void *run (void *argument)
{
  struct work *work = argument;
  unsigned long expected = 0;
  while (!over)
    {
      unsigned long state = 1;
      for (int i = 0; i < ROUNDS; i++)
        state = mix (state, "salt");
      if (work->rounds++ == 0)
        expected = state;
      work->wrong += state != expected;
    }
  return NULL;
}
int main (void)
{
  static struct work works[THREADS];
  char byte;
  unsigned long wrong = 0, idle = 0;
  for (int i = 0; i < THREADS; i++)
    pthread_create (&works[i].thread, NULL, run, &works[i]);
  puts ("ready");
  fflush (stdout);
  ssize_t end = read (0, &byte, 1);
  over = 1;
  for (int i = 0; i < THREADS; i++)
    {
      pthread_join (works[i].thread, NULL);
      wrong += works[i].wrong;
      idle += works[i].rounds == 0;
    }
  printf ("%s, %lu wrong, %lu idle\n", end == 0 ? "ended" : "disturbed", wrong, idle);
  return 0;
}
