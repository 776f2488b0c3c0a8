// Shows values of many types to `see`, which prints each in the form that tracewire writes it in.
#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
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

std::string repr(int v) { return std::to_string(v); }
std::string repr(unsigned v) { return std::to_string(v); }
std::string repr(long v) { return std::to_string(v); }
std::string repr(unsigned long v) { return std::to_string(v); }
std::string repr(short v) { return std::to_string(v); }
std::string repr(bool v) { return v ? "true" : "false"; }
std::string repr(double v) {
    char text[64];
    std::snprintf(text, sizeof text, "%.17g", v);
    return text;
}
std::string quoted(std::string_view text) {
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
std::string repr(const std::string &v) { return quoted(v); }
std::string repr(const std::string_view &v) { return quoted(v); }

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

template <class T> [[gnu::noinline]] void see(const T &value) {
    std::printf("%s\n", repr(value).c_str());
    asm volatile("" ::"r"(&value) : "memory");
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
    }
}
