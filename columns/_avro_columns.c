/* Reads values of one Avro schema into Arrow columns, in the raw form.
 *
 * `columns.native` turns the schema into a tree of nodes. Nodes that are not kept are skipped; each of
 * the others fills a column. A null, or an absent branch, takes an empty slot in every column below.
 *
 * It accepts what `schemas.bodies.checking` and `wire.record_batches.records` accept, or less: at anything else, or
 * anything too large, it gives up without a reason, and the slower reader determines which record it
 * was, and what happens to it.
 *
 * Rules. Every read follows a comparison with the end. `room` is what columns may still take: before a
 * value is read, the most that it can take in all columns is deducted, except for text, which comes
 * from the bytes read. Nodes never change, so that several threads can use them; the interpreter is
 * released while many records are read.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "../wire/_utf8.h"
#include "_columns.h"

#define LEAF 8          /* bytes deducted for a value */
#define INT_SIZE 5      /* the longest varint of 32 bits */
#define LONG_SIZE 10    /* and of 64 */
#define MOST_DEPTH 128  /* of nodes */
#define MOST_ITEMS 1000000             /* of lists, in one message */
#define MOST_MESSAGE (16 * 1024 * 1024) /* bytes */
#define MOST_HEADERS 65536             /* of a record */
#define LEAST_RECORD 12 /* bytes: size, attributes, five numbers, the envelope */
#define ENVELOPE 5      /* bytes before a body: a zero, and the schema's id */
/* Bytes, read or built. For fewer, reacquiring the GIL can take longer than reading. */
#define ALONE_FROM (256 * 1024)

/* `items`: the number that the message may still have. `at_once`: strings are checked when read. */
typedef struct {
    const unsigned char *at;
    const unsigned char *end;
    Column *columns;
    int64_t room, items;
    int at_once;
} Reading;

/* ---- Bytes. */

static inline Outcome
read_sized_number(Reading *reading, unsigned most, uint64_t *number)
{
    uint64_t raw = 0;
    const unsigned char *at = reading->at;
    for (unsigned shift = 0; shift < 7 * most; shift += 7) {
        if (at == reading->end)
            return REFUSED;
        unsigned char byte = *at++;
        if (shift == 63 && byte > 1)
            return REFUSED;
        raw |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            reading->at = at;
            *number = raw;
            return READ;
        }
    }
    return REFUSED;
}

static inline Outcome
read_signed(Reading *reading, unsigned most, int64_t *number)
{
    uint64_t raw;
    if (read_sized_number(reading, most, &raw))
        return REFUSED;
    *number = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
    return READ;
}

static inline Outcome
read_long(Reading *reading, int64_t *number)
{
    return read_signed(reading, LONG_SIZE, number);
}

/* A number of 35 bits, as in records. */
static inline Outcome
read_short(Reading *reading, int64_t *number)
{
    return read_signed(reading, INT_SIZE, number);
}

static inline Outcome
read_length(Reading *reading, int64_t *length)
{
    if (read_long(reading, length) || *length < 0 || *length > reading->end - reading->at)
        return REFUSED;
    return READ;
}

static inline Outcome
skip_bytes(Reading *reading, int64_t count)
{
    if (count > reading->end - reading->at)
        return REFUSED;
    reading->at += count;
    return READ;
}

static int
is_ascii(const unsigned char *at, int64_t size)
{
    uint64_t found = 0, eight;
    for (; size >= 8; size -= 8, at += 8) {
        memcpy(&eight, at, 8);
        found |= eight;
    }
    for (; size; size--)
        found |= *at++;
    return !(found & 0x8080808080808080u);
}

static int
is_text(const unsigned char *at, int64_t size)
{
    return is_ascii(at, size) || is_utf8(at, at + size);
}

/* ---- Values. Each is read into its column, or skipped if it has none. */

static Outcome read_value(Reading *reading, const Node *node);

