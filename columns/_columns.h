/* Columns that grow value by value along a tree of nodes, and their export to Arrow.
 *
 * A kept node has a column; nothing is kept below a node that is not. Nothing here knows where values
 * come from.
 */

#ifndef PENSTOCK_COLUMNS_H
#define PENSTOCK_COLUMNS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "columns have the byte order of the machine, and Avro's numbers are little-endian"
#endif

#define LEAST_TEXT 64 /* the initial bytes of a text column */

/* Numbered as in `columns.native`. */
typedef enum {
    NOTHING, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, STRING, FIXED, ENUM, LIST, RECORD, UNION, KINDS
} Kind;

typedef struct {
    const char *at;
    ssize_t size;
} Symbol;

/* `branch`: this node's index in a union with null; -1 if there is none. `argument`: the size of a fixed
 * value. `width`: the bytes deducted for a value and its parts, except for the items of lists. `empty`:
 * it takes no bytes. `weight`: the number of empty parts, including itself. `count`: of parts, or of
 * symbols. `column`: where it is kept. */
typedef struct Node Node;
struct Node {
    Kind kind;
    int kept, may_be_null, empty;
    int64_t branch, argument, width, weight;
    ssize_t column, count;
    Node *parts;
    Symbol *symbols;
};

/* `fixed`: numbers, or bits. `text` has `used` bytes. */
typedef struct {
    int64_t length, room, nulls, used, text_room;
    unsigned char *valid, *fixed, *text;
    int32_t *offsets;
} Column;

typedef enum { READ, REFUSED, NO_MEMORY } Outcome;

static Outcome
resized(void **memory, int64_t bytes)
{
    void *more = realloc(*memory, (size_t)bytes);
    if (!more)
        return NO_MEMORY;
    *memory = more;
    return READ;
}

static Outcome
resized_bits(unsigned char **bits, int64_t had, int64_t room)
{
    if (resized((void **)bits, room / 8))
        return NO_MEMORY;
    if (room > had)
        memset(*bits + had / 8, 0, (size_t)(room - had) / 8);
    return READ;
}

static inline int
has_text(const Node *node)
{
    return node->kind >= BYTES && node->kind <= ENUM;
}

static Outcome
resized_text(Column *column, int64_t room)
{
    column->text_room = room < LEAST_TEXT ? LEAST_TEXT : room;
    return resized((void **)&column->text, column->text_room);
}

/* Makes room for so many values, a multiple of 64 and not less than there are. */
static Outcome
resize(const Node *node, Column *column, int64_t room)
{
    int64_t had = column->room;
    Outcome outcome = READ;
    if (node->may_be_null && resized_bits(&column->valid, had, room))
        return NO_MEMORY;
    switch (node->kind) {
    case BOOLEAN:
        outcome = resized_bits(&column->fixed, had, room);
        break;
    case LONG:
    case DOUBLE:
        outcome = resized((void **)&column->fixed, room * 8);
        break;
    case INT:
    case FLOAT:
        outcome = resized((void **)&column->fixed, room * 4);
        break;
    case BYTES:
    case STRING:
    case FIXED:
    case ENUM:
    case LIST:
        outcome = resized((void **)&column->offsets, (room + 1) * 4);
        if (!outcome && !column->length)
            column->offsets[0] = 0;
        break;
    default:
        break;
    }
    if (!outcome)
        column->room = room;
    return outcome;
}

static inline int64_t
in_sixty_fours(int64_t count)
{
    return (count + 63) & ~(int64_t)63;
}

/* One more. */
static inline Outcome
make_room(const Node *node, Column *column)
{
    if (column->length < column->room)
        return READ;
    return resize(node, column, in_sixty_fours(column->room + column->room / 2 + 1));
}

static inline Outcome
append_text(Column *column, const void *text, int64_t size)
{
    int64_t used = column->used + size;
    if (used > INT32_MAX)
        return REFUSED;
    if (used > column->text_room && resized_text(column, used + used / 2))
        return NO_MEMORY;
    if (size)
        memcpy(column->text + column->used, text, (size_t)size);
    column->used = used;
    column->offsets[++column->length] = (int32_t)used;
    return READ;
}

static inline void
set_bit(unsigned char *bits, int64_t at)
{
    bits[at >> 3] |= (unsigned char)(1u << (at & 7));
}

