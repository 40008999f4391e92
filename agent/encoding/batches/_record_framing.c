/* Frames events as the records of a batch, format v2, in one pass over columns.
 *
 *     record  length | 0 | time delta | offset delta | key | length | value | 0 headers
 *     value   head | time | identity | seq | position | before body | (length) | body
 *
 * Called by `agent.encoding.batches.framing`, which defines stretches, and has the same in Python for where
 * this is not compiled. Numbers are zigzag varints of 64 bits; larger ones raise OverflowError, as
 * they do there.
 *
 * Rules. Only exact bytes, ints, lists and tuples are read, no subclasses, and the GIL is held: no
 * Python code runs meanwhile. Everything is read twice, by the same function. The first pass adds
 * the sizes of all records up, and rejects a sum that does not fit; the second pass compares each
 * record with the remaining space before it writes it.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define NO_KEY 1

typedef struct {
    const char *bytes;
    Py_ssize_t size;
} Bytes;

/* The source of events' numbers: a list, or ascending numbers from `first`, or the same number for
 * all. */
typedef struct {
    PyObject *list;
    int64_t first;
    int ascends;
} Numbers;

typedef struct {
    Bytes head, identity, before_body;
    int plain;
    Numbers times, seqs, positions;
    PyObject *bodies, *keys; /* no keys: NULL */
    Py_ssize_t count;
} Stretch;

/* `value` and `record` are the sizes that precede them. */
typedef struct {
    int64_t time, delta, offset, seq, position;
    Bytes body, key;
    Py_ssize_t value, record;
} Event;

static inline uint64_t
zigzag(int64_t number)
{
    return ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
}

static inline Py_ssize_t
size_of(uint64_t raw)
{
    return (63 - __builtin_clzll(raw | 1)) / 7 + 1;
}

static inline char *
write_number(char *at, uint64_t raw)
{
    for (; raw > 0x7f; raw >>= 7)
        *at++ = (char)(raw | 0x80);
    *at++ = (char)raw;
    return at;
}

static inline char *
write_bytes(char *at, Bytes bytes)
{
    memcpy(at, bytes.bytes, (size_t)bytes.size);
    return at + bytes.size;
}

static int
refused(const char *why)
{
    PyErr_SetString(PyExc_TypeError, why);
    return -1;
}

static inline int
read_bytes(PyObject *from, Bytes *bytes)
{
    char *start;
    if (!PyBytes_CheckExact(from))
        return refused("bytes are wanted");
    if (PyBytes_AsStringAndSize(from, &start, &bytes->size) < 0)
        return -1;
    bytes->bytes = start;
    return 0;
}

static inline int
read_number(PyObject *from, int64_t *number)
{
    int overflow;
    if (!PyLong_CheckExact(from))
        return refused("a whole number is wanted");
    long long value = PyLong_AsLongLongAndOverflow(from, &overflow);
    if (overflow) {
        PyErr_SetString(PyExc_OverflowError, "a number of more than 64 bits");
        return -1;
    }
    *number = value;
    return 0;
}

static int
read_numbers(PyObject *from, int ascends, Py_ssize_t count, Numbers *numbers)
{
    *numbers = (Numbers){NULL, 0, ascends};
    if (PyList_CheckExact(from)) {
        numbers->list = from;
        return PyList_Size(from) == count ? 0 : refused("columns are of one length");
    }
    if (read_number(from, &numbers->first) < 0)
        return -1;
    if (ascends && __builtin_add_overflow(numbers->first, count, &(int64_t){0})) {
        PyErr_SetString(PyExc_OverflowError, "numbers of more than 64 bits");
        return -1;
    }
    return 0;
}

static inline int
number_at(const Numbers *numbers, Py_ssize_t at, int64_t *number)
{
    if (!numbers->list) {
        *number = numbers->first + (numbers->ascends ? at : 0);
        return 0;
    }
    PyObject *from = PyList_GetItem(numbers->list, at);
    return from ? read_number(from, number) : -1;
}

/* Reads a stretch from a tuple, in the order of `Stretch`. */
static int
read_stretch(PyObject *from, Stretch *stretch)
{
    PyObject *part[9];
    if (!PyTuple_CheckExact(from) || PyTuple_Size(from) != 9)
        return refused("a stretch is a tuple of nine");
    for (int at = 0; at < 9; at++)
        part[at] = PyTuple_GetItem(from, at);
    if (read_bytes(part[0], &stretch->head) < 0 || read_bytes(part[1], &stretch->identity) < 0 ||
        read_bytes(part[2], &stretch->before_body) < 0)
        return -1;
    stretch->plain = part[3] == Py_True;
    stretch->bodies = part[7];
    stretch->keys = part[8] == Py_None ? NULL : part[8];
    if (!PyList_CheckExact(stretch->bodies) || (stretch->keys && !PyList_CheckExact(stretch->keys)))
        return refused("bodies and keys are lists");
    stretch->count = PyList_Size(stretch->bodies);
    if (stretch->keys && PyList_Size(stretch->keys) != stretch->count)
        return refused("columns are of one length");
    if (read_numbers(part[4], 0, stretch->count, &stretch->times) < 0 ||
        read_numbers(part[5], 1, stretch->count, &stretch->seqs) < 0)
        return -1;
    return read_numbers(part[6], 1, stretch->count, &stretch->positions);
}

static int
add_size(Py_ssize_t *sum, Py_ssize_t size)
{
    if (!__builtin_add_overflow(*sum, size, sum))
        return 0;
    PyErr_NoMemory();
    return -1;
}

