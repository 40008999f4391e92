/* Encodes JSON lines that need no conversion as the Avro fields of events.
 *
 * Encodes only simple lines: an object of strings, numbers, booleans and null, each of exactly its
 * field's type, without repeated names. All other lines (nested, converted, wrong, doubtful) are
 * left without a body for the caller, `agent.encoding.bodies.json_tails`, which decides about them: nothing
 * is rejected here.
 *
 * Rules. A line is a bytes object; every read is preceded by a comparison with its end. Its values
 * become tokens that point into it. The size of a body is computed before it is allocated, from the
 * same tokens that are then written. No Python code runs meanwhile.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define MOST_NAMES 128
#define MOST_FIELDS 128
#define MOST_SYMBOLS 256
#define MOST_UNKNOWN 16 /* names that are counted separately, as in agent.accounting.alterations */
#define MOST_WHOLE 18 /* digits that always fit into 64 bits */
#define MOST_EXACT 15 /* digits that a double always represents exactly */
#define MOST_REAL 63  /* characters */

typedef struct {
    const unsigned char *at;
    Py_ssize_t size;
} Bytes;

/* Numbered as in `json_columns`. A field that is OTHER must be missing or null. */
typedef enum { STRING, INT, LONG, FLOAT, DOUBLE, BOOLEAN, ENUM, OTHER, KINDS } Kind;

typedef enum { ABSENT, TEXT, ESCAPED, WHOLE, REAL, YES, NO, NOTHING } Said;

/* `size` is that of a text without its escapes; `digits` is for numbers. */
typedef struct {
    Said said;
    int digits;
    Bytes raw;
    Py_ssize_t size;
    int64_t whole;
    double real;
} Token;

/* A constant has no place among the names, and `missing` is its body. A line for which `null` or
 * `missing` has no bytes is left. */
typedef struct {
    Py_ssize_t place;
    Kind kind;
    Bytes prefix, null, missing;
    PyObject *symbols;
} Field;

typedef struct {
    Bytes before; /* begins every body */
    int only_known;
    Py_ssize_t names_count, fields_count, taken_count;
    Bytes names[MOST_NAMES];
    Field fields[MOST_FIELDS];
    Py_ssize_t taken[MOST_NAMES];
    Py_ssize_t usual[MOST_NAMES]; /* the names in the order of the previous line */
} Plan;

typedef struct {
    const unsigned char *at;
    const unsigned char *end;
} Text;

/* Names that the plan does not have, with counts. They point into lines, which the caller keeps.
 * The last one, without bytes, stands for all others. */
typedef struct {
    Py_ssize_t count;
    Bytes names[MOST_UNKNOWN + 1];
    Py_ssize_t values[MOST_UNKNOWN + 1];
} Unknown;

/* The names of one line, in order; `count` may exceed the capacity. */
typedef struct {
    Py_ssize_t count;
    Bytes names[MOST_UNKNOWN];
} Strange;

