/* The Python face of the loops: each function takes its arguments, checks how they fit together, and runs one loop without the GIL. */

#include "arguments.h" /* first, since it brings Python.h */
#include "loops.h"

/* ---- draws ---- */

static PyObject *normal(PyObject *const *args, Py_ssize_t nargs, int single)
{
    Buffers held = {.count = 0};
    size_t tile = single ? TILE_F32 : TILE_F64, word = single ? 4 : 8;
    Py_buffer *words, *out;
    if (!has_arguments("normal", nargs, 2) || !(words = take(&held, args[0], "words", 'w', 0, 0)) ||
        !(out = take(&held, args[1], "out", single ? 'f' : 'd', 1, 0)))
        return refuse(&held);
    size_t n = items(out);
    if (n % tile != 0) {
        PyErr_Format(PyExc_ValueError, "out must have a multiple of %zu items, got %zu", tile, n);
        return refuse(&held);
    }
    if (!has_words(&held, words, n, tile, word) || !are_apart(&held, NULL, NULL))
        return refuse(&held);
    Py_BEGIN_ALLOW_THREADS
    if (single)
        loop_normal_f32(words->buf, out->buf, n / tile);
    else
        loop_normal_f64(words->buf, out->buf, n / tile);
    Py_END_ALLOW_THREADS
    release(&held);
    Py_RETURN_NONE;
}

static PyObject *normal_f32(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    return normal(args, nargs, 1);
}

static PyObject *normal_f64(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    return normal(args, nargs, 0);
}

static PyObject *laplace_f64(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Buffers held = {.count = 0};
    Py_buffer *words, *out;
    if (!has_arguments("laplace_f64", nargs, 2) || !(words = take(&held, args[0], "words", 'w', 0, 0)) ||
        !(out = take(&held, args[1], "out", 'd', 1, 0)) || !has_words(&held, words, items(out), 1, 8) ||
        !are_apart(&held, NULL, NULL))
        return refuse(&held);
    Py_BEGIN_ALLOW_THREADS
    loop_laplace(words->buf, out->buf, items(out));
    Py_END_ALLOW_THREADS
    release(&held);
    Py_RETURN_NONE;
}

static PyObject *flag_unsafe(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Buffers held = {.count = 0};
    Py_buffer *words;
    if (!has_arguments("flag_unsafe", nargs, 2) || !(words = take(&held, args[0], "words", 'w', 0, 0)))
        return refuse(&held);
    int is_normal = PyUnicode_Check(args[1]) && PyUnicode_CompareWithASCIIString(args[1], "normal") == 0;
    if (!is_normal && !(PyUnicode_Check(args[1]) && PyUnicode_CompareWithASCIIString(args[1], "laplace") == 0)) {
        PyErr_Format(PyExc_ValueError, "kind must be 'normal' or 'laplace', got %R", args[1]);
        return refuse(&held);
    }
    size_t unit = is_normal ? 8 * TILE_F64 : 8;
    if ((size_t)words->len % unit != 0) {
        PyErr_Format(PyExc_ValueError, "words must have a multiple of %zu bytes, got %zd", unit, words->len);
        return refuse(&held);
    }
    size_t count = (size_t)words->len / unit, found;
    Py_BEGIN_ALLOW_THREADS
    found = is_normal ? flag_normal(words->buf, count, NULL) : flag_laplace(words->buf, count, NULL);
    Py_END_ALLOW_THREADS
    PyObject *indices = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(found * sizeof(int64_t)));
    if (indices == NULL)
        return refuse(&held);
    if (found > 0) {
        int64_t *where = (int64_t *)(void *)PyBytes_AsString(indices);
        if (is_normal)
            flag_normal(words->buf, count, where);
        else
            flag_laplace(words->buf, count, where);
    }
    release(&held);
    return indices;
}

static PyObject *flag_tails_of(PyObject *const *args, Py_ssize_t nargs, size_t stride)
{
    Buffers held = {.count = 0};
    Py_buffer *words;
    if (!has_arguments("flag_tails", nargs, 1) || !(words = take(&held, args[0], "words", 'w', 0, 0)))
        return refuse(&held);
    if (words->len % 256 != 0) {
        PyErr_Format(PyExc_ValueError, "words must have a multiple of 256 bytes, got %zd", words->len);
        return refuse(&held);
    }
    size_t tiles = (size_t)words->len / 256, found = 0;
    if (has_tails(words->buf, tiles, stride)) /* with the GIL: letting it go costs as much as looking */
        found = flag_tails(words->buf, tiles, stride, NULL);
    PyObject *indices = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(found * sizeof(int64_t)));
    if (indices != NULL && found > 0)
        flag_tails(words->buf, tiles, stride, (int64_t *)(void *)PyBytes_AsString(indices));
    release(&held);
    return indices;
}

