// Shows values of many types to `see_at`, which prints each in the form that tracewire writes it in, after the line that it is in.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <cxxabi.h>
#include <filesystem>
#include <functional>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>
#if __cplusplus > 201703L
#include <span>
#endif

std::string repr(int v) { return std::to_string(v); }
std::string repr(unsigned v) { return std::to_string(v); }
std::string repr(long long v) { return std::to_string(v); }
std::string repr(long v) { return std::to_string(v); }
std::string repr(unsigned long v) { return std::to_string(v); }
std::string repr(short v) { return std::to_string(v); }
std::string repr(bool v) { return v ? "true" : "false"; }
std::string repr(double v) {
    char text[64];
    std::snprintf(text, sizeof text, "%.17g", v);
    return text;
}
std::string in_quotes(std::string_view text) {
    std::string out = "\"";
    for (char c : text.substr(0, 200)) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (c == '\n') {
            out += "\\n";
        } else if (c == '\t') {
            out += "\\t";
        } else if (static_cast<unsigned char>(c) < 32) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\%03o", c);
            out += escape;
        } else {
            out += c;
        }
    }
    out += '"';
    return text.size() > 200 ? out + "..." : out;
}
std::string repr(const std::string &v) { return in_quotes(v); }
std::string repr(const std::string_view &v) { return in_quotes(v); }

struct Point {
    int x, y;
};
struct Item {
    int id;
    std::string name;
    std::vector<std::string> tags;
};
struct Request {
    std::string path;
    std::vector<int> parts;
    std::map<std::string, int> headers;
    std::optional<std::string> user;
    std::unique_ptr<Item> item;
};
template <class T> std::string repr(const std::vector<T> &v);
template <class K, class V> std::string repr(const std::map<K, V> &v);
template <class T> std::string repr(const std::optional<T> &v);
template <class T> std::string repr(const std::unique_ptr<T> &v);
template <class A, class B> std::string repr(const std::pair<A, B> &v);
std::string repr(const Point &v) { return "{x = " + repr(v.x) + ", y = " + repr(v.y) + "}"; }
std::string repr(const Item &v) {
    return "{id = " + repr(v.id) + ", name = " + repr(v.name) + ", tags = " + repr(v.tags) + "}";
}
std::string repr(const Request &v) {
    return "{path = " + repr(v.path) + ", parts = " + repr(v.parts) + ", headers = " + repr(v.headers) +
           ", user = " + repr(v.user) + ", item = " + repr(v.item) + "}";
}
template <class C> std::string list(const C &v) {
    std::string out = "[";
    size_t n = 0;
    for (const auto &e : v) {
        if (n == 32) {
            out += "...";
            break;
        }
        out += (n++ ? ", " : "") + repr(e);
    }
    return out + "]";
}
template <class C> std::string map(const C &v) {
    std::string out = "{";
    size_t n = 0;
    for (const auto &[key, value] : v) {
        if (n == 32) {
            out += "...";
            break;
        }
        out += (n++ ? ", " : "") + repr(key) + ": " + repr(value);
    }
    return out + "}";
}
std::string address(const void *p) {
    char text[32];
    std::snprintf(text, sizeof text, "%#lx", reinterpret_cast<unsigned long>(p));
    return text;
}
template <class T> std::string repr(const std::vector<T> &v) { return list(v); }
template <class T> std::string repr(const std::deque<T> &v) { return list(v); }
template <class T> std::string repr(const std::list<T> &v) { return list(v); }
template <class T> std::string repr(const std::forward_list<T> &v) { return list(v); }
template <class T> std::string repr(const std::set<T> &v) { return list(v); }
template <class T> std::string repr(const std::unordered_set<T> &v) { return list(v); }
template <class T, size_t N> std::string repr(const std::array<T, N> &v) { return list(v); }
template <class K, class V> std::string repr(const std::map<K, V> &v) { return map(v); }
template <class K, class V> std::string repr(const std::multimap<K, V> &v) { return map(v); }
template <class K, class V> std::string repr(const std::unordered_map<K, V> &v) { return map(v); }
template <class A, class B> std::string repr(const std::pair<A, B> &v) {
    return "(" + repr(v.first) + ", " + repr(v.second) + ")";
}
template <class T> std::string repr(const std::optional<T> &v) { return v ? repr(*v) : "nullopt"; }
template <class T> std::string repr(const std::unique_ptr<T> &v) {
    return v ? address(v.get()) + " -> " + repr(*v) : "nullptr";
}
template <class T> std::string repr(const std::shared_ptr<T> &v) {
    return v ? address(v.get()) + " -> " + repr(*v) : "nullptr";
}
template <class... T> std::string repr(const std::variant<T...> &v) {
    return std::visit([](const auto &one) { return repr(one); }, v);
}

