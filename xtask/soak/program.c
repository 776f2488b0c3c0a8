/* Programs for the soak: `program KIND FILE CALLS`. */

#include "program.h"
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

static void
plain (void)
{
  while (goes_on ())
    {
      call (0);
      rest ();
    }
}

static void *
worker (void *lane)
{
  while (goes_on ())
    {
      call ((long) lane);
      rest ();
    }
  return lane;
}

enum { THREADS = 8 };

static void
threads (void)
{
  pthread_t ids[THREADS];
  for (long lane = 0; lane < THREADS; lane++)
    CHECK (pthread_create (&ids[lane], NULL, worker, (void *) lane) == 0);
  for (long lane = 0; lane < THREADS; lane++)
    {
      void *given;
      CHECK (pthread_join (ids[lane], &given) == 0 && given == (void *) lane);
    }
}

static void *
short_worker (void *lane)
{
  for (int turn = 0; turn < 5; turn++)
    call ((long) lane);
  return lane;
}

/* Threads come and go. */
static void
churn (void)
{
  while (goes_on ())
    {
      pthread_t ids[4];
      for (long lane = 0; lane < 4; lane++)
        CHECK (pthread_create (&ids[lane], NULL, short_worker, (void *) lane) == 0);
      call (10);
      for (int lane = 0; lane < 4; lane++)
        CHECK (pthread_join (ids[lane], NULL) == 0);
      usleep (200);
    }
}

static void
awaited (pid_t child, int code)
{
  int status;
  CHECK (child > 0 && waitpid (child, &status, __WALL) == child);
  CHECK (WIFEXITED (status) && WEXITSTATUS (status) == code);
}

/* The children's calls are nobody's: they have no tracepoints. */
static void
forks (void)
{
  while (goes_on ())
    {
      pid_t child = fork ();
      if (child == 0)
        {
          long sum = 0;
          for (long number = 0; number < 20; number++)
            sum += site (200, number) - 200 * 1000003 - number * 7;
          _exit (sum == 20 ? 5 : 6);
        }
      call (0);
      awaited (child, 5);
      call (0);
    }
}

static void
executes (void)
{
  char *const words[] = { "/bin/true", NULL };
  while (goes_on ())
    {
      call (0);
      pid_t child = vfork ();
      if (child == 0)
        {
          execv (words[0], words);
          _exit (7);
        }
      awaited (child, 0);
      call (0);
      usleep (500);
    }
}

/* It becomes itself now and then. */
static void
becomes (char **arguments)
{
  for (int turn = 0; turn < 300; turn++)
    {
      if (!goes_on ())
        return;
      call (0);
      usleep (1000);
    }
  execv ("/proc/self/exe", arguments);
  wrong (__LINE__);
}

static void
libraries (void)
{
  char path[4096];
  ssize_t length = readlink ("/proc/self/exe", path, sizeof path - 16);
  CHECK (length > 0);
  path[length] = 0;
  strcpy (strrchr (path, '/') + 1, "plugin.so");
  while (goes_on ())
    {
      void *library = dlopen (path, RTLD_NOW);
      CHECK (library != NULL);
      long (*twice) (long) = (long (*) (long)) dlsym (library, "twice");
      CHECK (twice != NULL && twice (21) == 42);
      call (0);
      CHECK (dlclose (library) == 0);
      call (0);
      usleep (2000);
    }
}

static void
on_alarm (int signal)
{
  (void) signal;
  int before = errno;
  call (100);
  errno = before;
}

static void
alarms (int flags)
{
  struct sigaction action = { 0 };
  struct itimerval every = { { 0, 500 }, { 0, 500 } };
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART | flags;
  CHECK (sigaction (SIGALRM, &action, NULL) == 0);
  CHECK (setitimer (ITIMER_REAL, &every, NULL) == 0);
}

static void
no_alarms (void)
{
  struct itimerval never = { 0 };
  CHECK (setitimer (ITIMER_REAL, &never, NULL) == 0);
}

static void
signals (void)
{
  alarms (0);
  plain ();
  no_alarms ();
}

static void
alternate (void)
{
  static char memory[32 << 10];
  stack_t stack = { memory, 0, sizeof memory };
  CHECK (sigaltstack (&stack, NULL) == 0);
  alarms (SA_ONSTACK);
  plain ();
  no_alarms ();
}

static sigjmp_buf away;
static volatile sig_atomic_t may_jump;

static void
jump_away (int signal)
{
  (void) signal;
  if (may_jump)
    siglongjmp (away, 1);
}

/* A call may be left in its middle: its number is given, and it counts as a call or not as one. */
static void
jumps_away (void)
{
  struct sigaction action = { 0 };
  struct itimerval every = { { 0, 2000 }, { 0, 2000 } };
  action.sa_handler = jump_away;
  CHECK (sigaction (SIGALRM, &action, NULL) == 0);
  volatile int left = sigsetjmp (away, 1);
  (void) left;
  CHECK (setitimer (ITIMER_REAL, &every, NULL) == 0);
  may_jump = 1;
  plain ();
  may_jump = 0;
  no_alarms ();
}

