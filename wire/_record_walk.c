/* Walks over the records of a batch, format v2, and believes nothing of what they say.
 *
 *     record  = length, attributes i8, time, offset, key, value, number of headers, header…
 *     header  = name, value             (name, key and value: a length, and as many bytes)
 *
 * All numbers but the attributes are zigzag varints, of at most five bytes, the time of ten. A
 * length is -1 for null, but for names, which are there. What else is asked of a record stands in
 * `wire.record_check`, which calls this, and has another way where it is not compiled.
 *
 * Rules. Every read is behind a comparison with the end. A length is compared with what is left
 * before it moves anything. Nothing is allocated, nothing recurses, nothing is written but a
 * finding, which becomes a sentence when the walk is over: the interpreter is let go of meanwhile
 * if there is much to walk over.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>

#define INT32_SIZE 5   /* bytes that a varint of 32 bits may have */
#define INT64_SIZE 10
#define HEADER_LEAST 2 /* a name and a value of which each says that it is empty */
#define MOST_HEADERS 65536
/* Bytes; fewer take less time than it may take to be given the interpreter back. */
#define ALONE_FROM (1024 * 1024)

typedef enum {
    SOUND, CUT, LONG_NUMBER, LONG_TIME, RECORD_SIZE, ATTRIBUTES, OFFSET, NEGATIVE, BEYOND, KEYLESS,
    HEADERS, NAMELESS, NOT_UTF8, LEFT_IN_RECORD, LEFT_BEHIND
} Fault;

/* Each is given the number that is at fault, and that of the record. */
static const char *const SENTENCES[] = {
    [CUT] = "malformed records: they end in the middle of one",
    [LONG_NUMBER] = "a number of more than five bytes",
    [LONG_TIME] = "a time of more than ten bytes",
    [RECORD_SIZE] = "malformed records: a record of %lld bytes",
    [ATTRIBUTES] = "a record's attributes are %lld, beyond 127",
    [OFFSET] = "offset delta %lld where %lld must be",
    [NEGATIVE] = "a length of %lld",
    [BEYOND] = "malformed records: %lld bytes in a record that has not as many left",
    [KEYLESS] = "a compacted topic needs a key in every record",
    [HEADERS] = "a record with %lld headers, at most 65536 are accepted",
    [NAMELESS] = "a header's name of %lld bytes",
    [NOT_UTF8] = "a header's name is not UTF-8",
    [LEFT_IN_RECORD] = "malformed records: %lld bytes behind what a record holds",
    [LEFT_BEHIND] = "malformed records: %lld bytes behind %lld records",
};

typedef struct {
    const unsigned char *at;
    const unsigned char *end;
    int64_t number; /* that was read last, or is at fault */
} Walk;

static inline Fault
faulty(Walk *walk, Fault fault, int64_t number)
{
    walk->number = number;
    return fault;
}

/* Read a number; five bytes hold 35 bits, so none is beyond 2^34. */
static inline Fault
read_number(Walk *walk)
{
    uint64_t raw = 0;
    unsigned char byte;
    unsigned shift = 0;
    do {
        if (shift == 7 * INT32_SIZE)
            return LONG_NUMBER;
        if (walk->at == walk->end)
            return CUT;
        byte = *walk->at++;
        raw |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte > 0x7f);
    walk->number = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
    return SOUND;
}

static inline Fault
skip_time(Walk *walk)
{
    for (int size = 0; size < INT64_SIZE; size++) {
        if (walk->at == walk->end)
            return CUT;
        if (*walk->at++ <= 0x7f)
            return SOUND;
    }
    return LONG_TIME;
}

/* Pass over a length, which stays in `number`, and what it is the length of. */
static inline Fault
skip_sized(Walk *walk)
{
    Fault fault = read_number(walk);
    if (fault)
        return fault;
    if (walk->number < -1)
        return NEGATIVE;
    if (walk->number > walk->end - walk->at)
        return BEYOND;
    if (walk->number > 0)
        walk->at += walk->number;
    return SOUND;
}