static inline Outcome
read_text(Reading *reading, const Node *node, Column *column)
{
    int64_t size = node->argument;
    if (node->kind != FIXED && read_length(reading, &size))
        return REFUSED;
    const unsigned char *text = reading->at;
    if (skip_bytes(reading, size))
        return REFUSED;
    if (node->kind == STRING && (reading->at_once || !column) && !is_text(text, size))
        return REFUSED;
    return column ? append_text(column, text, size) : READ;
}

static inline Outcome
read_int(Reading *reading, Column *column)
{
    int64_t number;
    if (read_short(reading, &number) || number != (int32_t)number)
        return REFUSED;
    if (column)
        memcpy(column->fixed + 4 * column->length++, &number, 4); /* the lower half */
    return READ;
}

static inline Outcome
read_bytes_of_number(Reading *reading, Column *column, int64_t size)
{
    const unsigned char *number = reading->at;
    if (skip_bytes(reading, size))
        return REFUSED;
    if (column)
        memcpy(column->fixed + size * column->length++, number, (size_t)size);
    return READ;
}

static inline Outcome
read_boolean(Reading *reading, Column *column)
{
    if (reading->at == reading->end || *reading->at > 1)
        return REFUSED;
    if (*reading->at++ && column)
        set_bit(column->fixed, column->length);
    if (column)
        column->length++;
    return READ;
}

static inline Outcome
read_whole(Reading *reading, Column *column)
{
    int64_t number;
    if (read_long(reading, &number))
        return REFUSED;
    if (column)
        memcpy(column->fixed + 8 * column->length++, &number, 8);
    return READ;
}

static inline Outcome
read_symbol(Reading *reading, const Node *node, Column *column)
{
    int64_t number;
    if (read_long(reading, &number) || number < 0 || number >= node->count)
        return REFUSED;
    const Symbol *symbol = node->symbols + number;
    return column ? append_text(column, symbol->at, symbol->size) : READ;
}

static Outcome
read_list(Reading *reading, const Node *node, Column *column)
{
    const Node *items = node->parts;
    const int64_t price = items->width + 1;
    Outcome outcome;
    for (;;) {
        int64_t count, bytes = -1;
        if (read_long(reading, &count))
            return REFUSED;
        if (!count)
            break;
        if (count < 0) { /* then the size in bytes follows */
            if (count == INT64_MIN || read_length(reading, &bytes))
                return REFUSED;
            count = -count;
        }
        const unsigned char *behind = reading->at + bytes;
        if (count > reading->end - reading->at || count > reading->room / price ||
            count > reading->items / (1 + items->weight))
            return REFUSED;
        reading->room -= count * price;
        reading->items -= count * (1 + items->weight);
        while (count--)
            if ((outcome = read_value(reading, items)))
                return outcome;
        if (bytes >= 0 && reading->at != behind)
            return REFUSED;
    }
    if (column)
        column->offsets[++column->length] = (int32_t)reading->columns[items->column].length;
    return READ;
}

static Outcome
read_parts(Reading *reading, const Node *node, Column *column)
{
    for (Py_ssize_t part = 0; part < node->count; part++) {
        Outcome outcome = read_value(reading, node->parts + part);
        if (outcome)
            return outcome;
    }
    if (column)
        column->length++;
    return READ;
}

static Outcome
read_branch(Reading *reading, const Node *node, Column *column)
{
    int64_t branch;
    Outcome outcome = READ;
    if (read_long(reading, &branch) || branch < 0 || branch >= node->count)
        return REFUSED;
    for (Py_ssize_t part = 0; part < node->count && !outcome; part++)
        outcome = part == branch ? read_value(reading, node->parts + part)
                                 : append_nothing(reading->columns, node->parts + part);
    if (outcome || !column)
        return outcome;
    if (node->parts[branch].kind == NOTHING)
        column->nulls++;
    else
        set_bit(column->valid, column->length);
    column->length++;
    return READ;
}

