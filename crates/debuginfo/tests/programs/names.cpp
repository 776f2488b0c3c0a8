// Names of C++ as `nm -C` prints them.
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#define NOINLINE __attribute__((noinline))

namespace shop {

struct Item {
    std::string name;
    NOINLINE explicit Item(std::string text) : name(std::move(text)) {}
    NOINLINE ~Item() { std::puts("gone"); }
    NOINLINE operator bool() const { return !name.empty(); }
    NOINLINE Item &operator+=(Item const &other) {
        name += other.name;
        return *this;
    }
    NOINLINE int operator()(int by) const { return by + static_cast<int>(name.size()); }
};

using Label = std::string;
typedef std::map<std::string, std::vector<int>> Orders;

template <typename T> NOINLINE T largest(T one, T other) { return one < other ? other : one; }
template <typename T, int N> struct Ring {
    T items[N];
    NOINLINE T const *at(unsigned long index) const { return &items[index % N]; }
};

NOINLINE int label(Label const &text) { return static_cast<int>(text.size()); }
NOINLINE int label(Label const &text, const char *more) {
    return static_cast<int>(text.size()) + more[0];
}
NOINLINE int orders(Orders const &all) { return static_cast<int>(all.size()); }
NOINLINE int each(std::vector<Item> const &items) { return static_cast<int>(items.size()); }
NOINLINE int callback(int (*function)(int), int value) { return function(value); }

NOINLINE int checked(int value) {
    if (value < 0) {
        throw Item("below zero");
    }
    return value;
}

} // namespace shop

namespace {
NOINLINE int hidden(shop::Item const &item) { return item ? 1 : 0; }
struct Local {
    NOINLINE int run(int value) { return value * 3; }
};
} // namespace

static NOINLINE int twice(int value) { return 2 * value; }

int main(int argc, char **) {
    shop::Item item("one"), other("two");
    item += other;
    auto add = [argc](int value) __attribute__((noinline)) { return argc + value; };
    auto text = [](std::string const &value) __attribute__((noinline)) { return value.size(); };
    shop::Ring<double, 4> ring{};
    shop::Orders all{{"a", {1, 2}}};
    std::vector<shop::Item> items;
    items.emplace_back("three");
    int sum = 0;
    try {
        sum += shop::checked(argc - 1);
    } catch (shop::Item const &) {
        sum = 0;
    }
    sum += shop::largest(argc, 3) + static_cast<int>(shop::largest(2.5, 1.5));
    sum += shop::label("x") + shop::label("x", "y") + shop::orders(all) + shop::each(items);
    sum += hidden(item) + Local().run(argc) + add(2) + static_cast<int>(text("z")) + item(3);
    sum += shop::callback(twice, 2) + static_cast<int>(*ring.at(2));
    std::printf("%d\n", sum);
    return 0;
}
