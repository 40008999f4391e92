/* Walks over the records of a batch of format v2, and makes objects of them. Trusts nothing in them.
 *
 *     record  = length, attributes i8, time, offset, key, value, number of headers, header…
 *     header  = name, value             (name, key and value: a length, and as many bytes)
 *
 * All numbers but the attributes are zigzag varints of at most five bytes, the time of ten. A length
 * of -1 is null, except for names. `wire.record_batches.record_check` describes the further checks of a producer's
 * records (`walk`), `wire.record_batches.records` those of reading (`read`), and
 * `wire.record_batches.value_spans` those of finding values (`spans`). Readers take every negative
 * length for null, as Kafka's own clients do.
 *
 * Rules. Every read follows a comparison with the end. A length is compared with the remaining bytes
 * before it moves anything, or anything is allocated for it. Nothing recurses. A walk writes only a
 * fault, which becomes a message afterwards: the interpreter is released during a long walk.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "_utf8.h"

#define INT32_SIZE 5   /* the longest varint of 32 bits */
#define INT64_SIZE 10
#define HEADER_LEAST 2 /* an empty name and an empty value */
#define RECORD_LEAST 7 /* a size, attributes, and five numbers */
#define MOST_HEADERS 65536
#define SMALL_RECORD (1024 * 1024) /* bytes; smaller ones may have more headers when read */
#define FIELDS 5                   /* offset, time, key, value, headers */
/* Bytes; fewer take less time than getting the interpreter back may. */
#define ALONE_FROM (1024 * 1024)

typedef enum {
    SOUND, CUT, LONG_NUMBER, LONG_TIME, RECORD_SIZE, ATTRIBUTES, OFFSET, NEGATIVE, BEYOND, KEYLESS,
    HEADERS, NAMELESS, NOT_UTF8, LEFT_IN_RECORD, LEFT_BEHIND, OUTSIDE, NO_OBJECT
} Fault;

/* Formatted with the faulty number and the record's. */
static const char *const SENTENCES[] = {
    [CUT] = "malformed records: the last record is incomplete",
    [LONG_NUMBER] = "a number of more than five bytes",
    [LONG_TIME] = "a time of more than ten bytes",
    [RECORD_SIZE] = "malformed records: a record of %lld bytes",
    [ATTRIBUTES] = "a record's attributes are %lld, beyond 127",
    [OFFSET] = "offset delta %lld, expected %lld",
    [NEGATIVE] = "a length of %lld",
    [BEYOND] = "malformed records: %lld bytes in a record that has not as many left",
    [KEYLESS] = "a compacted topic needs a key in every record",
    [HEADERS] = "a record with %lld headers, at most 65536 are accepted",
    [NAMELESS] = "a header's name of %lld bytes",
    [NOT_UTF8] = "a header's name is not UTF-8",
    [LEFT_IN_RECORD] = "malformed records: %lld bytes behind what a record holds",
    [LEFT_BEHIND] = "malformed records: %lld bytes behind %lld records",
    [OUTSIDE] = "offset %lld is not in the batch, or not behind the one before",
};

typedef struct {
    const unsigned char *at;
    const unsigned char *end;
    int64_t number; /* the last read, or the faulty one */
} Walk;

static inline Fault
faulty(Walk *walk, Fault fault, int64_t number)
{
    walk->number = number;
    return fault;
}

/* Reads a number; five bytes hold 35 bits, so none exceeds 2^34. */
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

/* Skips a length, which stays in `number`, and as many bytes. */
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

/* `walk` ends with the record. */
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

/* `*record` becomes the number of sound records. */
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

/* Fields of the batch, and of the records before. */
typedef struct {
    int64_t base_offset;
    int64_t last_offset;
    int64_t base_time;
    int64_t time; /* of all records, if it is common */
    int64_t previous;
    int has_time;
} Frame;

