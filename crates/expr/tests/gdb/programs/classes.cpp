#include <string>
#include <vector>

namespace shapes {
enum class kind : unsigned char { circle, square };
enum plain { first, second = 7 };
int counter = 3;
static int hidden = 4;

struct base {
  int id = 1;
  static int live;
  virtual ~base () {}
  virtual int area () const { return id; }
};
int base::live = 9;

struct named {
  const char *name = "unnamed";
};

class circle : public base, public named {
public:
  double radius = 2.5;
  kind what = kind::circle;
  int area () const override;
  int plain_method (int x) { return x; }
  int data;
  static const int limit = 12;
};

int
circle::area () const
{
  static int calls = 5;
  int local = (int) radius + calls;
  return local; /* method */
}

template <typename T, int N> struct box {
  T items[N];
  T *first () { return items; }
};

template <typename T> T twice (T value) { return value + value; }
}

using namespace shapes;

struct empty_class {};
struct derived_empty : empty_class { int x; };
struct has_reference { int &r; int v; };
struct bitty { bool a : 1; unsigned b : 7; kind k : 2; };
union either { int i; double d; };
typedef box<int, 3> int_box;
struct outer { struct inner { int deep; } in; enum local { one = 1 } e; };

__attribute__ ((noinline)) void
stop ()
{
  __asm__ volatile ("" ::: "memory");
}

int
add (int a, int b)
{
  return a + b;
}

int
main (int argc, char **argv)
{
  circle c;
  c.data = 77;
  base *pointer = &c;
  const circle &reference = c;
  int number = 5;
  int &number_reference = number;
  int &&moved = 6;
  const char *&text_reference = c.name;
  kind what = kind::square;
  plain flag = second;
  box<int, 3> ints = {{1, 2, 3}};
  box<double, 2> doubles = {{1.5, 2.5}};
  int_box alias = ints;
  box<const char *, 1> texts = {{"boxed"}};
  empty_class nothing;
  derived_empty something;
  something.x = 8;
  has_reference holder = {number, 1};
  bitty bits = {true, 100, kind::square};
  either choice;
  choice.d = 0.5;
  outer nested = {{3}, outer::one};
  int circle::*member = &circle::data;
  int circle::*no_member = nullptr;
  int (circle::*method) (int) = &circle::plain_method;
  int (*function) (int, int) = add;
  int (&function_reference) (int, int) = add;
  std::vector<int> vector = {1, 2, 3};
  bool truth = true;
  char letter = 'q';
  char8_t *none = nullptr;
  const volatile long long cv = 10;
  auto lambda = [&] (int x) { return x + number; };
  base *array[2] = {&c, nullptr};
  circle circles[2];
  circles[0].data = circles[1].data = 0;
  std::nullptr_t null = nullptr;
  unsigned char raw[3] = {1, 2, 3};
  stop (); /* main */
  int sum = pointer->area () + number_reference + moved + twice (3) + lambda (1);
  return sum + (int) choice.d + argc + (argv == 0) + truth + letter + (int) cv + function (1, 2) + hidden
    + (c.*method) (1) + circles[0].data + (int) vector.size () + function_reference (1, 2);
}
