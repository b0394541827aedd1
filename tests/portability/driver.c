/* Replays the calls that vectors.py wrote, without Python, and compares every byte that they leave behind.
 *
 * usage: driver FILE      prints how many calls agree and which do not; exit status 1 if any does not
 *
 * Buffers are allocated one by one, exactly as long as they are, so that a sanitizer sees a step outside of them; keystream starts at
 * an odd address. File: "dpvector", then for each call a name (32 bytes), the number of arguments, and each of them as a kind (8 bytes):
 * 'f', 'd', 'B', 'q' (an array: rows, columns, bytes, content before, content after), '#' (a double), '+' (a size), 's' (a word of 8
 * bytes) or '-' (None); last the size of the result and the result. Little-endian, as the kernel is. */

#include <stdio.h>
#include <stdlib.h>

#include "loops.h"

#define MOST 12

typedef struct {
    char kind;
    size_t rows, columns, size;
    unsigned char *held, *data, *after;
    double number;
    uint64_t whole;
    char word[9];
} Argument;

static Argument arg[MOST];
static char name[33];
static unsigned char result[1 << 20];
static size_t answer;

static int is(const char *function)
{
    return strcmp(name, function) == 0;
}

static void need(FILE *file, void *to, size_t size)
{
    if (size > 0 && fread(to, 1, size, file) != size) {
        fprintf(stderr, "the file ends too early\n");
        exit(2);
    }
}

static uint64_t number(FILE *file)
{
    uint64_t value;
    need(file, &value, 8);
    return value;
}

static void take(FILE *file, Argument *to)
{
    char kind[8];
    memset(to, 0, sizeof *to);
    need(file, kind, 8);
    to->kind = kind[0];
    if (to->kind == '#')
        need(file, &to->number, 8);
    else if (to->kind == '+')
        to->whole = number(file);
    else if (to->kind == 's' || to->kind == '-')
        need(file, to->word, 8);
    else {
        to->rows = (size_t)number(file);
        to->columns = (size_t)number(file);
        to->size = (size_t)number(file);
        size_t odd = to->kind == 'B' ? 1 : 0;
        to->held = malloc(to->size + odd);
        to->after = malloc(to->size);
        if (to->size > 0 && (to->held == NULL || to->after == NULL))
            exit(2);
        to->data = to->held == NULL ? NULL : to->held + odd;
        need(file, to->data, to->size);
        need(file, to->after, to->size);
    }
}

#define P(i) ((void *)(arg[i].kind == '-' ? NULL : arg[i].data))
#define X(i) (arg[i].number)
#define W(i) ((size_t)arg[i].whole)
#define ROWS(i) (arg[i].kind == '-' ? 0 : arg[i].rows)
#define COLUMNS_OF(i) (arg[i].kind == '-' ? 0 : arg[i].columns)
#define MADE(i, real) (arg[i].kind == (sizeof(real) == 4 ? 'f' : 'd'))

static void keep(const void *found, size_t size)
{
    if (answer + size > sizeof result)
        exit(2);
    memcpy(result + answer, found, size);
    answer += size;
}

static void keep_indices(const int64_t *found, size_t count)
{
    keep(found, count * sizeof *found);
}