/* As Python's codec: no longer forms than needed, no surrogates, nothing beyond U+10FFFF. */
static int
is_utf8(const unsigned char *at, const unsigned char *end)
{
    while (at < end) {
        unsigned char lead = *at++;
        unsigned char low = 0x80, high = 0xbf; /* what the second byte may be */
        ptrdiff_t more;
        if (lead < 0x80)
            continue;
        if (lead < 0xc2 || lead > 0xf4)
            return 0;
        if (lead < 0xe0) {
            more = 1;
        } else if (lead < 0xf0) {
            more = 2;
            low = lead == 0xe0 ? 0xa0 : low;
            high = lead == 0xed ? 0x9f : high;
        } else {
            more = 3;
            low = lead == 0xf0 ? 0x90 : low;
            high = lead == 0xf4 ? 0x8f : high;
        }
        if (more > end - at || *at < low || *at > high)
            return 0;
        for (at++; more > 1; more--) {
            if ((*at++ & 0xc0) != 0x80)
                return 0;
        }
    }
    return 1;
}

static Fault
walk_headers(Walk *walk, int64_t count)
{
    Fault fault;
    if (count < 0 || count > MOST_HEADERS)
        return faulty(walk, HEADERS, count);
    if (count > (walk->end - walk->at) / HEADER_LEAST)
        return CUT;
    for (; count > 0; count--) {
        if ((fault = skip_sized(walk)))
            return fault;
        if (walk->number < 0)
            return NAMELESS;
        if (!is_utf8(walk->at - walk->number, walk->at))
            return NOT_UTF8;
        if ((fault = skip_sized(walk)))
            return fault;
    }
    return SOUND;
}

/* `walk` ends where the record does. */
static inline Fault
walk_record(Walk *walk, int64_t offset, int keyed)
{
    Fault fault;
    if (walk->at == walk->end)
        return CUT;
    if (*walk->at > 0x7f)
        return faulty(walk, ATTRIBUTES, *walk->at);
    walk->at++;
    if ((fault = skip_time(walk)) || (fault = read_number(walk)))
        return fault;
    if (walk->number != offset)
        return OFFSET;
    if ((fault = skip_sized(walk)))
        return fault;
    if (keyed && walk->number < 0)
        return KEYLESS;
    if ((fault = skip_sized(walk)) || (fault = read_number(walk)))
        return fault;
    if (walk->number && (fault = walk_headers(walk, walk->number)))
        return fault;
    if (walk->at != walk->end)
        return faulty(walk, LEFT_IN_RECORD, walk->end - walk->at);
    return SOUND;
}

/* `*record` is how many were sound. */
static Fault
walk_records(Walk *walk, int64_t count, int keyed, int64_t *record)
{
    const unsigned char *end = walk->end;
    Fault fault;
    for (*record = 0; *record < count; ++*record) {
        if ((fault = read_number(walk)))
            return fault;
        if (walk->number < 0 || walk->number > end - walk->at)
            return RECORD_SIZE;
        walk->end = walk->at + walk->number;
        if ((fault = walk_record(walk, *record, keyed)))
            return fault;
        walk->end = end;
    }
    return walk->at == end ? SOUND : faulty(walk, LEFT_BEHIND, end - walk->at);
}

static void
raise_fault(Fault fault, long long number, long long record, long long at)
{
    PyObject *why = PyUnicode_FromFormat(SENTENCES[fault], number, record);
    if (why) {
        PyErr_Format(PyExc_ValueError, "%U (record %lld, byte %lld)", why, record, at);
        Py_DECREF(why);
    }
}

static PyObject *
walk(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t given)
{
    Py_buffer records;
    Fault fault;
    int64_t record;
    if (given != 3) {
        PyErr_SetString(PyExc_TypeError, "walk(records, count, keyed)");
        return NULL;
    }
    long long count = PyLong_AsLongLong(arguments[1]);
    if (count == -1 && PyErr_Occurred())
        return NULL;
    int keyed = PyObject_IsTrue(arguments[2]);
    if (keyed < 0 || PyObject_GetBuffer(arguments[0], &records, PyBUF_SIMPLE) < 0)
        return NULL;
    const unsigned char *start = records.buf;
    Walk along = {start, start + records.len, 0};
    if (records.len > ALONE_FROM) {
        Py_BEGIN_ALLOW_THREADS
        fault = walk_records(&along, count, keyed, &record);
        Py_END_ALLOW_THREADS
    } else {
        fault = walk_records(&along, count, keyed, &record);
    }
    PyBuffer_Release(&records);
    if (fault) {
        raise_fault(fault, along.number, record, along.at - start);
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"walk", (PyCFunction)(void (*)(void))walk, METH_FASTCALL,
     "walk(records, count, keyed): ValueError unless they are `count` sound records."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "wire._record_walk",
    .m_doc = "Walks over the records of a batch.",
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__record_walk(void)
{
    return PyModuleDef_Init(&definition);
}