static Outcome
read_value(Reading *reading, const Node *node)
{
    Column *column = NULL;
    if (node->branch >= 0) {
        int64_t branch;
        if (read_long(reading, &branch) || branch < 0 || branch > 1)
            return REFUSED;
        if (branch != node->branch)
            return append_nothing(reading->columns, node);
    }
    if (node->kept) {
        column = reading->columns + node->column;
        if (make_room(node, column))
            return NO_MEMORY;
        if (node->may_be_null && node->kind != UNION)
            set_bit(column->valid, column->length);
    }
    switch (node->kind) {
    case BOOLEAN:
        return read_boolean(reading, column);
    case LONG:
        return read_whole(reading, column);
    case INT:
        return read_int(reading, column);
    case FLOAT:
        return read_bytes_of_number(reading, column, 4);
    case DOUBLE:
        return read_bytes_of_number(reading, column, 8);
    case BYTES:
    case STRING:
    case FIXED:
        return read_text(reading, node, column);
    case ENUM:
        return read_symbol(reading, node, column);
    case LIST:
        return read_list(reading, node, column);
    case RECORD:
        return read_parts(reading, node, column);
    case UNION:
        return read_branch(reading, node, column);
    default:
        if (column)
            column->length++;
        return READ;
    }
}

/* ---- Records of a batch. */

/* `first`, `last`: the bounds of the next record's offset in the batch. Not checked for records from
 * many batches. */
typedef struct {
    unsigned char before[ENVELOPE];
    int64_t base_offset, base_time, first, last;
    int places;
} Frame;

static Outcome
skip_text(Reading *reading, int is_name)
{
    int64_t size;
    if (read_short(reading, &size) || (is_name && size < 0))
        return REFUSED;
    const unsigned char *text = reading->at;
    if (size > 0 && skip_bytes(reading, size))
        return REFUSED;
    return !is_name || is_text(text, size) ? READ : REFUSED;
}

static Outcome
read_body(Reading *reading, const Node *body, int64_t size)
{
    const unsigned char *end = reading->end, *behind = reading->at + size;
    if (size > MOST_MESSAGE - ENVELOPE || body->weight > MOST_ITEMS)
        return REFUSED;
    reading->items = MOST_ITEMS - body->weight;
    reading->end = behind;
    Outcome outcome = read_value(reading, body);
    reading->end = end;
    return outcome || reading->at == behind ? outcome : REFUSED;
}

static Outcome
read_record(Reading *reading, const Node *record, Frame *frame)
{
    int64_t size, time, offset, headers;
    Outcome outcome;
    if (reading->at == reading->end || *reading->at++ > 0x7f) /* attributes */
        return REFUSED;
    if (read_long(reading, &time) || read_short(reading, &offset) || skip_text(reading, 0) ||
        read_short(reading, &size) || size < ENVELOPE || size > reading->end - reading->at ||
        memcmp(reading->at, frame->before, ENVELOPE))
        return REFUSED;
    reading->at += ENVELOPE;
    if ((outcome = read_body(reading, record->parts + 2, size - ENVELOPE)))
        return outcome;
    if (frame->places) {
        if (offset < frame->first || offset > frame->last)
            return REFUSED;
        frame->first = offset + 1;
        int64_t numbers[2];
        if (__builtin_add_overflow(frame->base_offset, offset, numbers) ||
            __builtin_add_overflow(frame->base_time, time, numbers + 1))
            return REFUSED;
        for (int part = 0; part < 2; part++) {
            Column *column = reading->columns + record->parts[part].column;
            memcpy(column->fixed + 8 * column->length++, numbers + part, 8);
        }
        reading->columns[record->column].length++;
    }
    if (read_short(reading, &headers) || headers < 0 || headers > MOST_HEADERS)
        return REFUSED;
    while (headers--)
        if (skip_text(reading, 1) || skip_text(reading, 0))
            return REFUSED;
    return READ;
}

static Outcome
read_records(Reading *reading, const Node *record, int64_t count, Frame *frame)
{
    const unsigned char *end = reading->end;
    while (count--) {
        int64_t size;
        if (read_short(reading, &size) || size < 0 || size > end - reading->at)
            return REFUSED;
        reading->end = reading->at + size;
        Outcome outcome = read_record(reading, record, frame);
        if (outcome)
            return outcome;
        if (reading->at != reading->end)
            return REFUSED;
        reading->end = end;
    }
    return reading->at == end ? READ : REFUSED;
}