static PyObject *flag_tails_f32(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    return flag_tails_of(args, nargs, 1);
}

static PyObject *flag_tails_f64(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    return flag_tails_of(args, nargs, 2);
}

/* ---- one step of a long vector ---- */

static PyObject *stack_step(PyObject *const *args, Py_ssize_t nargs, int single)
{
    Buffers held = {.count = 0};
    char kind = single ? 'f' : 'd';
    size_t tile = single ? TILE_F32 : TILE_F64, word = single ? 4 : 8;
    Py_buffer *words, *pad_words = NULL, *base = NULL, *top, *out = NULL;
    double weight, pad_weight;
    if (!has_arguments("stack_step", nargs, 7) || !(words = take(&held, args[0], "node_words", 'w', 0, 0)) ||
        !take_double(args[1], &weight) ||
        (args[2] != Py_None && !(pad_words = take(&held, args[2], "pad_words", 'w', 0, 0))) ||
        !take_double(args[3], &pad_weight) || (args[4] != Py_None && !(base = take(&held, args[4], "base", kind, 0, 0))) ||
        !(top = take(&held, args[5], "top", kind, 1, 0)) ||
        (args[6] != Py_None && !(out = take(&held, args[6], "out", kind, 1, 0))))
        return refuse(&held);
    size_t n = items(top);
    if (pad_words != NULL && out == NULL) {
        PyErr_SetString(PyExc_ValueError, "out must be given when pad_words is");
        return refuse(&held);
    }
    if (!has_words(&held, words, n, tile, word) || (pad_words != NULL && !has_words(&held, pad_words, n, tile, word)) ||
        (base != NULL && !has_items(&held, base, n)) || (out != NULL && !has_items(&held, out, n)) ||
        !are_apart(&held, top, base))
        return refuse(&held);
    const void *pad = pad_words != NULL ? pad_words->buf : NULL, *from = base != NULL ? base->buf : NULL;
    void *to = out != NULL ? out->buf : NULL;
    int made = are_made(words, kind), pad_made = are_made(pad_words, kind);
    Py_BEGIN_ALLOW_THREADS
    if (single)
        loop_stack_step_f32(words->buf, made, (float)weight, pad, pad_made, (float)pad_weight, from, top->buf, to, n);
    else
        loop_stack_step_f64(words->buf, made, weight, pad, pad_made, pad_weight, from, top->buf, to, n);
    Py_END_ALLOW_THREADS
    release(&held);
    Py_RETURN_NONE;
}

static PyObject *stack_step_f32(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    return stack_step(args, nargs, 1);
}

static PyObject *stack_step_f64(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    return stack_step(args, nargs, 0);
}

static PyObject *stack_increment(PyObject *const *args, Py_ssize_t nargs, int single)
{
    Buffers held = {.count = 0};
    char kind = single ? 'f' : 'd';
    size_t tile = single ? TILE_F32 : TILE_F64, word = single ? 4 : 8;
    Py_buffer *words, *pad_words = NULL, *base = NULL, *top, *last, *out;
    double weight, pad_weight;
    if (!has_arguments("stack_increment", nargs, 8) || !(words = take(&held, args[0], "node_words", 'w', 0, 0)) ||
        !take_double(args[1], &weight) ||
        (args[2] != Py_None && !(pad_words = take(&held, args[2], "pad_words", 'w', 0, 0))) ||
        !take_double(args[3], &pad_weight) || (args[4] != Py_None && !(base = take(&held, args[4], "base", kind, 0, 0))) ||
        !(top = take(&held, args[5], "top", kind, 1, 0)) || !(last = take(&held, args[6], "last", kind, 1, 0)) ||
        !(out = take(&held, args[7], "out", kind, 1, 0)))
        return refuse(&held);
    size_t n = items(top);
    if (!has_words(&held, words, n, tile, word) || (pad_words != NULL && !has_words(&held, pad_words, n, tile, word)) ||
        (base != NULL && !has_items(&held, base, n)) || !has_items(&held, last, n) || !has_items(&held, out, n) ||
        !are_apart(&held, top, base))
        return refuse(&held);
    const void *pad = pad_words != NULL ? pad_words->buf : NULL, *from = base != NULL ? base->buf : NULL;
    int made = are_made(words, kind), pad_made = are_made(pad_words, kind);
    Py_BEGIN_ALLOW_THREADS
    if (single)
        loop_stack_increment_f32(words->buf, made, (float)weight, pad, pad_made, (float)pad_weight, from, top->buf, last->buf, out->buf,
                                 n);
    else
        loop_stack_increment_f64(words->buf, made, weight, pad, pad_made, pad_weight, from, top->buf, last->buf, out->buf, n);
    Py_END_ALLOW_THREADS
    release(&held);
    Py_RETURN_NONE;
}

