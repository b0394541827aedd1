/* Arguments from Python: buffers of a given type and shape, held until the call ends, and numbers.
 *
 * Whatever is wrong with one becomes a Python exception here, before any loop has written anything. Each test returns 0, or NULL, with
 * that exception set, so that a function can join all of its tests with || and leave through `refuse`. */

#ifndef DPSTREAM_ARGUMENTS_H
#define DPSTREAM_ARGUMENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <stdint.h>

/* ---- buffers ---- */

#define MOST_BUFFERS 12

typedef struct {
    Py_buffer view[MOST_BUFFERS];
    const char *name[MOST_BUFFERS];
    int writable[MOST_BUFFERS];
    int count;
} Buffers;

static void release(Buffers *held)
{
    while (held->count > 0)
        PyBuffer_Release(&held->view[--held->count]);
}

static PyObject *refuse(Buffers *held)
{
    release(held);
    return NULL;
}

static int has_format(const Py_buffer *view, char kind)
{
    const char *format = view->format != NULL ? view->format : "B";
    if (*format == '@' || *format == '=' || *format == '<')
        format++;
    if (format[0] == '\0' || format[1] != '\0')
        return 0;
    switch (kind) {
    case 'f': return format[0] == 'f' && view->itemsize == 4;
    case 'd': return format[0] == 'd' && view->itemsize == 8;
    case 'B': return format[0] == 'B' && view->itemsize == 1;
    case 'q': return (format[0] == 'q' || format[0] == 'l') && view->itemsize == 8;
    default: return 0;
    }
}

static const char *kind_name(char kind)
{
    switch (kind) {
    case 'f': return "float32";
    case 'd': return "float64";
    case 'B': return "uint8";
    default: return "int64";
    }
}

/* A contiguous buffer of the given kind ('w': bytes of any kind) and, unless that is 0, number of dimensions. */
static Py_buffer *take(Buffers *held, PyObject *object, const char *name, char kind, int writable, int dimensions)
{
    Py_buffer *view = &held->view[held->count];
    if (!PyObject_CheckBuffer(object)) {
        PyErr_Format(PyExc_TypeError, "%s must be a buffer, such as a NumPy array", name);
        return NULL;
    }
    if (PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)) < 0) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "%s must be contiguous%s", name, writable ? " and writable" : "");
        return NULL;
    }
    held->name[held->count] = name;
    held->writable[held->count] = writable;
    held->count++;
    if (kind == 'w')
        return view;
    if (!has_format(view, kind)) {
        PyErr_Format(PyExc_ValueError, "%s must hold %s, got format '%s'", name, kind_name(kind),
                     view->format != NULL ? view->format : "B");
        return NULL;
    }
    if (dimensions > 0 && view->ndim != dimensions) {
        PyErr_Format(PyExc_ValueError, "%s must have %d dimension%s, got %d", name, dimensions, dimensions == 1 ? "" : "s",
                     view->ndim);
        return NULL;
    }
    if ((uintptr_t)view->buf % (size_t)view->itemsize != 0) {
        PyErr_Format(PyExc_ValueError, "%s must be aligned to its items", name);
        return NULL;
    }
    return view;
}

static size_t items(const Py_buffer *view)
{
    return (size_t)view->len / (size_t)view->itemsize;
}

static int has_items(Buffers *held, const Py_buffer *view, size_t count)
{
    if (items(view) == count)
        return 1;
    PyErr_Format(PyExc_ValueError, "%s must have %zu items, got %zu", held->name[view - held->view], count, items(view));
    return 0;
}

static int has_shape(Buffers *held, const Py_buffer *view, size_t rows, size_t columns)
{
    if ((size_t)view->shape[0] == rows && (size_t)view->shape[1] == columns)
        return 1;
    PyErr_Format(PyExc_ValueError, "%s must have shape (%zu, %zu), got (%zd, %zd)", held->name[view - held->view], rows, columns,
                 view->shape[0], view->shape[1]);
    return 0;
}

/* Words for `draws` draws, in whole tiles. */
static int has_words(Buffers *held, const Py_buffer *view, size_t draws, size_t tile, size_t word)
{
    size_t tiles = draws / tile + (draws % tile != 0);
    if ((size_t)view->len == tiles * tile * word)
        return 1;
    PyErr_Format(PyExc_ValueError, "%s must have %zu bytes, got %zd", held->name[view - held->view], tiles * tile * word, view->len);
    return 0;
}

/* Keystream, or draws that were made from it already: nonzero if the buffer holds numbers of the given kind. */
static int are_made(const Py_buffer *view, char kind)
{
    return view != NULL && has_format(view, kind);
}

/* No buffer that is written to may overlap another; `in_place` may be the very same memory as `target`. */
static int are_apart(Buffers *held, const Py_buffer *target, const Py_buffer *in_place)
{
    for (int i = 0; i < held->count; i++)
        for (int j = 0; j < held->count; j++) {
            const Py_buffer *a = &held->view[i], *b = &held->view[j];
            if (i == j || !held->writable[i] || a->len == 0 || b->len == 0)
                continue;
            if (a == target && b == in_place && a->buf == b->buf)
                continue;
            if ((char *)a->buf < (char *)b->buf + b->len && (char *)b->buf < (char *)a->buf + a->len) {
                PyErr_Format(PyExc_ValueError, "%s must not overlap %s", held->name[i], held->name[j]);
                return 0;
            }
        }
    return 1;
}

/* ---- numbers ---- */

static int has_arguments(const char *function, Py_ssize_t given, Py_ssize_t wanted)
{
    if (given == wanted)
        return 1;
    PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, got %zd", function, wanted, given);
    return 0;
}

static int take_double(PyObject *object, double *value)
{
    *value = PyFloat_AsDouble(object);
    return !(*value == -1.0 && PyErr_Occurred());
}

static int take_size(PyObject *object, const char *name, size_t *value)
{
    Py_ssize_t given = PyNumber_AsSsize_t(object, PyExc_OverflowError);
    if (given == -1 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return 0;
        PyErr_Clear();
    }
    if (given < 0) {
        PyErr_Format(PyExc_ValueError, "%s must be a whole number from 0 on", name);
        return 0;
    }
    *value = (size_t)given;
    return 1;
}

#endif