static const double POWERS[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

/* ---- The plan, made in Python. */

static int
wrong(const char *why)
{
    PyErr_SetString(PyExc_TypeError, why);
    return -1;
}

static int
read_bytes(PyObject *from, Bytes *bytes)
{
    char *start;
    *bytes = (Bytes){NULL, 0};
    if (from == Py_None)
        return 0;
    if (!from || !PyBytes_CheckExact(from))
        return wrong("bytes are wanted");
    if (PyBytes_AsStringAndSize(from, &start, &bytes->size) < 0)
        return -1;
    bytes->at = (const unsigned char *)start;
    return 0;
}

static int
read_name(PyObject *from, Bytes *bytes)
{
    return from == Py_None ? wrong("bytes are wanted") : read_bytes(from, bytes);
}

static int
read_tuple(PyObject *from, Py_ssize_t most, Py_ssize_t *count)
{
    if (!from || !PyTuple_CheckExact(from) || (*count = PyTuple_Size(from)) > most)
        return wrong("a tuple is wanted that is not too long");
    return 0;
}

static int
read_place(PyObject *from, Py_ssize_t least, Py_ssize_t end, Py_ssize_t *place)
{
    *place = PyLong_AsSsize_t(from);
    if (*place == -1 && PyErr_Occurred())
        return -1;
    return *place < least || *place >= end ? wrong("a place beyond the last") : 0;
}

static int
read_field(PyObject *from, Py_ssize_t names, Field *field)
{
    Py_ssize_t count, kind, symbols;
    Bytes symbol;
    if (read_tuple(from, 6, &count) < 0 || count != 6)
        return wrong("a field is a tuple of six");
    if (read_place(PyTuple_GetItem(from, 0), -1, names, &field->place) < 0 ||
        read_place(PyTuple_GetItem(from, 1), 0, KINDS, &kind) < 0 ||
        read_name(PyTuple_GetItem(from, 2), &field->prefix) < 0 ||
        read_bytes(PyTuple_GetItem(from, 3), &field->null) < 0 ||
        read_bytes(PyTuple_GetItem(from, 4), &field->missing) < 0)
        return -1;
    field->kind = (Kind)kind;
    field->symbols = PyTuple_GetItem(from, 5);
    if (read_tuple(field->symbols, MOST_SYMBOLS, &symbols) < 0)
        return -1;
    for (Py_ssize_t at = 0; at < symbols; at++) {
        if (read_name(PyTuple_GetItem(field->symbols, at), &symbol) < 0)
            return -1;
    }
    return field->place < 0 && !field->missing.at ? wrong("a constant has a body") : 0;
}

static int
read_plan(PyObject *from, Plan *plan)
{
    Py_ssize_t count;
    if (read_tuple(from, 5, &count) < 0 || count != 5)
        return wrong("a plan is a tuple of five");
    PyObject *names = PyTuple_GetItem(from, 2), *fields = PyTuple_GetItem(from, 3),
             *taken = PyTuple_GetItem(from, 4);
    if (read_name(PyTuple_GetItem(from, 0), &plan->before) < 0 ||
        read_tuple(names, MOST_NAMES, &plan->names_count) < 0 ||
        read_tuple(fields, MOST_FIELDS, &plan->fields_count) < 0 ||
        read_tuple(taken, MOST_NAMES, &plan->taken_count) < 0)
        return -1;
    plan->only_known = PyTuple_GetItem(from, 1) == Py_True;
    for (Py_ssize_t at = 0; at < plan->names_count; at++) {
        plan->usual[at] = at;
        if (read_name(PyTuple_GetItem(names, at), &plan->names[at]) < 0)
            return -1;
    }
    for (Py_ssize_t at = 0; at < plan->fields_count; at++) {
        if (read_field(PyTuple_GetItem(fields, at), plan->names_count, &plan->fields[at]) < 0)
            return -1;
    }
    for (Py_ssize_t at = 0; at < plan->taken_count; at++) {
        if (read_place(PyTuple_GetItem(taken, at), 0, plan->names_count, &plan->taken[at]) < 0)
            return -1;
    }
    return 0;
}

/* ---- JSON to tokens. A function that returns 0 leaves the line. */

static inline void
skip_white(Text *text)
{
    while (text->at < text->end &&
           (*text->at == ' ' || *text->at == '\t' || *text->at == '\r' || *text->at == '\n'))
        text->at++;
}

static inline int
is_next(Text *text, unsigned char wanted)
{
    skip_white(text);
    if (text->at == text->end || *text->at != wanted)
        return 0;
    text->at++;
    return 1;
}

/* Sets the highest bit of each of eight bytes that is a quote, a backslash, below 0x20 or above
 * 0x7f. Only the first of them is reliable. */
static inline uint64_t
special(uint64_t eight)
{
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    uint64_t quote = eight ^ (ones * '"'), slash = eight ^ (ones * '\\');
    return ((quote - ones) | (slash - ones) | (eight - ones * 0x20) | eight) & highs;
}

/* The position of the next such byte, or the end. */
static inline const unsigned char *
plain_until(const unsigned char *at, const unsigned char *end)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (uint64_t eight, found; end - at >= 8; at += 8) {
        memcpy(&eight, at, 8);
        if ((found = special(eight)))
            return at + (__builtin_ctzll(found) >> 3);
    }
#endif
    while (at < end && *at >= 0x20 && *at != '"' && *at != '\\' && *at < 0x80)
        at++;
    return at;
}