template <class... T> std::string repr(const std::tuple<T...> &v) {
    std::string out;
    std::apply([&](const auto &...one) { ((out += (out.empty() ? "" : ", ") + repr(one)), ...); }, v);
    return "(" + out + ")";
}
std::string repr(const std::vector<bool> &v) {
    std::string out = "[";
    for (size_t i = 0; i < v.size() && i < 32; i++) out += (i ? ", " : "") + repr(bool(v[i]));
    return out + (v.size() > 32 ? "...]" : "]");
}
std::string repr(const std::filesystem::path &v) { return in_quotes(v.native()); }
template <class R, class P> std::string repr(const std::chrono::duration<R, P> &v) {
    const char *unit = std::ratio_equal_v<P, std::nano>     ? "ns"
                       : std::ratio_equal_v<P, std::micro>  ? "us"
                       : std::ratio_equal_v<P, std::milli>  ? "ms"
                       : std::ratio_equal_v<P, std::ratio<1>> ? "s"
                       : std::ratio_equal_v<P, std::ratio<60>> ? "min"
                                                               : "h";
    return repr(v.count()) + unit;
}
template <class C, class D> std::string repr(const std::chrono::time_point<C, D> &v) {
    return repr(v.time_since_epoch());
}
int twice(int x) { return 2 * x; }
std::string repr(const std::function<int(int)> &v) {
    if (!v) return "nullptr";
    if (auto *pointer = v.target<int (*)(int)>()) return address(reinterpret_cast<void *>(*pointer)) + " <twice(int)>";
    int status;
    char *name = abi::__cxa_demangle(v.target_type().name(), nullptr, nullptr, &status);
    std::string out = name;
    std::free(name);
    return out;
}
#if __cplusplus > 201703L
template <class T, size_t N> std::string repr(const std::span<T, N> &v) { return list(v); }
#endif

template <class T> [[gnu::noinline]] void see_at(int line, const T &value) {
    std::printf("%d\t%s\n", line, repr(value).c_str());
    asm volatile("" ::"r"(&value) : "memory");
}
#define see(...) see_at(__LINE__, __VA_ARGS__)

// An element type in each container.
template <class T> void in_containers(const T &a, const T &b) {
    see(std::vector<T>{a, b, a});
    see(std::array<T, 3>{a, b, b});
    see(std::deque<T>{a, b});
    see(std::list<T>{b, a});
    see(std::forward_list<T>{b, a});
    see(std::optional<T>{a});
    see(std::pair<T, int>{b, -1});
    see(std::tuple<int, T, bool>{7, a, true});
    see(std::make_unique<T>(a));
    see(std::make_shared<T>(b));
    see(std::map<int, T>{{1, a}, {2, b}});
    see(std::unordered_map<int, T>{{3, b}});
    see(std::multimap<std::string, T>{{"k", a}, {"l", b}});
    see(std::vector<std::optional<T>>{a, std::nullopt});
    see(std::map<std::string, std::vector<T>>{{"v", {a, b}}});
}