static Outcome
are_strings(const Column *column)
{
    if (!is_ascii(column->text, column->used))
        for (int64_t at = 0; at < column->length; at++)
            if (!is_text(column->text + column->offsets[at],
                         column->offsets[at + 1] - column->offsets[at]))
                return REFUSED;
    return READ;
}

/* Completes the columns as Arrow requires, and frees their unused memory, so that their size is what
 * they take. REFUSED if a string is invalid. */
static Outcome
finish(Reading *reading, const Node *node)
{
    Outcome outcome = READ;
    if (!node->kept)
        return READ;
    Column *column = reading->columns + node->column;
    if (resize(node, column, in_sixty_fours(column->length + 1)) ||
        (has_text(node) && resized_text(column, column->used)))
        return NO_MEMORY;
    if (node->kind == STRING && !reading->at_once)
        outcome = are_strings(column);
    if (node->parts)
        for (Py_ssize_t part = 0; part < node->count && !outcome; part++)
            outcome = finish(reading, node->parts + part);
    return outcome;
}

/* ---- Results for Python. */

static void
free_array(PyObject *capsule)
{
    ArrowArray *array = PyCapsule_GetPointer(capsule, "arrow_array");
    if (array->release)
        array->release(array);
    free(array);
}

/* Arrow's C data capsule with the node's column. Leaves no column in `reading`, even on errors. */
static PyObject *
as_capsule(Reading *reading, Py_ssize_t columns, const Node *node)
{
    ArrowArray *array = calloc(1, sizeof(*array));
    PyObject *capsule = array ? PyCapsule_New(array, "arrow_array", free_array) : PyErr_NoMemory();
    if (!capsule) {
        free(array);
    } else if (give(reading->columns, node, array)) {
        Py_DECREF(capsule);
        capsule = PyErr_NoMemory();
    }
    free_columns(reading->columns, columns);
    return capsule;
}

/* ---- The nodes, made in Python. */

typedef struct {
    PyObject_HEAD
    PyObject *made; /* owns the symbols that nodes point to */
    Py_ssize_t columns, texts;
    Node record;    /* of offset, time and body */
} Reader;

static void
free_node(Node *node)
{
    if (node->parts)
        for (Py_ssize_t part = 0; part < node->count; part++)
            free_node(node->parts + part);
    free(node->parts);
    free(node->symbols);
}

static int
read_symbols(Node *node, PyObject *symbols)
{
    Py_ssize_t longest = 0;
    node->symbols = calloc((size_t)node->count + 1, sizeof(Symbol));
    if (!node->symbols) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t at = 0; at < node->count; at++) {
        char *text;
        Symbol *symbol = node->symbols + at;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(symbols, at), &text, &symbol->size) < 0)
            return -1;
        symbol->at = text;
        longest = symbol->size > longest ? symbol->size : longest;
    }
    node->width += node->kept ? longest : 0;
    return 0;
}

static int read_node(PyObject *made, Node *node, Reader *self, int depth);

static int
read_nodes(Node *node, PyObject *parts, Reader *self, int depth)
{
    node->parts = calloc((size_t)node->count + 1, sizeof(Node));
    if (!node->parts) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t at = 0; at < node->count; at++) {
        Node *part = node->parts + at;
        if (read_node(PyTuple_GetItem(parts, at), part, self, depth + 1) < 0)
            return -1;
        if (part->kept ? !node->kept : node->kept && node->kind == LIST) {
            PyErr_SetString(PyExc_ValueError, "a node is kept below one that is not, or no items");
            return -1;
        }
        part->may_be_null |= node->kind == UNION;
        if (node->kind != LIST)
            node->width += part->width;
        if (node->kind == RECORD) {
            node->weight += part->weight;
            node->empty &= part->empty;
        }
    }
    node->weight += node->empty;
    return 0;
}