#define STEPS(suffix, real)                                                                                                          \
    if (is("stack_step_" #suffix))                                                                                                   \
        loop_stack_step_##suffix(P(0), MADE(0, real), (real)X(1), P(2), MADE(2, real), (real)X(3), P(4), P(5), P(6), ROWS(5));       \
    else if (is("stack_increment_" #suffix))                                                                                         \
        loop_stack_increment_##suffix(P(0), MADE(0, real), (real)X(1), P(2), MADE(2, real), (real)X(3), P(4), P(5), P(6), P(7),      \
                                      ROWS(5));                                                                                      \
    else if (is("recurrence_step_" #suffix))                                                                                         \
        loop_recurrence_step_##suffix(P(0), MADE(0, real), X(1), X(2), P(3), P(4), ROWS(5), P(5), ROWS(6), P(6), COLUMNS_OF(6),      \
                                      W(7), W(8), P(9));                                                                             \
    else if (is("increment_step_" #suffix))                                                                                          \
        loop_increment_step_##suffix(P(0), MADE(0, real), X(1), X(2), P(3), W(4), P(5), ROWS(3) - W(4), P(6), P(7), COLUMNS_OF(6),   \
                                     W(8), W(9), P(10), W(11) != 0);                                                                 \
    else if (is("banded_step_" #suffix))                                                                                             \
        loop_banded_step_##suffix(P(0), MADE(0, real), X(1), X(2), P(3), ROWS(3), P(4), W(5), P(6), COLUMNS_OF(4), W(7), W(8), P(9), \
                                  W(10) != 0);                                                                                       \
    else if (is("add_increment_" #suffix))                                                                                           \
        loop_add_increment_##suffix(P(0), P(1), P(2), ROWS(0));

static int run_flags(void)
{
    static int64_t where[1 << 16];
    if (is("flag_unsafe") && strcmp(arg[1].word, "normal") == 0)
        keep_indices(where, flag_normal(P(0), arg[0].size / (8 * TILE_F64), where));
    else if (is("flag_unsafe"))
        keep_indices(where, flag_laplace(P(0), arg[0].size / 8, where));
    else if (is("flag_tails_f32"))
        keep_indices(where, flag_tails(P(0), arg[0].size / 256, 1, where));
    else if (is("flag_tails_f64"))
        keep_indices(where, flag_tails(P(0), arg[0].size / 256, 2, where));
    else if (is("round_guarded")) {
        size_t close = count_unroundable(P(0), ROWS(0)) == 0 ? loop_round(P(0), X(1), P(2), ROWS(0)) : 0;
        find_close(P(0), X(1), where, ROWS(0));
        keep_indices(where, close);
    }
    else
        return 0;
    return 1;
}

static int run_blocks(void)
{
    if (is("stack_block_f64")) {
        uint64_t depth = loop_stack_block(P(0), P(1), P(2), P(3), COLUMNS_OF(3), P(4), P(5), P(6), W(7), P(8), ROWS(0), COLUMNS_OF(4));
        keep(&depth, 8);
    }
    else if (is("smooth_moves")) {
        uint64_t label = loop_smooth_moves(arg[0].whole, P(1), P(2), ROWS(1));
        keep(&label, 8);
    }
    else if (is("squared_norm_f32")) {
        double norm = loop_squared_norm(P(0), ROWS(0));
        keep(&norm, 8);
    }
    else if (is("release_f32"))
        loop_release_f32(P(0), P(1), P(2), (float)X(3), (float)(1 / X(3)), ROWS(0));
    else if (is("recurrence_block_f64"))
        loop_recurrence_block(P(0), P(1), P(2), P(3), P(4), P(5), P(6), ROWS(0), COLUMNS_OF(0), ROWS(3));
    else if (is("increment_block_f64"))
        loop_increment_block(P(0), P(1), P(2), P(3), P(4), P(5), ROWS(0), COLUMNS_OF(0), ROWS(2));
    else if (is("recurrence_leap_f64"))
        loop_recurrence_leap(P(0), P(1), P(2), P(3), P(4), P(5), P(6), P(7), P(8), P(9), ROWS(0), COLUMNS_OF(0), ROWS(7));
    else if (is("recurrence_mixed_f64"))
        loop_recurrence_mixed(P(0), X(1), X(2), P(3), P(4), P(5), P(6), P(7), ROWS(0), ROWS(3), ROWS(6));
    else if (is("normal_f32"))
        loop_normal_f32(P(0), P(1), ROWS(1) / TILE_F32);
    else if (is("normal_f64"))
        loop_normal_f64(P(0), P(1), ROWS(1) / TILE_F64);
    else if (is("laplace_f64"))
        loop_laplace(P(0), P(1), ROWS(1));
    else
        return 0;
    return 1;
}

static int run_steps(void)
{
    STEPS(f32, float)
    else STEPS(f64, double)
    else return 0;
    return 1;
}

int main(int count, char **words)
{
    char magic[8];
    FILE *file = count == 2 ? fopen(words[1], "rb") : NULL;
    if (file == NULL || fread(magic, 1, 8, file) != 8 || memcmp(magic, "dpvector", 8) != 0) {
        fprintf(stderr, "usage: driver FILE, which vectors.py made\n");
        return 2;
    }
    size_t calls = 0, wrong = 0;
    while (fread(name, 1, 32, file) == 32) {
        size_t given = (size_t)number(file);
        if (given > MOST)
            return 2;
        for (size_t i = 0; i < given; i++)
            take(file, &arg[i]);
        answer = 0;
        if (!run_flags() && !run_blocks() && !run_steps()) {
            fprintf(stderr, "no such function: %s\n", name);
            return 2;
        }
        size_t size = (size_t)number(file);
        static unsigned char expected[1 << 20];
        if (size > sizeof expected)
            return 2;
        need(file, expected, size);
        int same = answer == size && memcmp(result, expected, size) == 0;
        for (size_t i = 0; i < given; i++) {
            if (arg[i].size > 0)
                same = same && memcmp(arg[i].data, arg[i].after, arg[i].size) == 0;
            free(arg[i].held);
            free(arg[i].after);
        }
        if (!same) {
            printf("differs: call %zu, %s\n", calls, name);
            wrong++;
        }
        calls++;
    }
    fclose(file);
    printf("%zu calls, %zu differ\n", calls, wrong);
    return calls == 0 || wrong > 0;
}
