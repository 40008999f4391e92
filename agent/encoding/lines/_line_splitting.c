/* Splits a chunk of a file into lines: the bytes and the position in the file of each.
 *
 * Called by `agent.encoding.lines.encodings`, which defines lines; `agent.encoding.lines.splitting` is the same in
 * Python, for where this is not compiled. `memchr` gets the chunk's bounds, so every read is within
 * the chunk. The chunk is a bytes object and the GIL is held, so it cannot change meanwhile.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Appends a new object and drops its reference. */
static int
take(PyObject *list, PyObject *made)
{
    if (!made)
        return -1;
    int failed = PyList_Append(list, made);
    Py_DECREF(made);
    return failed;
}

/* Appends at most `most` lines that end with a line break. -1 if an exception was set. */
static int
split_into(PyObject *bodies, PyObject *positions, PyObject *chunk, int line_break,
           long long position, Py_ssize_t most, Py_ssize_t *longest)
{
    char *start;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(chunk, &start, &size) < 0)
        return -1;
    const char *at = start, *end = start + size, *found;
    if (take(positions, PyLong_FromLongLong(position)) < 0)
        return -1;
    for (; most > 0 && at < end; most--) {
        if (!(found = memchr(at, line_break, (size_t)(end - at))))
            break;
        Py_ssize_t length = found - at;
        if (length > *longest)
            *longest = length;
        if (take(bodies, PyBytes_FromStringAndSize(at, length)) < 0)
            return -1;
        at = found + 1;
        if (take(positions, PyLong_FromLongLong(position + (at - start))) < 0)
            return -1;
    }
    return 0;
}

static PyObject *
split(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t given)
{
    if (given != 4 || !PyBytes_CheckExact(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "split(chunk: bytes, line_break, position, most)");
        return NULL;
    }
    long line_break = PyLong_AsLong(arguments[1]);
    if (line_break == -1 && PyErr_Occurred())
        return NULL;
    long long position = PyLong_AsLongLong(arguments[2]);
    if (position == -1 && PyErr_Occurred())
        return NULL;
    Py_ssize_t most = PyLong_AsSsize_t(arguments[3]);
    if (most == -1 && PyErr_Occurred())
        return NULL;
    if (line_break < 0 || line_break > 255 || position < 0 ||
        position > INT64_MAX - PyBytes_Size(arguments[0])) {
        PyErr_SetString(PyExc_OverflowError, "a line break is a byte, and a position has 63 bits");
        return NULL;
    }
    Py_ssize_t longest = 0;
    PyObject *bodies = PyList_New(0), *positions = PyList_New(0), *made = NULL;
    if (bodies && positions &&
        split_into(bodies, positions, arguments[0], (int)line_break, position, most, &longest) == 0)
        made = Py_BuildValue("(OOn)", bodies, positions, longest);
    Py_XDECREF(bodies);
    Py_XDECREF(positions);
    return made;
}

static PyMethodDef methods[] = {
    {"split", (PyCFunction)(void (*)(void))split, METH_FASTCALL,
     "split(chunk, line_break, position, most): bodies, positions and the longest body's size."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "agent.encoding.lines._line_splitting",
    .m_doc = "Splits a chunk of a file into lines.",
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__line_splitting(void)
{
    return PyModuleDef_Init(&definition);
}