/* Reads an event, and computes the size of its record. The objects of one event are in memory, so
 * the sum of their sizes cannot overflow. */
static inline int
read_event(const Stretch *stretch, Py_ssize_t at, int64_t base_time, int64_t offset, Event *event)
{
    PyObject *from = PyList_GetItem(stretch->bodies, at);
    if (!from || read_bytes(from, &event->body) < 0 ||
        number_at(&stretch->times, at, &event->time) < 0 ||
        number_at(&stretch->seqs, at, &event->seq) < 0 ||
        number_at(&stretch->positions, at, &event->position) < 0)
        return -1;
    if (stretch->keys &&
        (!(from = PyList_GetItem(stretch->keys, at)) || read_bytes(from, &event->key) < 0))
        return -1;
    if (__builtin_sub_overflow(event->time, base_time, &event->delta)) {
        PyErr_SetString(PyExc_OverflowError, "times that are too far apart");
        return -1;
    }
    event->offset = offset;
    event->value = stretch->head.size + size_of(zigzag(event->time)) + stretch->identity.size +
                   size_of(zigzag(event->seq)) + size_of(zigzag(event->position)) +
                   stretch->before_body.size + event->body.size;
    if (stretch->plain)
        event->value += size_of(zigzag(event->body.size));
    event->record = 1 + size_of(zigzag(event->delta)) + size_of(zigzag(offset)) +
                    size_of(zigzag(event->value)) + event->value + 1;
    event->record += stretch->keys ? size_of(zigzag(event->key.size)) + event->key.size : 1;
    return 0;
}

static char *
write_event(char *out, const Stretch *stretch, const Event *event)
{
    out = write_number(out, zigzag(event->record));
    *out++ = 0; /* attributes */
    out = write_number(out, zigzag(event->delta));
    out = write_number(out, zigzag(event->offset));
    if (stretch->keys)
        out = write_bytes(write_number(out, zigzag(event->key.size)), event->key);
    else
        *out++ = NO_KEY;
    out = write_number(out, zigzag(event->value));
    out = write_bytes(out, stretch->head);
    out = write_number(out, zigzag(event->time));
    out = write_bytes(out, stretch->identity);
    out = write_number(out, zigzag(event->seq));
    out = write_number(out, zigzag(event->position));
    out = write_bytes(out, stretch->before_body);
    if (stretch->plain)
        out = write_number(out, zigzag(event->body.size));
    out = write_bytes(out, event->body);
    *out++ = 0; /* headers */
    return out;
}

/* Goes over all events. Without `out`, adds their records' sizes up in `*size`; with it, writes the
 * records there, at most `*size` bytes. */
static int
go_over(PyObject *stretches, int64_t base_time, char *out, Py_ssize_t *size)
{
    const char *end = out ? out + *size : NULL;
    int64_t offset = 0;
    Stretch stretch;
    Event event;
    for (Py_ssize_t each = 0; each < PyTuple_Size(stretches); each++) {
        if (read_stretch(PyTuple_GetItem(stretches, each), &stretch) < 0)
            return -1;
        for (Py_ssize_t at = 0; at < stretch.count; at++, offset++) {
            if (read_event(&stretch, at, base_time, offset, &event) < 0)
                return -1;
            Py_ssize_t all = size_of(zigzag(event.record)) + event.record;
            if (!out) {
                if (add_size(size, all) < 0)
                    return -1;
            } else if (all > end - out) {
                PyErr_SetString(PyExc_SystemError, "records are larger than they were");
                return -1;
            } else {
                out = write_event(out, &stretch, &event);
            }
        }
    }
    return 0;
}

static PyObject *
frame(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t given)
{
    int64_t base_time;
    Py_ssize_t size = 0;
    if (given != 2 || !PyTuple_CheckExact(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "frame(stretches: tuple, base_time)");
        return NULL;
    }
    if (read_number(arguments[1], &base_time) < 0 ||
        go_over(arguments[0], base_time, NULL, &size) < 0)
        return NULL;
    PyObject *framed = PyBytes_FromStringAndSize(NULL, size);
    if (framed && go_over(arguments[0], base_time, PyBytes_AsString(framed), &size) < 0)
        Py_CLEAR(framed);
    return framed;
}

static PyObject *
measure(PyObject *Py_UNUSED(module), PyObject *bodies)
{
    Py_ssize_t total = 0, longest = 0;
    Bytes body;
    if (!PyList_CheckExact(bodies)) {
        PyErr_SetString(PyExc_TypeError, "measure(bodies: list)");
        return NULL;
    }
    const Py_ssize_t count = PyList_Size(bodies);
    for (Py_ssize_t at = 0; at < count; at++) {
        PyObject *from = PyList_GetItem(bodies, at);
        if (!from || read_bytes(from, &body) < 0 || add_size(&total, body.size) < 0)
            return NULL;
        if (body.size > longest)
            longest = body.size;
    }
    return Py_BuildValue("(nn)", total, longest);
}

static PyMethodDef methods[] = {
    {"frame", (PyCFunction)(void (*)(void))frame, METH_FASTCALL,
     "frame(stretches, base_time): the records of these stretches, with offsets from 0 on."},
    {"measure", measure, METH_O, "measure(bodies): the size of all, and of the longest."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "agent.encoding.batches._record_framing",
    .m_doc = "Frames events as the records of a batch.",
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__record_framing(void)
{
    return PyModuleDef_Init(&definition);
}