/* Reads a string, after its opening quote. */
static int
read_text(Text *text, Token *token)
{
    const unsigned char *start = text->at, *at = start;
    unsigned char every = 0;
    Py_ssize_t escapes = 0;
    for (;;) {
        at = plain_until(at, text->end);
        if (at == text->end || *at < 0x20)
            return 0;
        if (*at == '"')
            break;
        every |= *at;
        if (*at++ == '\\') {
            if (at == text->end || !*at || !strchr("\"\\/bfnrt", *at))
                return 0;
            at++;
            escapes++;
        }
    }
    token->said = escapes ? ESCAPED : TEXT;
    token->raw = (Bytes){start, at - start};
    token->size = at - start - escapes;
    text->at = at + 1;
    if (every < 0x80)
        return 1;
    PyObject *decoded = PyUnicode_DecodeUTF8((const char *)start, at - start, NULL);
    if (!decoded) {
        PyErr_Clear();
        return 0;
    }
    Py_DECREF(decoded);
    return 1;
}

static int
read_real(const unsigned char *start, Py_ssize_t size, int64_t digits, int count, int behind,
          Token *token)
{
    token->said = REAL;
#if FLT_EVAL_METHOD == 0
    if (count <= MOST_EXACT) { /* the quotient of two exact doubles is the nearest double */
        token->real = (double)digits / POWERS[behind];
        if (*start == '-')
            token->real = -token->real;
        return 1;
    }
#endif
    char copy[MOST_REAL + 1];
    if (size > MOST_REAL)
        return 0;
    memcpy(copy, start, (size_t)size);
    copy[size] = 0;
    token->real = PyOS_string_to_double(copy, NULL, NULL);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return 1;
}

static int
read_number(Text *text, Token *token)
{
    const unsigned char *start = text->at, *at = start, *point = NULL, *first;
    int64_t digits = 0;
    int count = 0;
    if (*at == '-')
        at++;
    first = at;
    for (; at < text->end; at++) {
        if (*at >= '0' && *at <= '9') {
            if (count < MOST_WHOLE)
                digits = 10 * digits + (*at - '0');
            if (++count > MOST_REAL)
                return 0;
        } else if (*at == '.' && !point && at > first) {
            point = at;
        } else {
            break;
        }
    }
    if (at == text->end || !count || (*first == '0' && at - first > 1 && point != first + 1))
        return 0;
    if (*at != ',' && *at != '}' && *at != ' ' && *at != '\t' && *at != '\r' && *at != '\n')
        return 0;
    text->at = at;
    token->raw = (Bytes){start, at - start};
    token->digits = count;
    if (point)
        return at - point > 1 &&
               read_real(start, at - start, digits, count, (int)(at - point - 1), token);
    token->said = WHOLE;
    token->whole = *start == '-' ? -digits : digits;
    return count <= MOST_WHOLE && (digits || *start != '-');
}

static int
read_word(Text *text, const char *word, Said said, Token *token)
{
    size_t size = strlen(word);
    if ((size_t)(text->end - text->at) < size || memcmp(text->at, word, size))
        return 0;
    text->at += size;
    token->said = said;
    return 1;
}

static int
read_value(Text *text, Token *token)
{
    skip_white(text);
    if (text->at == text->end)
        return 0;
    switch (*text->at) {
    case '"':
        text->at++;
        return read_text(text, token);
    case 't':
        return read_word(text, "true", YES, token);
    case 'f':
        return read_word(text, "false", NO, token);
    case 'n':
        return read_word(text, "null", NOTHING, token);
    case '-':
        return text->end - text->at > 1 && read_number(text, token);
    default:
        return *text->at >= '0' && *text->at <= '9' && read_number(text, token);
    }
}

static inline int
is_called(const Plan *plan, Py_ssize_t place, const Token *name)
{
    Bytes known = plan->names[place];
    return known.size == name->raw.size && !memcmp(known.at, name->raw.at, (size_t)known.size);
}