static Fault
read_time(Walk *walk, int64_t *time)
{
    uint64_t raw = 0;
    for (int size = 0; size < INT64_SIZE; size++) {
        if (walk->at == walk->end)
            return CUT;
        unsigned char byte = *walk->at++;
        raw |= (uint64_t)(byte & 0x7f) << (7 * size);
        if (byte <= 0x7f) {
            *time = (int64_t)(raw >> 1 ^ (0 - (raw & 1)));
            return SOUND;
        }
    }
    return LONG_TIME;
}

/* Returns the bytes, or None if their length is negative; NULL with a fault or an exception. */
static PyObject *
read_sized(Walk *walk, Fault *fault)
{
    if ((*fault = read_number(walk)))
        return NULL;
    if (walk->number < 0)
        Py_RETURN_NONE;
    if (walk->number > walk->end - walk->at) {
        *fault = BEYOND;
        return NULL;
    }
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)walk->at, walk->number);
    walk->at += walk->number;
    if (!bytes)
        *fault = NO_OBJECT;
    return bytes;
}

static PyObject *
read_name(Walk *walk, Fault *fault)
{
    if ((*fault = read_number(walk)))
        return NULL;
    if (walk->number < 0)
        *fault = NAMELESS;
    else if (walk->number > walk->end - walk->at)
        *fault = BEYOND;
    else if (!is_utf8(walk->at, walk->at + walk->number))
        *fault = NOT_UTF8;
    if (*fault)
        return NULL;
    PyObject *name = PyUnicode_DecodeUTF8((const char *)walk->at, walk->number, NULL);
    walk->at += walk->number;
    if (!name)
        *fault = NO_OBJECT;
    return name;
}

static PyObject *
read_headers(Walk *walk, int64_t size, Fault *fault)
{
    if ((*fault = read_number(walk)))
        return NULL;
    int64_t count = walk->number;
    if (count < 0 || (count > MOST_HEADERS && size > SMALL_RECORD))
        *fault = HEADERS;
    else if (count > (walk->end - walk->at) / HEADER_LEAST)
        *fault = CUT;
    PyObject *headers = *fault ? NULL : PyTuple_New(count);
    if (!headers) {
        *fault = *fault ? *fault : NO_OBJECT;
        return NULL;
    }
    for (int64_t place = 0; place < count; place++) {
        PyObject *name = read_name(walk, fault);
        PyObject *value = name ? read_sized(walk, fault) : NULL;
        PyObject *header = value ? PyTuple_Pack(2, name, value) : NULL;
        Py_XDECREF(name);
        Py_XDECREF(value);
        if (!header) {
            *fault = *fault ? *fault : NO_OBJECT;
            Py_DECREF(headers);
            return NULL;
        }
        PyTuple_SetItem(headers, place, header);
    }
    return headers;
}

/* Reads the numbers of a record with the body `walk`. */
static Fault
read_numbers(Walk *walk, Frame *frame, int64_t *time)
{
    Fault fault;
    if (walk->at == walk->end)
        return CUT;
    walk->at++; /* attributes, none of which is defined */
    if ((fault = read_time(walk, time)) || (fault = read_number(walk)))
        return fault;
    *time = frame->has_time ? frame->time : (int64_t)((uint64_t)frame->base_time + (uint64_t)*time);
    int64_t offset = (int64_t)((uint64_t)frame->base_offset + (uint64_t)walk->number);
    if (offset <= frame->previous || offset > frame->last_offset)
        return faulty(walk, OUTSIDE, offset);
    frame->previous = offset;
    return SOUND;
}

/* Returns a record of `type`, a named tuple; NULL with a fault or an exception. */
static PyObject *
read_record(Walk *walk, Frame *frame, PyTypeObject *type, Fault *fault)
{
    int64_t size = walk->end - walk->at, time = 0;
    if ((*fault = read_numbers(walk, frame, &time)))
        return NULL;
    PyObject *record = PyType_GenericAlloc(type, FIELDS);
    if (!record) {
        *fault = NO_OBJECT;
        return NULL;
    }
    PyObject *fields[FIELDS] = {NULL};
    fields[0] = PyLong_FromLongLong(frame->previous);
    fields[1] = fields[0] ? PyLong_FromLongLong(time) : NULL;
    fields[2] = fields[1] ? read_sized(walk, fault) : NULL;
    fields[3] = fields[2] ? read_sized(walk, fault) : NULL;
    fields[4] = fields[3] ? read_headers(walk, size, fault) : NULL;
    for (int place = 0; place < FIELDS; place++)
        PyTuple_SetItem(record, place, fields[place]);
    if (!fields[FIELDS - 1])
        *fault = *fault ? *fault : NO_OBJECT;
    else if (walk->at != walk->end)
        *fault = faulty(walk, LEFT_IN_RECORD, walk->end - walk->at);
    if (*fault)
        Py_CLEAR(record);
    return record;
}

