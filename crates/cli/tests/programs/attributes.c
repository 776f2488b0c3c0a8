/* A program that gives itself an attribute, and then calls `site` and checks what it gives.

   attributes NAME FILE CALLS

   It shares FILE with the test: word 0 is the test's wish to end, word 1 the number of calls so far, word 2 the process that
   calls, word 3 whether the attribute could be had. CALLS is how often `site` is called, 0: until the wish.
   It ends with status 0 where all is as it was. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static volatile long *shared;
static volatile long total;
static long calls;

__attribute__ ((noinline)) long
site (long x)
{
  total += x;
  return total;
}

/* Without the C library: some attributes leave but few system calls. */
static void
fail (const char *why)
{
  syscall (SYS_write, 2, why, strlen (why));
  syscall (SYS_write, 2, "\n", 1);
  syscall (SYS_exit_group, 3);
}

static void
check (int is_so, const char *why)
{
  if (!is_so)
    fail (why);
}

static long expected;

static void
call (void)
{
  long x = shared[1] & 7;
  expected += x;
  shared[1]++;
  check (site (x) == expected, "site gives something else");
}

static int
goes_on (void)
{
  return calls ? shared[1] < calls : !shared[0];
}

/* The usual work: calls with pauses between that need no system call. */
static void
work (void)
{
  while (goes_on ())
    {
      call ();
      for (volatile int pause = 0; pause < 2000; pause++)
        ;
    }
}

static void
none (void)
{
}

/* The attribute is not to be had here. */
static void
refused (void)
{
  shared[3] = 2;
  syscall (SYS_exit_group, 0);
}

static void
needs (int is_so)
{
  if (!is_so)
    refused ();
}

static void
limit (int which, rlim_t most)
{
  struct rlimit limit = { most, most };
  needs (setrlimit (which, &limit) == 0);
}

static void
still (int which, rlim_t most)
{
  struct rlimit limit;
  check (getrlimit (which, &limit) == 0 && limit.rlim_cur == most && limit.rlim_max == most,
         "a limit has changed");
}