/* The place of a name in the plan, or -1. It is the `nth` of its line. */
static Py_ssize_t
place_of(Plan *plan, const Token *name, Py_ssize_t nth)
{
    if (nth < plan->names_count && is_called(plan, plan->usual[nth], name))
        return plan->usual[nth];
    for (Py_ssize_t place = 0; place < plan->names_count; place++) {
        if (is_called(plan, place, name)) {
            if (nth < plan->names_count)
                plan->usual[nth] = place;
            return place;
        }
    }
    return -1;
}

static inline int
is_same(Bytes one, Bytes other)
{
    return one.size == other.size && !memcmp(one.at, other.at, (size_t)one.size);
}

/* Tries the same index first: most lines have the same names in the same order. */
static void
count_strange(Unknown *unknown, const Strange *strange)
{
    Py_ssize_t told = strange->count < MOST_UNKNOWN ? strange->count : MOST_UNKNOWN;
    for (Py_ssize_t nth = 0; nth < told; nth++) {
        Bytes name = strange->names[nth];
        Py_ssize_t at = nth < unknown->count && is_same(unknown->names[nth], name) ? nth : 0;
        while (at < unknown->count && !is_same(unknown->names[at], name))
            at++;
        if (at == unknown->count && at < MOST_UNKNOWN)
            unknown->names[unknown->count++] = name;
        unknown->values[at]++;
    }
    unknown->values[MOST_UNKNOWN] += strange->count - told;
}

/* Reads a line into the tokens of all names. */
static int
read_line(Plan *plan, Bytes line, Token *tokens, Strange *strange)
{
    Text text = {line.at, line.at + line.size};
    for (Py_ssize_t at = 0; at < plan->names_count; at++)
        tokens[at].said = ABSENT;
    strange->count = 0;
    if (!is_next(&text, '{'))
        return 0;
    for (Py_ssize_t nth = 0; nth || !is_next(&text, '}'); nth++) {
        Token name, unknown;
        if (!is_next(&text, '"') || !read_text(&text, &name) || name.said != TEXT ||
            !is_next(&text, ':'))
            return 0;
        Py_ssize_t place = place_of(plan, &name, nth);
        if (place < 0 ? plan->only_known : tokens[place].said != ABSENT)
            return 0;
        if (!read_value(&text, place < 0 ? &unknown : &tokens[place]))
            return 0;
        if (place < 0 && strange->count++ < MOST_UNKNOWN)
            strange->names[strange->count - 1] = name.raw;
        if (is_next(&text, '}'))
            break;
        if (!is_next(&text, ','))
            return 0;
    }
    skip_white(&text);
    return text.at == text.end;
}

/* ---- Tokens to Avro. */

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
write_number(char *out, uint64_t raw)
{
    for (; raw > 0x7f; raw >>= 7)
        *out++ = (char)(raw | 0x80);
    *out++ = (char)raw;
    return out;
}

static inline char *
write_bytes(char *out, Bytes bytes)
{
    if (bytes.size)
        memcpy(out, bytes.at, (size_t)bytes.size);
    return out + bytes.size;
}

static char *
write_text(char *out, const Token *token)
{
    static const char escapes[] = "bfnrt", meant[] = "\b\f\n\r\t";
    if (token->said == TEXT)
        return write_bytes(out, token->raw);
    const unsigned char *at = token->raw.at, *end = at + token->raw.size;
    while (at < end) {
        if (*at != '\\') {
            *out++ = (char)*at++;
            continue;
        }
        const char *found = strchr(escapes, at[1]);
        *out++ = found ? meant[found - escapes] : (char)at[1];
        at += 2;
    }
    return out;
}

static char *
write_real(char *out, const Token *token, int is_double)
{
    double real = token->said == WHOLE ? (double)token->whole : token->real;
    float half = (float)real;
    uint64_t bits = 0;
    if (is_double) {
        memcpy(&bits, &real, sizeof real);
    } else {
        uint32_t less;
        memcpy(&less, &half, sizeof half);
        bits = less;
    }
    for (int byte = 0; byte < (is_double ? 8 : 4); byte++, bits >>= 8)
        *out++ = (char)(bits & 0xff);
    return out;
}