static PyObject *stack_increment_f32(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    return stack_increment(args, nargs, 1);
}

static PyObject *stack_increment_f64(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    return stack_increment(args, nargs, 0);
}

static int is_range(size_t lo, size_t hi, size_t row, size_t tile)
{
    if (lo % tile == 0 && lo <= hi && hi <= row)
        return 1;
    PyErr_Format(PyExc_ValueError, "lo must be a multiple of %zu and lo <= hi <= %zu, got lo=%zu and hi=%zu", tile, row, lo, hi);
    return 0;
}

static PyObject *recurrence_step(PyObject *const *args, Py_ssize_t nargs, int single)
{
    Buffers held = {.count = 0};
    size_t tile = single ? TILE_F32 : TILE_F64, word = single ? 4 : 8, lo, hi;
    Py_buffer *words, *gaps, *weights, *slow_state = NULL, *fast_state, *out;
    double input_scale, output_scale;
    if (!has_arguments("recurrence_step", nargs, 10) || !(words = take(&held, args[0], "words", 'w', 0, 0)) ||
        !take_double(args[1], &input_scale) || !take_double(args[2], &output_scale) ||
        !(gaps = take(&held, args[3], "gaps", 'd', 0, 1)) || !(weights = take(&held, args[4], "weights", 'd', 0, 1)) ||
        (args[5] != Py_None && !(slow_state = take(&held, args[5], "slow_state", 'd', 1, 2))) ||
        !(fast_state = take(&held, args[6], "fast_state", single ? 'f' : 'd', 1, 2)) || !take_size(args[7], "lo", &lo) ||
        !take_size(args[8], "hi", &hi) || !(out = take(&held, args[9], "out", single ? 'f' : 'd', 1, 0)))
        return refuse(&held);
    size_t row = (size_t)fast_state->shape[1], fast = (size_t)fast_state->shape[0];
    size_t slow = slow_state != NULL ? (size_t)slow_state->shape[0] : 0;
    if (!is_range(lo, hi, row, tile))
        return refuse(&held);
    if (!has_words(&held, words, hi - lo, tile, word) || !has_items(&held, gaps, slow + fast) ||
        !has_items(&held, weights, slow + fast) || (slow_state != NULL && !has_shape(&held, slow_state, slow, row)) ||
        !has_items(&held, out, hi - lo) || !are_apart(&held, NULL, NULL))
        return refuse(&held);
    void *slow_rows = slow_state != NULL ? slow_state->buf : NULL;
    int made = are_made(words, single ? 'f' : 'd');
    Py_BEGIN_ALLOW_THREADS
    if (single)
        loop_recurrence_step_f32(words->buf, made, input_scale, output_scale, gaps->buf, weights->buf, slow, slow_rows, fast,
                                 fast_state->buf, row, lo, hi, out->buf);
    else
        loop_recurrence_step_f64(words->buf, made, input_scale, output_scale, gaps->buf, weights->buf, slow, slow_rows, fast,
                                 fast_state->buf, row, lo, hi, out->buf);
    Py_END_ALLOW_THREADS
    release(&held);
    Py_RETURN_NONE;
}

static PyObject *recurrence_step_f32(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    return recurrence_step(args, nargs, 1);
}

static PyObject *recurrence_step_f64(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    return recurrence_step(args, nargs, 0);
}

/* Rows of state that so many buffers of the table have: one each, or two for those that turn. */
static size_t state_rows(const double *buffers, size_t count)
{
    size_t rows = count;
    for (size_t i = 0; i < count; i++)
        rows += buffers[4 * i + 1] != 0;
    return rows;
}