/* A null where its column knows such, and otherwise something that nobody will look at. */
static Outcome
append_nothing(Column *columns, const Node *node)
{
    Outcome outcome = READ;
    if (!node->kept)
        return READ;
    Column *column = columns + node->column;
    if (make_room(node, column))
        return NO_MEMORY;
    column->nulls += node->may_be_null;
    switch (node->kind) {
    case LONG:
    case DOUBLE:
        memset(column->fixed + column->length * 8, 0, 8);
        break;
    case INT:
    case FLOAT:
        memset(column->fixed + column->length * 4, 0, 4);
        break;
    case BYTES:
    case STRING:
    case FIXED:
    case ENUM:
    case LIST:
        column->offsets[column->length + 1] = column->offsets[column->length];
        break;
    case RECORD:
    case UNION:
        for (ssize_t part = 0; part < node->count && !outcome; part++)
            outcome = append_nothing(columns, node->parts + part);
        break;
    default:
        break;
    }
    column->length++;
    return outcome;
}

/* Room for so many values, where it is known that there will be as many, and for so many bytes of
 * each text, as a guess. */
static Outcome
reserve(Column *columns, const Node *node, int64_t count, int64_t bytes)
{
    Outcome outcome = READ;
    if (!node->kept)
        return READ;
    Column *column = columns + node->column;
    if (resize(node, column, in_sixty_fours(count)) ||
        (has_text(node) && resized_text(column, bytes)))
        return NO_MEMORY;
    if (node->kind == RECORD || node->kind == UNION)
        for (ssize_t part = 0; part < node->count && !outcome; part++)
            outcome = reserve(columns, node->parts + part, count, bytes);
    return outcome;
}

/* ---- What Arrow is given: its C data interface. */

typedef struct ArrowArray ArrowArray;
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    ArrowArray **children;
    ArrowArray *dictionary;
    void (*release)(ArrowArray *);
    void *private_data;
};

/* Of one array: its buffers, and where its children are. */
typedef struct {
    void *buffers[3];
    ArrowArray **pointers;
    ArrowArray *children;
} Held;

static void
release_array(ArrowArray *array)
{
    Held *held = array->private_data;
    for (int64_t child = 0; child < array->n_children; child++)
        if (held->children[child].release)
            held->children[child].release(held->children + child);
    for (int at = 0; at < 3; at++)
        free(held->buffers[at]);
    free(held->pointers);
    free(held->children);
    free(held);
    array->release = NULL;
}

static Outcome give(Column *columns, const Node *node, ArrowArray *array);

static Outcome
give_parts(Column *columns, const Node *node, ArrowArray *array)
{
    Held *held = array->private_data;
    held->pointers = calloc((size_t)node->count + 1, sizeof(*held->pointers));
    held->children = calloc((size_t)node->count + 1, sizeof(*held->children));
    if (!held->pointers || !held->children)
        return NO_MEMORY;
    array->children = held->pointers;
    for (ssize_t part = 0; part < node->count; part++) {
        if (!node->parts[part].kept)
            continue;
        ArrowArray *child = held->children + array->n_children;
        held->pointers[array->n_children++] = child;
        if (give(columns, node->parts + part, child))
            return NO_MEMORY;
    }
    return READ;
}

/* The column is the array's from then on, also if it is not given whole. */
static Outcome
give(Column *columns, const Node *node, ArrowArray *array)
{
    Column *column = columns + node->column;
    Held *held = calloc(1, sizeof(*held));
    if (!held)
        return NO_MEMORY;
    *array = (ArrowArray){.length = column->length, .null_count = column->nulls,
                          .buffers = (const void **)held->buffers,
                          .release = release_array, .private_data = held};
    if (node->kind == NOTHING) {
        array->null_count = column->length;
        return READ;
    }
    if (column->nulls)
        held->buffers[array->n_buffers] = column->valid;
    else
        free(column->valid);
    array->n_buffers++;
    if (column->offsets)
        held->buffers[array->n_buffers++] = column->offsets;
    if (column->fixed)
        held->buffers[array->n_buffers++] = column->fixed;
    if (column->text)
        held->buffers[array->n_buffers++] = column->text;
    *column = (Column){0};
    return node->parts ? give_parts(columns, node, array) : READ;
}

static void
free_columns(Column *columns, ssize_t count)
{
    for (ssize_t at = 0; at < count; at++) {
        free(columns[at].valid);
        free(columns[at].fixed);
        free(columns[at].text);
        free(columns[at].offsets);
    }
    free(columns);
}

#endif