/* Finds the index of an enum symbol, and stores it in `whole`. */
static int
is_symbol(PyObject *symbols, Token *token)
{
    Bytes symbol;
    if (token->said != TEXT)
        return 0;
    for (Py_ssize_t at = 0; at < PyTuple_Size(symbols); at++) {
        if (read_bytes(PyTuple_GetItem(symbols, at), &symbol) == 0 &&
            symbol.size == token->raw.size &&
            !memcmp(symbol.at, token->raw.at, (size_t)symbol.size)) {
            token->whole = at;
            return 1;
        }
    }
    return 0;
}

/* The size of a value without its prefix; -1 if it is not of its field's kind. */
static Py_ssize_t
value_size(const Field *field, Token *token)
{
    switch (field->kind) {
    case STRING:
        if (token->said != TEXT && token->said != ESCAPED)
            return -1;
        return size_of(zigzag(token->size)) + token->size;
    case INT:
        if (token->said != WHOLE || token->whole < INT32_MIN || token->whole > INT32_MAX)
            return -1;
        return size_of(zigzag(token->whole));
    case LONG:
        return token->said == WHOLE ? size_of(zigzag(token->whole)) : -1;
    case FLOAT:
    case DOUBLE:
        if (token->said == WHOLE ? token->digits > MOST_EXACT : token->said != REAL)
            return -1;
        if (field->kind == DOUBLE)
            return 8;
        return token->said == REAL && fabs(token->real) > FLT_MAX / 2 ? -1 : 4;
    case BOOLEAN:
        return token->said == YES || token->said == NO ? 1 : -1;
    case ENUM:
        return is_symbol(field->symbols, token) ? size_of(zigzag(token->whole)) : -1;
    default:
        return -1;
    }
}

static char *
write_value(char *out, const Field *field, const Token *token)
{
    out = write_bytes(out, field->prefix);
    switch (field->kind) {
    case STRING:
        return write_text(write_number(out, zigzag(token->size)), token);
    case FLOAT:
    case DOUBLE:
        return write_real(out, token, field->kind == DOUBLE);
    case BOOLEAN:
        *out++ = token->said == YES;
        return out;
    default:
        return write_number(out, zigzag(token->whole));
    }
}

/* The bytes to write if they do not depend on the value; NULL otherwise. */
static const Bytes *
instead(const Field *field, const Token *tokens)
{
    if (field->place < 0 || tokens[field->place].said == ABSENT)
        return &field->missing;
    return tokens[field->place].said == NOTHING ? &field->null : NULL;
}

/* The body of a line; NULL without an exception if the line is left. A body is at most twice as
 * long as the line and the plan together, so its size cannot overflow. */
static PyObject *
body_of(const Plan *plan, Token *tokens)
{
    Py_ssize_t size = plan->before.size;
    for (Py_ssize_t at = 0; at < plan->fields_count; at++) {
        const Field *field = &plan->fields[at];
        const Bytes *fixed = instead(field, tokens);
        if (fixed && !fixed->at)
            return NULL;
        Py_ssize_t more = fixed ? fixed->size : value_size(field, &tokens[field->place]);
        if (more < 0)
            return NULL;
        size += fixed ? more : more + field->prefix.size;
    }
    PyObject *body = PyBytes_FromStringAndSize(NULL, size);
    if (!body)
        return NULL;
    char *start = PyBytes_AsString(body), *out = write_bytes(start, plan->before);
    for (Py_ssize_t at = 0; at < plan->fields_count; at++) {
        const Field *field = &plan->fields[at];
        const Bytes *fixed = instead(field, tokens);
        out = fixed ? write_bytes(out, *fixed)
                    : write_value(out, field, &tokens[field->place]);
    }
    if (out - start == size)
        return body;
    Py_DECREF(body);
    PyErr_SetString(PyExc_SystemError, "a body has not the size that was summed");
    return NULL;
}