static jmp_buf back;

__attribute__ ((noinline)) static void
deep (int depth)
{
  volatile char room[64];
  room[0] = (char) depth;
  call (0);
  if (depth == 0)
    longjmp (back, 1);
  else
    deep (depth - 1);
  room[1] = room[0];
}

static void
long_jumps (void)
{
  while (goes_on ())
    {
      if (setjmp (back) == 0)
        deep (6);
      rest ();
    }
}

static long
now (void)
{
  struct timespec now;
  clock_gettime (CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Sleeps are not shorter than they should be, and fail for no reason of ours. */
static void
timers (void)
{
  while (goes_on ())
    {
      struct timespec wait = { 0, 300000 };
      struct pollfd none = { -1, 0, 0 };
      long before = now ();
      CHECK (nanosleep (&wait, NULL) == 0);
      CHECK (now () - before >= 300000);
      call (0);
      before = now ();
      CHECK (poll (&none, 1, 1) == 0);
      CHECK (now () - before >= 1000000);
      call (0);
    }
}

enum { SMALL = 2048, STACKS = 16, STRIDE = 8192 };
static ucontext_t here, there[STACKS];
static char arena[STACKS * STRIDE] __attribute__ ((aligned (4096)));

static void
on_small_stack (int which)
{
  for (;;)
    {
      call (which);
      swapcontext (&there[which], &here);
    }
}

static void
small_stacks (void)
{
  memset (arena, 0x5a, sizeof arena);
  for (int which = 0; which < STACKS; which++)
    {
      getcontext (&there[which]);
      there[which].uc_stack.ss_sp = arena + (which + 1) * STRIDE - SMALL;
      there[which].uc_stack.ss_size = SMALL;
      makecontext (&there[which], (void (*) (void)) on_small_stack, 1, which);
    }
  while (goes_on ())
    {
      for (int which = 0; which < STACKS; which++)
        swapcontext (&here, &there[which]);
      rest ();
    }
  for (int which = 0; which < STACKS; which++)
    for (int at = 0; at < STRIDE - SMALL; at++)
      CHECK (arena[which * STRIDE + at] == 0x5a);
}

static uint64_t
random_number (void)
{
  noise ^= noise << 13;
  noise ^= noise >> 7;
  noise ^= noise << 17;
  return noise;
}

static void
mappings (void)
{
  enum { PIECES = 32 };
  struct { unsigned char *at; size_t size; unsigned char mark; } pieces[PIECES] = { 0 };
  while (goes_on ())
    {
      size_t which = random_number () % PIECES;
      if (pieces[which].at)
        {
          for (size_t at = 0; at < pieces[which].size; at += 4096)
            CHECK (pieces[which].at[at] == pieces[which].mark);
          CHECK (munmap (pieces[which].at, pieces[which].size) == 0);
        }
      pieces[which].size = (1 + random_number () % 64) * 4096;
      pieces[which].mark = (unsigned char) random_number ();
      pieces[which].at = mmap (NULL, pieces[which].size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      CHECK (pieces[which].at != MAP_FAILED);
      memset (pieces[which].at, pieces[which].mark, pieces[which].size);
      call (0);
      rest ();
    }
}

static int
clone_body (void *lane)
{
  for (int turn = 0; turn < 10; turn++)
    call ((long) lane);
  return 5;
}

/* Processes that share the memory. */
static void
clones (void)
{
  static char stacks[3][64 << 10] __attribute__ ((aligned (16)));
  while (goes_on ())
    {
      pid_t ids[3];
      for (long lane = 0; lane < 3; lane++)
        ids[lane] = clone (clone_body, stacks[lane] + sizeof stacks[lane], CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD,
                           (void *) (lane + 1));
      call (0);
      for (int lane = 0; lane < 3; lane++)
        awaited (ids[lane], 5);
      usleep (200);
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long turn, done;

static void *
take_turns (void *lane)
{
  for (;;)
    {
      pthread_mutex_lock (&lock);
      while (turn != (long) lane && !done)
        pthread_cond_wait (&changed, &lock);
      if (!goes_on ())
        done = 1;
      long ends = done;
      turn = (turn + 1) % 3;
      pthread_cond_broadcast (&changed);
      pthread_mutex_unlock (&lock);
      if (ends)
        return NULL;
      call ((long) lane);
    }
}

static void
turns (void)
{
  pthread_t ids[3];
  for (long lane = 0; lane < 3; lane++)
    CHECK (pthread_create (&ids[lane], NULL, take_turns, (void *) lane) == 0);
  for (int lane = 0; lane < 3; lane++)
    CHECK (pthread_join (ids[lane], NULL) == 0);
}

static int ends[2];

static void *
echo (void *lane)
{
  long value;
  while (recv (ends[1], &value, sizeof value, 0) == sizeof value)
    {
      call ((long) lane);
      value++;
      CHECK (send (ends[1], &value, sizeof value, 0) == sizeof value);
    }
  return NULL;
}

/* Blocked in sockets, which fail with EINTR only where a tracer is killed just then. */
static void
sockets (void)
{
  pthread_t id;
  struct timeval limit = { 100, 0 };
  CHECK (socketpair (AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
  CHECK (setsockopt (ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
  CHECK (pthread_create (&id, NULL, echo, (void *) 1) == 0);
  for (long value = 1; goes_on (); value += 2)
    {
      long answer = 0;
      CHECK (send (ends[0], &value, sizeof value, 0) == sizeof value);
      ssize_t got;
      while ((got = recv (ends[0], &answer, sizeof answer, 0)) < 0 && errno == EINTR)
        shared[INTERRUPTED]++;
      CHECK (got == sizeof answer);
      CHECK (answer == value + 1);
      call (0);
      rest ();
    }
  shutdown (ends[0], SHUT_RDWR);
  CHECK (pthread_join (id, NULL) == 0);
}

/* Registers that a hit must leave alone. */
static void
numbers (void)
{
  double a = 1.5, b = 0.25;
  long double c = 3.0L;
  float d[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
  while (goes_on ())
    {
      double before = a * b;
      long double product = c * (long double) a;
      call (0);
      CHECK (a * b == before && c * (long double) a == product);
      for (int which = 0; which < 8; which++)
        CHECK (d[which] == (float) (which + 1));
      a = a < 1e100 ? a * 1.0001 : 1.5;
      rest ();
    }
}

/* Blocked signals stay so, and what is pending comes when it may. */
static void
masks (void)
{
  sigset_t all, before, now;
  sigfillset (&all);
  sigdelset (&all, SIGTRAP);
  alarms (0);
  while (goes_on ())
    {
      CHECK (sigprocmask (SIG_SETMASK, &all, &before) == 0);
      long handled = shared[COUNTERS + 100];
      call (0);
      rest ();
      CHECK (shared[COUNTERS + 100] == handled);
      CHECK (sigprocmask (SIG_SETMASK, NULL, &now) == 0);
      for (int signal = 1; signal < 32; signal++)
        CHECK (sigismember (&all, signal) == sigismember (&now, signal) || signal == SIGKILL || signal == SIGSTOP);
      CHECK (sigprocmask (SIG_SETMASK, &before, NULL) == 0);
    }
  no_alarms ();
}

/* Stops, and its child has it go on. */
static void
stops (void)
{
  while (goes_on ())
    {
      pid_t parent = getpid ();
      pid_t child = fork ();
      if (child == 0)
        for (;;)
          {
            usleep (1000);
            if (getppid () != parent || kill (parent, SIGCONT) != 0)
              _exit (0);
          }
      call (0);
      raise (SIGSTOP);
      call (0);
      int status;
      CHECK (kill (child, SIGKILL) == 0 && waitpid (child, &status, 0) == child);
      usleep (2000);
    }
}

/* Another process stops it and has it go on. */
static void
continues (void)
{
  int ends[2];
  CHECK (pipe (ends) == 0);
  pid_t parent = getpid ();
  pid_t child = fork ();
  if (child == 0)
    {
      struct pollfd end = { ends[0] };
      close (ends[1]);
      do
        {
          kill (parent, SIGSTOP);
          kill (parent, SIGCONT);
        }
      while (poll (&end, 1, 1) == 0 && getppid () == parent);
      _exit (0);
    }
  close (ends[0]);
  while (goes_on ())
    {
      call (0);
      rest ();
    }
  int status;
  CHECK (close (ends[1]) == 0 && waitpid (child, &status, 0) == child);
}

int
main (int count, char **arguments)
{
  begin (count, arguments);
  const char *kind = arguments[1];
#define KIND(name) else if (strcmp (kind, #name) == 0) name ()
  if (strcmp (kind, "becomes") == 0)
    becomes (arguments);
  else if (strcmp (kind, "plain") == 0)
    plain ();
  KIND (threads);
  KIND (churn);
  KIND (forks);
  KIND (executes);
  KIND (libraries);
  KIND (signals);
  KIND (alternate);
  KIND (jumps_away);
  KIND (long_jumps);
  KIND (timers);
  KIND (small_stacks);
  KIND (mappings);
  KIND (clones);
  KIND (turns);
  KIND (sockets);
  KIND (numbers);
  KIND (masks);
  KIND (stops);
  KIND (continues);
  else
    return 4;
  return end ();
}
