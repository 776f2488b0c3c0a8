// What C++ programs are made of: namespaces, overloads, templates, inheritance, lambdas.
#include <cstdio>
#include <string>
#include <vector>

namespace shop {
enum class Kind { small, large = 7 };
enum Plain { first, second };
int total = 3;
namespace { int hidden = 4; }

class Item {
public:
    explicit Item(int price, Kind kind = Kind::small) : price_(price), kind_(kind) { made++; }
    virtual ~Item() { made--; }
    virtual int cost(int count) const;
    int cost(double factor) const;
    static int made;
    bool operator<(const Item &other) const { return price_ < other.price_; }
    int operator()(int by) { return price_ += by; }
protected:
    int price_;
    Kind kind_;
};

int Item::made;

__attribute__((noinline)) int Item::cost(int count) const
{
    int sum = price_ * count;
    return sum + hidden;
}

__attribute__((noinline)) int Item::cost(double factor) const
{
    return static_cast<int>(price_ * factor);
}

struct Tagged {
    const char *tag = "tag";
};

class Special : public Item, public Tagged {
public:
    Special(int price) : Item(price, Kind::large) {}
    int cost(int count) const override { return Item::cost(count) - 1; }
};

template <typename T>
__attribute__((noinline)) T largest(const std::vector<T> &values)
{
    T best = values[0];
    for (const T &value : values)
        if (best < value)
            best = value;
    return best;
}

template <typename T, int N>
struct Ring {
    T data[N];
    int next = 0;
    __attribute__((noinline)) void push(T value)
    {
        data[next] = value;
        next = (next + 1) % N;
    }
};

inline int add(int a, int b)
{
    int result = a + b;
    return result;
}
}

__attribute__((noinline)) static int overloaded(int a) { return a + 1; }
__attribute__((noinline)) static int overloaded(char a) { return a + 2; }
__attribute__((noinline)) static int overloaded(const char *a, unsigned long b) { return a[b]; }

__attribute__((noinline)) int by_reference(int &value, int &&other, const std::string &text)
{
    value += other;
    return value + static_cast<int>(text.size());
}

namespace {
struct Local {
    int run(int a)
    {
        int b = a * 3;
        return b;
    }
};
}

int main(int argc, char **argv)
{
    shop::Special special(argc + 4);
    shop::Item *item = &special;
    shop::Ring<int, 4> ring {};
    shop::Ring<double, 2> other {};
    ring.push(item->cost(2));
    other.push(1.5);
    auto lambda = [&](int by) {
        int inside = by + argc;
        return inside + special.cost(1);
    };
    int value = lambda(3);
    std::vector<int> values { 1, 2, 3 };
    std::vector<double> doubles { 1.0, 2.5 };
    value += shop::largest(values) + static_cast<int>(shop::largest(doubles));
    value += overloaded(1) + overloaded('c') + overloaded("abc", 1);
    value += by_reference(value, 5, std::string("text"));
    value += Local().run(value) + shop::add(value, 2) + item->cost(0.5) + special(2);
    std::printf("%d %d %s\n", value, shop::total + shop::Item::made, argv[0]);
    return 0;
}