/* Reads a node from a tuple: kind, whether it is kept, branch, size, parts or symbols. */
static int
read_node(PyObject *made, Node *node, Reader *self, int depth)
{
    int kind;
    long long branch, size;
    PyObject *parts;
    if (depth > MOST_DEPTH || !PyTuple_Check(made)) {
        PyErr_SetString(PyExc_ValueError, "no node, or one that lies too deep");
        return -1;
    }
    if (!PyArg_ParseTuple(made, "ipLLO!", &kind, &node->kept, &branch, &size, &PyTuple_Type, &parts))
        return -1;
    Py_ssize_t count = PyTuple_Size(parts);
    if (kind < 0 || kind >= KINDS || branch < -1 || branch > 1 || size < 0 || size > INT32_MAX ||
        (kind == LIST && count != 1) || (kind < ENUM && count)) {
        PyErr_SetString(PyExc_ValueError, "no such node");
        return -1;
    }
    node->kind = (Kind)kind;
    node->branch = branch;
    node->may_be_null = branch >= 0 || kind == UNION;
    node->argument = size;
    node->width = node->kept ? LEAF : 0;
    node->column = node->kept ? self->columns++ : -1;
    node->count = count;
    node->empty = branch < 0 && (kind == NOTHING || kind == RECORD || (kind == FIXED && !size));
    node->weight = kind != RECORD && node->empty;
    self->texts += node->kept && has_text(node);
    if (kind == ENUM)
        return read_symbols(node, parts);
    return kind > ENUM ? read_nodes(node, parts, self, depth) : 0;
}