static PyObject *increment_step(PyObject *const *args, Py_ssize_t nargs, int single)
{
    Buffers held = {.count = 0};
    char kind = single ? 'f' : 'd';
    size_t tile = single ? TILE_F32 : TILE_F64, word = single ? 4 : 8, slow, lo, hi, add;
    Py_buffer *words, *buffers, *slow_state = NULL, *fast_state, *total = NULL, *out;
    double input_scale, output_scale;
    if (!has_arguments("increment_step", nargs, 12) || !(words = take(&held, args[0], "words", 'w', 0, 0)) ||
        !take_double(args[1], &input_scale) || !take_double(args[2], &output_scale) ||
        !(buffers = take(&held, args[3], "buffers", 'd', 0, 2)) || !take_size(args[4], "slow", &slow) ||
        (args[5] != Py_None && !(slow_state = take(&held, args[5], "slow_state", 'd', 1, 2))) ||
        !(fast_state = take(&held, args[6], "fast_state", kind, 1, 2)) ||
        (args[7] != Py_None && !(total = take(&held, args[7], "total", 'd', 1, 1))) || !take_size(args[8], "lo", &lo) ||
        !take_size(args[9], "hi", &hi) || !(out = take(&held, args[10], "out", kind, 1, 0)) ||
        !take_size(args[11], "add", &add))
        return refuse(&held);
    size_t row = (size_t)fast_state->shape[1], count = (size_t)buffers->shape[0];
    if (!is_range(lo, hi, row, tile) || !has_shape(&held, buffers, count, 4))
        return refuse(&held);
    if (slow > count || (slow > 0 && slow_state == NULL)) {
        PyErr_Format(PyExc_ValueError, "slow must be at most %zu, the buffers that have a state, got %zu",
                     slow_state == NULL ? (size_t)0 : count, slow);
        return refuse(&held);
    }
    const double *table = buffers->buf;
    if (!has_words(&held, words, hi - lo, tile, word) ||
        (slow_state != NULL && !has_shape(&held, slow_state, state_rows(table, slow), row)) ||
        !has_shape(&held, fast_state, state_rows(table + 4 * slow, count - slow), row) ||
        (total != NULL && !has_items(&held, total, row)) || !has_items(&held, out, hi - lo) || !are_apart(&held, NULL, NULL))
        return refuse(&held);
    void *slow_rows = slow_state != NULL ? slow_state->buf : NULL, *sums = total != NULL ? total->buf : NULL;
    int made = are_made(words, kind);
    Py_BEGIN_ALLOW_THREADS
    if (single)
        loop_increment_step_f32(words->buf, made, input_scale, output_scale, table, slow, slow_rows, count - slow, fast_state->buf,
                                sums, row, lo, hi, out->buf, add != 0);
    else
        loop_increment_step_f64(words->buf, made, input_scale, output_scale, table, slow, slow_rows, count - slow, fast_state->buf,
                                sums, row, lo, hi, out->buf, add != 0);
    Py_END_ALLOW_THREADS
    release(&held);
    Py_RETURN_NONE;
}

static PyObject *increment_step_f32(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    return increment_step(args, nargs, 1);
}

static PyObject *increment_step_f64(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    return increment_step(args, nargs, 0);
}

static PyObject *banded_step(PyObject *const *args, Py_ssize_t nargs, int single)
{
    Buffers held = {.count = 0};
    char kind = single ? 'f' : 'd';
    size_t tile = single ? TILE_F32 : TILE_F64, word = single ? 4 : 8, position, lo, hi, add;
    Py_buffer *words, *coefficients, *ring, *total = NULL, *out;
    double input_scale, output_scale;
    if (!has_arguments("banded_step", nargs, 11) || !(words = take(&held, args[0], "words", 'w', 0, 0)) ||
        !take_double(args[1], &input_scale) || !take_double(args[2], &output_scale) ||
        !(coefficients = take(&held, args[3], "coefficients", 'd', 0, 1)) || !(ring = take(&held, args[4], "ring", kind, 1, 2)) ||
        !take_size(args[5], "position", &position) ||
        (args[6] != Py_None && !(total = take(&held, args[6], "total", 'd', 1, 1))) || !take_size(args[7], "lo", &lo) ||
        !take_size(args[8], "hi", &hi) || !(out = take(&held, args[9], "out", kind, 1, 0)) ||
        !take_size(args[10], "add", &add))
        return refuse(&held);
    size_t n = (size_t)ring->shape[0], row = (size_t)ring->shape[1];
    if (!is_range(lo, hi, row, tile))
        return refuse(&held);
    if (position >= n && position > 0) {
        PyErr_Format(PyExc_ValueError, "position must be below %zu, the rows of ring, got %zu", n, position);
        return refuse(&held);
    }
    if (!has_words(&held, words, hi - lo, tile, word) || !has_items(&held, coefficients, n) ||
        (total != NULL && !has_items(&held, total, row)) || !has_items(&held, out, hi - lo) || !are_apart(&held, NULL, NULL))
        return refuse(&held);
    void *sums = total != NULL ? total->buf : NULL;
    int made = are_made(words, kind);
    Py_BEGIN_ALLOW_THREADS
    if (single)
        loop_banded_step_f32(words->buf, made, input_scale, output_scale, coefficients->buf, n, ring->buf, position, sums, row, lo, hi,
                             out->buf, add != 0);
    else
        loop_banded_step_f64(words->buf, made, input_scale, output_scale, coefficients->buf, n, ring->buf, position, sums, row, lo, hi,
                             out->buf, add != 0);
    Py_END_ALLOW_THREADS
    release(&held);
    Py_RETURN_NONE;
}

