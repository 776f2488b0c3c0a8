/* Four threads that share a queue; each hit belongs to one of them.  */
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

struct task
{
  int number;
  const char *kind;
  unsigned long result;
};

static struct task tasks[64];
static int next_task;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int done_here;

__attribute__ ((noinline)) unsigned long
work (struct task *task, int worker)
{
  unsigned long value = task->number;
  for (int i = 0; i < 1000; i++)
    value = value * 6364136223846793005ul + 1442695040888963407ul;
  task->result = value;
  done_here++;
  return value ^ (unsigned long) worker;
}

static void *
run (void *argument)
{
  int worker = (int) (long) argument;
  for (;;)
    {
      pthread_mutex_lock (&lock);
      int mine = next_task < 64 ? next_task++ : -1;
      pthread_mutex_unlock (&lock);
      if (mine < 0)
	return NULL;
      work (&tasks[mine], worker);
    }
}

int
main (void)
{
  pthread_t threads[4];
  static const char *const kinds[] = { "read", "write", "seek" };
  unsigned long sum = 0;
  for (int i = 0; i < 64; i++)
    tasks[i] = (struct task) { i, kinds[i % 3], 0 };
  for (long i = 0; i < 4; i++)
    pthread_create (&threads[i], NULL, run, (void *) i);
  for (int i = 0; i < 4; i++)
    pthread_join (threads[i], NULL);
  for (int i = 0; i < 64; i++)
    sum += tasks[i].result;
  printf ("%lu\n", sum);
  return 0;
}
