/* Chains of frame pointers, good and bad ones. Prints how many links of each are to be collected, of four at most. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct link {
    struct link *next;
    void *return_address;
};

/* Hit with this frame pointer. */
void leaf(struct link *first);
__asm__(".globl leaf\n.type leaf, @function\nleaf:\n"
        "push %rbp\nmov %rdi, %rbp\ncall hit\npop %rbp\nret\n.size leaf, . - leaf\n"
        ".type hit, @function\nhit:\nnopl 0(%rax,%rax,1)\nret\n.size hit, . - hit\n");

static struct link elsewhere;

static void *chains(void *unused)
{
    struct link links[8];
    memset(links, 0, sizeof links);
    /* Upwards, more than are asked for. */
    for (int i = 0; i < 7; i++)
        links[i].next = &links[i + 1];
    leaf(&links[0]);
    puts("4");
    /* Back down, and around. */
    links[2].next = &links[0];
    leaf(&links[0]);
    puts("3");
    links[1].next = &links[1];
    leaf(&links[0]);
    puts("2");
    /* Nothing, what cannot be read, and what is not on the stack. */
    links[0].next = NULL;
    leaf(&links[0]);
    puts("1");
    links[0].next = (struct link *)0xdead00000000;
    leaf(&links[0]);
    puts("1");
    links[0].next = &elsewhere;
    leaf(&links[0]);
    puts("1");
    leaf(NULL);
    puts("0");
    leaf(&elsewhere);
    puts("0");
    leaf((struct link *)~0xful);
    puts("0");
    return unused;
}

int main(void)
{
    pthread_t thread;
    chains(NULL);
    fflush(stdout);
    if (pthread_create(&thread, NULL, chains, NULL) || pthread_join(thread, NULL))
        return 1;
    return 0;
}