static PyObject *banded_step_f32(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    return banded_step(args, nargs, 1);
}

static PyObject *banded_step_f64(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    return banded_step(args, nargs, 0);
}

static PyObject *add_increment(PyObject *const *args, Py_ssize_t nargs, int single)
{
    Buffers held = {.count = 0};
    char kind = single ? 'f' : 'd';
    Py_buffer *noise, *last, *out;
    if (!has_arguments("add_increment", nargs, 3) || !(noise = take(&held, args[0], "noise", kind, 0, 0)) ||
        !(last = take(&held, args[1], "last", kind, 1, 0)) || !(out = take(&held, args[2], "out", kind, 1, 0)) ||
        !has_items(&held, last, items(noise)) || !has_items(&held, out, items(noise)) || !are_apart(&held, NULL, NULL))
        return refuse(&held);
    Py_BEGIN_ALLOW_THREADS
    if (single)
        loop_add_increment_f32(noise->buf, last->buf, out->buf, items(noise));
    else
        loop_add_increment_f64(noise->buf, last->buf, out->buf, items(noise));
    Py_END_ALLOW_THREADS
    release(&held);
    Py_RETURN_NONE;
}

static PyObject *add_increment_f32(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    return add_increment(args, nargs, 1);
}

static PyObject *add_increment_f64(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    return add_increment(args, nargs, 0);
}

static PyObject *release_f32(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Buffers held = {.count = 0};
    Py_buffer *x, *total, *out;
    double grid;
    if (!has_arguments("release_f32", nargs, 4) || !(x = take(&held, args[0], "x", 'f', 0, 0)) ||
        !(total = take(&held, args[1], "total", 'd', 1, 0)) || !(out = take(&held, args[2], "release", 'f', 1, 0)) ||
        !take_double(args[3], &grid) || !has_items(&held, total, items(x)) || !has_items(&held, out, items(x)) ||
        !are_apart(&held, NULL, NULL))
        return refuse(&held);
    Py_BEGIN_ALLOW_THREADS
    loop_release_f32(x->buf, total->buf, out->buf, (float)grid, (float)(1 / grid), items(x));
    Py_END_ALLOW_THREADS
    release(&held);
    Py_RETURN_NONE;
}

static PyObject *squared_norm_f32(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Buffers held = {.count = 0};
    Py_buffer *x;
    if (!has_arguments("squared_norm_f32", nargs, 1) || !(x = take(&held, args[0], "x", 'f', 0, 0)))
        return refuse(&held);
    double norm;
    Py_BEGIN_ALLOW_THREADS
    norm = loop_squared_norm(x->buf, items(x));
    Py_END_ALLOW_THREADS
    release(&held);
    return PyFloat_FromDouble(norm);
}

/* ---- many steps of a short vector ---- */

/* Follows the depth of the stack through all moves before any is made; which rule a step breaks, or NULL. */
static const char *broken_rule(const uint8_t *pops, const double *padding, size_t n, size_t depth, size_t most, int has_pad,
                               int has_mix, size_t mix_rows, size_t *step)
{
    for (size_t t = 0; t < n; t++) {
        *step = t;
        if (pops[t] > depth)
            return "pops more entries than there are";
        depth += 1 - (size_t)pops[t];
        if (depth > most)
            return "pushes past the end of the stack";
        if (!has_pad && padding[t] != 0)
            return "has padding, but zpad is None";
        if (has_mix && pops[t] >= mix_rows)
            return "pops more entries than mix has rows for";
    }
    return NULL;
}