int main() {
    for (int i = 0; i < 3; i++) {
        std::string n = std::to_string(i);
        see(std::string());
        see("/item/" + n);
        see(std::string(15, 'a') + n);
        see("tab\t \"quote\" \\ \n \x01 " + n);
        see(std::string("h\xc3\xa9llo \xe2\x82\xac"));
        see(std::string(199 + i, 'z'));
        see(std::string_view("a view of " + std::to_string(i + 7)).substr(2, 4 + i));
        see(std::vector<int>{});
        see(std::vector<int>{1, 2, i});
        see(std::vector<int>(31 + i, 5));
        see(std::vector<double>{0.5, i * 1.25});
        see(std::vector<short>{-1, 2});
        see(std::vector<Point>{{1, 2}, {i, 4}});
        see(std::vector<std::string>{"x", "a string that is too long for the string itself", n});
        see(std::vector<std::vector<int>>{{}, {1}, {2, i}});
        see(std::vector<Item>{{1, "one", {"a", "b"}}, {i, n, {}}});
        see(std::vector<std::pair<int, std::string>>{{i, "pair"}});
        see(std::array<int, 3>{1, 2, i});
        see(std::array<std::string, 2>{"first", n});
        see(std::deque<int>{});
        std::deque<int> deque;
        for (int k = 0; k < 200 * i + 5; k++) {
            deque.push_back(k);
            if (k % 3 == 0) deque.pop_front();
        }
        see(deque);
        see(std::deque<std::string>{"d", n});
        see(std::list<int>{});
        see(std::list<int>{3, 1, i});
        see(std::list<std::string>{"l1", "l" + n});
        see(std::forward_list<int>{3, i});
        see(std::set<int>{});
        see(std::set<int>{3, 1, 2, 10 + i});
        see(std::set<std::string>{"b", "a", n});
        std::map<int, std::string> large;
        for (int k = 0; k < 40 * i; k++) large[k * 7 % 101] = std::to_string(k);
        see(large);
        see(std::map<std::string, int>{});
        see(std::map<std::string, int>{{"a", 1}, {"b", i}});
        see(std::map<std::string, std::vector<int>>{{"k", {1, i}}});
        see(std::multimap<int, int>{{1, 2}, {1, i}});
        see(std::unordered_map<int, std::string>{{1, "one"}, {i + 2, n}});
        see(std::unordered_map<std::string, int>{{"key", i}});
        see(std::unordered_set<int>{1, 5, i});
        see(std::unordered_set<std::string>{"only " + n});
        see(std::optional<int>{});
        see(std::optional<int>{i});
        see(i ? std::optional<std::string>("set " + n) : std::nullopt);
        see(std::pair<int, std::string>{i, "second"});
        see(std::unique_ptr<int>{});
        see(std::make_unique<int>(i));
        see(std::make_unique<std::string>("owned " + n));
        see(std::make_unique<Item>(Item{i, "item", {"t"}}));
        see(std::shared_ptr<int>{});
        see(std::make_shared<std::string>("shared " + n));
        see(std::vector<std::unique_ptr<int>>{});
        std::vector<std::unique_ptr<Point>> owned;
        owned.push_back(nullptr);
        owned.push_back(std::make_unique<Point>(Point{i, 2}));
        see(owned);
        see(std::variant<int, std::string>(i));
        see(std::variant<int, std::string>("text " + n));
        see(std::variant<std::vector<int>, Point>(Point{i, i}));
        see(Point{i, -i});
        see(Item{i, "item " + n, {"x", "y"}});
        Request request{"/item/" + n, {1, i}, {{"host", i}}, {}, nullptr};
        see(request);
        request.user = "someone with a name that is rather long";
        request.item = std::make_unique<Item>(Item{i, "inner", {"deep", n}});
        see(request);
        using namespace std::chrono;
        see(std::tuple<int, std::string, double>{i, "two", 3.5});
        see(std::tuple<int>{i});
        see(std::tuple<>{});
        see(std::tuple<int, std::tuple<int, std::string>>{1, {i, n}});
        see(std::vector<bool>{true, false, i == 0});
        see(std::vector<bool>{});
        see(std::vector<bool>(20 * i + 3, true));
        see(milliseconds(i * 5));
        see(seconds(-i));
        see(nanoseconds(i + 7));
        see(microseconds(i + 8));
        see(minutes(i + 9));
        see(hours(i + 2));
        see(time_point<steady_clock>(nanoseconds(i + 11)));
        see(std::filesystem::path("/tmp/" + n));
        see(std::function<int(int)>([i](int x) { return x + i; }));
        see(std::function<int(int)>());
        see(std::function<int(int)>(twice));
#if __cplusplus > 201703L
        std::vector<int> all{1, 2, i};
        see(std::span<int>(all));
        see(std::span<int, 3>(all.data(), 3));
#endif
    }
    in_containers<short>(-3, 4);
    in_containers<unsigned>(5, 6);
    in_containers<long>(-7, 1L << 40);
    in_containers<double>(0.25, -1e300);
    in_containers<std::string>("short", "a string that is longer than what fits into the object");
    in_containers<Point>({1, -2}, {3, 4});
    in_containers<std::vector<int>>({1, 2}, {});
    in_containers<std::pair<int, std::string>>({1, "one"}, {2, "two"});
}
