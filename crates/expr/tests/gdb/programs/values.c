#include <complex.h>
#include <stdint.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <wchar.h>
#include <uchar.h>

struct point { int x, y; };
enum color { RED, GREEN = 5, BLUE };
enum flags { F_A = 1, F_B = 2, F_C = 4 };
enum negative { MINUS = -3, PLUS = 3 };
typedef struct point point_t;
typedef int (*operation_t) (int, int);
typedef unsigned char byte_t;
union number { int i; float f; unsigned char raw[4]; };
struct bits { unsigned a : 3; int b : 5; unsigned long long c : 40; enum color d : 4; bool e : 1; };
struct anonymous { int tag; union { int i; float f; }; struct { char c; short s; }; };
struct node { int value; struct node *next; };
struct deep { struct { struct { int inner[2]; } two; } one; };
struct flexible { int count; int items[]; };
struct empty { };
typedef float vector __attribute__ ((vector_size (16)));
typedef int vector_i __attribute__ ((vector_size (16)));

static int add (int a, int b) { return a + b; }
int no_arguments (void) { return 0; }
int old_style ();
int variadic (const char *format, ...) { return format != 0; }

int total = 42;
static const char *const names[] = {"alpha", "beta", "gamma", 0};
char log_buffer[64] = "hello";
int zeros[100];
int numbers[20] = {1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4};
int matrix[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};
int many[300];
struct node list[3] = {{1, &list[1]}, {2, &list[2]}, {3, 0}};
__thread int per_thread = 7;
const int constant = 99;

__attribute__ ((noinline)) void
stop (void)
{
  __asm__ volatile ("" ::: "memory");
}

int
main (int argc, char **argv)
{
  static int counter = 3;
  char c = 'a', nul = 0, newline = '\n', high = (char) 0xc8, quote = '\'', backslash = '\\';
  signed char sc = -5;
  unsigned char uc = 200;
  byte_t byte = 66;
  short s = -1234;
  unsigned short us = 65000;
  int i = -7, zero = 0;
  unsigned u = 3000000000u;
  long l = -123456789012L;
  unsigned long ul = 18446744073709551615ul;
  long long ll = 5;
  int8_t i8 = -8;
  uint8_t u8 = 8;
  uint64_t u64 = 1ull << 63;
  __int128 wide = ((__int128) 1 << 100) + 3;
  unsigned __int128 uwide = ((unsigned __int128) 1 << 127);
  bool yes = true, no = false;
  float f = 1.5f, third = 1.0f / 3, tiny = 1e-40f;
  double d = 3.14159, big = 1e100, small = 1.25e-7, whole = 1000000, inf = __builtin_inf (), nan = __builtin_nan ("");
  double minus_nan = -__builtin_nan ("");
  double minus_zero = -0.0, precise = 0.1;
  long double ld = 1.1L, ldbig = 1e4000L;
  float complex fc = 1 + 2 * I;
  double complex dc = -0.5 + 1.25 * I;
  enum color color = GREEN, odd_color = 3;
  enum flags flags = F_A | F_C, no_flags = 0, unknown_flags = 9, other_flags = 16;
  enum negative negative = MINUS;
  struct point point = {3, -4};
  point_t typedefed = {5, 6};
  struct point *pointer = &point, *null = 0;
  const struct point *const_pointer = &point;
  struct point *const pointer_const = &point;
  volatile int vol = 1;
  const volatile int cv = 2;
  union number number = {.f = 2.0f};
  struct bits bits = {5, -3, 0x123456789aull, BLUE, true};
  struct bits *bits_pointer = &bits;
  struct anonymous anonymous = {1, {2}, {'z', 9}};
  struct deep deep = {{{{1, 2}}}};
  struct empty empty;
  struct empty *empty_pointer = &empty;
  static struct flexible flexible = {2, {1, 2}};
  struct flexible *flexible_pointer = &flexible;
  char *string = "a string", *empty_string = "", *null_string = 0;
  const char *const_string = "const \"quoted\" \\ \t tab \001 bell\a";
  char utf8[] = "gr\303\274n \342\202\254";
  char invalid[] = "bad \303 byte \377.";
  unsigned char *unsigned_string = (unsigned char *) "unsigned";
  char long_string[400];
  char repeated[64];
  char embedded[8] = "ab\0cd";
  char full[4] = {'f', 'u', 'l', 'l'};
  char grid[2][4] = {"abc", "def"};
  wchar_t wide_string[] = L"wide \x20ac", wc = L'w';
  char16_t c16 = u'x', s16[] = u"sixteen";
  char32_t c32 = U'y', s32[] = U"thirtytwo";
  void *void_pointer = &point;
  void *code_pointer = (void *) main;
  int *int_pointer = &numbers[2], *heapless = (int *) 0x10;
  int **double_pointer = &int_pointer;
  int (*array_pointer)[4] = matrix;
  int *pointer_array[3] = {&i, 0, &total};
  operation_t operation = add;
  int (*function) (int, int) = add;
  int (*functions[2]) (int, int) = {add, 0};
  int (*none) (void) = no_arguments;
  int (*printer) (const char *, ...) = variadic;
  int (*(*returns_pointer) (int)) (void) = 0;
  struct node *head = list;
  vector v = {1, 2.5, -3, 4};
  vector_i vi = {1, 2, 3, 4};
  byte_t bytes[5] = {1, 2, 3, 4, 5};
  double doubles[3] = {1, 2.5, 1e300};
  struct point points[2] = {{1, 2}, {3, 4}}, same_points[12];
  bool truths[3] = {1, 0, 1};
  int length = 5;
  int variable_length[length];
  register int in_register = 17;

  for (int k = 0; k < 300; k++)
    many[k] = k;
  memset (long_string, 'x', sizeof long_string);
  for (int k = 0; k < 399; k++)
    long_string[k] = 'a' + k % 26;
  long_string[399] = 0;
  memset (repeated, 'r', sizeof repeated);
  repeated[0] = 'Q';
  repeated[63] = 0;
  memset (same_points, 0, sizeof same_points);
  for (int k = 0; k < length; k++)
    variable_length[k] = k * k;
  {
    int i = 1000, shadow = i;
    stop ();
    in_register += shadow + i; /* inner */
  }
  counter += c + nul + newline + sc + uc + s + us + zero + (int) u + (int) l + (int) ul + (int) ll + in_register;
  return counter == 0 && argv != 0 && argc && wide && uwide && yes + no;
}