static PyObject *stack_block_f64(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Buffers held = {.count = 0};
    Py_buffer *pops, *push, *padding, *mix = NULL, *z, *zpad = NULL, *stack, *out;
    size_t depth, step = 0;
    if (!has_arguments("stack_block_f64", nargs, 9) || !(pops = take(&held, args[0], "pops", 'B', 0, 1)) ||
        !(push = take(&held, args[1], "push", 'd', 0, 1)) || !(padding = take(&held, args[2], "padding", 'd', 0, 1)) ||
        (args[3] != Py_None && !(mix = take(&held, args[3], "mix", 'd', 0, 2))) ||
        !(z = take(&held, args[4], "z", 'd', 0, 2)) ||
        (args[5] != Py_None && !(zpad = take(&held, args[5], "zpad", 'd', 0, 2))) ||
        !(stack = take(&held, args[6], "stack", 'd', 1, 2)) || !take_size(args[7], "depth", &depth) ||
        !(out = take(&held, args[8], "out", 'd', 1, 2)))
        return refuse(&held);
    size_t n = items(pops), d = (size_t)z->shape[1], most = (size_t)stack->shape[0];
    if (!has_items(&held, push, n) || !has_items(&held, padding, n) || !has_shape(&held, z, n, d) ||
        (zpad != NULL && !has_shape(&held, zpad, n, d)) || !has_shape(&held, stack, most, d) || !has_shape(&held, out, n, d) ||
        !are_apart(&held, NULL, NULL))
        return refuse(&held);
    if (depth > most) {
        PyErr_Format(PyExc_ValueError, "depth must be at most %zu, the rows of stack, got %zu", most, depth);
        return refuse(&held);
    }
    const double *mix_table = mix != NULL ? mix->buf : NULL;
    size_t mix_rows = mix != NULL ? (size_t)mix->shape[0] : 0, mix_columns = mix != NULL ? (size_t)mix->shape[1] : 0;
    const void *pad = zpad != NULL ? zpad->buf : NULL;
    const char *rule;
    Py_BEGIN_ALLOW_THREADS
    rule = broken_rule(pops->buf, padding->buf, n, depth, most, zpad != NULL, mix != NULL, mix_rows, &step);
    if (rule == NULL)
        depth = loop_stack_block(pops->buf, push->buf, padding->buf, mix_table, mix_columns, z->buf, pad, stack->buf, depth, out->buf, n, d);
    Py_END_ALLOW_THREADS
    release(&held);
    if (rule != NULL)
        return PyErr_Format(PyExc_ValueError, "step %zu of the block %s", step, rule);
    return PyLong_FromSize_t(depth);
}

static PyObject *smooth_moves(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Buffers held = {.count = 0};
    Py_buffer *pops, *padding;
    if (!has_arguments("smooth_moves", nargs, 3))
        return NULL;
    PyObject *whole = PyNumber_Index(args[0]);
    if (whole == NULL)
        return NULL;
    uint64_t label = PyLong_AsUnsignedLongLong(whole);
    Py_DECREF(whole);
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return NULL;
        PyErr_Clear();
        label = 0;
    }
    if (label == 0) {
        PyErr_Format(PyExc_ValueError, "label must be from 1 to 2**64 - 1, got %R", args[0]);
        return NULL;
    }
    if (!(pops = take(&held, args[1], "pops", 'B', 1, 1)) || !(padding = take(&held, args[2], "padding", 'B', 1, 1)) ||
        !has_items(&held, padding, items(pops)) || !are_apart(&held, NULL, NULL))
        return refuse(&held);
    Py_BEGIN_ALLOW_THREADS
    label = loop_smooth_moves(label, pops->buf, padding->buf, items(pops));
    Py_END_ALLOW_THREADS
    release(&held);
    if (label == 0)
        return PyErr_Format(PyExc_ValueError, "label %R has fewer than the wanted successors in 64 bits", args[0]);
    return PyLong_FromUnsignedLongLong(label);
}

static PyObject *recurrence_block_f64(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Buffers held = {.count = 0};
    Py_buffer *z, *input_scale, *output_scale, *gaps, *weights, *state, *out;
    if (!has_arguments("recurrence_block_f64", nargs, 7) || !(z = take(&held, args[0], "z", 'd', 0, 2)) ||
        !(input_scale = take(&held, args[1], "input_scale", 'd', 0, 1)) ||
        !(output_scale = take(&held, args[2], "output_scale", 'd', 0, 1)) || !(gaps = take(&held, args[3], "gaps", 'd', 0, 1)) ||
        !(weights = take(&held, args[4], "weights", 'd', 0, 1)) || !(state = take(&held, args[5], "state", 'd', 1, 2)) ||
        !(out = take(&held, args[6], "out", 'd', 1, 2)))
        return refuse(&held);
    size_t n = (size_t)z->shape[0], d = (size_t)z->shape[1], b = items(gaps);
    if (!has_items(&held, input_scale, n) || !has_items(&held, output_scale, n) || !has_items(&held, weights, b) ||
        !has_shape(&held, state, b, d) || !has_shape(&held, out, n, d) || !are_apart(&held, NULL, NULL))
        return refuse(&held);
    Py_BEGIN_ALLOW_THREADS
    loop_recurrence_block(z->buf, input_scale->buf, output_scale->buf, gaps->buf, weights->buf, state->buf, out->buf, n, d, b);
    Py_END_ALLOW_THREADS
    release(&held);
    Py_RETURN_NONE;
}

