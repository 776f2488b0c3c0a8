/* cc -g -O2 -nostdlib -static -Wl,-N,-e,main,--build-id=sha1 -ffile-prefix-map=$PWD=. -o optimized optimized.c

   A small program with lists of locations, values at entry, and inlined copies.  */

struct job { int id; const char *name; struct job *next; unsigned flags : 3; union { long number; double weight; } value; };
enum kind { FEW, MANY };
static int total;
volatile int sink;

static inline int
weigh (const struct job *job, int factor)
{
  int weight = job->id * factor;
  if (weight > 100)
    sink = weight;
  return weight;
}

__attribute__ ((noinline)) static int
handle (struct job *job, int depth, enum kind kind)
{
  int score = weigh (job, 3) + depth;
  total += score;
  for (struct job *one = job->next; one; one = one->next)
    score += weigh (one, kind == MANY ? 2 : 1);
  return depth > 0 ? handle (job, depth - 1, MANY) + 1 : score;
}

int
main (int count, char **arguments)
{
  struct job jobs[2] = { { .id = count, .name = arguments[0] }, { .id = 2, .next = jobs } };
  int sum = 0;
  for (int i = 0; i < 2; i++)
    sum += handle (&jobs[i], i, FEW);
  return sum;
}
