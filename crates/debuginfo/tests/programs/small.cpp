// A little of everything, without headers: to be damaged.
namespace outer {
enum class Mode { off, on = 3 };
template <typename T> struct Box { T value; Box *next; unsigned low : 3, high : 5; };
struct Base { virtual int run(int by) { return by; } int base = 1; };
struct Derived : Base {
    int run(int by) override { return by * factor; }
    static int made;
    int factor = 2;
    int Derived::*member = nullptr;
    union { int whole; float real; };
};
int Derived::made = 4;
static thread_local int mine = 5;
inline int twice(int value) { int result = value * 2; return result + mine; }
}

typedef int (*handler)(outer::Box<long> &, const char *);

__attribute__((noinline)) static int work(outer::Box<long> &box, const char *text)
{
    static int calls;
    int total = 0;
    for (long i = 0; i < box.value; i++) {
        int square = static_cast<int>(i * i);
        total += outer::twice(square) + text[0];
    }
    return total + ++calls;
}

volatile handler chosen = work;

extern "C" int entry(int count)
{
    outer::Box<long> box { count, nullptr, 1, 2 };
    outer::Derived derived;
    derived.whole = count;
    int values[3][2] = { { count, 1 }, { 2, 3 }, { 4, 5 } };
    outer::Mode mode = count > 2 ? outer::Mode::on : outer::Mode::off;
    return chosen(box, "text") + derived.run(values[1][1]) + static_cast<int>(mode);
}

int main(int argc, char **) { return entry(argc); }