static PyObject *increment_block_f64(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Buffers held = {.count = 0};
    Py_buffer *z, *output_scale, *buffers, *state, *total = NULL, *out;
    if (!has_arguments("increment_block_f64", nargs, 6) || !(z = take(&held, args[0], "z", 'd', 0, 2)) ||
        !(output_scale = take(&held, args[1], "output_scale", 'd', 0, 1)) ||
        !(buffers = take(&held, args[2], "buffers", 'd', 0, 2)) || !(state = take(&held, args[3], "state", 'd', 1, 2)) ||
        (args[4] != Py_None && !(total = take(&held, args[4], "total", 'd', 1, 1))) || !(out = take(&held, args[5], "out", 'd', 1, 2)))
        return refuse(&held);
    size_t n = (size_t)z->shape[0], d = (size_t)z->shape[1], b = (size_t)buffers->shape[0];
    if (!has_items(&held, output_scale, n) || !has_shape(&held, buffers, b, 4) ||
        !has_shape(&held, state, state_rows(buffers->buf, b), d) || (total != NULL && !has_items(&held, total, d)) ||
        !has_shape(&held, out, n, d) || !are_apart(&held, NULL, NULL))
        return refuse(&held);
    void *sums = total != NULL ? total->buf : NULL;
    Py_BEGIN_ALLOW_THREADS
    loop_increment_block(z->buf, output_scale->buf, buffers->buf, state->buf, sums, out->buf, n, d, b);
    Py_END_ALLOW_THREADS
    release(&held);
    Py_RETURN_NONE;
}

static PyObject *recurrence_leap_f64(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Buffers held = {.count = 0};
    Py_buffer *z, *input_scale, *output_scale, *carried, *response, *decay, *decay_low, *high, *low, *out;
    if (!has_arguments("recurrence_leap_f64", nargs, 10) || !(z = take(&held, args[0], "z", 'd', 0, 2)) ||
        !(input_scale = take(&held, args[1], "input_scale", 'd', 0, 1)) ||
        !(output_scale = take(&held, args[2], "output_scale", 'd', 0, 1)) ||
        !(carried = take(&held, args[3], "carried", 'd', 0, 2)) || !(response = take(&held, args[4], "response", 'd', 0, 1)) ||
        !(decay = take(&held, args[5], "decay", 'd', 0, 2)) || !(decay_low = take(&held, args[6], "decay_low", 'd', 0, 2)) ||
        !(high = take(&held, args[7], "high", 'd', 1, 2)) || !(low = take(&held, args[8], "low", 'd', 1, 2)) ||
        !(out = take(&held, args[9], "out", 'd', 1, 2)))
        return refuse(&held);
    size_t n = (size_t)z->shape[0], d = (size_t)z->shape[1], b = (size_t)high->shape[0];
    if (b > MOST_LANES) {
        PyErr_Format(PyExc_ValueError, "high must have at most %d rows, got %zu", MOST_LANES, b);
        return refuse(&held);
    }
    if (!has_items(&held, input_scale, n) || !has_items(&held, output_scale, n) || !has_shape(&held, carried, b, STEPS_AT_ONCE) ||
        !has_items(&held, response, STEPS_AT_ONCE) || !has_shape(&held, decay, STEPS_AT_ONCE + 1, b) ||
        !has_shape(&held, decay_low, STEPS_AT_ONCE + 1, b) ||
        !has_shape(&held, high, b, d) || !has_shape(&held, low, b, d) || !has_shape(&held, out, n, d) ||
        !are_apart(&held, NULL, NULL))
        return refuse(&held);
    Py_BEGIN_ALLOW_THREADS
    loop_recurrence_leap(z->buf, input_scale->buf, output_scale->buf, carried->buf, response->buf, decay->buf, decay_low->buf,
                         high->buf, low->buf, out->buf, n, d, b);
    Py_END_ALLOW_THREADS
    release(&held);
    Py_RETURN_NONE;
}

static PyObject *recurrence_mixed_f64(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Buffers held = {.count = 0};
    Py_buffer *z, *gaps, *weights, *high, *low, *out;
    double input_scale, output_scale;
    if (!has_arguments("recurrence_mixed_f64", nargs, 8) || !(z = take(&held, args[0], "z", 'd', 0, 1)) ||
        !take_double(args[1], &input_scale) || !take_double(args[2], &output_scale) ||
        !(gaps = take(&held, args[3], "gaps", 'd', 0, 1)) || !(weights = take(&held, args[4], "weights", 'd', 0, 1)) ||
        !(high = take(&held, args[5], "high", 'd', 1, 2)) || !(low = take(&held, args[6], "low", 'd', 1, 2)) ||
        !(out = take(&held, args[7], "out", 'd', 1, 1)))
        return refuse(&held);
    size_t d = items(z), b = items(gaps), slow = (size_t)low->shape[0];
    if (slow > b) {
        PyErr_Format(PyExc_ValueError, "low must have at most %zu rows, got %zu", b, slow);
        return refuse(&held);
    }
    if (!has_items(&held, weights, b) || !has_shape(&held, high, b, d) || !has_shape(&held, low, slow, d) ||
        !has_items(&held, out, d) || !are_apart(&held, NULL, NULL))
        return refuse(&held);
    Py_BEGIN_ALLOW_THREADS
    loop_recurrence_mixed(z->buf, input_scale, output_scale, gaps->buf, weights->buf, high->buf, low->buf, out->buf, d, b, slow);
    Py_END_ALLOW_THREADS
    release(&held);
    Py_RETURN_NONE;
}

