// Functions with parts that are seldom run, which compilers move out of the way: throws, landing pads, calls of cold
// functions. Each function counts its entries itself; the program prints the counts.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#define COUNTED(name) static volatile unsigned long entered_##name
#define ENTER(name) (entered_##name = entered_##name + 1)

COUNTED(total);
COUNTED(risky);
COUNTED(checked);
COUNTED(choose);
COUNTED(nested);
COUNTED(guarded);

__attribute__((cold, noinline)) static void complain(const char *what, int number) {
    std::fprintf(stderr, "%s %d\n", what, number);
}

namespace shop {
struct Cart {
    std::vector<int> items;
    long total(int limit);
    template <typename T> __attribute__((noinline)) T checked(T value) {
        ENTER(checked);
        std::string text(items.size() % 40, 'x');
        if (__builtin_expect(value < 0, 0))
            throw std::out_of_range("negative " + text);
        return value + (T)text.size();
    }
};

// Not in the class: a function of a group that the linker keeps one copy of stays in one piece.
__attribute__((noinline)) long Cart::total(int limit) {
    ENTER(total);
    std::string label = "cart " + std::to_string(limit);
    long sum = 0;
    for (int item : items) {
        if (item > limit)
            throw std::runtime_error(label);
        sum += item;
    }
    return sum + (long)label.size();
}
} // namespace shop

// Called with one constant alone, so that a clone is made of it.
static __attribute__((noinline)) int risky(int number, const char *why) {
    ENTER(risky);
    if (__builtin_expect(number % 50 == 10, 0)) {
        complain(why, number);
        throw number;
    }
    return number * 3;
}

__attribute__((noinline)) int choose(int number) {
    ENTER(choose);
    switch (number % 5) {
    case 0: return risky(number, "risky");
    case 1: return number + 1;
    case 2: return number ^ 5;
    case 3: return -number;
    default:
        if (number > 1000000)
            std::abort();
        return number >> 1;
    }
}

// A landing pad that goes on in the function.
__attribute__((noinline)) int nested(shop::Cart &cart, int number) {
    ENTER(nested);
    std::string first = std::to_string(number);
    try {
        std::string second = first + "!";
        return (int)cart.total(number) + choose(number) + (int)second.size();
    } catch (const std::runtime_error &error) {
        return (int)first.size() + (int)std::string(error.what()).size();
    } catch (int thrown) {
        return thrown;
    }
}

extern "C" __attribute__((noinline)) int guarded(int number) {
    ENTER(guarded);
    if (__builtin_expect(number < 0, 0)) {
        complain("guarded", number);
        complain("again", number + 1);
        return -1;
    }
    return number + 1;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? std::atoi(argv[1]) : 50;
    shop::Cart cart;
    long sum = 0;
    for (int number = 0; number < rounds; number++) {
        cart.items.push_back(number * 7 % 60);
        sum += nested(cart, number % 8 ? 60 + number : 30) + guarded(number % 9 - 1);
        try {
            sum += cart.checked(number % 10 - 1) + (long)cart.checked(0.5 + number);
        } catch (const std::out_of_range &) {
            sum--;
        }
    }
    std::fprintf(stderr, "%ld\n", sum);
    std::printf("total %lu\nrisky %lu\nchecked %lu\nchoose %lu\nnested %lu\nguarded %lu\n", entered_total, entered_risky,
                entered_checked, entered_choose, entered_nested, entered_guarded);
}