/* A value as a Python object; NULL without an exception if the line is left. */
static PyObject *
taken_of(const Token *token)
{
    switch (token->said) {
    case TEXT:
        return PyUnicode_DecodeUTF8((const char *)token->raw.at, token->raw.size, NULL);
    case WHOLE:
        return PyLong_FromLongLong(token->whole);
    case REAL:
        return PyFloat_FromDouble(token->real);
    case YES:
        return PyBool_FromLong(1);
    case NO:
        return PyBool_FromLong(0);
    case ESCAPED:
        return NULL;
    default:
        Py_INCREF(Py_None);
        return Py_None;
    }
}

/* Stores the results of a line, or None, in the lists. -1 if an exception was set. */
static int
take_line(Plan *plan, PyObject *line, Py_ssize_t at, PyObject *bodies, PyObject *taken,
          Unknown *unknown)
{
    Strange strange;
    Token tokens[MOST_NAMES];
    PyObject *values[MOST_NAMES], *body = NULL;
    Bytes text;
    Py_ssize_t made = 0;
    if (read_name(line, &text) < 0)
        return -1;
    if (read_line(plan, text, tokens, &strange)) {
        while (made < plan->taken_count && (values[made] = taken_of(&tokens[plan->taken[made]])))
            made++;
        if (made == plan->taken_count)
            body = body_of(plan, tokens);
    }
    if (!body) {
        while (made > 0)
            Py_DECREF(values[--made]);
        if (PyErr_Occurred())
            return -1;
    } else if (strange.count) {
        count_strange(unknown, &strange);
    }
    for (Py_ssize_t each = 0; each < plan->taken_count; each++) {
        if (!body)
            Py_INCREF(values[each] = Py_None);
        if (PyList_SetItem(PyTuple_GetItem(taken, each), at, values[each]) < 0)
            return -1; /* never: the lists are our own, and long enough */
    }
    if (!body)
        Py_INCREF(body = Py_None);
    return PyList_SetItem(bodies, at, body);
}

/* A dict of counts by name; the empty name stands for all others. */
static PyObject *
counts_of(const Unknown *unknown)
{
    PyObject *counts = PyDict_New();
    for (Py_ssize_t at = 0; counts && at <= MOST_UNKNOWN; at++) {
        if (!unknown->values[at])
            continue;
        Bytes name = unknown->names[at];
        PyObject *key = PyUnicode_DecodeUTF8((const char *)name.at, name.size, NULL);
        PyObject *value = key ? PyLong_FromSsize_t(unknown->values[at]) : NULL;
        if (!value || PyDict_SetItem(counts, key, value) < 0)
            Py_CLEAR(counts);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return counts;
}

static PyObject *
encode(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t given)
{
    Plan plan;
    Unknown unknown = {0};
    if (given != 2 || !PyList_CheckExact(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "encode(plan, lines: list)");
        return NULL;
    }
    if (read_plan(arguments[0], &plan) < 0)
        return NULL;
    const Py_ssize_t count = PyList_Size(arguments[1]);
    PyObject *bodies = PyList_New(count), *taken = PyTuple_New(plan.taken_count), *made = NULL;
    int failed = !bodies || !taken;
    for (Py_ssize_t each = 0; !failed && each < plan.taken_count; each++) {
        PyObject *column = PyList_New(count);
        failed = !column || PyTuple_SetItem(taken, each, column) < 0;
    }
    for (Py_ssize_t at = 0; !failed && at < count; at++) {
        PyObject *line = PyList_GetItem(arguments[1], at);
        failed = !line || take_line(&plan, line, at, bodies, taken, &unknown) < 0;
    }
    PyObject *counts = failed ? NULL : counts_of(&unknown);
    if (counts)
        made = PyTuple_Pack(3, bodies, taken, counts);
    Py_XDECREF(counts);
    Py_XDECREF(bodies);
    Py_XDECREF(taken);
    return made;
}

static PyMethodDef methods[] = {
    {"encode", (PyCFunction)(void (*)(void))encode, METH_FASTCALL,
     "encode(plan, lines): the body of each line, and a column for each field that is taken; None "
     "for a line that is left; and how many values of unknown fields were passed over, by name."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "agent.encoding.bodies._json_bodies",
    .m_doc = "Writes the fields of events, as Avro, from JSON lines that need no conversion.",
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__json_bodies(void)
{
    return PyModuleDef_Init(&definition);
}