/* ---- rounding ---- */

static PyObject *round_guarded(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    Buffers held = {.count = 0};
    Py_buffer *x, *out;
    double guard;
    if (!has_arguments("round_guarded", nargs, 3) || !(x = take(&held, args[0], "x", 'd', 0, 0)) || !take_double(args[1], &guard) ||
        !(out = take(&held, args[2], "out", 'q', 1, 0)))
        return refuse(&held);
    size_t n = items(x), close = 0;
    if (!has_items(&held, out, n) || !are_apart(&held, NULL, NULL))
        return refuse(&held);
    if (!(guard >= 0)) {
        PyErr_Format(PyExc_ValueError, "guard must be a number from 0 on, got %R", args[1]);
        return refuse(&held);
    }
    uint64_t bad;
    Py_BEGIN_ALLOW_THREADS
    bad = count_unroundable(x->buf, n);
    if (bad == 0)
        close = loop_round(x->buf, guard, out->buf, n);
    Py_END_ALLOW_THREADS
    if (bad != 0) {
        PyErr_SetString(PyExc_ValueError, "x must be finite and below 2**62 in size");
        return refuse(&held);
    }
    PyObject *indices = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(close * sizeof(int64_t)));
    if (indices != NULL && close > 0)
        find_close(x->buf, guard, (int64_t *)(void *)PyBytes_AsString(indices), n);
    release(&held);
    return indices;
}

/* ---- the module ---- */

#define ENTRY(name, signature) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, #name "($module, " signature ", /)\n--\n\n"}

static PyMethodDef methods[] = {
    ENTRY(normal_f32, "words, out"),
    ENTRY(normal_f64, "words, out"),
    ENTRY(laplace_f64, "words, out"),
    ENTRY(flag_unsafe, "words, kind"),
    ENTRY(flag_tails_f32, "words"),
    ENTRY(flag_tails_f64, "words"),
    ENTRY(stack_step_f32, "node_words, node_weight, pad_words, pad_weight, base, top, out"),
    ENTRY(stack_step_f64, "node_words, node_weight, pad_words, pad_weight, base, top, out"),
    ENTRY(stack_increment_f32, "node_words, node_weight, pad_words, pad_weight, base, top, last, out"),
    ENTRY(stack_increment_f64, "node_words, node_weight, pad_words, pad_weight, base, top, last, out"),
    ENTRY(recurrence_step_f32, "words, input_scale, output_scale, gaps, weights, slow_state, fast_state, lo, hi, out"),
    ENTRY(recurrence_step_f64, "words, input_scale, output_scale, gaps, weights, slow_state, fast_state, lo, hi, out"),
    ENTRY(increment_step_f32,
          "words, input_scale, output_scale, buffers, slow, slow_state, fast_state, total, lo, hi, out, add"),
    ENTRY(increment_step_f64,
          "words, input_scale, output_scale, buffers, slow, slow_state, fast_state, total, lo, hi, out, add"),
    ENTRY(banded_step_f32, "words, input_scale, output_scale, coefficients, ring, position, total, lo, hi, out, add"),
    ENTRY(banded_step_f64, "words, input_scale, output_scale, coefficients, ring, position, total, lo, hi, out, add"),
    ENTRY(add_increment_f32, "noise, last, out"),
    ENTRY(add_increment_f64, "noise, last, out"),
    ENTRY(release_f32, "x, total, release, grid"),
    ENTRY(squared_norm_f32, "x"),
    ENTRY(stack_block_f64, "pops, push, padding, mix, z, zpad, stack, depth, out"),
    ENTRY(smooth_moves, "label, pops, padding"),
    ENTRY(recurrence_block_f64, "z, input_scale, output_scale, gaps, weights, state, out"),
    ENTRY(increment_block_f64, "z, output_scale, buffers, state, total, out"),
    ENTRY(recurrence_leap_f64, "z, input_scale, output_scale, carried, response, decay, decay_low, high, low, out"),
    ENTRY(recurrence_mixed_f64, "z, input_scale, output_scale, gaps, weights, high, low, out"),
    ENTRY(round_guarded, "x, guard, out"),
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_compiled",
    .m_doc = "The hot loops in C. dpstream.kernel.twin describes each function; dpstream.kernel chooses between the two.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__compiled(void)
{
    return PyModuleDef_Init(&definition);
}
