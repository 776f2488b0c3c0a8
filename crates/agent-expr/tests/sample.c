/* Something of every kind for GDB to compile expressions on. */
struct job {
  int id;
  char *name;
  struct job *next;
  short prio;
  unsigned long big;
  unsigned wide : 5;
  int narrow : 7;
};

struct job table[4];
int counter;

int handle(struct job *j, int depth) {
  int score = depth * 2;
  counter += score + j->id;
  return score;
}

int main(void) {
  struct job a = {1, "x", 0, 2, 3, 4, 5};
  return handle(&a, 3) == 6 ? 0 : 1;
}
