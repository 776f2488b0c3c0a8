// Threads that do nothing but hit, each with numbers of its own, and some of them leave a hit by siglongjmp.
//
// rings THREADS HITS [leave]: prints each thread's number and how many hits it began and went through.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct shown {
  long thread, number, check;
};

__attribute__((noinline)) void hit(struct shown *shown) { __asm__ volatile("" ::"r"(shown) : "memory"); }

static long hits;
static int leaves;
static atomic_long left;
static __thread sigjmp_buf back;
static __thread volatile int inside;

static void leave(int signal) {
  (void)signal;
  if (inside) {
    left++;
    siglongjmp(back, 1);
  }
}

// The number counts the hits that were begun; done, those that came back.
static void *work(void *argument) {
  struct shown shown = {(long)argument, 0, 0};
  volatile long number = 0, done = 0;
  timer_t timer;
  if (leaves) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    event._sigev_un._tid = syscall(SYS_gettid);
    // As often as lets some thousand hits come between.
    struct itimerspec every = {{0, 300000}, {0, 300000}};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &every, 0))
      exit(3);
  }
  while (number < hits) {
    if (sigsetjmp(back, 1) == 0) {
      inside = 1;
      while (number < hits) {
        shown.number = ++number;
        shown.check = shown.thread * 1000003 ^ number * 7919;
        hit(&shown);
        done++;
      }
    }
    inside = 0;
  }
  if (leaves)
    timer_delete(timer);
  char line[64];
  int length = snprintf(line, sizeof line, "%ld %ld %ld\n", shown.thread, number, done);
  if (write(1, line, length) != length)
    exit(4);
  return 0;
}

int main(int count, char **arguments) {
  pthread_t threads[64];
  int number = atoi(arguments[1]);
  hits = atol(arguments[2]);
  leaves = count > 3 && strcmp(arguments[3], "leave") == 0;
  signal(SIGUSR1, leave);
  for (long i = 0; i < number; i++)
    if (pthread_create(threads + i, 0, work, (void *)i))
      return 2;
  for (int i = 0; i < number; i++)
    pthread_join(threads[i], 0);
  printf("left %ld\n", (long)left);
  return 0;
}