/* Appends the next record to a list. */
static Fault
read_next(Walk *walk, Frame *frame, PyTypeObject *type, PyObject *into)
{
    const unsigned char *end = walk->end;
    Fault fault = read_number(walk);
    if (!fault && (walk->number < 0 || walk->number > end - walk->at))
        fault = RECORD_SIZE;
    if (fault)
        return fault;
    walk->end = walk->at + walk->number;
    PyObject *record = read_record(walk, frame, type, &fault);
    if (!record)
        return fault;
    if (PyList_Append(into, record) < 0)
        fault = NO_OBJECT;
    Py_DECREF(record);
    walk->end = end;
    return fault;
}

/* Reads up to `most` records, and none after `bytes` bytes. Stops before a malformed record, which is a
 * fault only if it is the first: so the reader gets the records before it. */
static Fault
read_records(
    Walk *walk, Frame *frame, PyTypeObject *type, int64_t most, int64_t bytes, PyObject *into)
{
    const unsigned char *start = walk->at, *at = start;
    for (int64_t count = 0; count < most && at - start <= bytes; count++) {
        Fault fault = read_next(walk, frame, type, into);
        if (fault && (fault == NO_OBJECT || !count))
            return fault;
        if (fault)
            break;
        at = walk->at;
    }
    walk->at = at;
    return SOUND;
}

static PyObject *
read_some(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer records;
    PyTypeObject *type;
    PyObject *time;
    Frame frame;
    long long base_offset, last_offset, base_time, previous, most, bytes;
    Py_ssize_t at;
    if (!PyArg_ParseTuple(
            arguments, "O!y*nLL(LLLO)L", &PyType_Type, &type, &records, &at, &most, &bytes,
            &base_offset, &last_offset, &base_time, &time, &previous))
        return NULL;
    PyObject *found = NULL, *both = NULL;
    frame = (Frame){base_offset, last_offset, base_time, 0, previous, time != Py_None};
    if (frame.has_time && (frame.time = PyLong_AsLongLong(time)) == -1 && PyErr_Occurred())
        goto done;
    if (!PyType_IsSubtype(type, &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "records are made as a named tuple's");
        goto done;
    }
    if (at < 0 || at > records.len) {
        PyErr_SetString(PyExc_IndexError, "not within the records");
        goto done;
    }
    if (!(found = PyList_New(0)))
        goto done;
    const unsigned char *start = records.buf;
    Walk walk = {start + at, start + records.len, 0};
    Fault fault = read_records(&walk, &frame, type, most, bytes, found);
    if (!fault)
        both = Py_BuildValue("On", found, (Py_ssize_t)(walk.at - start));
    else if (!PyErr_Occurred())
        raise_fault(fault, walk.number, PyList_Size(found), walk.at - start);
done:
    Py_XDECREF(found);
    PyBuffer_Release(&records);
    return both;
}

/* Where a value begins and ends; both -1 if it is absent. */
typedef struct {
    int64_t first, end;
} Span;

/* Skips a length and as many bytes, of which `*span` is the place; a negative length is null. */
static Fault
span_sized(Walk *walk, const unsigned char *start, Span *span)
{
    Fault fault = read_number(walk);
    if (fault)
        return fault;
    if (walk->number > walk->end - walk->at)
        return BEYOND;
    *span = (Span){-1, -1};
    if (walk->number >= 0) {
        *span = (Span){walk->at - start, walk->at - start + walk->number};
        walk->at += walk->number;
    }
    return SOUND;
}

