/* What the recordings in `data` are of: freestanding, with calls, recursion, strings, lists, and loads and stores of
   every size, aligned and not. Built for each machine by `make_fixtures.rs`. */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

char stack[2048] __attribute__((aligned(16)));

#if defined(__mips__)
__asm__(".globl _start\n.ent _start\n_start:\n.set noreorder\nlui $29,%hi(stack+2032)\naddiu $29,$29,%lo(stack+2032)\n"
        "lui $28,%hi(_gp)\naddiu $28,$28,%lo(_gp)\nmove $31,$0\njal main\nnop\n.globl finish\nfinish:\nb finish\nnop\n"
        ".set reorder\n.end _start\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n_start:\nadrp x0,stack+2032\nadd sp,x0,:lo12:stack+2032\nmov x29,xzr\nmov x30,xzr\nbl main\n"
        ".globl finish\nfinish:\nb finish\n");
#elif defined(__arm__)
__asm__(".arm\n.globl _start\n_start:\nmovw sp,#:lower16:(stack+2032)\nmovt sp,#:upper16:(stack+2032)\nmov fp,#0\n"
        "mov lr,#0\nbl main\n.globl finish\nfinish:\nb finish\n");
#elif defined(__riscv)
__asm__(".globl _start\n_start:\n.option push\n.option norelax\nla gp,__global_pointer$\n.option pop\nla sp,stack+2032\n"
        "li ra,0\ncall main\n.globl finish\nfinish:\nj finish\n");
#elif defined(__powerpc__)
__asm__(".globl _start\n_start:\nlis 1,(stack+2016)@ha\naddi 1,1,(stack+2016)@l\nli 0,0\nstw 0,0(1)\nmtlr 0\nbl main\n"
        ".globl finish\nfinish:\nb finish\n");
#endif

void *memcpy(void *to, const void *from, unsigned long count)
{
    u8 *target = to;
    const u8 *source = from;
    while (count--)
        *target++ = *source++;
    return to;
}

struct item {
    u8 tag;
    signed char small;
    u16 half;
    short signed_half;
    u32 word;
    u64 wide;
    const char *name;
    struct item *next;
};

struct odd {
    u8 first;
    u32 word;
    u16 half;
    u64 wide;
} __attribute__((packed));

int total;
u32 seed = 0x1234567;
struct item items[4];
struct odd odd = {1, 0x22334455, 0x6677, 0x8899aabbccddeeffull};
int numbers[12];
char text[24];
static const char *const names[4] = {"alpha", "beta", "gamma", "delta"};
static int (*chosen)(int);

static u32 random_number(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

__attribute__((noinline)) int fibonacci(int n)
{
    if (n < 2)
        return n;
    return fibonacci(n - 1) + fibonacci(n - 2);
}

__attribute__((noinline)) int length(const char *string)
{
    int count = 0;
    while (string[count])
        count++;
    return count;
}

__attribute__((noinline)) void append(char *to, const char *from)
{
    to += length(to);
    while ((*to++ = *from++))
        ;
}

__attribute__((noinline)) int add(int value)
{
    int before = total;
    total = before + value;
    return total;
}

__attribute__((noinline)) int negate(int value)
{
    return add(-value);
}

__attribute__((noinline)) void fill(struct item *item, int index)
{
    u32 number = random_number();
    item->tag = number;
    item->small = -index;
    item->half = number >> 8;
    item->signed_half = -300 * index;
    item->word = number;
    item->wide = (u64)number << 20 | index;
    item->name = names[index & 3];
    item->next = index ? item - 1 : 0;
}

__attribute__((noinline)) u64 sum_list(const struct item *item)
{
    u64 sum = 0;
    for (; item; item = item->next)
        sum += item->tag + item->small + item->half + item->signed_half + item->word + item->wide;
    return sum;
}

__attribute__((noinline)) void shift(struct odd *place, int by)
{
    place->first += by;
    place->word += by;
    place->half -= by;
    place->wide ^= place->word;
}

__attribute__((noinline)) void sort(int *list, int count)
{
    for (int i = 1; i < count; i++) {
        int value = list[i], j = i;
        for (; j > 0 && list[j - 1] > value; j--)
            list[j] = list[j - 1];
        list[j] = value;
    }
}

__attribute__((noinline)) int choose(int kind)
{
    switch (kind & 3) {
    case 0:
        chosen = add;
        break;
    case 1:
        chosen = negate;
        break;
    case 2:
        return length(text);
    default:
        return fibonacci(3);
    }
    return chosen(kind);
}

int main(void)
{
    for (int round = 0; round < 4; round++) {
        fill(&items[round], round);
        total += (int)sum_list(&items[round]);
        shift(&odd, round);
        append(text, names[round]);
        for (int i = 0; i < 12; i++)
            numbers[i] = (int)(random_number() & 0xff) - 100;
        sort(numbers, 12);
        for (int i = 0; i < 6; i++)
            choose(i + round);
        add(fibonacci(5));
        if (round & 1)
            text[0] = 0;
    }
    return total;
}