static void
filter (void)
{
  struct sock_filter code[] = {
    BPF_STMT (BPF_LD | BPF_W | BPF_ABS, offsetof (struct seccomp_data, nr)),
    BPF_JUMP (BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
    BPF_JUMP (BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
    BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT (BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = { sizeof code / sizeof *code, code };
  needs (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  needs (prctl (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void
strict (void)
{
  needs (prctl (PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
}

static uint64_t
descriptors (void)
{
  uint64_t open = 0;
  for (int descriptor = 0; descriptor < 64; descriptor++)
    if (fcntl (descriptor, F_GETFD) >= 0)
      open |= 1ul << descriptor;
  return open;
}

static uint64_t open_before;

static void
nofile (void)
{
  open_before = descriptors ();
  limit (RLIMIT_NOFILE, 3);
}

static void
nofile_is_kept (void)
{
  still (RLIMIT_NOFILE, 3);
  check (descriptors () == open_before, "the open descriptors are others");
}

static void
address_space (void)
{
  limit (RLIMIT_AS, 1 << 20);
}

static void
address_space_is_kept (void)
{
  still (RLIMIT_AS, 1 << 20);
}

static void
data (void)
{
  limit (RLIMIT_DATA, 0);
}

static void
fsize (void)
{
  limit (RLIMIT_FSIZE, 0);
}

static void
fsize_is_kept (void)
{
  still (RLIMIT_FSIZE, 0);
}

static void
memlock (void)
{
  limit (RLIMIT_MEMLOCK, 0);
}

static void
nproc (void)
{
  limit (RLIMIT_NPROC, 1);
}

static void
stack (void)
{
  limit (RLIMIT_STACK, 64 << 10);
}

static void
cpu (void)
{
  limit (RLIMIT_CPU, 600);
}

static void
no_queued_signals (void)
{
  limit (RLIMIT_SIGPENDING, 0);
}

/* The caller is a child that has the process id 1. */
static void
pid_namespace (void)
{
  needs (unshare (CLONE_NEWPID) == 0);
  long parent = shared[2];
  pid_t child = fork ();
  if (child > 0)
    {
      int status;
      shared[2] = child;
      waitpid (child, &status, 0);
      _exit (WIFEXITED (status) ? WEXITSTATUS (status) : 128 + WTERMSIG (status));
    }
  needs (child == 0);
  while (shared[2] == parent)
    ;
  prctl (PR_SET_PDEATHSIG, SIGKILL);
}

static void
mount_namespace (void)
{
  needs (unshare (CLONE_NEWNS) == 0);
}

static void
user_namespace (void)
{
  needs (unshare (CLONE_NEWUSER) == 0);
}

static void
other_namespaces (void)
{
  needs (unshare (CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) == 0);
}

/* Its program and libraries have no names there. */
static void
root (void)
{
  needs (chroot ("/proc") == 0 && chdir ("/") == 0);
}

static void
user (void)
{
  needs (setgroups (0, NULL) == 0 && setgid (65534) == 0 && setuid (65534) == 0);
}

static void
user_is_kept (void)
{
  check (getuid () == 65534 && geteuid () == 65534, "the user has changed");
}

static void
not_dumpable (void)
{
  needs (prctl (PR_SET_DUMPABLE, 0) == 0);
}

static void
not_dumpable_is_kept (void)
{
  check (prctl (PR_GET_DUMPABLE) == 0, "it can be dumped");
}

static void
no_new_privileges (void)
{
  needs (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
}

static void
death_signal (void)
{
  needs (prctl (PR_SET_PDEATHSIG, SIGKILL) == 0);
}

static void
lock (void)
{
  needs (mlockall (MCL_CURRENT | MCL_FUTURE) == 0);
}

/* As a user who may lock but little. */
static void
lock_little (void)
{
  limit (RLIMIT_MEMLOCK, 4 << 20);
  needs (mlockall (MCL_CURRENT | MCL_FUTURE) == 0);
  user ();
}

static void
seal (void)
{
  char line[512];
  FILE *maps = fopen ("/proc/self/maps", "r");
  needs (maps != NULL);
  while (fgets (line, sizeof line, maps))
    {
      unsigned long start, end;
      if (strchr (line, '/') && sscanf (line, "%lx-%lx", &start, &end) == 2)
        needs (syscall (462, start, end - start, 0) == 0);
    }
  fclose (maps);
}

static sigset_t all;

static void
blocked (void)
{
  sigfillset (&all);
  needs (sigprocmask (SIG_SETMASK, &all, NULL) == 0);
}

static void
blocked_is_kept (void)
{
  sigset_t now;
  sigprocmask (SIG_SETMASK, NULL, &now);
  /* A trap leaves no SIGTRAP blocked; that is written where it is promised. */
  for (int signal = 1; signal < 32; signal++)
    check (signal == SIGTRAP || signal == SIGKILL || signal == SIGSTOP
             || sigismember (&now, signal),
           "a signal is not blocked any more");
}

static void
fifo (void)
{
  struct sched_param parameter = { 1 };
  needs (sched_setscheduler (0, SCHED_FIFO, &parameter) == 0);
}

static void
fifo_is_kept (void)
{
  check (sched_getscheduler (0) == SCHED_FIFO, "the scheduler has changed");
}

/* As `work`, and lets others have the processor. */
static void
work_with_rests (void)
{
  while (goes_on ())
    {
      struct timespec rest = { 0, 100000 };
      call ();
      nanosleep (&rest, NULL);
    }
}

static void
one_cpu (void)
{
  cpu_set_t cpus;
  CPU_ZERO (&cpus);
  CPU_SET (0, &cpus);
  needs (sched_setaffinity (0, sizeof cpus, &cpus) == 0);
}

static void
one_cpu_is_kept (void)
{
  cpu_set_t cpus;
  check (sched_getaffinity (0, sizeof cpus, &cpus) == 0 && CPU_COUNT (&cpus) == 1,
         "it may use other cpus");
}

static void
nice_19 (void)
{
  needs (setpriority (PRIO_PROCESS, 0, 19) == 0);
}

static volatile char selector;

static void
dispatched_call (int signal)
{
  (void) signal;
  selector = 0;
  fail ("a system call was made that is not the program's");
}

static void
dispatch (void)
{
  signal (SIGSYS, dispatched_call);
  needs (prctl (59, 1, 0, 0, &selector) == 0);
  selector = 1;
}

static void
dispatch_is_kept (void)
{
  selector = 0;
}

static volatile int in_handler;

static void
handler (int signal)
{
  (void) signal;
  in_handler++;
  if (goes_on ())
    call ();
}

static char alternate[16 << 10];

/* The calls are those of a handler on a small stack of its own. */
static void
alternate_stack (void)
{
  stack_t stack = { alternate, 0, sizeof alternate };
  struct sigaction action = { 0 };
  needs (sigaltstack (&stack, NULL) == 0);
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  needs (sigaction (SIGUSR1, &action, NULL) == 0);
}

static void
work_in_handler (void)
{
  int dropped = 0;
  while (goes_on ())
    {
      int before = in_handler;
      raise (SIGUSR1);
      /* Linux may drop one signal that is under way when a tracer is killed. */
      if (in_handler == before)
        check (++dropped == 1, "the handler was not called");
      else
        check (in_handler == before + 1, "the handler was called twice");
    }
}

static ucontext_t here, there;
static char arena[64 << 10] __attribute__ ((aligned (4096)));
enum { SMALL = 2048 };

static void
work_there (void)
{
  for (;;)
    {
      call ();
      swapcontext (&there, &here);
    }
}

/* Stacks of 2 KiB in the middle of memory whose every byte is known. */
static void
small_stack (void)
{
  memset (arena, 0x5a, sizeof arena);
  getcontext (&there);
  there.uc_stack.ss_sp = arena + sizeof arena - SMALL;
  there.uc_stack.ss_size = SMALL;
  there.uc_link = NULL;
  makecontext (&there, work_there, 0);
}

static void
work_on_small_stack (void)
{
  while (goes_on ())
    swapcontext (&here, &there);
}

static void
small_stack_is_kept (void)
{
  /* A hit needs a few hundred bytes below what the program uses. */
  for (size_t at = 0; at < sizeof arena - SMALL; at++)
    check (arena[at] == 0x5a, "something was written below the stack");
}

static void *
thread (void *argument)
{
  work ();
  return argument;
}

static void
work_in_thread (void)
{
  pthread_attr_t attributes;
  pthread_t id;
  pthread_attr_init (&attributes);
  needs (pthread_attr_setstacksize (&attributes, 16384) == 0);
  needs (pthread_create (&id, &attributes, thread, NULL) == 0);
  pthread_join (id, NULL);
}

static void
without_randomization (void)
{
  needs (personality (ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC) >= 0);
}

static void
own_session (void)
{
  setsid ();
}

static void
timers (void)
{
  struct itimerval every = { { 0, 1000 }, { 0, 1000 } };
  signal (SIGALRM, SIG_IGN);
  needs (setitimer (ITIMER_REAL, &every, NULL) == 0);
}

/* No capability at all. */
static void
no_capabilities (void)
{
  struct { uint32_t version; int pid; } header = { 0x20080522, 0 };
  struct { uint32_t effective, permitted, inheritable; } sets[2] = { { 0 } };
  needs (syscall (SYS_capset, &header, sets) == 0);
}

static void
landlock (void)
{
  struct { uint64_t files; } attributes = { 0x1fff };
  int rules = syscall (444, &attributes, sizeof attributes, 0);
  needs (rules >= 0);
  needs (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  needs (syscall (446, rules, 0) == 0);
  close (rules);
}

/* Memory that can be written cannot become code, nor new memory be both. */
static void
write_or_execute (void)
{
  enum { SET_MDWE = 65, REFUSE_EXEC_GAIN = 1 };
  needs (prctl (SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) == 0);
}

static void
write_or_execute_is_kept (void)
{
  enum { GET_MDWE = 66 };
  check (prctl (GET_MDWE, 0, 0, 0, 0) == 1, "memory may become code");
}

/* To read the counter is a fault. */
static void
no_counter (void)
{
  needs (prctl (PR_SET_TSC, PR_TSC_SIGSEGV) == 0);
}

static void
no_counter_is_kept (void)
{
  int how;
  check (prctl (PR_GET_TSC, &how) == 0 && how == PR_TSC_SIGSEGV, "the counter may be read");
}

/* Memory of its own that it may not read just now. */
static int key;

static void
protection_key (void)
{
  static char page[4096] __attribute__ ((aligned (4096)));
  key = pkey_alloc (0, PKEY_DISABLE_ACCESS);
  needs (key > 0 && pkey_mprotect (page, sizeof page, PROT_READ | PROT_WRITE, key) == 0);
}

static void
protection_key_is_kept (void)
{
  check (pkey_get (key) == PKEY_DISABLE_ACCESS, "a protection key gives other rights");
}

static unsigned long
flags (void)
{
  unsigned long now;
  __asm__ volatile ("lea -128(%%rsp), %%rsp; pushfq; popq %0; lea 128(%%rsp), %%rsp" : "=r"(now) : : "memory");
  return now;
}

static void
set_flags (unsigned long now)
{
  __asm__ volatile ("lea -128(%%rsp), %%rsp; pushq %0; popfq; lea 128(%%rsp), %%rsp" : : "r"(now) : "memory", "cc");
}

/* Calls while a flag is set that changes what instructions do. */
static void
work_with_flag (unsigned long flag)
{
  while (goes_on ())
    {
      set_flags (flags () | flag);
      call ();
      check ((flags () & flag) != 0, "a flag is not set any more");
      set_flags (flags () & ~flag);
      for (volatile int pause = 0; pause < 2000; pause++)
        ;
    }
}

static void
work_with_alignment_checks (void)
{
  work_with_flag (1 << 18);
}

static void
work_as_nested_task (void)
{
  work_with_flag (1 << 14);
}

static void
work_backwards (void)
{
  work_with_flag (1 << 10);
}

/* Every exception of SSE is a signal. */
static void
unmasked (void)
{
  unsigned int control = 0;
  __asm__ volatile ("ldmxcsr %0" : : "m"(control));
}

static void
unmasked_is_kept (void)
{
  unsigned int control;
  __asm__ volatile ("stmxcsr %0" : "=m"(control));
  check (control == 0, "exceptions of SSE are masked, or one was noted");
}

static int faults;
static char *provided;

static void *
provide (void *argument)
{
  static char page[4096] = "page";
  struct uffd_msg message;
  for (;;)
    {
      if (read (faults, &message, sizeof message) != sizeof message)
        continue;
      struct uffdio_copy copy = { .dst = message.arg.pagefault.address & ~4095ULL,
                                  .src = (unsigned long) page,
                                  .len = 4096 };
      ioctl (faults, UFFDIO_COPY, &copy);
    }
  return argument;
}

/* Another thread provides its memory. */
static void
userfault (void)
{
  struct uffdio_api api = { .api = UFFD_API };
  pthread_t id;
  faults = syscall (SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */);
  needs (faults >= 0 && ioctl (faults, UFFDIO_API, &api) == 0);
  provided = mmap (NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct uffdio_register all = { .range = { (unsigned long) provided, 4096 },
                                 .mode = UFFDIO_REGISTER_MODE_MISSING };
  needs (ioctl (faults, UFFDIO_REGISTER, &all) == 0);
  needs (pthread_create (&id, NULL, provide, NULL) == 0);
}

static void
work_with_provided_memory (void)
{
  while (goes_on ())
    {
      madvise (provided, 4096, MADV_DONTNEED);
      check (provided[0] == 'p', "the provided memory has something else");
      call ();
    }
}

static int pair[2];

static void
socket_timeout (void)
{
  struct timeval most = { 0, 2000 };
  needs (socketpair (AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
  needs (setsockopt (pair[0], SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most) == 0);
}

static void
work_with_timeouts (void)
{
  int interrupted = 0;
  while (goes_on ())
    {
      char byte;
      call ();
      check (recv (pair[0], &byte, 1, 0) == -1, "something was received");
      /* One may be, when a tracer is killed. */
      if (errno == EINTR)
        check (++interrupted == 1, "a call with a timeout was interrupted");
      else
        check (errno == EAGAIN, "a call with a timeout ended otherwise");
    }
}

static pid_t traced;

/* It is a tracer itself. */
static void
tracer (void)
{
  int status;
  traced = fork ();
  if (traced == 0)
    {
      prctl (PR_SET_PDEATHSIG, SIGKILL);
      ptrace (PTRACE_TRACEME, 0, NULL, NULL);
      raise (SIGSTOP);
      _exit (0);
    }
  needs (traced > 0 && waitpid (traced, &status, 0) == traced && WIFSTOPPED (status));
}

static void
tracer_is_kept (void)
{
  errno = 0;
  ptrace (PTRACE_PEEKUSER, traced, NULL, NULL);
  check (errno == 0, "it is no tracer any more");
  kill (traced, SIGKILL);
}

static void
written_out (void)
{
  syscall (SYS_write, 1, "right\n", 6);
}

static const struct attribute
{
  const char *name;
  void (*have) (void);
  void (*work) (void);
  void (*is_kept) (void);
} attributes[] = {
  { "none", none, work, none },
  { "seccomp-filter", filter, work, none },
  { "seccomp-strict", strict, work, none },
  { "rlimit-nofile", nofile, work, nofile_is_kept },
  { "rlimit-as", address_space, work, address_space_is_kept },
  { "rlimit-data", data, work, none },
  { "rlimit-fsize", fsize, work, fsize_is_kept },
  { "rlimit-memlock", memlock, work, none },
  { "rlimit-nproc", nproc, work, none },
  { "rlimit-stack", stack, work, none },
  { "rlimit-cpu", cpu, work, none },
  { "rlimit-sigpending", no_queued_signals, work, none },
  { "pid-namespace", pid_namespace, work, none },
  { "mount-namespace", mount_namespace, work, none },
  { "user-namespace", user_namespace, work, none },
  { "other-namespaces", other_namespaces, work, none },
  { "root", root, work, none },
  { "user", user, work, user_is_kept },
  { "not-dumpable", not_dumpable, work, not_dumpable_is_kept },
  { "no-new-privileges", no_new_privileges, work, none },
  { "no-capabilities", no_capabilities, work, none },
  { "death-signal", death_signal, work, none },
  { "mlockall", lock, work, none },
  { "mlockall-limited", lock_little, work, none },
  { "mseal", seal, work, none },
  { "blocked-signals", blocked, work, blocked_is_kept },
  { "sched-fifo", fifo, work_with_rests, fifo_is_kept },
  { "one-cpu", one_cpu, work, one_cpu_is_kept },
  { "nice", nice_19, work, none },
  { "syscall-user-dispatch", dispatch, work, dispatch_is_kept },
  { "alternate-stack", alternate_stack, work_in_handler, none },
  { "small-stack", small_stack, work_on_small_stack, small_stack_is_kept },
  { "small-thread", none, work_in_thread, none },
  { "personality", without_randomization, work, none },
  { "session", own_session, work, none },
  { "timers", timers, work, none },
  { "landlock", landlock, work, none },
  { "write-or-execute", write_or_execute, work, write_or_execute_is_kept },
  { "no-counter", no_counter, work, no_counter_is_kept },
  { "protection-key", protection_key, work, protection_key_is_kept },
  { "alignment-checks", none, work_with_alignment_checks, none },
  { "nested-task", none, work_as_nested_task, none },
  { "direction", none, work_backwards, none },
  { "unmasked-exceptions", unmasked, work, unmasked_is_kept },
  { "userfaultfd", userfault, work_with_provided_memory, none },
  { "socket-timeout", socket_timeout, work_with_timeouts, none },
  { "tracer", tracer, work, tracer_is_kept },
};

int
main (int count, char **arguments)
{
  const struct attribute *attribute = attributes;
  const struct attribute *end = attributes + sizeof attributes / sizeof *attributes;
  if (count == 1)
    {
      for (; attribute < end; attribute++)
        puts (attribute->name);
      return 0;
    }
  if (count != 4)
    return 4;
  while (attribute < end && strcmp (attribute->name, arguments[1]) != 0)
    attribute++;
  if (attribute == end)
    return 4;
  int file = open (arguments[2], O_RDWR);
  shared = mmap (NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (shared == MAP_FAILED)
    return 4;
  close (file);
  calls = atol (arguments[3]);
  shared[2] = getpid ();
  attribute->have ();
  shared[3] = 1;
  attribute->work ();
  attribute->is_kept ();
  check (total == expected, "the sum is wrong");
  written_out ();
  if (attribute->have == strict)
    syscall (SYS_exit, 0);
  syscall (SYS_exit_group, 0);
}