/* Finds the value of a record, and that of its first header with this name; `walk` ends with it. */
static Fault
span_record(Walk *walk, const unsigned char *start, const Py_buffer *name, Span *value, Span *header)
{
    Fault fault;
    Span key, other;
    *header = (Span){-1, -1};
    if (walk->at == walk->end)
        return CUT;
    walk->at++;
    if ((fault = skip_time(walk)) || (fault = read_number(walk)))
        return fault;
    if ((fault = span_sized(walk, start, &key)) || (fault = span_sized(walk, start, value)) ||
        (fault = read_number(walk)))
        return fault;
    int64_t count = walk->number;
    if (count < 0 || count > MOST_HEADERS)
        return faulty(walk, HEADERS, count);
    for (int sought = 1; count > 0; count--) {
        if ((fault = span_sized(walk, start, &key)) || (fault = span_sized(walk, start, &other)))
            return fault;
        if (key.first < 0)
            return NAMELESS;
        if (sought && key.end - key.first == name->len &&
            !memcmp(start + key.first, name->buf, (size_t)name->len)) {
            *header = other;
            sought = 0;
        }
    }
    return walk->at == walk->end ? SOUND : faulty(walk, LEFT_IN_RECORD, walk->end - walk->at);
}

static Fault
span_records(Walk *walk, int64_t count, const Py_buffer *name, Span *spans, int64_t *record)
{
    const unsigned char *start = walk->at, *end = walk->end;
    Fault fault;
    for (*record = 0; *record < count; ++*record, spans += 2) {
        if ((fault = read_number(walk)))
            return fault;
        if (walk->number < 0 || walk->number > end - walk->at)
            return RECORD_SIZE;
        walk->end = walk->at + walk->number;
        if ((fault = span_record(walk, start, name, spans, spans + 1)))
            return fault;
        walk->end = end;
    }
    return walk->at == end ? SOUND : faulty(walk, LEFT_BEHIND, end - walk->at);
}

static PyObject *
spans(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer records, name;
    long long count;
    int64_t record = 0;
    if (!PyArg_ParseTuple(arguments, "y*Ly*", &records, &count, &name))
        return NULL;
    const unsigned char *start = records.buf;
    Walk along = {start, start + records.len, 0};
    PyObject *found = NULL;
    Fault fault = SOUND;
    if (count < 0 || count > records.len / RECORD_LEAST) {
        PyErr_Format(PyExc_ValueError, "%lld records in %zd bytes", count, records.len);
        goto done;
    }
    if (!(found = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)count * 2 * (Py_ssize_t)sizeof(Span))))
        goto done;
    Span *into = (Span *)PyBytes_AsString(found); /* bytes begin at a multiple of eight */
    if (records.len > ALONE_FROM) {
        Py_BEGIN_ALLOW_THREADS
        fault = span_records(&along, count, &name, into, &record);
        Py_END_ALLOW_THREADS
    } else {
        fault = span_records(&along, count, &name, into, &record);
    }
    if (fault) {
        Py_CLEAR(found);
        raise_fault(fault, along.number, record, along.at - start);
    }
done:
    PyBuffer_Release(&records);
    PyBuffer_Release(&name);
    return found;
}

static PyMethodDef methods[] = {
    {"walk", (PyCFunction)(void (*)(void))walk, METH_FASTCALL,
     "walk(records, count, keyed): ValueError unless they are `count` sound records."},
    {"read", read_some, METH_VARARGS,
     "read(type, records, at, most, bytes, (base_offset, last_offset, base_time, time), previous):"
     " some records from that byte on, and the byte behind them. ValueError if one is not sound."},
    {"spans", spans, METH_VARARGS,
     "spans(records, count, name): of each record the first byte and the end of its value, and of"
     " its first header with this name, as native integers of eight bytes; -1 if absent. ValueError"
     " unless all are sound."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "wire._records",
    .m_doc = "Walks over the records of a batch, and makes objects of them.",
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__records(void)
{
    return PyModuleDef_Init(&definition);
}