static PyObject *
new_reader(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(named))
{
    PyObject *made;
    if (!PyArg_ParseTuple(arguments, "O!", &PyTuple_Type, &made))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Reader *self = (Reader *)allocate(type, 0);
    if (!self)
        return NULL;
    self->made = Py_NewRef(made);
    Node *record = &self->record;
    int read = read_node(made, record, self, 0);
    if (!read && !(record->kind == RECORD && record->count == 3 && record->kept &&
                   record->parts[0].kind == LONG && record->parts[0].kept &&
                   record->parts[1].kind == LONG && record->parts[1].kept &&
                   record->parts[2].kept)) {
        PyErr_SetString(PyExc_ValueError, "a record of offset, time and body is wanted");
        read = -1;
    }
    if (read < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void
free_reader(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_node(&((Reader *)self)->record);
    Py_XDECREF(((Reader *)self)->made);
    release(self);
    Py_DECREF(type);
}

/* ---- Functions for Python. */

static int
begin(Reading *reading, const Reader *self)
{
    reading->columns = calloc((size_t)self->columns, sizeof(Column));
    if (!reading->columns)
        PyErr_NoMemory();
    return reading->columns ? 0 : -1;
}

static PyObject *
ended(Reading *reading, const Reader *self, const Node *node, Outcome outcome)
{
    if (!outcome)
        return as_capsule(reading, self->columns, node);
    free_columns(reading->columns, self->columns);
    return outcome == NO_MEMORY ? PyErr_NoMemory() : Py_NewRef(Py_None);
}

static Outcome
read_all(Reading *reading, const Reader *self, const Node *node, int64_t count, Frame *frame)
{
    const Node *record = &self->record;
    int64_t bytes = reading->end - reading->at;
    if (count < 1 || count > bytes / LEAST_RECORD || count > reading->room / record->width)
        return REFUSED;
    reading->room -= count * record->width;
    Outcome outcome = reserve(reading->columns, node, count, 2 * bytes / (self->texts + 1));
    if (!outcome)
        outcome = read_records(reading, record, count, frame);
    return outcome ? outcome : finish(reading, node);
}

static PyObject *
records(PyObject *self_, PyObject *arguments)
{
    const Reader *self = (const Reader *)self_;
    Py_buffer data;
    PyObject *places;
    long long room, count, base_offset = 0, base_time = 0, last = 0;
    unsigned int id;
    if (!PyArg_ParseTuple(arguments, "y*LIOL", &data, &count, &id, &places, &room))
        return NULL;
    const unsigned char *start = data.buf;
    Reading reading = {.at = start, .end = start + data.len, .room = room};
    PyObject *found = NULL;
    Outcome outcome;
    if (places != Py_None &&
        !PyArg_ParseTuple(places, "LLL", &base_offset, &base_time, &last))
        goto done;
    Frame frame = {{0, (unsigned char)(id >> 24), (unsigned char)(id >> 16),
                    (unsigned char)(id >> 8), (unsigned char)id},
                   base_offset, base_time, 0, last, places != Py_None};
    const Node *node = frame.places ? &self->record : self->record.parts + 2;
    if (begin(&reading, self) < 0)
        goto done;
    if (data.len < ALONE_FROM && count < ALONE_FROM / self->record.width) {
        outcome = read_all(&reading, self, node, count, &frame);
    } else {
        Py_BEGIN_ALLOW_THREADS
        outcome = read_all(&reading, self, node, count, &frame);
        Py_END_ALLOW_THREADS
    }
    found = ended(&reading, self, node, outcome);
done:
    PyBuffer_Release(&data);
    return found;
}

/* Reads up to `end`, or to the first one that is refused; `*at` is then its index. */
static Outcome
read_bodies(Reading *reading, const Node *body, PyObject *messages, Py_ssize_t *at, Py_ssize_t end)
{
    Outcome outcome = READ;
    for (; *at < end; ++*at) {
        char *message;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(PyList_GetItem(messages, *at), &message, &size) < 0)
            return REFUSED;
        if (size < ENVELOPE || reading->room < body->width)
            return REFUSED;
        reading->room -= body->width;
        reading->at = (const unsigned char *)message + ENVELOPE;
        reading->end = (const unsigned char *)message + size;
        if ((outcome = read_body(reading, body, size - ENVELOPE)))
            return outcome;
    }
    return finish(reading, body);
}

static PyObject *
bodies(PyObject *self_, PyObject *arguments)
{
    const Reader *self = (const Reader *)self_;
    const Node *body = self->record.parts + 2;
    PyObject *messages;
    Py_ssize_t at, to;
    long long room;
    if (!PyArg_ParseTuple(arguments, "O!nnL", &PyList_Type, &messages, &at, &to, &room))
        return NULL;
    if (at < 0 || at >= to || to > PyList_Size(messages)) {
        PyErr_SetString(PyExc_IndexError, "no such messages");
        return NULL;
    }
    Reading reading = {.room = room, .at_once = 1};
    if (begin(&reading, self) < 0)
        return NULL;
    Outcome outcome = read_bodies(&reading, body, messages, &at, to);
    if (outcome == REFUSED) {
        free_columns(reading.columns, self->columns);
        return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(at);
    }
    return ended(&reading, self, body, outcome);
}

static PyMethodDef reader_methods[] = {
    {"records", records, METH_VARARGS,
     "records(data, count, schema_id, (base_offset, base_time, last_delta), room): so many records,"
     " with offsets and times; with None for these, only their bodies. None unless all are sound."},
    {"bodies", bodies, METH_VARARGS,
     "bodies(messages, first, end, room): what stands in messages of the envelope, of a list; or the"
     " place of the one that is refused."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reader_slots[] = {
    {Py_tp_new, (void *)new_reader},
    {Py_tp_dealloc, (void *)free_reader},
    {Py_tp_methods, reader_methods},
    {Py_tp_doc, "Reads what was written with one schema. Gives capsules, called arrow_array."},
    {0, NULL},
};

static PyType_Spec reader_spec = {
    .name = "columns._avro_columns.Reader",
    .basicsize = sizeof(Reader),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = reader_slots,
};

static int
add_types(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &reader_spec, NULL);
    int added = type ? PyModule_AddObjectRef(module, "Reader", type) : -1;
    Py_XDECREF(type);
    return added;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)add_types}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "columns._avro_columns",
    .m_doc = "Reads Avro into columns of Arrow.",
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__avro_columns(void)
{
    return PyModuleDef_Init(&definition);
}
